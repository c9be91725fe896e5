"""The tables of a report, as data frames: settings side by side, the winner of each target, and what is missing.

A row of a comparison is a setting on a backend; its numbers are means over its seeds with 95 % intervals. Every number
follows from rows of the summary.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from metrics.seeds import Estimate, paired_difference
from reports.benchmarks import Benchmarks, is_met
from reports.study import MAX_R_HAT, POSTERIOR, StudyResults, by_seed, difference, estimate, is_converged

#: The deviation from the reference that a winner may have, in units of the reference's sd: a tenth of an error bar,
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
    "mean_error": Metric("mean error", FIDELITY),
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
#: A setting on a backend, as columns of the summary.
SETTING = ["variant", "label", "backend"]


def with_evaluations(summary: pd.DataFrame) -> pd.DataFrame:
    """The summary with ``ess_per_million_evaluations``: a likelihood and a gradient count the same."""
    evaluations = summary["likelihood_evaluations"].astype("Float64") + summary["gradient_evaluations"]
    per_million = summary["ess_bulk_min"] / (evaluations / 1e6).where(evaluations > 0)
    return summary.assign(ess_per_million_evaluations=per_million.astype("float64"))


def settings_of(label: str) -> str:
    """``batch_size=5, num_batches=2`` of ``pbnn,batch_size=5,num_batches=2``."""
    return ", ".join(label.split(",")[1:])


def variants(study: StudyResults) -> list[str]:
    """The tasks of the study and their variants, in its order."""
    return list(dict.fromkeys(study.summary["variant"]))


def _settings(rows: pd.DataFrame) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Each setting and backend of these rows, with its rows of all seeds, in the order of the study."""
    for (_, label, backend), group in rows.groupby(SETTING, sort=False):
        yield {"method": group["method"].iloc[0], "setting": settings_of(str(label)), "backend": backend}, group


def _counted(words: pd.Series) -> str:
    """``2 skipped, 1 failed``"""
    return ", ".join(f"{count} {word}" for word, count in words.value_counts(sort=False).items())


def _numbers(name: str, value: Estimate) -> Row:
    return {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}


def _frame(rows: list[Row]) -> pd.DataFrame:
    """The rows as a frame without the columns that are empty in all of them."""
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def comparison(study: StudyResults, variant: str) -> pd.DataFrame:
    """One row a setting and backend of a task: how its runs ended, then METRICS over the seeds that ended well.

    ``<metric>_resolved`` counts the seeds whose deviation is more than Monte Carlo error.
    """
    rows = []
    for names, group in _settings(with_evaluations(study.rows(variant=variant))):
        ok = group[group["status"] == "ok"]
        row = names | {
            "target_weight": group["target_weight"].max(),
            "num_runs": len(group),
            "num_ok": len(ok),
            "num_converged": int(is_converged(group).sum()),
            "not_ok": _counted(group["status"][group["status"] != "ok"]),
            "r_hat_max": ok["r_hat"].max(),
        }
        for name, metric in METRICS.items():
            row |= _numbers(name, estimate(ok, name))
            if metric.group == FIDELITY and ok[name].notna().any():
                row[f"{name}_resolved"] = int(ok[f"{name}_resolved"].sum())
        rows.append(row)
    return _frame(rows)


def differences(study: StudyResults, variant: str) -> pd.DataFrame:
    """Paired differences of each setting against the full-data chain of the same backend, on the test points.

    Of converged runs alone: where one side has not converged, a difference says little about either. Empty where the
    task has no such chain.
    """
    rows_of_task = study.rows(variant=variant)
    rows_of_task = rows_of_task[is_converged(rows_of_task)]
    rows = []
    for names, group in _settings(rows_of_task):
        baseline = _baseline(rows_of_task[rows_of_task["backend"] == names["backend"]])
        if baseline is None or baseline["label"].iloc[0] == group["label"].iloc[0]:
            continue
        row = names | {"baseline": baseline["label"].iloc[0]}
        for name in COMPARED:
            row |= _numbers(name, difference(group, baseline, name))
        rows.append(row)
    return _frame(rows)


def _baseline(rows: pd.DataFrame) -> pd.DataFrame | None:
    """The runs of the first full-data chain on the posterior itself."""
    is_posterior = rows["target_weight"] == rows["num_points"]
    for method in POSTERIOR:
        candidates = rows[is_posterior & (rows["method"] == method)]
        if len(candidates):
            return candidates[candidates["label"] == candidates["label"].iloc[0]]
    return None


WINNER_RULE = (
    "Settings of one task compete when they have the same target, that is the same weight w. "
    f"A setting is a candidate when all its runs have converged (R-hat of at most {MAX_R_HAT}), none diverged, "
    "failed or is missing, and its bias is small: "
    f"in no seed is the predictive mean resolved to be more than {MARGIN} reference sd from the "
    f"right answer, or the predictive sd more than {MARGIN:.0%} off, and its Monte Carlo errors are below {MARGIN}, "
    "so that such a bias would have shown. The winner is the candidate with the most effective draws for its cost, in "
    "seconds and in evaluations of single data points. It leads clearly when the 95 % interval of its ratio to the "
    "best other method, paired by seed, lies above 1. Targets that only one setting was run on are left out."
)


