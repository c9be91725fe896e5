"""The tables of a report: settings next to each other, the winner of each target, decisions, and every run.

A row of a comparison is a setting on a backend; its numbers are means over its seeds with 95 % intervals. Every number
follows from rows of the summary.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from metrics.seeds import Estimate, mean_of_measured
from records.columns import CONVERGENCE, FIDELITY, METRICS
from records.display import (
    distinct_settings,
    format_name,
    format_number,
    method_name,
    run_names,
    task_name,
)
from records.methods import facts_of, in_order
from records.setting_runs import CONVERGED, SettingRuns, full_data
from records.study import StudyResults
from reports.benchmarks import Benchmarks, is_met, named, ratio_text
from reports.table_model import Cell, Column, Row, Table, counts_text, filled, method_cell

#: The deviation from the reference that a winner may have, in RMS sd of the reference: a tenth of an error bar,
#: which nobody sees in a figure. A hundred independent draws resolve it.
MARGIN = 0.1


#: The columns that a comparison shows at first, the most important first.
FIRST = (
    "method",
    "num_converged",
    "sd_ratio",
    "mean_error",
    "ece",
    "ess_per_million_evaluations",
    "ess_per_second",
    "target_weight",
    "nll",
)
#: The columns whose paired differences from the full-data chain are shown.
COMPARED = {
    "ece": "ECE",
    "confidence_gap": "confidence gap",
    "nll": "NLL",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "rmse": "RMSE",
    "crps": "CRPS",
}
#: How winners are chosen.
CRITERIA = {"ess_per_second": "second", "ess_per_million_evaluations": "million evaluations"}


METHOD, BACKEND = Column("method", "method", "method"), Column("backend", "backend")


def _names(setting: SettingRuns, texts: Mapping[SettingRuns, str]) -> dict[str, Any]:
    """The first entries of a setting's row."""
    return {"method": setting["method"], "setting": texts[setting], "backend": setting["backend"]}


def _counted(words: Iterable[str | None]) -> dict[str, int]:
    """How often each word occurs; None does not count."""
    return dict(Counter(word for word in words if word is not None))


def comparison(study: StudyResults, variant: str) -> Table:
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
            row[name] = setting.estimate(name)
            if metric.group == FIDELITY and setting.has(name):
                row[f"{name}_resolved"] = sum(bool(one[f"{name}_resolved"]) for one in setting.evidence)
        rows.append(row)
    several = len({row["backend"] for row in rows}) > 1
    return Table(
        f"comparison_{variant}",
        f"Settings on {task_name(variant)}: means over seeds with 95 % intervals",
        filled(rows),
        [
            METHOD,
            BACKEND,
            Column("target_weight", "w", "given", group="setting"),
            Column("num_converged", "converged", _converged_cell, f"converged runs ({CONVERGED})", CONVERGENCE),
            Column("r_hat_max", "R-hat", "number", "largest R-hat of the seeds", CONVERGENCE, _warning),
            *(
                Column(name, metric.heading, "estimate", group=metric.group, style=_within_error(name))
                for name, metric in METRICS.items()
            ),
        ],
        "comparison",
        task_name(variant),
        first=("method", "backend", *FIRST[1:]) if several else FIRST,
        is_folded=lambda row: row["not_ok"] == {"skipped": row["num_runs"]},
        folded_as="skipped settings",
    )


def _warning(row: Row) -> str:
    return "warn" if row["num_converged"] < row["num_ok"] else ""


def _within_error(name: str) -> Callable[[Row], str]:
    return lambda row: "unresolved" if row.get(f"{name}_resolved") == 0 else ""


def _converged_cell(row: Row) -> Cell:
    text = f"{row['num_converged']} of {row['num_runs']}"
    return Cell(text, counts_text(row.get("not_ok", {})), row["num_converged"] / row["num_runs"], _warning(row))


def differences(study: StudyResults, variant: str) -> Table:
    """Paired differences of each setting from the full-data chain of the same backend, on the test points.

    Of converged runs only: a chain that has not converged says little about either side. Empty where the task has no
    full-data chain.
    """
    settings = [one for one in study.settings(variant=variant) if one.converged]
    rows = []
    texts = distinct_settings(study.all_settings)
    for setting in settings:
        baseline = full_data(one for one in settings if one["backend"] == setting["backend"])
        if baseline is None or baseline is setting:
            continue
        row = _names(setting, texts) | {"baseline": format_name(baseline)}
        rows.append(row | {name: setting.difference(baseline, name) for name in COMPARED})
    baselines = ", ".join(dict.fromkeys(row["baseline"] for row in rows))

    def style(name: str) -> Callable[[Row], str]:
        return lambda row: "" if row[name].excludes_zero else "unresolved"

    return Table(
        f"differences_{variant}",
        f"Differences on {task_name(variant)} from {baselines} of the same backend",
        filled(rows),
        [
            METHOD,
            BACKEND,
            *(Column(name, heading, "estimate", style=style(name)) for name, heading in COMPARED.items()),
        ],
        "differences",
        first=("method", "backend", *COMPARED),
    )


