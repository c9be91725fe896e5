"""One row a run of a study, whatever became of it, and the last lines that a person reads."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from implementations.backends import BACKENDS
from workflows.columns import COLUMNS, KINDS
from workflows.grid import Run, Study, plain

Row = dict[str, Any]


def rows_of(study: Study, results: Path) -> list[Row]:
    """A row for every run of the grid, in its order, from the files there are below ``results``."""
    return [_row(study.name, run, results / "runs" / run.path) for run in study.runs]


def _row(study: str, run: Run, folder: Path) -> Row:
    settings = run.settings.as_dict()
    row: Row = {
        "study": study,
        "run": run.path,
        **vars(run.variant),
        "num_points": run.variant.definition.num_points,
        "method": run.method,
        "backend": run.backend,
        "seed": run.seed,
        **settings,
        "weight": plain(settings["weight"]),
        "device": BACKENDS[run.backend][1],
    }
    record = _read(folder / "run.json")
    if record is None:
        return row | {"status": "missing", "reason": _why_missing(folder / "log.txt")}
    if record["settings"] != settings:
        return row | {"status": "missing", "reason": "run with other settings"}
    versions = {f"version_{name}": version for name, version in record["versions"].items()}
    own = {name: record[name] for name in COLUMNS if name in record and name not in row}
    return row | own | versions | _metrics(record["status"], _read(folder / "metrics.json"))


def _metrics(status: str, metrics: Row | None) -> Row:
    """The metrics of a run that ended well; without them it did not."""
    if status != "ok":
        return {}
    if metrics is None:
        return {"status": "missing", "reason": "not evaluated yet"}
    if metrics["failure"]:
        return {"status": "failed", "reason": f"evaluation: {metrics['failure']}"}
    return {name: metrics[name] for name in COLUMNS if name in metrics}


def _why_missing(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return "not run yet"
    return "not finished; the end of its log: " + next((line for line in reversed(lines) if line.strip()), "")


def _read(path: Path) -> Row | None:
    try:
        content: Row = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content


def table_of(rows: Sequence[Row]) -> Any:
    """The rows as a data frame of the columns of ``workflows.columns``, typed also where a column is empty."""
    # Not at the top: the closing lines are wanted by Snakemake's own process, which needs no pandas.
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({name: KINDS[column.kind] for name, column in COLUMNS.items()})


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a summary.csv, as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_complete(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Is every run's result there? One that diverged or was skipped has one; a failed or missing one has not."""
    return not any(row["status"] in ("failed", "missing") or row["reference_kind"] == "failed" for row in rows)


def closing_lines(rows: Sequence[Mapping[str, Any]], results: Path, most: int = 10) -> list[str]:
    """What came of a study, what is missing, where it is, and how to go on; ``results`` is its folder."""
    counts = Counter(row["status"] for row in rows)
    lines = [f"{results.name}: {counts['ok']} of {len(rows)} runs ok"]
    for status in ("skipped", "diverged", "failed", "missing"):
        for reason, runs in _by_reason(rows, status).items():
            lines.append(f"{len(runs)} {status}: {reason}")
            # Why a device is missing needs no list; whatever may be a fault does.
            lines += [f"    {run}" for run in _shortened(runs, most)] if status != "skipped" else []
    references = {row["reference_reason"] for row in rows if row["reference_kind"] == "failed"}
    lines += [f"a reference failed: {reason}" for reason in references]
    lines.append(f"summary: {results / 'summary.csv'}, and the same as summary.parquet")
    lines += [f"FAILED in the report: {failure}" for failure in report_failures(results)]
    if (results / "report.html").exists():
        lines.append(f"report: {results / 'report.html'}")
    elif (results / "report.log").exists():
        lines.append(f"report: could not be rendered, see {results / 'report.log'}")
    lines += _tracking_lines(results)
    if not is_complete(rows):
        lines.append(f"logs: {results / 'runs'}/<run>/log.txt")
        lines.append("the same command makes what is missing or failed once more, and nothing else")
    return lines


def report_failures(results: Path) -> list[str]:
    """What of the report itself failed: figures that could not be drawn and claims that could not be judged."""
    figures = _read(results / "figures.json") or {"figures": []}
    claims = _read(results / "claims.json") or {"claims": []}
    lines = [f"figure {figure['name']}: {figure['failure']}" for figure in figures["figures"] if figure["failure"]]
    return lines + [f"claim {claim['id']}: {claim['failure']}" for claim in claims["claims"] if claim["failure"]]


def tracking_failure(results: Path) -> str | None:
    """Why the study is not in MLflow, if it was tried in vain."""
    failure: str | None = (_read(results / "tracked.json") or {"failure": None})["failure"]
    return failure


def _tracking_lines(results: Path) -> list[str]:
    """Where the study is in MLflow, and how to look."""
    tracked = _read(results / "tracked.json")
    if tracked is None:
        return []
    if tracked["failure"]:
        told = f"MLflow: not tracked in {tracked['store']}: {tracked['failure']}"
        return [f"{told}; once that is put right, the same command catches up"]
    how = "look with: make ui" if tracked["store"].startswith("sqlite:///results/") else f"experiment {results.name}"
    return [f"MLflow: tracked in {tracked['store']}; {how}"]


def _by_reason(rows: Iterable[Mapping[str, Any]], status: str) -> dict[str, list[str]]:
    runs: dict[str, list[str]] = {}
    for row in rows:
        if row["status"] == status:
            runs.setdefault(row["reason"], []).append(row["run"])
    return runs


def _shortened(names: Sequence[str], most: int) -> list[str]:
    return list(names) if len(names) <= most else [*names[:most], f"and {len(names) - most} more"]
