"""What a report is made of: a figure as drawn, a claim with its verdict, and the reason where there is neither."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from metrics.seeds import Estimate
from reports.study import StudyResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive"

#: What a figure is drawn from: the results of a study, or the suite's benchmarks.
Source = TypeVar("Source")


class NothingToShow(Exception):
    """There are no runs, or benchmarks, for this; the message says which are missing."""


@dataclass(frozen=True)
class Drawing:
    """A figure as drawn."""

    figure: "Figure"
    #: What to see in it, with its numbers.
    caption: str
    #: The runs whose numbers it shows, as in the summary's column ``run``; none where it shows benchmarks.
    runs: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Evidence:
    """One number that a verdict rests on."""

    label: str
    value: Estimate
    unit: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a study says about a claim."""

    outcome: str
    #: One or two sentences: why this outcome, with the numbers.
    reason: str
    evidence: tuple[Evidence, ...] = ()
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and how it is judged."""

    id: int
    #: In our words.
    statement: str
    #: Section, figure or equation of the paper.
    place: str
    #: The rule by which ``judge`` decides, for the reader.
    rule: str
    judge: Callable[[StudyResults], Verdict]
