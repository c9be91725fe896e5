"""The tables of a report as its page shows them: cells with a text and the number they are sorted by."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from metrics.seeds import Estimate
from records.columns import COLUMNS, DERIVED
from records.display import estimate_parts, format_given, format_number, method_name, run_names, task_name
from records.setting_runs import CONVERGED
from records.study import StudyResults
from records.usage import WORK
from reports import tables
from reports.benchmarks import HEADINGS, Row, is_met, words
from reports.run_page import FOLDER, page_name


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the number it is sorted by if it is one."""

    text: str = ""
    #: A second line: the settings of a method, or half the width of an interval.
    detail: str = ""
    key: float | None = None
    #: Names for the style sheet.
    style: str = ""
    #: The page that it leads to.
    link: str = ""
    #: What is shown where a reader points at it.
    title: str = ""
    #: What its text unfolds to.
    folded: str = ""

    @property
    def is_number(self) -> bool:
        return self.key is not None

    @property
    def classes(self) -> str:
        return " ".join(filter(None, ["number" if self.is_number else "", self.style]))


@dataclass(frozen=True)
class Table:
    """A table as the page shows it; the first cell of a row is its heading."""

    id: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    #: Headings above the headings: text and number of columns.
    groups: Sequence[tuple[str, int]] = ()
    #: What a heading means, for those that need it.
    meanings: Mapping[str, str] = field(default_factory=dict)
    #: Ids of the rows.
    anchors: Sequence[str] = ()
    csv: str = ""
    #: The headings shown at first, where not all; a reader picks others.
    shown: Sequence[str] = ()
    #: Which rows are folded away, and what they are called.
    folded: Sequence[bool] = ()
    folded_as: str = ""
    #: What stands above it, where it has a heading of its own.
    heading: str = ""

    def lines(self, is_folded: bool) -> list[tuple[str, Sequence[Cell]]]:
        """Its rows that are folded away, or the others, each with its id."""
        anchors, folded = self.anchors or [""] * len(self.rows), self.folded or [False] * len(self.rows)
        triples = zip(anchors, self.rows, folded, strict=True)
        return [(anchor, cells) for anchor, cells, is_away in triples if is_away == is_folded]

    @property
    def is_numeric(self) -> list[bool]:
        """Which columns have numbers; their headings stand above them on the right."""
        return [any(row[column].is_number for row in self.rows) for column in range(len(self.headings))]


def _number_cell(value: Any, style: str = "") -> Cell:
    is_empty = value is None or math.isnan(value)
    return Cell(format_number(value), key=None if is_empty else float(value), style=style)


def _given_cell(value: Any) -> Cell:
    return replace(_number_cell(value), text=format_number(value) if value is None else format_given(float(value)))


