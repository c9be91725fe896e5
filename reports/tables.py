"""The tables of a report, as data frames: settings side by side, the winner of each target, and what is missing.

A row of a comparison is a setting on a backend; its numbers are means over its seeds with 95 % intervals. Every number
follows from rows of the summary.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from metrics.seeds import Estimate, mean_of_measured
from records.display import distinct_settings, format_name, method_name
from records.methods import facts_of, in_order
from records.setting_runs import CONVERGED, SettingRuns, full_data
from records.study import StudyResults
from reports.benchmarks import Benchmarks, is_met

#: The deviation from the reference that a winner may have, in RMS sd of the reference: a tenth of an error bar,
#: which nobody sees in a figure. A hundred independent draws resolve it.
MARGIN = 0.1

Row = dict[str, Any]


class Metric(NamedTuple):
    """A column of the summary as tables show it."""

    heading: str
    group: str


CONVERGENCE, FIDELITY, QUALITY, COST = "sampler", "fidelity to its own target", "calibration and prediction", "cost"
#: In the order in which they are to be read: whether a chain has converged, is right, is useful, and what it costs.
METRICS = {
    "ess_bulk_min": Metric("ESS", CONVERGENCE),
    "acceptance_rate": Metric("acceptance", CONVERGENCE),
    "mean_error": Metric("mean error, RMS sd", FIDELITY),
    "sd_ratio": Metric("sd ratio", FIDELITY),
    "sliced_w2": Metric("sliced W2", FIDELITY),
    "total_variation": Metric("total variation", FIDELITY),
    "ece": Metric("ECE", QUALITY),
    "confidence_gap": Metric("confidence gap", QUALITY),
    "nll": Metric("NLL", QUALITY),
    "accuracy": Metric("accuracy", QUALITY),
    "rmse": Metric("RMSE", QUALITY),
    "wall_clock_s": Metric("seconds", COST),
    "data_fraction": Metric("data a step", COST),
    "ess_per_second": Metric("ESS per second", COST),
    "ess_per_million_evaluations": Metric("ESS per million evaluations", COST),
}
#: What a paired difference against the full-data chain is taken of.
COMPARED = {
    "ece": "ECE",
    "confidence_gap": "confidence gap",
    "nll": "NLL",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "rmse": "RMSE",
    "crps": "CRPS",
}
#: By what the winner is chosen.
CRITERIA = ("ess_per_second", "ess_per_million_evaluations")


def _names(setting: SettingRuns, texts: Mapping[SettingRuns, str]) -> Row:
    """The first cells of a setting's row."""
    return {"method": setting["method"], "setting": texts[setting], "backend": setting["backend"]}


