"""The verdicts of a study on the claims of ``claims.yaml``, as typed data: no sentence is made here.

A verdict consists of parts, and a part of numbers with the margins that their intervals are held against. The page,
``claims.json`` and the findings make words of these in their own place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from metrics.seeds import ALPHA, Estimate
from records.setting_runs import SettingRuns

REPRODUCED, IN_PART, NOT_REPRODUCED = "reproduced", "reproduced in part", "not reproduced"
PREMISE_NOT_MET, INCONCLUSIVE, NOT_ASKED = "premise not met", "inconclusive", "not asked"
#: In the order in which they are listed. Not asked: the study has no such runs.
OUTCOMES = (REPRODUCED, IN_PART, NOT_REPRODUCED, PREMISE_NOT_MET, INCONCLUSIVE, NOT_ASKED)

#: Was the rule registered before the runs? Unknown: the commit of the runs is not in this history, or was changed.
BEFORE, POST_HOC, UNKNOWN = "before", "post hoc", "unknown"


class Answer(NamedTuple):
    """Two p-values: the chance of such numbers if the answer were no (small: yes), and if it were yes (small: no)."""

    p_yes: float
    p_no: float

    @property
    def holds(self) -> bool | None:
        """The answer at the level of a 95 % interval; None is too close to call."""
        return True if self.p_yes <= ALPHA else False if self.p_no <= ALPHA else None


YES, NO, OPEN = Answer(0.0, 1.0), Answer(1.0, 0.0), Answer(1.0, 1.0)


@dataclass(frozen=True)
class Evidence:
    """One number of a verdict."""

    #: What was measured, without where: ``sd ratio``, ``acceptance``.
    label: str
    value: Estimate
    unit: str = ""
    #: One or two, which the interval is held against; none of a number that is only shown.
    margins: tuple[float, ...] = ()
    #: Where it was measured: one setting; two for a difference or ratio, the first minus or over the second; the whole
    #: sweep, ascending, for an exponent.
    settings: tuple[SettingRuns, ...] = ()
    #: value, difference, ratio, exponent or slope
    kind: str = "value"
    #: On which side of the margins the claim says it is: above, below, within or outside.
    side: str = ""
    #: The column that a sweep is over.
    over: str = ""
    answer: Answer = OPEN

    @property
    def holds(self) -> bool | None:
        """Is the whole interval where the claim says?"""
        return self.answer.holds


@dataclass(frozen=True)
class Part:
    """One of the things that a claim says, which can hold where others do not."""

    #: In a few words: ``for the NLL``, ``in processor time``; empty where its settings tell it from the others.
    name: str
    answer: Answer
    evidence: tuple[Evidence, ...] = ()
    #: The setting or sweep that it is about; none of a part that is about all of them.
    settings: tuple[SettingRuns, ...] = ()

    @property
    def holds(self) -> bool | None:
        return self.answer.holds


@dataclass(frozen=True)
class Verdict:
    """What a study says about a claim."""

    outcome: str
    parts: tuple[Part, ...] = ()
    #: Every number once: those of the premise and the parts, then those that are only shown.
    evidence: tuple[Evidence, ...] = ()
    #: As in the summary's column ``run``.
    runs: tuple[str, ...] = ()
    #: The number that says how large the thing is which the claim is about.
    effect: Evidence | None = None
    #: The chance of such numbers if the outcome were wrong; None where nothing is decided.
    p_value: float | None = None
    #: The fewest and the most seeds behind a number that decides.
    num_seeds: tuple[int, int] | None = None
    #: What the claim presumes; None where it presumes nothing.
    premise: Part | None = None
    #: Why there are no numbers, in a line; empty where there are.
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """An entry of ``claims.yaml``."""

    id: int
    #: The studies whose reports list it.
    studies: tuple[str, ...]
    statement: str
    #: In a few words.
    short: str
    #: Section, figure or equation of the paper; empty where the claim is not the paper's.
    place: str
    #: How it is judged, for the reader.
    rule: str
    #: Of more, none counts.
    seeds: int
    margins: Mapping[str, float]
    #: Of number, rule, margins and seeds.
    rule_sha256: str
    #: How it is judged, for ``verdict_of``.
    entry: Mapping[str, Any]


class LeftOut(NamedTuple):
    """What becomes of a verdict without one seed, or on one library alone."""

    #: ``seed`` (which is left out) or ``library`` (all others are).
    what: str
    name: str
    #: The outcome then.
    outcome: str
    #: How many parts have another answer then, or are gone.
    changed_parts: int
    #: The most seeds of a number that decides then.
    num_seeds: int


@dataclass(frozen=True)
class ClaimResult:
    """A claim and what came of judging it."""

    claim: Claim
    verdict: Verdict
    #: The error in a line, where judging it was one.
    failure: str | None = None
    #: ``verdict.p_value`` with Holm's correction for all decided claims of the report.
    p_adjusted: float | None = None
    #: Without each seed, and on each library alone; only those whose outcome or parts differ.
    fragile: tuple[LeftOut, ...] = ()
    registered: str = UNKNOWN

    @property
    def rule_sha256(self) -> str:
        return self.claim.rule_sha256