def estimate_cell(row: Mapping[Any, Any], name: str, style: str = "") -> Cell:
    values = [row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")]
    mean, low, high = (None if value is None or math.isnan(value) else float(value) for value in values)
    return Cell(*estimate_parts(Estimate(mean, low, high, 0, 0)), mean, style)


def method_cell(row: Mapping[Any, Any]) -> Cell:
    return Cell(method_name(row["method"]), row.get("setting", ""), style=f"method method-{row['method']}")


def _meaning(name: str) -> str:
    return (COLUMNS | DERIVED)[name].meaning


def comparison_table(variant: str, found: Mapping[str, pd.DataFrame]) -> Table:
    frame = found[f"comparison_{variant}"]
    shown = [name for name in tables.METRICS if name in frame]
    groups: dict[str, int] = {"": 1, "setting": 2, tables.CONVERGENCE: 2}
    for name in shown:
        groups[tables.METRICS[name].group] = groups.get(tables.METRICS[name].group, 0) + 1
    rows = []
    for row in frame.to_dict("records"):
        warning = "warn" if row["num_converged"] < row["num_ok"] else ""
        converged = Cell(
            f"{row['num_converged']} of {row['num_runs']}",
            row["not_ok"],
            key=row["num_converged"] / row["num_runs"],
            style=warning,
        )
        cells = [
            method_cell(row),
            Cell(row["backend"]),
            _given_cell(row.get("target_weight")),
            converged,
            _number_cell(row.get("r_hat_max"), warning),
        ]
        for name in shown:
            is_unresolved = row.get(f"{name}_resolved") == 0
            cells.append(estimate_cell(row, name, "unresolved" if is_unresolved else ""))
        rows.append(cells)
    headings = ["method", "backend", "w", "converged", "R-hat"]
    meanings = {
        "w": COLUMNS["target_weight"].meaning,
        "converged": f"converged runs ({CONVERGED}), of all runs",
        "R-hat": "largest of the seeds: " + COLUMNS["r_hat"].meaning,
    }
    return Table(
        f"comparison-{variant}",
        f"Settings on {task_name(variant)}: means over seeds with 95 % intervals",
        [*headings, *(tables.METRICS[name].heading for name in shown)],
        rows,
        list(groups.items()),
        meanings | {tables.METRICS[name].heading: _meaning(name) for name in shown},
        csv=f"tables/comparison_{variant}.csv",
        shown=_at_first(headings, [tables.METRICS[name].heading for name in shown], frame["backend"].nunique() > 1),
        folded=[row["not_ok"] == f"{row['num_runs']} skipped" for row in frame.to_dict("records")],
        folded_as="skipped settings",
        heading=task_name(variant),
    )


#: Headings of the audit of decisions.
AUDITED = {
    "audit_wrong_accepts": "wrong accepts",
    "audit_wrong_rejects": "wrong rejects",
    "points_share": "points per decision / N",
    "audit_balance_residual": "residual",
}
#: Columns of a comparison in the order in which they are wanted, after method and backend.
WANTED = (
    "converged",
    "sd ratio",
    "mean error, RMS sd",
    "ECE",
    "ESS per million evaluations",
    "ESS per second",
    "w",
    "NLL",
)
#: A table wider than this is not taken in at a glance.
NUM_SHOWN = 8


def _at_first(names: Sequence[str], metrics: Sequence[str], has_backends: bool) -> list[str]:
    """The headings of a comparison that are shown at first, in its order."""
    first = ["method", *(["backend"] if has_backends else [])]
    wanted = [*first, *(name for name in WANTED if name in (*names, *metrics))][:NUM_SHOWN]
    return [name for name in (*names, *metrics) if name in wanted]


def differences_table(variant: str, found: Mapping[str, pd.DataFrame]) -> Table:
    frame = found[f"differences_{variant}"]
    shown = [name for name in tables.COMPARED if name in frame]
    baselines = ", ".join(dict.fromkeys(frame["baseline"]))
    rows = []
    for row in frame.to_dict("records"):
        cells = [method_cell(row), Cell(row["backend"])]
        for name in shown:
            low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
            is_resolved = low is not None and high is not None and (low > 0 or high < 0)
            cells.append(estimate_cell(row, name, "" if is_resolved else "unresolved"))
        rows.append(cells)
    return Table(
        f"differences-{variant}",
        f"Differences on {task_name(variant)} from {baselines} of the same backend",
        ["method", "backend", *(tables.COMPARED[name] for name in shown)],
        rows,
        meanings={tables.COMPARED[name]: COLUMNS[name].meaning for name in shown},
        csv=f"tables/differences_{variant}.csv",
        shown=["method", "backend", *(tables.COMPARED[name] for name in shown)][:NUM_SHOWN],
    )


def audit_table(variant: str, found: Mapping[str, pd.DataFrame]) -> Table:
    frame = found[f"audit_{variant}"]
    has_backends = frame["backend"].nunique() > 1
    shown = {name: heading for name, heading in AUDITED.items() if name in frame}
    rows = [
        [
            method_cell(row),
            *([Cell(row["backend"])] if has_backends else []),
            _given_cell(row.get("target_weight")),
            Cell(str(row["exactness"])),
            *(estimate_cell(row, name) for name in shown),
        ]
        for row in frame.to_dict("records")
    ]
    return Table(
        f"audit-{variant}",
        f"Decisions on {task_name(variant)} beside those of all data: means over seeds with 95 % intervals",
        ["method", *(["backend"] if has_backends else []), "w", "on paper", *shown.values()],
        rows,
        meanings={
            "w": COLUMNS["target_weight"].meaning,
            "on paper": "what the method's card says of its target",
            AUDITED["audit_wrong_accepts"]: _meaning("audit_wrong_accepts"),
            AUDITED["audit_wrong_rejects"]: _meaning("audit_wrong_rejects"),
            AUDITED["points_share"]: "points that a decision reads, as a share of the data; gradients not counted",
            "residual": f"{_meaning('audit_balance_residual')}; its interval is that of the audit, converged or not",
        },
        csv=f"tables/audit_{variant}.csv",
    )


def _names_cell(names: str | None, note: str = "") -> Cell:
    """How many methods; unfolded, which."""
    if not names:
        return Cell("–")
    amount = names.count(";") + 1
    return Cell(
        f"{amount} method{'' if amount == 1 else 's'}", style="text", folded="; ".join(filter(None, [names, note]))
    )


def _range(row: Mapping[Any, Any]) -> str:
    if row.get("lead_low") is None:
        return ""
    return f", {format_number(row['lead_low'])} to {format_number(row['lead_high'])}"


def winners_table(found: Mapping[str, pd.DataFrame]) -> Table | None:
    if "winners" not in found:
        return None
    rows = []
    frame = found["winners"].astype(object)
    targets = frame.where(frame.notna(), None).to_dict("records")
    for row in targets:
        start = [
            Cell(task_name(row["variant"]), row["target"]),
            Cell({"ess_per_second": "second"}.get(row["criterion"], "million evaluations")),
        ]
        left_out = f"left out: {row['left_out']}" if row["left_out"] else ""
        entrants = _names_cell(row["entrants"], left_out), _names_cell(row["not_run"])
        if row.get("method") is None:
            rows.append([*start, Cell("none"), *[Cell("–")] * 3, *entrants])
            continue
        bias = Cell(
            f"{format_number(row['mean_error'])} RMS sd", f"× {format_number(row['sd_ratio'])}", row["mean_error"]
        )
        if row.get("rival_method") is None:
            lead = Cell("no other candidate", style="unresolved")
        else:
            # The name on a line of its own, which may wrap: the table keeps its width.
            lead = Cell(
                "no common seeds" if row["lead"] is None else f"× {format_number(row['lead'])}",
                f"over {method_name(row['rival_method'])}{_range(row)}",
                row["lead"],
                "lead" if row["is_clear"] else "lead unresolved",
            )
        winner = method_cell(row | {"setting": ", ".join(filter(None, [row["backend"], row["setting"]]))})
        rows.append([*start, winner, estimate_cell(row, "value"), bias, lead, *entrants])
    return Table(
        "winners",
        "Most effective draws for their cost, among settings with a small bias",
        ["task and target", "ESS per", "winner", "ESS", "bias (mean, width)", "lead", "entrants", "not run"],
        rows,
        meanings={
            "entrants": "methods that ran at this target, and how many of their settings are candidates",
            "not run": "methods that the study runs on this task, but not at this target",
        },
        csv="tables/winners.csv",
        folded=[row.get("method") is None for row in targets],
        folded_as="rows without a winner",
    )


def coverage_table(frame: pd.DataFrame) -> Table:
    names = [name for name in frame.columns if name not in ("task", "method", "backend")]
    problems = ("diverged", "failed", "missing")
    rows = [
        [
            Cell(task_name(row["task"])),
            method_cell(row),
            Cell(row["backend"]),
            *(_number_cell(row[name], "warn" if name in problems and row[name] else "") for name in names),
        ]
        for row in frame.to_dict("records")
    ]
    return Table(
        "coverage",
        "How the runs of each task, method and backend ended",
        ["task", "method", "backend", *names],
        rows,
        meanings={"converged": f"ended well, and converged ({CONVERGED})"},
        csv="tables/coverage.csv",
        # Of what did not happen, the zeros can wait.
        shown=[
            *("task", "method", "backend"),
            *(name for name in names if name in ("runs", "ok", "converged") or frame[name].any()),
        ][:NUM_SHOWN],
        folded=list(frame["skipped"] == frame["runs"]),
        folded_as="rows with only skipped runs",
    )


def budget_table(seconds: Mapping[str, float]) -> Table:
    """Where the processor time of a study went (records.usage.budget)."""
    total = sum(seconds.values())
    rows = [
        [Cell(kind), _number_cell(used), _number_cell(100 * used / total), Cell(WORK.get(kind, ""))]
        for kind, used in seconds.items()
    ]
    rows.append([Cell("all"), _number_cell(total), _number_cell(100.0), Cell("all calls, without rendering this page")])
    headings = ["work", "processor seconds", "%", "what it is"]
    return Table("budget", "Where the processor time of this study went", headings, rows)


#: What the table of runs shows of each, beside its name and status.
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


#: Those of them that are shown at first.
RUNS_SHOWN = ("r_hat", "ess_bulk_min", "acceptance_rate", "sd_ratio", "ece", "wall_clock_s")


def runs_table(study: StudyResults, anchors: Sequence[str], pages: Collection[str] = ()) -> Table:
    links = [f"{FOLDER}/{name}" if (name := page_name(anchor)) in pages else "" for anchor in anchors]
    names = run_names(study.all_settings)
    rows = [
        [
            Cell(names[row["run"]], style="run", link=link, title=row["run"]),
            Cell(row["status"], style="" if row["status"] == "ok" else "warn"),
            *(_number_cell(row[name]) for name in RUN_COLUMNS),
        ]
        for row, link in zip(study.rows, links, strict=True)
    ]
    return Table(
        "runs",
        "Every run of the study",
        ["run", "status", *RUN_COLUMNS.values()],
        rows,
        meanings={
            "run": "point at a run to see its folder",
            **{heading: COLUMNS[name].meaning for name, heading in RUN_COLUMNS.items()},
        },
        anchors=anchors,
        csv="summary.csv",
        shown=["run", "status", *(RUN_COLUMNS[name] for name in RUNS_SHOWN)],
        folded=[row["status"] == "skipped" for row in study.rows],
        folded_as="skipped runs",
    )


def columns_table() -> Table:
    rows = [[Cell(name), Cell(column.kind), Cell(column.meaning)] for name, column in COLUMNS.items()]
    return Table("columns", "Columns of the summary", ["column", "kind", "meaning"], rows)


def benchmarks_table(name: str, caption: str, rows: Sequence[Row]) -> Table:
    keys = {"µs": "microseconds", "ratio (quartiles)": "ratio", "at most": "target"}
    cells = [
        {heading: Cell(text, key=row.get(keys.get(heading, ""))) for heading, text in words(row).items()}
        | ({"met?": Cell("no", style="missed")} if is_met(row) is False else {})
        for row in rows
    ]
    return Table(
        name,
        caption,
        HEADINGS,
        [list(row.values()) for row in cells],
        meanings={
            "µs": "median processor time for a step of one chain, in microseconds",
            "ratio (quartiles)": "its time over the other's, timed in turns; median over the rounds",
            "at most": "the performance target",
        },
        csv="tables/benchmarks.csv",
    )