def winners(study: StudyResults) -> pd.DataFrame:
    """For every target with several settings and each of CRITERIA: the winner by WINNER_RULE, or why there is none."""
    summary = with_evaluations(study.summary)
    # The target of a run that never started is not on file; other seeds of the setting tell it.
    weights = summary.groupby(SETTING, sort=False)["target_weight"].transform("first")
    rows = summary.assign(target_weight=weights)[weights.notna()]
    found = []
    for (variant, weight), contest in rows.groupby(["variant", "target_weight"], sort=False):
        if contest["label"].nunique() < 2:
            continue
        settings = [group for _, group in contest.groupby(["label", "backend"], sort=False)]
        target = {"variant": variant, "target_weight": weight, "target": _target(contest)}
        found += [target | _winner(settings, criterion) for criterion in CRITERIA]
    return pd.DataFrame(found)


def _target(rows: pd.DataFrame) -> str:
    weight, num_points = float(rows["target_weight"].iloc[0]), int(rows["num_points"].max())
    return f"posterior, w = N = {num_points:,}" if weight == num_points else f"tempered, w = {weight:g}"


def _winner(settings: list[pd.DataFrame], criterion: str) -> Row:
    candidates = [rows for rows in settings if why_not(rows) is None and rows[criterion].notna().any()]
    row: Row = {
        "criterion": criterion,
        "num_candidates": len(candidates),
        "num_settings": len(settings),
        "left_out": _counted(pd.Series([why_not(rows) for rows in settings]).dropna()),
    }
    if not candidates:
        return row
    best, *others = sorted(candidates, key=lambda rows: -rows[criterion].mean())
    ok = best[best["status"] == "ok"]
    row |= _names(best) | _numbers("value", estimate(ok, criterion))
    row |= {name: ok[name].mean() for name in ("mean_error", "sd_ratio")}
    row["runs"] = " ".join(ok["run"])
    rival = next((rows for rows in others if rows["method"].iloc[0] != best["method"].iloc[0]), None)
    if rival is None:
        return row
    lead = _ratio(ok, rival[rival["status"] == "ok"], criterion)
    rival_names = {f"rival_{name}": value for name, value in _names(rival).items()}
    return row | rival_names | _numbers("lead", lead) | {"is_clear": lead.low is not None and lead.low > 1}


def _names(rows: pd.DataFrame) -> Row:
    first = rows.iloc[0]
    return {"method": first["method"], "setting": settings_of(first["label"]), "backend": first["backend"]}


def _ratio(rows: pd.DataFrame, others: pd.DataFrame, column: str) -> Estimate:
    """The ratio of two settings, paired by seed; its interval is that of the logarithm, so it stays positive."""
    ours, theirs = (
        {seed: value and math.log(value) for seed, value in by_seed(side, column).items()} for side in (rows, others)
    )
    found = paired_difference(ours, theirs)
    mean, low, high = (None if value is None else math.exp(value) for value in (found.mean, found.low, found.high))
    return Estimate(mean, low, high, found.num_seeds, found.num_missing)


def why_not(rows: pd.DataFrame) -> str | None:
    """Why a setting is no candidate for the winner, or None; ``rows`` are its seeds on one backend."""
    ok = rows[rows["status"] == "ok"]
    if (rows["status"] == "diverged").any():
        return "diverged"
    if ok.empty:
        return "not run"
    if rows["status"].isin(["failed", "missing"]).any():
        return "incomplete"
    if not is_converged(ok).all():
        return "not converged"
    if not ok["reference_usable"].fillna(False).all():
        return "without a reference"
    deviations = {"mean_error": ok["mean_error"], "sd_ratio": ok["sd_ratio"] - 1}
    for name, deviation in deviations.items():
        if not (ok[f"{name}_mc"] <= MARGIN).all():
            return "too short to tell its bias"
        if ((deviation.abs() > MARGIN) & ok[f"{name}_resolved"].fillna(False)).any():
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
    summary = study.summary.assign(is_converged=is_converged(study.summary))
    rows = []
    for (variant, method, backend), group in summary.groupby(["variant", "method", "backend"], sort=False):
        counts = group["status"].value_counts()
        statuses = {status: int(counts.get(status, 0)) for status in ("ok", "skipped", "diverged", "failed", "missing")}
        row = {"task": variant, "method": method, "backend": backend, "runs": len(group)}
        rows.append(row | statuses | {"converged": int(group["is_converged"].sum())})
    return pd.DataFrame(rows)


def benchmarks(found: Benchmarks) -> pd.DataFrame:
    """Every row of the suite's benchmarks; ``is_met`` says whether its promise is, where it has one."""
    return pd.DataFrame([row | {"is_met": is_met(row)} for row in found.rows])


def all_tables(study: StudyResults) -> dict[str, pd.DataFrame]:
    """Every table of a study by its file's name, without the empty ones."""
    tables = {"winners": winners(study), "missing": missing(study), "coverage": coverage(study)}
    for variant in variants(study):
        tables[f"comparison_{variant}"] = comparison(study, variant)
        tables[f"differences_{variant}"] = differences(study, variant)
    return {name: table for name, table in tables.items() if len(table)}


def to_csv(table: pd.DataFrame) -> str:
    """The table as CSV, in which no text is a formula to a spreadsheet."""
    return table.map(_no_formula).to_csv(index=False, lineterminator="\n")


def _no_formula(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
