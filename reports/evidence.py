"""The settings of a study that are evidence for its claims, and how they are put side by side."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from implementations.settings import SETTINGS
from metrics.seeds import Estimate, mean_of_measured, mean_over_seeds
from records.display import format_number
from records.methods import facts_of
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
from reports.leaderboard import CRITERION, weight_of
from reports.tables import why_not
from reports.types import NotAsked, NothingToShow

#: Mini-batch chains with control variates, which claim the posterior of all data.
CONTROLLED = ("pbnn_cn", "pbnn_cv", "pbnn_mala_cv")
#: Methods whose target of weight n is PBNN's, the nearest to the paper's first; the last two sample it exactly.
SAME_TARGET = ("pbnn", "pbnn_cn", "pbnn_cv", "mala", "blackjax_hmc")
#: The paper's n on MNIST.
PAPER_N = 100


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


def by_size(candidates: Sequence[SettingRuns]) -> list[list[SettingRuns]]:
    """Settings that differ in N alone (and in how long they ran), ascending."""
    same = ("task", "stochastic", "prior", "prior_scale", "method", "backend", "own_settings")
    return sweeps(candidates, "num_points", (*same, *(name for name in SETTINGS if name not in LENGTHS)))


def full_data_of(study: StudyResults, variant: str) -> SettingRuns:
    """The full-data baseline of a task, or NothingToShow."""
    found = full_data(settings(study, variant=variant, method=list(POSTERIOR), weight="data"))
    assert found is not None, "there is at least one such setting"
    return found


#: Settings that a claim looks at together: one, a pair, or a sweep from the smallest to the largest.
Case = tuple[SettingRuns, ...]


def cases(study: StudyResults, ask: Mapping[str, Any]) -> list[Case]:
    """The settings that an entry of ``claims.yaml`` names, as it puts them side by side (docs/extend.md)."""
    found = _cases(study, ask, is_gated=True)
    if not found and not _cases(study, ask, is_gated=False):
        raise NotAsked("Missing runs: the study has none that differ as the rule asks")
    if not found:
        raise NothingToShow("No runs that differ as the rule asks are evidence")
    return found


def _cases(study: StudyResults, ask: Mapping[str, Any], is_gated: bool) -> list[Case]:
    selections = ask["runs"] if isinstance(ask["runs"], list) else [ask["runs"]]
    return [case for columns in selections for case in _side_by_side(study, ask, columns, is_gated)]


def _side_by_side(
    study: StudyResults, ask: Mapping[str, Any], columns: Mapping[str, Any], is_gated: bool
) -> list[Case]:
    """The cases of one selection: single settings, pairs (``versus``) or sweeps (``over``)."""
    found, over = _picked(study, ask, columns, is_gated), ask.get("over")
    same: Sequence[str] = ask.get("same", ())
    if ask.get("versus") == "full data":
        return [(one, full_data_of(study, one["variant"])) for one in found]
    if versus := ask.get("versus"):
        others = settings(study, _gate(ask, is_gated), **columns | versus)
        return [(one, other) for one in found for other in others if all(one[name] == other[name] for name in same)]
    if alone := ask.get("alone"):
        swept = {one for sweep in _sweeps(found, alone, same) for one in sweep}
        return [(one,) for one in found if one not in swept]
    if over is None:
        return [(one,) for one in found]
    sweeps_found = [sweep for sweep in _sweeps(found, over, same) if _spans(sweep, over, ask.get("factor", 1))]
    if ask.get("pick") == "widest" and sweeps_found:
        sweeps_found = [max(sweeps_found, key=len)]
    return [tuple(sweep) for sweep in sweeps_found]


def _picked(
    study: StudyResults, ask: Mapping[str, Any], columns: Mapping[str, Any], is_gated: bool
) -> list[SettingRuns]:
    wanted = dict(columns)
    for name in [name for name, value in wanted.items() if value == "max"]:
        del wanted[name]
        wanted[name] = max((one[name] for one in study.settings(**wanted)), default=None)
    without = {name: value if isinstance(value, list) else [value] for name, value in ask.get("without", {}).items()}

    def is_wanted(one: SettingRuns) -> bool:
        return all(one[name] not in values for name, values in without.items())

    if ask.get("pick") == "full data":
        variants = dict.fromkeys(one["variant"] for one in study.settings(**wanted) if is_wanted(one))
        return [full_data_of(study, variant) for variant in variants]
    found = [one for one in settings(study, _gate(ask, is_gated), **wanted) if is_wanted(one)]
    if is_gated:
        names = [ask["has"]] if isinstance(ask.get("has"), str) else ask.get("has", [])
        found = [one for one in found if all(_has(one, name, _gate(ask, True)) for name in names)]
    if ask.get("pick") == "fastest":
        return [fastest(found)]
    if ask.get("pick") == "first method":
        return first_methods(found, wanted["method"])
    return found


def _gate(ask: Mapping[str, Any], is_gated: bool) -> Callable[[SettingRuns], Sequence[Row]]:
    if not is_gated:
        return lambda one: one.rows
    return have_converged if ask.get("gate", True) else ended_well


def _has(setting: SettingRuns, column: str, evidence: Callable[[SettingRuns], Sequence[Row]]) -> bool:
    return any(row[column] is not None for row in evidence(setting))


def _sweeps(found: Sequence[SettingRuns], over: str, same: Sequence[str]) -> list[list[SettingRuns]]:
    return by_size(found) if over == "num_points" and not same else sweeps(found, over, same)


def _spans(sweep: Sequence[SettingRuns], over: str, factor: float) -> bool:
    return factor == 1 or bool(sweep[-1][over] >= factor * sweep[0][over])


def fastest(candidates: Sequence[SettingRuns]) -> SettingRuns:
    """The one with the least processor time to 400 effective draws."""
    return min(candidates, key=lambda one: (one.mean("seconds_to_400"), one["label"]))


def first_methods(candidates: Sequence[SettingRuns], methods: Sequence[str]) -> list[SettingRuns]:
    """For each task and weight the setting with most converged seeds, of equals by the first of ``methods``."""
    best: dict[tuple[str, float], SettingRuns] = {}
    for one in sorted(candidates, key=lambda one: (-len(one.converged), methods.index(one["method"]), one["label"])):
        best.setdefault((one["variant"], one["target_weight"]), one)
    return list(best.values())


def exponent(sweep: Sequence[SettingRuns], column: str, over: str = "num_points") -> Estimate:
    """Exponent b of cost ~ N^b, seed by seed: the slope of ``column``, a logarithm, over log N."""
    slopes: dict[int, float | None] = {}
    values = [(np.log(float(one[over])), one.values(column)) for one in sweep]
    for seed in sorted(set().union(*(value for _, value in values))):
        points = [(x, value.get(seed)) for x, value in values]
        complete = np.array([point for point in points if point[1] is not None], dtype=float)
        slopes[seed] = float(np.polyfit(complete[:, 0], complete[:, 1], 1)[0]) if len(complete) == len(values) else None
    return sweep[0].behind(mean_over_seeds(slopes), *sweep[1:])


def mean_of_audits(setting: SettingRuns, column: str) -> Estimate:
    """Mean over seeds of an audited number; its error is that of the audits, each of many moves.

    An audit looks at single moves, so chains need not have converged.
    """
    rows = [row for row in setting.ok if row[column] is not None and row[f"{column}_mc"] is not None]
    values, errors = ({row["seed"]: row[name] for row in rows} for name in (column, f"{column}_mc"))
    return setting.behind(mean_of_measured(values, errors))


# Networks on MNIST


class Network(NamedTuple):
    """The posterior of all data of a network, and those of smaller weights."""

    full: SettingRuns
    #: One for each n.
    candidates: list[SettingRuns]
    #: Least mean ECE on validation points.
    chosen: SettingRuns
    #: At the paper's n, the nearest to the paper's method.
    of_paper: list[SettingRuns]


def networks(study: StudyResults) -> list[str]:
    """The variants of mnist, in the order of the study."""
    found = [one for one in study.variants if study.settings(variant=one, task="mnist")]
    if not found:
        raise NotAsked("Missing runs: the study has no network on MNIST")
    return found


def network_of(study: StudyResults, variant: str) -> Network:
    found = settings(study, variant=variant, method=list(SAME_TARGET))
    smaller = [one for one in found if one["target_weight"] < one["num_points"]]
    candidates = sorted(first_methods(smaller, SAME_TARGET), key=lambda one: one["target_weight"])
    if not candidates:
        raise NothingToShow(f"Missing runs: {variant} has none at a weight below its number of points")
    chosen = min(candidates, key=lambda one: one.mean("validation_ece"))
    of_paper = [one for one in candidates if one["target_weight"] == PAPER_N]
    return Network(full_data_of(study, variant), candidates, chosen, of_paper)


# Methods on one target


class Contest(NamedTuple):
    """A target on which chains on all data are within the bias bound and chains on mini-batches ran."""

    #: Variant and weight.
    target: tuple[str, float]
    #: The best chain on mini-batches within the bound; None where there is none.
    ours: SettingRuns | None
    #: The best on all data.
    theirs: SettingRuns


def contests(study: StudyResults) -> list[Contest]:
    """One per target, of chains: draws of the Gaussian at the mode take no evaluations and are none."""
    boards: dict[tuple[str, float], list[SettingRuns]] = {}
    for one in one_backend(study.all_settings):
        if one.ok and one.mean("evaluations_per_draw") != 0:
            boards.setdefault((one["variant"], weight_of(one)), []).append(one)
    found = []
    for target, board in boards.items():
        sides: dict[bool, list[SettingRuns]] = {True: [], False: []}
        for one in board:
            sides[facts_of(one["method"]).is_minibatch].append(one)
        ours, theirs = (_best(sides[side]) for side in (True, False))
        if sides[True] and theirs is not None:
            found.append(Contest(target, ours, theirs))
    return found


def _best(candidates: Sequence[SettingRuns]) -> SettingRuns | None:
    right = [one for one in candidates if why_not(one) is None and one.has(CRITERION)]
    return max(right, key=lambda one: one.mean(CRITERION), default=None)