def _counted(words: Iterable[str | None]) -> str:
    """``2 skipped, 1 failed``; None counts for nothing."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).items() if word is not None)


def _numbers(name: str, value: Estimate) -> Row:
    return {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}


def _frame(rows: list[Row]) -> pd.DataFrame:
    """The rows as a frame without the columns that are empty in all of them."""
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def comparison(study: StudyResults, variant: str) -> pd.DataFrame:
    """One row per setting and backend of a task: how its runs ended, then METRICS over the seeds that are evidence.

    ``<metric>_resolved`` counts the seeds whose deviation is more than Monte Carlo error.
    """
    rows = []
    texts = distinct_settings(study.all_settings)
    for setting in study.settings(variant=variant):
        row = _names(setting, texts) | {
            "target_weight": setting["target_weight"],
            "num_runs": len(setting.rows),
            "num_ok": len(setting.ok),
            "num_converged": len(setting.converged),
            "not_ok": _counted(row["status"] for row in setting.rows if row["status"] != "ok"),
            "r_hat_max": max((row["r_hat"] for row in setting.ok if row["r_hat"] is not None), default=None),
        }
        for name, metric in METRICS.items():
            row |= _numbers(name, setting.estimate(name))
            if metric.group == FIDELITY and setting.has(name):
                row[f"{name}_resolved"] = sum(bool(one[f"{name}_resolved"]) for one in setting.evidence)
        rows.append(row)
    return _frame(rows)


def differences(study: StudyResults, variant: str) -> pd.DataFrame:
    """Paired differences of each setting against the full-data chain of the same backend, on the test points.

    Of converged runs alone: where one side has not converged, a difference says little about either. Empty where the
    task has no such chain.
    """
    settings = [one for one in study.settings(variant=variant) if one.converged]
    rows = []
    texts = distinct_settings(study.all_settings)
    for setting in settings:
        baseline = full_data(one for one in settings if one["backend"] == setting["backend"])
        if baseline is None or baseline is setting:
            continue
        row = _names(setting, texts) | {"baseline": format_name(baseline)}
        for name in COMPARED:
            row |= _numbers(name, setting.difference(baseline, name))
        rows.append(row)
    return _frame(rows)


RESIDUAL = "audit_balance_residual"


def audited(setting: SettingRuns) -> bool:
    """Were its decisions weighed by all the data? What moves without deciding has none."""
    has_audit = any(setting.has(name) for name in ("audit_wrong_accepts", RESIDUAL))
    return has_audit and facts_of(setting["method"]).acceptance != "always"


def residual_of(setting: SettingRuns) -> Estimate:
    """Mean over seeds of the detailed-balance residual; its error is that of the audits, each of many moves.

    A residual is that of single moves, so chains need not have converged.
    """
    rows = [row for row in setting.ok if row[RESIDUAL] is not None and row[f"{RESIDUAL}_mc"] is not None]
    values, errors = ({row["seed"]: row[name] for row in rows} for name in (RESIDUAL, f"{RESIDUAL}_mc"))
    return setting.behind(mean_of_measured(values, errors))


def points_share(setting: SettingRuns) -> Estimate:
    """Points that a decision reads, over N: those of its mini-batches, or as many as the audit counted."""
    num_points = float(setting["num_points"])
    if setting.has("audit_mean_points"):
        return setting.estimate("audit_mean_points").scaled(1 / num_points)
    if setting["batch_size"] is None or not facts_of(setting["method"]).is_minibatch:
        return Estimate(None, None, None, 0, 0)
    return Estimate(setting["batch_size"] * (setting["num_batches"] or 1) / num_points, None, None, 0, 0)


def audit(study: StudyResults, variant: str) -> pd.DataFrame:
    """One row per setting of a task whose decisions were audited: how often it decides otherwise than all the data.

    A wrong decision is no bias where a method is exact by a rule of its own; its residual tells.
    """
    rows = []
    texts = distinct_settings(study.all_settings)
    for setting in filter(audited, study.settings(variant=variant)):
        row = _names(setting, texts) | {"target_weight": setting["target_weight"]}
        row["exactness"] = str(facts_of(setting["method"]).exactness)
        for name in ("audit_wrong_accepts", "audit_wrong_rejects"):
            row |= _numbers(name, setting.estimate(name))
        row |= _numbers("points_share", points_share(setting)) | _numbers(RESIDUAL, residual_of(setting))
        rows.append(row)
    return _frame(rows)


WINNER_RULE = (
    "Settings of one task compete when they have the same target, that is the same weight w. "
    f"A setting is a candidate when all its runs have converged ({CONVERGED}), none diverged, "
    "failed or is missing, and its bias is small: "
    f"in no seed is the predictive mean resolved to be more than {MARGIN} RMS sd from the "
    f"right answer, or the predictive sd more than {100 * MARGIN:.0f} % off, and its Monte Carlo errors are below "
    f"{MARGIN}, so that such a bias would have shown. The winner is the candidate with the most effective draws for "
    "its cost, in seconds and in evaluations of single data points. It leads clearly when the 95 % interval of its "
    "ratio to the best other method, paired by seed, lies above 1. Targets that only one setting was run on are left "
    "out. Entrants are the methods that ran at this target, with how many of their settings are candidates; a method "
    "of the study that did not run at it is named too, because nobody beat it."
)


def winners(study: StudyResults) -> pd.DataFrame:
    """For every target with several settings and each of CRITERIA: the winner by WINNER_RULE, or why there is none."""
    contests: dict[tuple[str, float], list[SettingRuns]] = {}
    for setting in study.all_settings:
        # A setting of which no run has begun has no target on file.
        if setting["target_weight"] is not None:
            contests.setdefault((setting["variant"], setting["target_weight"]), []).append(setting)
    found = []
    texts = distinct_settings(study.all_settings)
    for (variant, weight), settings in contests.items():
        if len({one["label"] for one in settings}) < 2:
            continue
        num_points = max(one["num_points"] for one in settings)
        target = f"posterior, w = N = {num_points:,}" if weight == num_points else f"tempered, w = {weight:g}"
        names = {"variant": variant, "target_weight": weight, "target": target}
        others = [one for one in study.settings(variant=variant) if one not in settings]
        who = {"entrants": _entrants(settings), "not_run": _absent(settings, others)}
        found += [names | _winner(settings, criterion, texts) | who for criterion in CRITERIA]
    return pd.DataFrame(found)


def _entrants(settings: list[SettingRuns]) -> str:
    """``PBNN 3 of 7; SGLD 1 of 2``: the methods that ran, and how many of their settings are candidates."""
    ran = [one for one in settings if one.ok]
    parts = []
    for method in in_order(one["method"] for one in ran):
        own = [one for one in ran if one["method"] == method]
        parts.append(f"{method_name(method)} {sum(why_not(one) is None for one in own)} of {len(own)}")
    # Some names have a comma.
    return "; ".join(parts)


def _absent(settings: list[SettingRuns], others: list[SettingRuns]) -> str:
    """The methods that the study has on this task and of which nothing ran at this target: nobody beat them."""
    ran = {one["method"] for one in settings if one.ok}
    absent = in_order(one["method"] for one in (*settings, *others) if one["method"] not in ran)
    return "; ".join(map(method_name, absent))


def _winner(settings: list[SettingRuns], criterion: str, texts: Mapping[SettingRuns, str]) -> Row:
    candidates = [one for one in settings if why_not(one) is None and one.has(criterion)]
    row: Row = {
        "criterion": criterion,
        "num_candidates": len(candidates),
        "num_settings": len(settings),
        "left_out": _counted(map(why_not, settings)),
    }
    if not candidates:
        return row
    best, *others = sorted(candidates, key=lambda one: -one.mean(criterion))
    row |= _names(best, texts) | _numbers("value", best.estimate(criterion))
    row |= {name: best.mean(name) for name in ("mean_error", "sd_ratio")}
    row["runs"] = " ".join(best.runs)
    rival = next((one for one in others if one["method"] != best["method"]), None)
    if rival is None:
        return row
    lead = best.ratio(rival, criterion)
    rival_names = {f"rival_{name}": value for name, value in _names(rival, texts).items()}
    return row | rival_names | _numbers("lead", lead) | {"is_clear": lead.low is not None and lead.low > 1}


def why_not(setting: SettingRuns) -> str | None:
    """Why a setting is no candidate for the winner, or None."""
    statuses = {row["status"] for row in setting.rows}
    if "diverged" in statuses:
        return "diverged"
    if not setting.ok:
        return "not run"
    if statuses & {"failed", "missing"}:
        return "incomplete"
    if not setting.is_converged:
        return "not converged"
    if not all(row["reference_usable"] for row in setting.ok):
        return "without a reference"
    for name, right in (("mean_error", 0.0), ("sd_ratio", 1.0)):
        if any(row[f"{name}_mc"] is None or row[f"{name}_mc"] > MARGIN for row in setting.ok):
            return "too short to tell its bias"
        if any(row[f"{name}_resolved"] and abs(row[name] - right) > MARGIN for row in setting.ok):
            return "biased"
    return None


def missing(study: StudyResults) -> pd.DataFrame:
    """Runs without a result, by what became of them and why; and references that could not be used."""
    rows = study.summary
    columns = ["status", "reason", "num_runs", "runs"]
    found = [
        (status, reason, len(group), " ".join(group["run"]))
        for status in ("skipped", "diverged", "failed", "missing")
        for reason, group in rows[rows["status"] == status].fillna({"reason": ""}).groupby("reason", sort=False)
    ]
    unusable = rows[(rows["status"] == "ok") & ~rows["reference_usable"].fillna(True)].fillna({"reference_reason": ""})
    found += [
        ("no reference", reason, len(group), " ".join(group["run"]))
        for reason, group in unusable.groupby("reference_reason", sort=False)
    ]
    return pd.DataFrame(found, columns=columns)


def coverage(study: StudyResults) -> pd.DataFrame:
    """How the runs of each task, method and backend ended, and how many of them converged."""
    groups: dict[tuple[str, str, str], list[SettingRuns]] = {}
    for setting in study.all_settings:
        groups.setdefault((setting["variant"], setting["method"], setting["backend"]), []).append(setting)
    rows = []
    for (variant, method, backend), settings in groups.items():
        counts = Counter(row["status"] for one in settings for row in one.rows)
        row = {"task": variant, "method": method, "backend": backend, "runs": counts.total()}
        row |= {status: counts[status] for status in ("ok", "skipped", "diverged", "failed", "missing")}
        rows.append(row | {"converged": sum(len(one.converged) for one in settings)})
    return pd.DataFrame(rows)


def benchmarks(found: Benchmarks) -> pd.DataFrame:
    """Every row of the suite's benchmarks; ``is_met`` says whether its performance target is met, where it has one."""
    return pd.DataFrame([row | {"is_met": is_met(row)} for row in found.rows])


def all_tables(study: StudyResults) -> dict[str, pd.DataFrame]:
    """Every table of a study by its file's name, without the empty ones."""
    tables = {"winners": winners(study), "missing": missing(study), "coverage": coverage(study)}
    for variant in study.variants:
        tables[f"comparison_{variant}"] = comparison(study, variant)
        tables[f"differences_{variant}"] = differences(study, variant)
        tables[f"audit_{variant}"] = audit(study, variant)
    return {name: table for name, table in tables.items() if len(table)}


def to_csv(table: pd.DataFrame) -> str:
    """The table as CSV, in which no text is a formula to a spreadsheet."""
    return table.map(_no_formula).to_csv(index=False, lineterminator="\n")


def _no_formula(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
