"""The page of a report: what was drawn, judged and tabulated, as one HTML file that asks nobody for anything."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from implementations.provenance import PACKAGES
from metrics.seeds import Estimate
from reports import tables
from reports.benchmarks import HEADINGS, SECTION, Benchmarks, Row, is_met, words
from reports.parts import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Claim, FigureSpec, Verdict
from reports.study import MAX_R_HAT, StudyResults, is_converged
from reports.style import COLOURS
from workflows.columns import COLUMNS

TEMPLATES = Path(__file__).parent / "templates"
#: A picture drawn in lines is embedded as such up to this size; beyond it, one in pixels is smaller.
MAX_SVG_BYTES = 160 * 1024
OUTCOMES = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)


@dataclass(frozen=True)
class FigureResult:
    """A figure of the report: drawn, without anything to show, or failed."""

    spec: FigureSpec[Any]
    caption: str = ""
    runs: tuple[str, ...] = ()
    png: bytes = b""
    svg: bytes = b""
    #: Why there is nothing to show.
    absent: str | None = None
    #: The error, where drawing it was one.
    failure: str | None = None

    @property
    def address(self) -> str:
        """The picture itself, as a data URI."""
        kind, content = ("svg+xml", self.svg) if len(self.svg) <= MAX_SVG_BYTES else ("png", self.png)
        return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


@dataclass(frozen=True)
class ClaimResult:
    """A claim of the paper and what came of judging it."""

    claim: Claim
    verdict: Verdict
    failure: str | None = None


@dataclass(frozen=True)
class Speed:
    """What the suite's benchmarks say of the samplers' speed, or why there are none."""

    benchmarks: Benchmarks | None = None
    figures: Sequence[FigureResult] = ()
    absent: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the number it is sorted by if it is one."""

    text: str = ""
    #: A second line: the settings of a method, or half the width of an interval.
    detail: str = ""
    key: float | None = None
    #: Names for the style sheet.
    style: str = ""

    @property
    def is_number(self) -> bool:
        return self.key is not None


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


def page(
    study: StudyResults,
    figures: Sequence[FigureResult],
    claims: Sequence[ClaimResult],
    found_tables: Mapping[str, pd.DataFrame],
    failures: Sequence[str],
    speed: Speed,
) -> str:
    """The page as text: ``found_tables`` are those of ``reports.tables.all_tables``, ``failures`` what of it failed."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "interval": interval_text, "count": count}
    script, style = _read("tables.js"), _read("style.css") + _colours()
    anchors = {run: f"run-{position}" for position, run in enumerate(study.summary["run"], start=1)}
    return environment.get_template("page.html").render(
        study=study,
        origin=origin(study),
        figures=figures,
        sections=list(dict.fromkeys(figure.spec.section for figure in figures)),
        claims=claims,
        outcomes={outcome: [claim for claim in claims if claim.verdict.outcome == outcome] for outcome in OUTCOMES},
        failures=failures,
        statuses=study.summary["status"].value_counts().to_dict(),
        num_converged=int(is_converged(study.summary).sum()),
        max_r_hat=MAX_R_HAT,
        winners=_winners_table(found_tables),
        winner_rule=tables.WINNER_RULE,
        missing=found_tables.get("missing", pd.DataFrame()).to_dict("records"),
        comparisons=[_comparison_table(variant, found_tables) for variant in tables.variants(study)],
        differences=[
            _differences_table(variant, found_tables)
            for variant in tables.variants(study)
            if f"differences_{variant}" in found_tables
        ],
        coverage=_coverage_table(found_tables["coverage"]) if "coverage" in found_tables else None,
        runs=_runs_table(study, list(anchors.values())),
        columns=_columns_table(),
        speed=speed,
        speed_section=SECTION,
        **(_benchmark_parts(speed.benchmarks) if speed.benchmarks else {}),
        anchors=anchors,
        study_file=_study_file(study.name),
        # Both are files of ours; the policy lets nothing else run or be fetched.
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def origin(study: StudyResults) -> dict[str, str]:
    """Where the numbers come from: when they were made, by which code, on what. A list where runs differ."""
    rows = study.summary
    commits = [
        _commit(commit, is_dirty)
        for commit, is_dirty in rows[["git_commit", "git_is_dirty"]].dropna().drop_duplicates().itertuples(index=False)
    ]
    machines = rows[["cpu", "num_cpus", "system"]].dropna().drop_duplicates().itertuples(index=False)
    found = {
        "finished": ", ".join(_finished(rows)),
        "commit": ", ".join(commits),
        "machine": ", ".join(_machine(*machine) for machine in machines),
        "versions": ", ".join(
            f"{name} {' and '.join(versions)}"
            for name in ("python", *PACKAGES)
            if len(versions := sorted(rows[f"version_{name}"].dropna().unique()))
        ),
    }
    return {name: text or "not on file" for name, text in found.items()}


def _commit(commit: str, is_dirty: bool) -> str:
    return commit[:12] + (", changed" if is_dirty else "")


def _machine(cpu: str, num_cpus: int, system: str) -> str:
    return f"{cpu}, {num_cpus} processors, {system}"


def _finished(rows: pd.DataFrame) -> list[str]:
    """The end of the last run: the clock of the study, so that the same study gives the same page."""
    ended = rows["ended_at"].dropna()
    return [] if ended.empty else [ended.max()[:16].replace("T", " ") + " UTC"]


def _study_file(name: str) -> str:
    """The file of a study that comes with the suite, or a word for that of a user's own."""
    file = Path("workflows", "studies", f"{name}.yaml")
    return str(file) if (Path(__file__).parents[1] / file).exists() else "STUDY.yaml"


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _colours() -> str:
    return "".join(f".method-{name} {{ --method: {colour}; }}\n" for name, colour in COLOURS.items())


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# Numbers