RESIDUAL = "audit_balance_residual"


def audited(setting: SettingRuns) -> bool:
    """Were its decisions compared with those of all the data? A method that accepts every move decides nothing."""
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


def audit(study: StudyResults, variant: str) -> Table:
    """One row per setting of a task whose decisions were audited: how often do all the data decide otherwise?

    A method that is exact by a rule of its own may decide otherwise without bias; its residual tells.
    """
    texts = distinct_settings(study.all_settings)
    rows = [
        _names(setting, texts)
        | {
            "target_weight": setting["target_weight"],
            "exactness": str(facts_of(setting["method"]).exactness),
            **{name: setting.estimate(name) for name in ("audit_wrong_accepts", "audit_wrong_rejects")},
            "points_share": points_share(setting),
            RESIDUAL: residual_of(setting),
        }
        for setting in filter(audited, study.settings(variant=variant))
    ]
    several = len({row["backend"] for row in rows}) > 1
    return Table(
        f"audit_{variant}",
        f"Decisions on {task_name(variant)} compared with those of all data: means over seeds with 95 % intervals",
        filled(rows),
        [
            METHOD,
            *([BACKEND] if several else []),
            Column("target_weight", "w", "given"),
            Column("exactness", "on paper", meaning="what the method's card says of its target"),
            Column("audit_wrong_accepts", "wrong accepts", "estimate"),
            Column("audit_wrong_rejects", "wrong rejects", "estimate"),
            Column("points_share", "points per decision / N", "estimate", "gradients not counted"),
            Column(RESIDUAL, "residual", "estimate"),
        ],
        "audits",
    )


CANDIDATE_RULE = (
    f"A setting is a candidate when all its runs have converged ({CONVERGED}), none diverged, "
    "failed or is missing, and its bias is small: "
    f"in no seed is the predictive mean resolved to be more than {MARGIN} RMS sd from the "
    f"right answer, or the predictive sd more than {100 * MARGIN:.0f} % off, and its Monte Carlo errors are below "
    f"{MARGIN}, so that such a bias would have shown."
)
WINNER_RULE = (
    "Settings of one task compete when they have the same target, that is the same weight w. "
    f"{CANDIDATE_RULE} The winner is the candidate with the most effective draws for "
    "its cost, in seconds and in evaluations of single data points. It leads clearly when the 95 % interval of its "
    "ratio to the best other method, paired by seed, lies above 1. Targets that only one setting was run on are left "
    "out. Entrants are the methods that ran at this target, with how many of their settings are candidates; a method "
    "of the study that did not run at it is named too, because nobody beat it."
)


def winners(study: StudyResults) -> Table:
    """For every target with several settings and each of CRITERIA: the winner by WINNER_RULE, or why there is none."""
    contests: dict[tuple[str, float], list[SettingRuns]] = {}
    for setting in study.all_settings:
        # A setting of which no run has begun has no target yet.
        if setting["target_weight"] is not None:
            contests.setdefault((setting["variant"], setting["target_weight"]), []).append(setting)
    rows = []
    texts = distinct_settings(study.all_settings)
    for (variant, weight), settings in contests.items():
        if len({one["label"] for one in settings}) < 2:
            continue
        num_points = max(one["num_points"] for one in settings)
        target = f"posterior, w = N = {num_points:,}" if weight == num_points else f"tempered, w = {weight:g}"
        names = {"variant": variant, "target_weight": weight, "target": target}
        others = [one for one in study.settings(variant=variant) if one not in settings]
        who = {"entrants": _entrants(settings), "not_run": _absent(settings, others)}
        rows += [names | _winner(settings, criterion, texts) | who for criterion in CRITERIA]
    return Table(
        "winners",
        "Most effective draws for their cost, among settings with a small bias",
        rows,
        [
            Column("variant", "task and target", lambda row: Cell(task_name(row["variant"]), row["target"])),
            Column("criterion", "ESS per", words=CRITERIA.__getitem__),
            Column("method", "winner", _winner_cell),
            Column("value", "ESS", "estimate"),
            Column("mean_error", "bias (mean, width)", _bias_cell),
            Column("lead", "lead", _lead_cell),
            Column(
                "entrants",
                "entrants",
                lambda row: _methods_cell(row["entrants"], counts_text(row["left_out"])),
                "methods that ran at this target, and how many of their settings are candidates",
            ),
            Column(
                "not_run",
                "not run",
                lambda row: _methods_cell(row["not_run"]),
                "methods that the study runs on this task, but not at this target",
            ),
        ],
        "winners",
        is_folded=lambda row: row.get("method") is None,
        folded_as="rows without a winner",
    )


