"""What a report is made of: figures as drawn, claims with their verdicts, and the reason where there is neither."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from metrics.seeds import Estimate
from records.study import StudyResults
from reports import claim_file
from reports.benchmarks import Benchmarks
from reports.drawing import Drawing

if TYPE_CHECKING:
    from reports.claims.rules import Rule

REPRODUCED, IN_PART, NOT_REPRODUCED = "reproduced", "reproduced in part", "not reproduced"
PREMISE_NOT_MET, INCONCLUSIVE = "premise not met", "inconclusive"
#: Of a claim for which the study has no runs at all: nothing is open.
NOT_ASKED = "not asked"
#: What can become of a claim, in the order in which they are listed.
OUTCOMES = (REPRODUCED, IN_PART, NOT_REPRODUCED, PREMISE_NOT_MET, INCONCLUSIVE, NOT_ASKED)

#: Of a caption: what is longer is not read.
MAX_WORDS = 40

#: What a figure is drawn from: the results of a study, or the suite's benchmarks.
Source = TypeVar("Source")


class NothingToShow(Exception):
    """There are no runs, or benchmarks, for this; the message says which are missing."""


class NotAsked(NothingToShow):
    """The study's file has no such runs, whatever became of those it has."""


@dataclass(frozen=True)
class FigureSpec(Generic[Source]):
    """One figure of the report."""

    #: Its file's name, without a suffix.
    name: str
    title: str
    #: The heading it stands under; figures of one section follow each other.
    section: str
    draw: Callable[[Source], Drawing]
    #: What the paper reports in this place, in our words; None where the paper has no such figure.
    paper: str | None = None
    #: Ids of the claims that it stands beside.
    claims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """One number that a verdict rests on."""

    label: str
    value: Estimate
    unit: str = ""


class Decider(NamedTuple):
    """A number that decides, and the one or two margins that its interval is held against."""

    evidence: Evidence
    margins: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """What a study says about a claim."""

    outcome: str
    #: One or two sentences: why this outcome, with the numbers.
    reason: str
    evidence: tuple[Evidence, ...] = ()
    runs: tuple[str, ...] = ()
    #: The number that says how large the thing is which the claim is about; one of the evidence.
    effect: Evidence | None = None
    #: Under which condition the claim holds, where it does in part.
    condition: str = ""
    #: Where it holds, where not, and where it is too close to call, each by these words; of one that holds in part.
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The part of the reason that is nothing but numbers.
    numbers: str = ""
    #: What would change the outcome.
    would_change: str = ""
    #: The chance of such numbers if the opposite were true; None where nothing is decided.
    p_value: float | None = None
    #: Are there no runs to judge it by?
    is_absent: bool = False
    #: Its parts by name, each with whether it holds; None is too close to call.
    answers: tuple[tuple[str, bool | None], ...] = ()
    #: The runs behind the numbers that leave it, or a part of it, open: what more seeds would decide.
    undecided: tuple[str, ...] = ()
    #: The most seeds of one of these numbers.
    num_open_seeds: int = 0
    #: The fewest and the most seeds of a number that decides.
    num_seeds: tuple[int, int] | None = None
    #: The evidence that questions were put to; other evidence stands beside them.
    deciders: tuple[Decider, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim, of the paper or a study's own, and how it is judged."""

    id: int
    #: In our words.
    statement: str
    #: Section, figure or equation of the paper; empty where the claim is not the paper's.
    place: str
    #: The rule by which ``judge`` decides, for the reader.
    rule: str
    judge: Callable[[StudyResults], Verdict]
    #: Its entry in the file of rules, with margins and number of seeds; None for a rule that is not on file.
    registered: "Rule | None" = None
    #: The claim in a few words, for the first screen; the whole statement where there are none.
    short: str = ""


@dataclass(frozen=True)
class Contents:
    """What the report of a study is made of."""

    claims: Sequence[claim_file.Claim]
    figures: Sequence[FigureSpec[StudyResults]]
    #: Over the claims, and what one of them is called.
    heading: str = "The paper's claims"
    noun: str = "claim"
    #: What outcomes are called, where not by their names.
    words: Mapping[str, str] = field(default_factory=dict)
    #: Does every method of the suite stand on a leaderboard of each target?
    has_leaderboard: bool = False


@dataclass(frozen=True)
class FigureResult:
    """A figure of the report: drawn, without anything to show, or failed."""

    spec: FigureSpec[Any]
    drawing: Drawing | None = None
    #: As a file of its own.
    svg: str = ""
    #: Why there is nothing to show.
    absent: str | None = None
    #: The error, where drawing it was one.
    failure: str | None = None

    @property
    def title(self) -> str:
        """Its message, where the numbers have one."""
        return (self.drawing and self.drawing.title) or self.spec.title


@dataclass(frozen=True)
class ClaimResult:
    """A claim of the paper and what came of judging it."""

    claim: Claim
    verdict: Verdict
    failure: str | None = None
    #: Does it flip when one seed is left out, or on one library alone? In words.
    fragility: str = ""
    #: Was the rule there before the runs?  In words, which begin with ``post hoc`` where it was not, or with what has
    #: changed since the same seeds were first published; then on how many seeds it rests, and whether the code that
    #: judges has changed since.
    registration: str = ""
    #: ``verdict.p_value`` with Holm's correction for all claims of the report.
    p_adjusted: float | None = None
    #: Numbers of seeds at which it was judged, where the study takes them as needed.
    looks: tuple[int, ...] = ()
    #: What leaving out a single seed does to it, in a line; empty where there is nothing to leave out.
    robustness: str = ""
    #: Of the code that judges it; None where that is not the suite's.
    code_sha256: str | None = None


@dataclass(frozen=True)
class Speed:
    """What the suite's benchmarks say of the samplers' speed, or why there are none."""

    benchmarks: Benchmarks | None = None
    figures: Sequence[FigureResult] = ()
    absent: str = ""