def number(value: Any, digits: int = 3) -> str:
    """Three significant digits, or all of a whole number: ``0.0123``, ``1,234``, ``1.2e-05``; a dash for none."""
    if value is None or pd.isna(value):
        return "–"
    value = float(value)
    if value == 0 or math.isinf(value):
        text = f"{value:g}"
    elif abs(value) >= 100 or value.is_integer():
        text = f"{value:,.0f}"
    elif abs(value) < 1e-3:
        text = f"{value:.{digits - 2}e}"
    else:
        text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return _with_minus(text)


def interval_of(mean: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """A mean and half the width of its interval, which is empty without one.

    Both are told to the half's second digit, or to one more where the mean would lose its own second.
    """
    if mean is None or pd.isna(mean) or low is None or high is None or pd.isna(low) or pd.isna(high):
        return number(mean), ""
    half = (high - low) / 2
    # A constant's spread is that of rounding.
    if half <= 1e-12 * abs(mean):
        return number(mean), "± 0"
    decimals = 1 - math.floor(math.log10(half))
    if mean and math.floor(math.log10(abs(mean))) < math.floor(math.log10(half)):
        decimals += 1
    if decimals > 5:
        return _with_minus(f"{mean:.2e}"), _with_minus(f"± {half:.1e}")
    return _with_minus(f"{mean:,.{max(0, decimals)}f}"), f"± {half:,.{max(0, decimals)}f}"


def _with_minus(text: str) -> str:
    """The number with a true minus sign, and none before a zero."""
    is_zero = not any(digit in text for digit in "123456789")
    return text.replace("-", "" if is_zero else "−")


def interval_text(value: Estimate) -> str:
    """``0.512 ± 0.034``"""
    return " ".join(filter(None, interval_of(value.mean, value.low, value.high)))


def count(amount: int, noun: str) -> str:
    """``1 run``, ``2 runs``"""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def _number_cell(value: Any, style: str = "") -> Cell:
    return Cell(number(value), key=None if pd.isna(value) else float(value), style=style)


def _estimate_cell(row: Mapping[Any, Any], name: str, style: str = "") -> Cell:
    values = [row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")]
    mean, low, high = (None if value is None or pd.isna(value) else float(value) for value in values)
    text, half = interval_of(mean, low, high)
    return Cell(text, half, mean, style)


def _method_cell(row: Mapping[Any, Any]) -> Cell:
    return Cell(row["method"], row.get("setting", ""), style=f"method method-{row['method']}")


# Tables


def _meaning(name: str) -> str:
    derived = "ess_bulk_min per million likelihood and gradient evaluations"
    return COLUMNS[name].meaning if name in COLUMNS else derived


def _comparison_table(variant: str, found: Mapping[str, pd.DataFrame]) -> Table:
    frame = found[f"comparison_{variant}"]
    shown = [name for name in tables.METRICS if name in frame]
    groups: dict[str, int] = {"setting": 3, tables.CONVERGENCE: 2}
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
            _method_cell(row),
            Cell(row["backend"]),
            _number_cell(row.get("target_weight")),
            converged,
            _number_cell(row.get("r_hat_max"), warning),
        ]
        for name in shown:
            is_unresolved = row.get(f"{name}_resolved") == 0
            cells.append(_estimate_cell(row, name, "unresolved" if is_unresolved else ""))
        rows.append(cells)
    headings = ["method", "backend", "w", "converged", "R-hat"]
    meanings = {
        "w": COLUMNS["target_weight"].meaning,
        "converged": f"runs with an R-hat of at most {MAX_R_HAT}, of all runs",
        "R-hat": "largest of the seeds: " + COLUMNS["r_hat"].meaning,
    }
    return Table(
        f"comparison-{variant}",
        f"Settings on {variant}: means over seeds with 95 % intervals",
        [*headings, *(tables.METRICS[name].heading for name in shown)],
        rows,
        list(groups.items()),
        meanings | {tables.METRICS[name].heading: _meaning(name) for name in shown},
        csv=f"tables/comparison_{variant}.csv",
    )


def _differences_table(variant: str, found: Mapping[str, pd.DataFrame]) -> Table:
    frame = found[f"differences_{variant}"]
    shown = [name for name in tables.COMPARED if name in frame]
    baselines = ", ".join(dict.fromkeys(frame["baseline"]))
    rows = []
    for row in frame.to_dict("records"):
        cells = [_method_cell(row), Cell(row["backend"])]
        for name in shown:
            low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
            is_resolved = low is not None and high is not None and (low > 0 or high < 0)
            cells.append(_estimate_cell(row, name, "" if is_resolved else "unresolved"))
        rows.append(cells)
    return Table(
        f"differences-{variant}",
        f"Differences on {variant} from {baselines} of the same backend",
        ["method", "backend", *(tables.COMPARED[name] for name in shown)],
        rows,
        meanings={tables.COMPARED[name]: COLUMNS[name].meaning for name in shown},
        csv=f"tables/differences_{variant}.csv",
    )


def _winners_table(found: Mapping[str, pd.DataFrame]) -> Table | None:
    if "winners" not in found:
        return None
    rows = []
    frame = found["winners"].astype(object)
    for row in frame.where(frame.notna(), None).to_dict("records"):
        start = [
            Cell(row["variant"], row["target"]),
            Cell({"ess_per_second": "second"}.get(row["criterion"], "million evaluations")),
        ]
        candidates = Cell(f"{row['num_candidates']} of {row['num_settings']}", row["left_out"], row["num_candidates"])
        if row.get("method") is None:
            rows.append([*start, Cell("none"), *[Cell("–")] * 3, candidates])
            continue
        bias = Cell(f"{number(row['mean_error'])} sd", f"× {number(row['sd_ratio'])}", row["mean_error"])
        if row.get("rival_method") is None:
            lead = Cell("no other candidate", style="unresolved")
        else:
            rival = f"× {number(row['lead'])} over {row['rival_method']}"
            has_interval = row.get("lead_low") is not None
            ends = f"{number(row['lead_low'])} to {number(row['lead_high'])}" if has_interval else "one seed"
            lead = Cell(rival, ends, row["lead"], "" if row["is_clear"] else "unresolved")
        winner = _method_cell(row | {"setting": ", ".join(filter(None, [row["backend"], row["setting"]]))})
        rows.append([*start, winner, _estimate_cell(row, "value"), bias, lead, candidates])
    return Table(
        "winners",
        "Most effective draws for their cost, among those that are right",
        ["task and target", "ESS per", "winner", "ESS", "its bias: mean, sd", "lead", "candidates"],
        rows,
        csv="tables/winners.csv",
    )


def _coverage_table(frame: pd.DataFrame) -> Table:
    names = [name for name in frame.columns if name not in ("task", "method", "backend")]
    problems = ("diverged", "failed", "missing")
    rows = [
        [
            Cell(row["task"]),
            _method_cell(row),
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
        meanings={"converged": f"ended well, with an R-hat of at most {MAX_R_HAT}"},
        csv="tables/coverage.csv",
    )


#: What the table of runs shows of each, beside its name and status.
RUN_COLUMNS = {
    "r_hat": "R-hat",
    "ess_bulk_min": "ESS",
    "acceptance_rate": "acceptance",
    "mean_error": "mean error",
    "sd_ratio": "sd ratio",
    "ece": "ECE",
    "confidence_gap": "confidence gap",
    "nll": "NLL",
    "wall_clock_s": "seconds",
    "ess_per_second": "ESS per second",
}


def _runs_table(study: StudyResults, anchors: Sequence[str]) -> Table:
    rows = [
        [
            Cell(row["run"], style="run"),
            Cell(row["status"], style="" if row["status"] == "ok" else "warn"),
            *(_number_cell(row[name]) for name in RUN_COLUMNS),
        ]
        for row in study.summary.to_dict("records")
    ]
    return Table(
        "runs",
        "Every run of the study",
        ["run", "status", *RUN_COLUMNS.values()],
        rows,
        meanings={heading: COLUMNS[name].meaning for name, heading in RUN_COLUMNS.items()},
        anchors=anchors,
        csv="summary.csv",
    )


def _columns_table() -> Table:
    rows = [[Cell(name), Cell(column.kind), Cell(column.meaning)] for name, column in COLUMNS.items()]
    return Table("columns", "Columns of the summary", ["column", "kind", "meaning"], rows)


# The suite's benchmarks


def _benchmark_parts(benchmarks: Benchmarks) -> dict[str, Any]:
    """What the page tells of them beside their figures."""
    promises = benchmarks.promises
    commit = benchmarks.git_commit and _commit(benchmarks.git_commit, bool(benchmarks.git_is_dirty))
    return {
        "measured": {
            "machine": _machine(benchmarks.cpu, benchmarks.num_cpus, benchmarks.system),
            "versions": ", ".join(f"{name} {version}" for name, version in benchmarks.versions.items()),
            "commit": commit or "not on file",
        },
        "promises": _benchmarks_table("promises", "What is promised of a step, and what it takes", promises),
        "broken": [words(row) for row in promises if is_met(row) is False],
        "measurements": _benchmarks_table("measurements", "Every benchmark", benchmarks.rows),
    }


def _benchmarks_table(name: str, caption: str, rows: Sequence[Row]) -> Table:
    keys = {"µs": "microseconds", "ratio (quartiles)": "ratio", "at most": "target"}
    cells = [
        {heading: Cell(text, key=row.get(keys.get(heading, ""))) for heading, text in words(row).items()}
        | ({"met?": Cell("no", style="broken")} if is_met(row) is False else {})
        for row in rows
    ]
    return Table(
        name,
        caption,
        HEADINGS,
        [list(row.values()) for row in cells],
        meanings={
            "µs": "median processor time for a step of one chain, in microseconds",
            "ratio (quartiles)": "median over the rounds of its time over the other's, both timed by turns",
            "at most": "the ratio that is promised",
        },
        csv="tables/benchmarks.csv",
    )
