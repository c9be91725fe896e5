"""Numbers held against margins, and the parts of a claim that they make: what ``claims.yaml`` says, as typed data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from metrics.seeds import ALPHA, Estimate, p_above, p_below
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.claim_file import SIDES, Claim, quantities
from reports.evidence import Case, cases, exponent, mean_of_audits
from reports.types import NothingToShow


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


class Judged(NamedTuple):
    """What a verdict is made of."""

    parts: Sequence[Part]
    used: Iterable[SettingRuns]
    premise: Part | None = None
    #: Numbers that decide nothing and are shown next to the others.
    also: Sequence[Evidence] = ()


# Numbers against margins


def held(evidence: Evidence, side: str, *margins: float, looks: int = 1) -> Evidence:
    """The evidence with the answer: does its interval lie above or below one margin, within or outside two?

    Within takes two one-sided tests, against "at most low" and "at least high": the larger of their p-values counts.
    """
    value, low, high = evidence.value, margins[0], margins[-1]
    if side in ("above", "below"):
        answer = Answer(p_above(value, low), p_below(value, low))
    else:
        answer = Answer(max(p_above(value, low), p_below(value, high)), min(p_below(value, low), p_above(value, high)))
    if side in ("below", "outside"):
        answer = opposite(answer)
    answer = Answer(*(min(1.0, looks * p_value) for p_value in answer))
    return replace(evidence, margins=margins, side=side, answer=answer)


def opposite(answer: Answer) -> Answer:
    return Answer(answer.p_no, answer.p_yes)


def all_hold(answers: Sequence[Answer]) -> Answer:
    """Do all hold? One failure suffices for a no, so the more are asked, the surer it has to be (Holm's first step).

    For a yes every one has to pass, which needs no correction.
    """
    return Answer(
        max((one.p_yes for one in answers), default=1.0),
        min(1.0, len(answers) * min((one.p_no for one in answers), default=1.0)),
    )


def any_holds(answers: Sequence[Answer]) -> Answer:
    """Does one hold? The mirror image of ``all_hold``."""
    return opposite(all_hold([opposite(one) for one in answers]))


def part(name: str, evidence: Sequence[Evidence], holds_if: str = "all", settings: Case = ()) -> Part:
    """One that holds if ``all`` or ``some`` of its numbers lie where the claim says."""
    combine = any_holds if holds_if == "some" else all_hold
    return Part(name, combine([one.answer for one in evidence]), tuple(evidence), settings)


# Entries of claims.yaml


def measured(study: StudyResults, claim: Claim, ask: Mapping[str, Any]) -> list[tuple[Case, Evidence]]:
    """The numbers that an ask names, each with the case that it belongs to."""
    named = quantities().get(ask["column"], {})
    label, unit = ask.get("what") or named.get("what", ask["column"]), named.get("unit", "")
    side = next((name for name in SIDES if name in ask), "")
    bound, around = claim.number(ask[side]) if side else 0.0, ask.get("around", 0)
    margins = (around - bound, around + bound) if side in ("within", "outside") else (bound,)
    take = ask.get("take", "difference" if "versus" in ask else "value")
    found = cases(study, {**ask, "factor": claim.number(ask.get("factor", 1))})
    if take == "value":
        found = [(one,) for case in found for one in case]
    numbers = []
    for case in found:
        for settings, kind, value in _taken(case, take, ask["column"], ask.get("over", "num_points")):
            one = Evidence(label, value, unit, (), settings, kind, over=ask.get("over") or "")
            numbers.append((case, held(one, side, *margins, looks=claim.num_looks) if side else one))
    return numbers


def _taken(case: Case, take: str, column: str, over: str) -> Iterator[tuple[Case, str, Estimate]]:
    """The numbers of a case (of a sweep one for each step): of which settings, of which kind, and the estimate."""
    first, last = case[0], case[-1]
    if take in ("value", "first"):
        yield (first,), "value", first.estimate(column)
    elif take == "last":
        yield (last,), "value", last.estimate(column)
    elif take == "measured":
        yield (first,), "value", mean_of_audits(first, column)
    elif take in ("difference", "first - last"):
        yield (first, last), "difference", first.difference(last, column)
    elif take == "last - first":
        yield (last, first), "difference", last.difference(first, column)
    elif take == "last / first":
        yield (last, first), "ratio", last.ratio(first, column)
    elif take == "exponent":
        yield case, "exponent", exponent(case, column, over)
    else:
        for smaller, larger in pairwise(case):
            yield (larger, smaller), "difference", larger.difference(smaller, column)


def judged_parts(study: StudyResults, claim: Claim) -> Judged:
    """The parts of a claim as its entry says."""
    entry, parts = claim.entry, list[Part]()
    used: dict[SettingRuns, None] = {}
    missing: list[NothingToShow] = []
    for spec in entry.get("parts", ()):
        asks = [_merged(ask, spec, entry) for ask in spec["ask"]]
        try:
            found = [_if_there(study, claim, ask) for ask in asks]
        except NothingToShow as error:
            if not spec.get("optional"):
                raise
            missing.append(error)
            continue
        used |= dict.fromkeys(one for group in found for case, _ in group for one in case)
        parts += list(_parts(spec, asks, found))
    if not parts and missing:
        raise missing[0]
    shown = [
        number
        for ask in entry.get("also_show", ())
        for _, number in _if_there(study, claim, _merged({**ask, "optional": True}, {}, entry))
    ]
    premise = entry.get("premise")
    return Judged(parts, used, premise and part("premise", [one for _, one in measured(study, claim, premise)]), shown)


def _merged(ask: Mapping[str, Any], spec: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """An ask with what its part and its entry say for all; the columns of ``runs`` add up."""
    columns: Any = entry.get("runs", {})
    for runs in (level["runs"] for level in (spec, ask) if "runs" in level):
        columns = {**columns, **runs} if isinstance(columns, dict) and isinstance(runs, dict) else runs
    return {**entry, **spec, "optional": False, **ask, "runs": columns}


def _if_there(study: StudyResults, claim: Claim, ask: Mapping[str, Any]) -> list[tuple[Case, Evidence]]:
    try:
        return measured(study, claim, ask)
    except NothingToShow:
        if ask.get("optional"):
            return []
        raise


def _parts(
    spec: Mapping[str, Any], asks: Sequence[Mapping[str, Any]], found: Sequence[Sequence[tuple[Case, Evidence]]]
) -> Iterator[Part]:
    name, holds_if = spec.get("name", ""), spec.get("holds_if", "all")
    if spec.get("each"):
        for case in dict.fromkeys(case for group in found for case, _ in group):
            numbers = [number for group in found for other, number in group if other == case]
            yield part(name, numbers, holds_if, case)
        return
    groups = [[number for _, number in group] for group in found]
    numbers = [number for group in groups for number in group]
    if any("holds_if" in ask and ask["holds_if"] != holds_if for ask in asks):
        # An ask with a condition of its own is one answer.
        answers = [part("", group, ask.get("holds_if", "all")).answer for ask, group in zip(asks, groups, strict=True)]
        yield Part(name, all_hold(answers), tuple(numbers))
    else:
        yield part(name, numbers, holds_if)
