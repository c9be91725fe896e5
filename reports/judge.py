"""The verdicts of a study on the claims of ``claims.yaml``, as typed data: no sentence is made here.

A verdict consists of parts, and a part of numbers with the margins that their intervals are held against. The page,
``claims.json`` and the findings make words of these in their own place.
"""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from implementations.settings import SETTINGS
from metrics.seeds import holm
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports import special
from reports.answers import Evidence as Evidence
from reports.answers import Judged, all_hold, any_holds, judged_parts
from reports.answers import Part as Part
from reports.claim_file import UNKNOWN, registered
from reports.claim_file import Claim as Claim
from reports.types import NotAsked, NothingToShow

REPRODUCED, IN_PART, NOT_REPRODUCED = "reproduced", "reproduced in part", "not reproduced"
PREMISE_NOT_MET, INCONCLUSIVE, NOT_ASKED = "premise not met", "inconclusive", "not asked"
#: In the order in which they are listed. Not asked: the study has no such runs.
OUTCOMES = (REPRODUCED, IN_PART, NOT_REPRODUCED, PREMISE_NOT_MET, INCONCLUSIVE, NOT_ASKED)


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


class LeftOut(NamedTuple):
    """What becomes of a verdict without one seed, or on one library alone."""

    #: ``seed`` (which is left out) or ``library`` (all others are).
    what: str
    name: str
    #: The outcome then.
    outcome: str
    #: How many parts have another answer then, or are gone.
    changed_parts: int
    #: The most seeds of a number that decides then, or that leaves it open.
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

    @property
    def is_fragile(self) -> bool:
        """Does leaving out one seed change the outcome? That two seeds leave it open does not count."""
        flips = (one for one in self.fragile if one.what == "seed" and one.outcome != self.verdict.outcome)
        return any(one.outcome != INCONCLUSIVE or one.num_seeds > 2 for one in flips)


# Verdicts


def verdict_of(claim: Claim, study: StudyResults) -> Verdict:
    """What a study says about a claim."""
    judge: Callable[[StudyResults, Claim], Judged] = judged_parts
    if "special" in claim.entry:
        judge = getattr(special, claim.entry["special"])
    try:
        judged = judge(_first_seeds(study, claim.seeds), claim)
    except NotAsked as error:
        return Verdict(NOT_ASKED, note=str(error))
    except NothingToShow as error:
        return Verdict(INCONCLUSIVE, note=str(error))
    parts, premise = tuple(judged.parts), judged.premise
    outcome = outcome_of([one.holds for one in parts], premise.holds if premise else True)
    asked = (*([premise] if premise else []), *parts)
    deciding = [premise] if premise and not premise.holds else list(parts)
    counts = [number.value.num_seeds for one in deciding for number in one.evidence]
    return Verdict(
        outcome,
        parts,
        tuple(dict.fromkeys([*(number for one in asked for number in one.evidence), *judged.also])),
        tuple(sorted({row["run"] for one in judged.used for row in one.evidence})),
        _effect(outcome, deciding),
        _p_value(outcome, parts, premise),
        (min(counts), max(counts)),
        premise,
    )


def outcome_of(parts: Sequence[bool | None], premise: bool | None = True) -> str:
    """Of the parts of a claim, each of which holds, does not, or is not decided, and of what the claim presumes."""
    if premise is not True:
        return PREMISE_NOT_MET if premise is False else INCONCLUSIVE
    if True in parts and False in parts:
        return IN_PART
    if None in parts:
        return INCONCLUSIVE
    return REPRODUCED if True in parts else NOT_REPRODUCED


def _effect(outcome: str, parts: Sequence[Part]) -> Evidence:
    """A number that speaks for the outcome: where the claim holds, if it does anywhere."""
    if outcome == INCONCLUSIVE:
        pending = [one for part in parts if part.holds is None for one in part.evidence]
        return next((one for one in pending if one.holds is None), pending[0])
    holding = [one for one in parts if one.holds] if outcome == IN_PART else parts
    return holding[0].evidence[0]


def _p_value(outcome: str, parts: Sequence[Part], premise: Part | None) -> float | None:
    """The chance of the numbers if the outcome were wrong, that of its least certain part."""
    answers = [one.answer for one in parts]
    if outcome == INCONCLUSIVE:
        return None
    if premise and outcome == PREMISE_NOT_MET:
        return premise.answer.p_no
    if outcome == REPRODUCED:
        return max([answer.p_yes for answer in answers] + ([premise.answer.p_yes] if premise else []))
    if outcome == NOT_REPRODUCED:
        return max(answer.p_no for answer in answers)
    # It holds somewhere, and somewhere it does not. One part suffices for either, so both are corrected for how many
    # there are (Holm's first step).
    return max(any_holds(answers).p_yes, all_hold(answers).p_no)


# All claims of a report


