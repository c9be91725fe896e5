"""The leaderboard of a target: every method of the suite, with its bias, its cost and its rank, or why it has none.

Targets are those of a study: a task, and the weight w. A method has one row on each, that of its best setting there.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from implementations.methods import METHODS
from records.columns import COLUMNS, METRICS
from records.display import distinct_settings, format_given, task_name
from records.methods import in_order
from records.setting_runs import CONVERGED, SettingRuns, one_backend, plain_rows
from records.study import StudyResults
from reports.table_model import Column, Row, Table, flat
from reports.tables import CANDIDATE_RULE, MARGIN, METHOD, why_not

#: How entrants with a small bias are ranked.
CRITERION = "ess_per_million_evaluations"
NUMBERS = ("sd_ratio", "mean_error", CRITERION, "ess_per_second")
MADE_ELSEWHERE = "made elsewhere"
NOT_RUN = "not run at this target in this study"
RULE = (
    f"Ranked by effective draws of the slowest prediction per million evaluations, among entrants whose bias is small "
    f"(within {MARGIN} RMS sd in the mean, {100 * MARGIN:.0f} % in the sd). {CANDIDATE_RULE}"
)


def leaderboards(study: StudyResults) -> list[Table]:
    """The leaderboard of every target of a study: a task, and the weight w."""
    targets: dict[tuple[str, float], list[SettingRuns]] = {}
    for setting in one_backend(study.all_settings):
        targets.setdefault((setting["variant"], weight_of(setting)), []).append(setting)
    texts = distinct_settings(study.all_settings)
    return [_leaderboard(*target, rows_of(settings, texts)) for target, settings in targets.items()]


def _leaderboard(variant: str, weight: float, rows: list[Row]) -> Table:
    heading = target_text(variant, weight)
    return Table(
        f"leaderboard_{variant}-w{weight:g}",
        f"Leaderboard of {heading}",
        rows,
        [
            METHOD,
            Column("rank", "rank", "number", RULE),
            Column("is_within_bound", "within the bound", words=lambda value: "yes" if value else "no"),
            *(Column(name, METRICS[name].heading, "estimate") for name in NUMBERS),
            Column("reason", "why no rank"),
        ],
        "comparison",
        heading,
    )


def rows_of(settings: Iterable[SettingRuns], texts: dict[SettingRuns, str]) -> list[Row]:
    """One row per method: the ranked first, then those without a rank and the reason, then those that were not run."""
    best: dict[str, SettingRuns] = {}
    for setting in settings:
        method = setting["method"]
        best[method] = min(best.get(method, setting), setting, key=_order)
    ordered = sorted(in_order(best), key=lambda method: _order(best[method]))
    rows = [_row(best[method], texts[best[method]]) for method in ordered]
    absent = [method for method in METHODS if method not in best]
    return [*_ranked(rows), *({"method": method, "reason": NOT_RUN, "num_runs": 0} for method in absent)]


def with_entrant(board: pd.DataFrame, name: str, metrics: Row, evaluations: float | None) -> pd.DataFrame:
    """A leaderboard with one more row, of draws made elsewhere, by the same rule.

    ``metrics`` are those of ``pbnn-bench score``; without the evaluations that the draws took they have no rank.
    """
    row = _row(_entrant(name, metrics, evaluations), MADE_ELSEWHERE)
    if row["reason"] is None and evaluations is None:
        row["reason"] = "its evaluations are not known"
    row = flat(row)
    plain = board.astype(object).where(board.notna(), None)
    others = [{str(key): value for key, value in one.items()} for one in plain.to_dict("records")]
    ranked = [one for one in [*others, row] if one["reason"] is None]
    # What takes no evaluations stays first.
    ranked.sort(key=lambda one: math.inf if one[CRITERION] is None else one[CRITERION], reverse=True)
    return pd.DataFrame(_ranked([*ranked, *(one for one in [row, *others] if one["reason"] is not None)]))


def answer_of(metrics: Row) -> str:
    """What ``metrics`` of draws made elsewhere come to, in words and by the same rule."""
    setting = _entrant("yours", metrics, None)
    problem = _reason(setting)
    parts = [
        problem or f"within the bound of leaderboards ({MARGIN} RMS sd in the mean, {100 * MARGIN:.0f} % in the sd)"
    ]
    if metrics.get("mean_error") is not None:
        parts.append(
            f"mean off by {metrics['mean_error']:.2g} RMS sd, sd {metrics['sd_ratio']:.3g} times the reference's"
        )
    if setting.is_converged:
        parts.append(f"ESS {metrics['ess_bulk_min']:.0f}")
    else:
        parts.append(f"asked for: {CONVERGED}")
    return "; ".join(parts)


def _entrant(name: str, metrics: Row, evaluations: float | None) -> SettingRuns:
    """Draws made elsewhere as the only run of a setting."""
    costs = {"likelihood_evaluations": evaluations, "gradient_evaluations": evaluations and 0}
    run = {"status": "ok", "method": name, "seed": 0, "run": name}
    return SettingRuns(tuple(plain_rows(pd.DataFrame([{**dict.fromkeys(COLUMNS), **metrics, **costs, **run}]))))


def _row(setting: SettingRuns, text: str) -> dict[str, Any]:
    return {
        "rank": None,
        "method": setting["method"],
        "setting": text,
        "reason": _reason(setting),
        # None where its bias is unknown.
        "is_within_bound": {None: True, "biased": False}.get(why_not(setting)),
        **{name: setting.estimate(name) for name in NUMBERS},
        "num_converged": len(setting.converged),
        "num_runs": len(setting.rows),
        "tuning_evaluations": setting["tuning_evaluations"],
        "runs": setting.runs,
    }


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Rows in their order, numbered as far as nothing speaks against it."""
    return [{**row, "rank": None if row["reason"] else number} for number, row in enumerate(rows, 1)]


