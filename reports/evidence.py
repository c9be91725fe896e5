"""The settings of a study that are evidence for its claims."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from implementations.settings import SETTINGS
from records.display import format_number
from records.setting_runs import (
    LENGTHS,
    MAX_R_HAT,
    MIN_ESS,
    POSTERIOR,
    Row,
    SettingRuns,
    full_data,
    one_backend,
    sweeps,
)
from records.study import StudyResults
from reports.types import NotAsked, NothingToShow

#: Mini-batch chains with control variates, which claim the posterior of all data.
CONTROLLED = ("pbnn_cn", "pbnn_cv", "pbnn_mala_cv")


def require(holds: bool) -> None:
    """Say a sentence only where the numbers bear it out."""
    if not holds:
        raise NothingToShow("the numbers say otherwise")


def have_converged(setting: SettingRuns) -> Sequence[Row]:
    return setting.converged


def ended_well(setting: SettingRuns) -> Sequence[Row]:
    """What is evidence where nothing depends on the draws."""
    return setting.ok


def settings(
    study: StudyResults, evidence: Callable[[SettingRuns], Sequence[Row]] = have_converged, **wanted: Any
) -> list[SettingRuns]:
    """The settings with these values in their columns and at least one run that is evidence, in order of their labels.

    A setting that ran on several backends stands once. NothingToShow says what is wrong where none is left.
    """
    candidates = study.settings(**wanted)
    if not candidates:
        raise NotAsked(f"Missing runs: the study has none of {_words(wanted)}")
    found = [one for one in one_backend(candidates) if evidence(one)]
    if not found:
        raise NothingToShow(f"No run of {_words(wanted)} is evidence: {_shortcomings(candidates)}")
    return sorted(found, key=lambda one: (one["variant"], one["label"]))


def _words(wanted: Mapping[str, Any]) -> str:
    """``method pbnn or naive, batch_size 5``"""
    texts = {
        name: " or ".join(map(str, value if isinstance(value, list) else [value])) for name, value in wanted.items()
    }
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _shortcomings(candidates: Sequence[SettingRuns]) -> str:
    """Why runs are not evidence: ``2 diverged, 1 not converged (R-hat up to 1.3, accepted to 1.05)``."""
    counts = Counter(row["status"] for one in candidates for row in one.rows if row["status"] != "ok")
    reasons = [f"{count} {status}" for status, count in sorted(counts.items())]
    r_hats = [row["r_hat"] for one in candidates for row in one.ok]
    if r_hats:
        worst = max((value for value in r_hats if value is not None), default=None)
        largest = "undefined" if worst is None else f"up to {format_number(worst)}"
        ess = [row["ess_bulk_min"] for one in candidates for row in one.ok if row["ess_bulk_min"] is not None]
        least = f"from {format_number(min(ess))}" if ess else "undefined"
        gate = f"R-hat {largest}, accepted to {MAX_R_HAT}; ESS {least}, accepted from {MIN_ESS}"
        reasons.append(f"{len(r_hats)} not converged ({gate})")
    return ", ".join(reasons)


def required_sweeps(candidates: Sequence[SettingRuns], over: str, same: Sequence[str]) -> list[list[SettingRuns]]:
    """``records.setting_runs.sweeps``, or NothingToShow."""
    found = sweeps(candidates, over, same)
    if not found:
        names = sorted({setting["method"] for setting in candidates})
        raise NothingToShow(
            f"Missing runs: no two converged settings of {' or '.join(names)} differ in {over} alone "
            f"(same {', '.join(same)})"
        )
    return found


def by_size(candidates: Sequence[SettingRuns]) -> list[list[SettingRuns]]:
    """Settings that differ in N alone (and in how long they ran), ascending."""
    same = ("task", "stochastic", "prior", "prior_scale", "method", "backend", "own_settings")
    return sweeps(candidates, "num_points", (*same, *(name for name in SETTINGS if name not in LENGTHS)))


def full_data_of(study: StudyResults, variant: str) -> SettingRuns:
    """The full-data baseline of a task, or NothingToShow."""
    found = full_data(settings(study, variant=variant, method=list(POSTERIOR), weight="data"))
    assert found is not None, "there is at least one such setting"
    return found