def _entrants(settings: list[SettingRuns]) -> tuple[str, ...]:
    """``PBNN 3 of 7``: the methods that ran, and how many of their settings are candidates."""
    ran = [one for one in settings if one.ok]
    found = []
    for method in in_order(one["method"] for one in ran):
        own = [one for one in ran if one["method"] == method]
        found.append(f"{method_name(method)} {sum(why_not(one) is None for one in own)} of {len(own)}")
    return tuple(found)


def _absent(settings: list[SettingRuns], others: list[SettingRuns]) -> tuple[str, ...]:
    """The methods that the study has on this task and of which nothing ran at this target: nobody beat them."""
    ran = {one["method"] for one in settings if one.ok}
    absent = in_order(one["method"] for one in (*settings, *others) if one["method"] not in ran)
    return tuple(map(method_name, absent))


def _winner(settings: list[SettingRuns], criterion: str, texts: Mapping[SettingRuns, str]) -> dict[str, Any]:
    candidates = [one for one in settings if why_not(one) is None and one.has(criterion)]
    row: dict[str, Any] = {
        "criterion": criterion,
        "num_candidates": len(candidates),
        "num_settings": len(settings),
        "left_out": _counted(map(why_not, settings)),
    }
    if not candidates:
        return row
    best, *others = sorted(candidates, key=lambda one: -one.mean(criterion))
    row |= _names(best, texts) | {"value": best.estimate(criterion)}
    row |= {name: best.mean(name) for name in ("mean_error", "sd_ratio")}
    row["runs"] = best.runs
    rival = next((one for one in others if one["method"] != best["method"]), None)
    if rival is None:
        return row
    lead = best.ratio(rival, criterion)
    rival_names = {f"rival_{name}": value for name, value in _names(rival, texts).items()}
    return row | rival_names | {"lead": lead, "is_clear": lead.low is not None and lead.low > 1}


def _winner_cell(row: Row) -> Cell:
    if row.get("method") is None:
        return Cell("none")
    return method_cell(row["method"], ", ".join(filter(None, [row["backend"], row["setting"]])))


def _bias_cell(row: Row) -> Cell:
    if row.get("method") is None:
        return Cell("–")
    error = row["mean_error"]
    return Cell(f"{format_number(error)} RMS sd", f"× {format_number(row['sd_ratio'])}", error)


def _lead_cell(row: Row) -> Cell:
    if row.get("method") is None:
        return Cell("–")
    if row.get("rival_method") is None:
        return Cell("no other candidate", style="unresolved")
    lead = row["lead"]
    span = "" if lead.low is None else f", {format_number(lead.low)} to {format_number(lead.high)}"
    return Cell(
        "no common seeds" if lead.mean is None else f"× {format_number(lead.mean)}",
        f"over {method_name(row['rival_method'])}{span}",
        lead.mean,
        "lead" if row["is_clear"] else "lead unresolved",
    )


def _methods_cell(names: tuple[str, ...], left_out: str = "") -> Cell:
    """How many methods; unfolded, which."""
    if not names:
        return Cell("–")
    text = f"{len(names)} method{'' if len(names) == 1 else 's'}"
    notes = [f"left out: {left_out}"] if left_out else []
    return Cell(text, style="text", folded="; ".join([*names, *notes]))


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


def missing(study: StudyResults) -> Table:
    """Runs without a result, by status and reason; and references that could not be used."""
    groups: dict[tuple[str, str], list[str]] = {}
    for status in ("skipped", "diverged", "failed", "missing"):
        for row in study.rows:
            if row["status"] == status:
                groups.setdefault((status, row["reason"] or ""), []).append(row["run"])
    for row in study.rows:
        if row["status"] == "ok" and row["reference_usable"] is not None and not row["reference_usable"]:
            groups.setdefault(("no reference", row["reference_reason"] or ""), []).append(row["run"])
    rows = [
        {"status": status, "reason": reason, "num_runs": len(runs), "runs": tuple(runs)}
        for (status, reason), runs in groups.items()
    ]
    return Table("missing", "What is missing, and why", rows)


