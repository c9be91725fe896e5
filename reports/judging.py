"""Judging the claims of a study: each verdict, how fragile it is, whether its rule came first, and all together."""

import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from metrics.seeds import holm
from records.display import format_number
from records.study import StudyResults
from reports.registration import registration
from reports.types import INCONCLUSIVE, Claim, ClaimResult, Verdict


def judge_claims(claims: Sequence[Claim], study: StudyResults) -> list[ClaimResult]:
    """Every claim, in order. One that cannot be judged does not take the others with it."""
    seeds = {str(seed): _without_seed(study, seed) for seed in _seeds(study)}
    libraries = {f"on {backend} alone": _of_backend(study, backend) for backend in _libraries(study)}
    results = [_judged(claim, study, seeds, libraries) for claim in claims]
    decided = [place for place, result in enumerate(results) if result.verdict.p_value is not None]
    adjusted = holm([results[place].verdict.p_value or 0.0 for place in decided])
    for place, p_value in zip(decided, adjusted, strict=True):
        results[place] = replace(results[place], p_adjusted=p_value)
    return results


def verdicts_of(claims: Sequence[Claim], study: StudyResults) -> list[tuple[Claim, Verdict]]:
    """The verdict on every claim that can be judged, and nothing beside it."""
    found = []
    for claim in claims:
        try:
            found.append((claim, claim.judge(_of_registered_seeds(claim, study))))
        except Exception as error:
            format_error(error)
    return found


def _judged(
    claim: Claim, study: StudyResults, seeds: Mapping[str, StudyResults], libraries: Mapping[str, StudyResults]
) -> ClaimResult:
    try:
        verdict = claim.judge(_of_registered_seeds(claim, study))
        fragility, is_fragile = _fragility(claim, verdict, seeds, libraries)
    except Exception as error:
        failure = format_error(error)
        return ClaimResult(claim, Verdict(INCONCLUSIVE, f"It could not be judged: {failure}"), failure)
    commits = _commits(study, verdict.runs)
    return ClaimResult(
        claim, verdict, None, fragility, registration(claim.registered, commits), None, study.looks, is_fragile
    )


def format_error(error: Exception) -> str:
    """The error in a line, its traceback in the log."""
    traceback.print_exception(error, file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def _fragility(
    claim: Claim, verdict: Verdict, seeds: Mapping[str, StudyResults], libraries: Mapping[str, StudyResults]
) -> tuple[str, bool]:
    """What becomes of the verdict when one seed is left out, and on each library alone; does a seed change it?"""
    if verdict.is_absent or not verdict.runs:
        return "", False
    others = {name: claim.judge(_of_registered_seeds(claim, part)) for name, part in seeds.items()}
    flips: dict[str, list[str]] = {}
    for seed, other in others.items():
        if other.outcome != verdict.outcome:
            flips.setdefault(other.outcome, []).append(seed)
    alone = {name: claim.judge(_of_registered_seeds(claim, part)) for name, part in libraries.items()}
    words = [f"It is {outcome} without seed {_any_of(names)}" for outcome, names in flips.items()]
    words = words or ["No single seed changes it"]
    words += [_on_one_library(name, verdict, other) for name, other in alone.items()]
    return "; ".join(words) + ".", bool(flips)


def _any_of(names: Sequence[str]) -> str:
    """``1, 2 or 3``"""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _on_one_library(name: str, verdict: Verdict, other: Verdict) -> str:
    """What becomes of it there, and by how many of its settings: with fewer another outcome says little."""
    if other.is_absent:
        return f"{name} there are too few runs"
    theirs, ours = (len({run.rsplit("/", 2)[0] for run in one.runs}) for one in (other, verdict))
    return f"{name}{f', with {theirs} of {ours} settings,' if theirs < ours else ''} it is {other.outcome}"


def _seeds(study: StudyResults) -> list[int]:
    return sorted({row["seed"] for row in study.rows})


def _libraries(study: StudyResults) -> list[str]:
    """The backends with a run that ended well, where there is more than one."""
    found = list(dict.fromkeys(row["backend"] for row in study.rows if row["status"] == "ok"))
    return found if len(found) > 1 else []


def _part(study: StudyResults, is_in: Iterable[bool]) -> StudyResults:
    return replace(study, summary=study.summary[list(is_in)])


def _without_seed(study: StudyResults, seed: int) -> StudyResults:
    return _part(study, study.summary["seed"] != seed)


def _of_backend(study: StudyResults, backend: str) -> StudyResults:
    return _part(study, study.summary["backend"] == backend)


def _of_registered_seeds(claim: Claim, study: StudyResults) -> StudyResults:
    """The study with as many seeds of each setting as the rule, or the study's own looks, allow: the first of them."""
    if claim.registered is None:
        return study
    at_most = max(study.looks, default=claim.registered.at_most)
    allowed = [one.rows[:at_most] for one in study.all_settings]
    kept = {row["run"] for rows in allowed for row in rows}
    return study if len(kept) == len(study.summary) else _part(study, study.summary["run"].isin(kept))


def _commits(study: StudyResults, runs: Iterable[str]) -> dict[str, bool]:
    """Commits of the code that made the runs, each with whether it was changed without being committed."""
    used = set(runs)
    rows = [row for row in study.rows if row["run"] in used]
    return {row["git_commit"]: bool(row["git_is_dirty"]) for row in rows if row["git_commit"] is not None}


def family_text(result: ClaimResult, num_claims: int, rate: float = 0.05) -> str:
    """Does the verdict stand when all claims of a report are taken together?"""
    if result.p_adjusted is None:
        return ""
    # A verdict has two sides, of which the p-value is that of one.
    is_kept = 2 * result.p_adjusted <= rate
    verb = "stands" if is_kept else "does not stand"
    return f"It {verb} with Holm's correction for {num_claims} claims (p = {format_number(2 * result.p_adjusted, 2)})."
