"""Judging the claims of a study: each verdict, how fragile it is, whether its rule came first, and all together."""

import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from metrics.seeds import holm
from records.display import format_number
from records.study import StudyResults
from reports.ledger import published_before
from reports.registration import BEFORE, code_changed, code_sha256, registration, seen_before
from reports.types import INCONCLUSIVE, PREMISE_NOT_MET, Claim, ClaimResult, Verdict

#: What leaving out one seed does to a verdict, the worst first.
FRAGILE = "Fragile: leaving out one seed changes it"
TOO_FEW = "Not known to be robust: with one seed less it is not decided"
IN_ITS_OUTCOME = "Robust in its outcome: leaving out one seed changes a part"
ROBUST = "Robust: no single seed changes it"
#: Changes of parts that are told; there can be as many as parts.
MAX_CHANGES = 3


def judge_claims(
    claims: Sequence[Claim], study: StudyResults, words: Mapping[str, str] | None = None
) -> list[ClaimResult]:
    """Every claim, in order. One that cannot be judged does not take the others with it.

    ``words`` are what the study calls outcomes, where not by their names.
    """
    seeds = {str(seed): _without_seed(study, seed) for seed in _seeds(study)}
    libraries = {f"on {backend} alone": _of_backend(study, backend) for backend in _libraries(study)}
    results = [_judged(claim, study, seeds, libraries, words or {}) for claim in claims]
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
    claim: Claim,
    study: StudyResults,
    seeds: Mapping[str, StudyResults],
    libraries: Mapping[str, StudyResults],
    words: Mapping[str, str],
) -> ClaimResult:
    try:
        verdict = claim.judge(_of_registered_seeds(claim, study))
        fragility, robustness = _fragility(claim, verdict, seeds, libraries, words)
    except Exception as error:
        failure = format_error(error)
        return ClaimResult(claim, Verdict(INCONCLUSIVE, f"It could not be judged: {failure}"), failure)
    registered = filter(None, _registered(claim, verdict, study))
    return ClaimResult(
        claim,
        verdict,
        None,
        fragility,
        "; ".join(registered),
        looks=study.looks,
        robustness=robustness,
        code_sha256=code_sha256(claim),
    )


def _registered(claim: Claim, verdict: Verdict, study: StudyResults) -> list[str]:
    """Whether its rule came first, on how many seeds it rests, and whether the code that judges came first."""
    commits, seeds = _commits(study, verdict.runs), _seeds_text(claim, verdict, study)
    told = registration(claim.registered, commits)
    ran = {row["seed"] for row in study.rows if row["run"] in set(verdict.runs)}
    seen = seen_before(claim, published_before(study.name, ran, commits))
    if told == BEFORE and seen:
        return [seen, seeds]
    return [told, seeds, code_changed(claim, commits)]


def _seeds_text(claim: Claim, verdict: Verdict, study: StudyResults) -> str:
    """On how many seeds it rests, and how many the rule asks for to begin with."""
    if verdict.num_seeds is None or claim.registered is None:
        return ""
    fewest, most = verdict.num_seeds
    wanted = min(study.looks, default=claim.registered.start)
    found = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"{found} of {wanted} seeds" if fewest < wanted else f"{found} seeds"