def weight_of(setting: SettingRuns) -> float:
    """w of its target, also where no run of it has begun."""
    if setting["target_weight"] is not None:
        return float(setting["target_weight"])
    named = {"data": setting["num_points"], "batch": setting["batch_size"]}
    return float(named.get(setting["weight"], setting["weight"]))


def target_text(variant: str, weight: float) -> str:
    """``logistic, w = 10,000``"""
    return f"{task_name(variant)}, w = {format_given(weight)}"


def _order(setting: SettingRuns) -> tuple[int, float]:
    """The ranked first, by effective draws per evaluation; then those that ran; then the others."""
    if _reason(setting) is None:
        return 0, -_efficiency(setting)
    return (1 if setting.ok else 2), 0.0


def _efficiency(setting: SettingRuns) -> float:
    """Infinite for draws that take no evaluations, those of the Gaussian at the mode."""
    counts = [row["likelihood_evaluations"] + row["gradient_evaluations"] for row in setting.ok]
    return math.inf if not any(counts) else setting.mean(CRITERION)


def _reason(setting: SettingRuns) -> str | None:
    """Why it has no rank, in words; None where it has one."""
    problem = why_not(setting)
    if problem is None:
        return None
    own = next((row["reason"] for row in setting.rows if row["status"] != "ok" and row["reason"]), None)
    if own:
        return f"{problem}: {own}"
    if problem == "without a reference":
        found = next((row["reference_reason"] for row in setting.ok if row["reference_reason"]), None)
        return f"{problem}: {found}" if found else problem
    if problem == "not converged":
        worst = [row["r_hat"] for row in setting.ok if row["r_hat"] is not None]
        least = [row["ess_bulk_min"] for row in setting.ok if row["ess_bulk_min"] is not None]
        if worst and least:
            return f"{problem}: R-hat up to {max(worst):.3g}, ESS from {min(least):.0f}"
        note = next((row["convergence_note"] for row in setting.ok if row["convergence_note"]), None)
        return f"{problem}: {note}" if note else problem
    return problem