def coverage(study: StudyResults) -> Table:
    """How the runs of each task, method and backend ended, and how many of them converged."""
    groups: dict[tuple[str, str, str], list[SettingRuns]] = {}
    for setting in study.all_settings:
        groups.setdefault((setting["variant"], setting["method"], setting["backend"]), []).append(setting)
    rows = []
    statuses = ("ok", "skipped", "diverged", "failed", "missing")
    for (variant, method, backend), settings in groups.items():
        counts = Counter(row["status"] for one in settings for row in one.rows)
        row = {"task": variant, "method": method, "backend": backend, "runs": counts.total()}
        row |= {status: counts[status] for status in statuses}
        rows.append(row | {"converged": sum(len(one.converged) for one in settings)})

    counted = ("runs", *statuses, "converged")

    def style(name: str) -> Callable[[Row], str]:
        return lambda row: "warn" if row[name] and name in ("diverged", "failed", "missing") else ""

    return Table(
        "coverage",
        "How the runs of each task, method and backend ended",
        rows,
        [
            Column("task", "task", words=task_name),
            METHOD,
            BACKEND,
            *(Column(name, name, "number", style=style(name)) for name in counted),
        ],
        "missing",
        # Hide zero counts.
        first=["task", "method", "backend", *(name for name in counted if any(row[name] for row in rows))],
        is_folded=lambda row: row["skipped"] == row["runs"],
        folded_as="rows with only skipped runs",
    )


#: The numbers of a run in the table of runs.
RUN_COLUMNS = {
    "r_hat": "R-hat",
    "ess_bulk_min": "ESS",
    "acceptance_rate": "acceptance",
    "mean_error": "mean error, RMS sd",
    "sd_ratio": "sd ratio",
    "ece": "ECE",
    "confidence_gap": "confidence gap",
    "nll": "NLL",
    "wall_clock_s": "seconds",
    "ess_per_second": "ESS per second",
}


def runs_table(study: StudyResults, anchors: Mapping[str, str], pages: Collection[str] = ()) -> Table:
    """Every run; ``anchors`` are the ids of their rows, ``pages`` the runs that have a page of their own."""
    names = run_names(study.all_settings)
    rows = [{**row, "name": names[row["run"]], "anchor": anchors[row["run"]]} for row in study.rows]

    def run_cell(row: Row) -> Cell:
        link = f"pages/{row['anchor']}.html" if row["run"] in pages else ""
        return Cell(row["name"], style="run", link=link, title=row["run"])

    return Table(
        "runs",
        "Every run of the study",
        rows,
        [
            Column("run", "run", run_cell, "point at a run to see its folder"),
            Column("status", "status", lambda row: Cell(row["status"], style="" if row["status"] == "ok" else "warn")),
            *(Column(name, heading, "number") for name, heading in RUN_COLUMNS.items()),
        ],
        "runs",
        first=("run", "status", "r_hat", "ess_bulk_min", "acceptance_rate", "sd_ratio", "ece", "wall_clock_s"),
        is_folded=lambda row: row["status"] == "skipped",
        folded_as="skipped runs",
        file="summary.csv",
    )


def benchmarks(found: Benchmarks) -> Table:
    """Every row of the suite's benchmarks; ``is_met`` says whether its performance target is met, where it has one."""
    rows = [row | {"is_met": is_met(row)} for row in found.rows]

    def met_cell(row: Row) -> Cell:
        return {True: Cell("yes"), False: Cell("no", style="missed"), None: Cell("")}[row["is_met"]]

    def ratio_cell(row: Row) -> Cell:
        return Cell(ratio_text(dict(row)), key=row["ratio"])

    step = "median processor time for a step of one chain, in microseconds"
    return Table(
        "benchmarks",
        "Every benchmark",
        rows,
        [
            Column("what", "a step of", words=named),
            Column("baseline", "against", words=named),
            Column("microseconds", "µs", "number", step, words=lambda value: f"{value:,.1f}"),
            Column("ratio", "ratio (quartiles)", ratio_cell, "its time over the other's; median over the rounds"),
            Column("target", "at most", "given", "the performance target"),
            Column("is_met", "met?", met_cell),
        ],
        "speed",
    )


def all_tables(study: StudyResults) -> list[Table]:
    """Every table of a study that has a file, without the empty ones."""
    tables = [winners(study), missing(study), coverage(study)]
    for make in (comparison, differences, audit):
        tables += [make(study, variant) for variant in study.variants]
    return [table for table in tables if table.rows]