def format_error(error: Exception) -> str:
    """The error in a line, its traceback in the log."""
    traceback.print_exception(error, file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def _fragility(
    claim: Claim,
    verdict: Verdict,
    seeds: Mapping[str, StudyResults],
    libraries: Mapping[str, StudyResults],
    words: Mapping[str, str],
) -> tuple[str, str]:
    """What becomes of the verdict and its parts when one seed is left out, and on each library alone; and in short."""
    if verdict.is_absent or not verdict.runs:
        return "", ""
    flips: dict[str, list[str]] = {}
    powerless: list[str] = []
    parts: dict[str, list[str]] = {}
    for seed, study in seeds.items():
        other = claim.judge(_of_registered_seeds(claim, study))
        if other.outcome == verdict.outcome:
            for change in _changed_parts(verdict, other):
                parts.setdefault(change, []).append(seed)
        elif _is_powerless(other):
            powerless.append(seed)
        else:
            flips.setdefault(_said(other.outcome, words), []).append(seed)
    robustness = FRAGILE if flips else TOO_FEW if powerless else IN_ITS_OUTCOME if parts else ROBUST
    told = [f"{said} without seed {_any_of(names)}" for said, names in flips.items()]
    if powerless:
        told.append(f"it is undecided on the two seeds left without seed {_any_of(powerless)}")
    told = told or [f"no single seed changes {'the outcome' if parts else 'it'}"]
    told += [f"without seed {_any_of(names)} {change}" for change, names in list(parts.items())[:MAX_CHANGES]]
    if len(parts) > MAX_CHANGES:
        told.append(f"{len(parts) - MAX_CHANGES} more such changes of parts")
    alone = {name: claim.judge(_of_registered_seeds(claim, part)) for name, part in libraries.items()}
    told += [_on_one_library(name, verdict, other, words) for name, other in alone.items()]
    text = "; ".join(told)
    return f"{text[0].upper()}{text[1:]}.", robustness


def _said(outcome: str, words: Mapping[str, str]) -> str:
    if outcome == PREMISE_NOT_MET:
        return "the premise is not met"
    return f"the answer is {words[outcome]}" if outcome in words else f"it is {outcome}"


def _is_powerless(other: Verdict) -> bool:
    """Is it open on two seeds, where the t distribution has one degree of freedom and hardly anything is decided?"""
    return other.outcome == INCONCLUSIVE and _is_on_two(other)


def _is_on_two(verdict: Verdict) -> bool:
    return 0 < verdict.num_open_seeds <= 2


def _changed_parts(verdict: Verdict, other: Verdict) -> list[str]:
    """What else is said of parts: ``it holds with M=5``. Names can have numbers in them, so that places count."""
    ours, theirs = verdict.answers, other.answers
    if len(ours) == len(theirs):
        pairs = [(name, old, new) for (name, old), (_, new) in zip(ours, theirs, strict=True)]
    else:
        found = dict(theirs)
        pairs = [(name, old, found[name]) for name, old in ours if name in found]
    said = {True: "it holds", False: "it does not hold", None: "it is too close to call"}
    if _is_on_two(other):
        said[None] = "on the two seeds left it is undecided"
    lost = [f"it is not judged {name}" for name, _ in ours if name not in {name for name, *_ in pairs}]
    return [f"{said[new]} {name}" for name, old, new in pairs if old is not new] + lost


def _any_of(names: Sequence[str]) -> str:
    """``1, 2 or 3``"""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _on_one_library(name: str, verdict: Verdict, other: Verdict, words: Mapping[str, str]) -> str:
    """What becomes of it there, and by how many of its settings: with fewer another outcome says little."""
    if other.is_absent:
        return f"{name} there are too few runs"
    theirs, ours = (len({run.rsplit("/", 2)[0] for run in one.runs}) for one in (other, verdict))
    return f"{name}{f', with {theirs} of {ours} settings,' if theirs < ours else ''} {_said(other.outcome, words)}"


def _seeds(study: StudyResults) -> list[int]:
    return sorted({row["seed"] for row in study.rows})


def _libraries(study: StudyResults) -> list[str]:
    """The backends with a run that ended well, where there is more than one."""
    found = list(dict.fromkeys(row["backend"] for row in study.rows if row["status"] == "ok"))
    return found if len(found) > 1 else []


def _part(study: StudyResults, is_in: Iterable[bool]) -> StudyResults:
    flags = list(is_in)
    part = replace(study, summary=study.summary[flags])
    # The same rows in plain values: there are hundreds of parts, and to make them again takes half of the time.
    vars(part)["rows"] = [row for row, flag in zip(study.rows, flags, strict=True) if flag]
    return part


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


def stands(p_adjusted: float, rate: float = 0.05) -> bool:
    """Is a verdict with this p-value, corrected for all claims, right but for a chance of ``rate``?

    A verdict has two sides, of which the p-value is that of one.
    """
    return 2 * p_adjusted <= rate


def family_text(result: ClaimResult, results: Sequence[ClaimResult]) -> str:
    """Does the verdict stand when all decided claims of a report are taken together?"""
    if result.p_adjusted is None:
        return ""
    num_decided = sum(one.p_adjusted is not None for one in results)
    claims = f"{num_decided} claim{'' if num_decided == 1 else 's'}"
    verb = "stands" if stands(result.p_adjusted) else "does not stand"
    return f"It {verb} with Holm's correction for {claims} (p = {format_number(min(1.0, 2 * result.p_adjusted), 2)})."