def judge_claims(claims: Sequence[Claim], study: StudyResults) -> list[ClaimResult]:
    """Every claim, in order. One that cannot be judged does not take the others with it."""
    views = {seeds: list(_views(study, seeds)) for seeds in {claim.seeds for claim in claims}}
    return adjusted([_result(claim, study, views[claim.seeds]) for claim in claims])


def adjusted(found: Sequence[ClaimResult]) -> list[ClaimResult]:
    """The same with Holm's correction for all that are decided."""
    results = list(found)
    decided = [place for place, result in enumerate(results) if result.verdict.p_value is not None]
    corrected = holm([results[place].verdict.p_value or 0.0 for place in decided])
    for place, p_value in zip(decided, corrected, strict=True):
        results[place] = replace(results[place], p_adjusted=p_value)
    return results


#: A study without one seed, or with one library alone: what is left out, its name, and the rest.
View = tuple[str, str, StudyResults]


def _views(study: StudyResults, seeds: int) -> Iterator[View]:
    for seed in sorted({row["seed"] for row in study.rows}):
        yield "seed", str(seed), _first_seeds(study.subset([row["seed"] != seed for row in study.rows]), seeds)
    libraries = dict.fromkeys(row["backend"] for row in study.rows if row["status"] == "ok")
    for library in libraries if len(libraries) > 1 else ():
        yield "library", library, _first_seeds(study.subset([row["backend"] == library for row in study.rows]), seeds)


def _first_seeds(study: StudyResults, seeds: int) -> StudyResults:
    """The study with at most so many seeds of each setting, the first."""
    kept = {row["run"] for one in study.all_settings for row in one.rows[:seeds]}
    return study if len(kept) == len(study.rows) else study.subset([row["run"] in kept for row in study.rows])


def _result(claim: Claim, study: StudyResults, views: Sequence[View]) -> ClaimResult:
    try:
        verdict = verdict_of(claim, study)
        fragile = tuple(_fragile(claim, verdict, views)) if verdict.runs else ()
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return ClaimResult(claim, Verdict(INCONCLUSIVE), f"{type(error).__name__}: {error}")
    made = [row for row in study.rows if row["run"] in set(verdict.runs) and row["git_commit"] is not None]
    commits = {row["git_commit"]: bool(row["git_is_dirty"]) for row in made}
    return ClaimResult(claim, verdict, None, None, fragile, registered(claim, commits))


def _fragile(claim: Claim, verdict: Verdict, views: Sequence[View]) -> Iterator[LeftOut]:
    for what, name, view in views:
        other = verdict_of(claim, view)
        if what == "library" and not other.runs:
            # Few claims have all their settings on every library.
            continue
        pairs = zip((one.holds for one in verdict.parts), (one.holds for one in other.parts), strict=False)
        changed = sum(ours is not theirs for ours, theirs in pairs) + max(0, len(verdict.parts) - len(other.parts))
        if changed or other.outcome != verdict.outcome:
            pending = [one.value.num_seeds for one in other.evidence if one.margins and one.holds is None]
            seeds = max(pending or other.num_seeds or [0])
            yield LeftOut(what, name, other.outcome, changed, seeds)


def as_json(results: Sequence[ClaimResult]) -> list[dict[str, Any]]:
    """The content of ``claims.json``: what was claimed and by which rule, and the verdict as typed data."""
    return [
        {
            **{name: getattr(result.claim, name) for name in ("id", "short", "statement", "place", "rule", "seeds")},
            "rule_sha256": result.rule_sha256,
            "registered": result.registered,
            "verdict": result.verdict.outcome,
            "note": result.verdict.note,
            "failure": result.failure,
            "p_value": result.verdict.p_value,
            "p_adjusted": result.p_adjusted,
            "num_seeds": result.verdict.num_seeds,
            "effect": result.verdict.effect and _number(result.verdict.effect),
            "premise": result.verdict.premise and _part(result.verdict.premise),
            "parts": [_part(one) for one in result.verdict.parts],
            "shown": [_number(one) for one in result.verdict.evidence if not one.margins],
            "is_fragile": result.is_fragile,
            "fragile": [one._asdict() for one in result.fragile],
            "runs": result.verdict.runs,
        }
        for result in results
    ]


def _part(one: Part) -> dict[str, Any]:
    evidence = [_number(number) for number in one.evidence]
    return {"name": one.name, "holds": one.holds, "settings": list(map(_columns, one.settings)), "evidence": evidence}


def _number(one: Evidence) -> dict[str, Any]:
    names = ("label", "kind", "unit", "side", "margins", "over", "holds")
    numbers = ("mean", "low", "high", "num_seeds", "num_missing")
    return {
        **{name: getattr(one, name) for name in names},
        **{name: getattr(one.value, name) for name in numbers},
        "settings": list(map(_columns, one.settings)),
    }


def _columns(setting: SettingRuns) -> dict[str, Any]:
    """What tells a setting from others."""
    columns = ("variant", "method", "backend", "own_settings", "num_points", "target_weight", *SETTINGS)
    return {name: setting[name] for name in columns if setting[name] is not None}
