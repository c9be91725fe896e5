"""Collect the runs of a study, one row each whatever became of it, as CSV and as Parquet."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from implementations.backends import BACKENDS
from implementations.infrastructure.files import Damaged
from implementations.run_files import read_run
from implementations.settings import AUTO, LADDER, SETTINGS
from records.artefacts import read_metrics, read_outcome
from records.columns import COLUMNS
from records.layout import plain
from records.methods import columns_of
from records.summary import table_of, write_summary
from records.usage import metered
from workflows.runs import Run, read_runs

Row = dict[str, Any]
#: What is measured at several N by turns (workflows.steps.timing), and its column.
TIMES = {"microseconds": "step_by_turns_us", "reading": "reading_by_turns_us"}


def rows_of(runs: Iterable[Run], results: Path) -> list[Row]:
    """A row for every run of a study, in order, from the files in ``results``, the folder of the study's results."""
    times = _times(results)
    return [
        _row(results.name, run, run.folder(results))
        | {column: times.get(run.path, {}).get(name) for name, column in TIMES.items()}
        for run in runs
    ]


def _times(results: Path) -> dict[str, Mapping[str, float]]:
    """Of the runs whose steps were timed by turns; none where that failed, was not asked for or is not there yet."""
    found: dict[str, Mapping[str, float]] = {}
    for path in sorted(results.glob("timings/*.json")):
        with suppress(Damaged):
            timings = read_outcome(path, "timing") or {}
            found |= timings.get("runs", {})
    return found


def _row(study: str, run: Run, folder: Path) -> Row:
    settings = run.settings.as_dict()
    row: Row = {
        "study": study,
        "run": run.path,
        "variant": run.variant.label,
        "label": run.label,
        **asdict(run.variant),
        "task": run.variant.name,
        "num_points": run.variant.definition.num_points,
        "method": run.method,
        **columns_of(run.card),
        "method_source": run.source,
        "backend": run.backend,
        "seed": run.seed,
        # What a pilot run chooses is not known before it.
        **{name: None if value in (AUTO, LADDER) else value for name, value in settings.items() if name in SETTINGS},
        "own_settings": json.dumps(dict(run.settings.own)) if run.settings.own else None,
        "weight": plain(settings["weight"]),
        "device": BACKENDS[run.backend][1],
    }
    try:
        record, metrics = read_run(folder, {"run": run.path}), read_metrics(folder, run.path)
    except Damaged as error:
        return row | {"status": "missing", "reason": str(error)}
    if record is None:
        return row | {"status": "missing", "reason": _why_missing(folder / "log.txt")}
    if record.get("settings") != settings:
        return row | {"status": "missing", "reason": "run with other settings"}
    # A run of an earlier version may name packages that no number depends on any more.
    versions = {
        column: version for name, version in record["versions"].items() if (column := f"version_{name}") in COLUMNS
    }
    own = {name: record[name] for name in COLUMNS if name in record and name not in row}
    if not record.get("is_peak_memory_of_run", True):
        # The largest of all runs of its process so far, for want of a better one: not this run's.
        own["peak_memory_mb"] = None
    chosen = record["tuning"]["chosen"] if "tuning" in record else {}
    if metrics is not None and metrics["made_from"]["run"] != record["sha256"]:
        metrics = None
    return row | chosen | own | versions | _metrics(record["status"], metrics)


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


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.summary", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    arguments = parser.parse_args(argv)
    try:
        with metered(arguments.results, "summary"):
            rows = rows_of(read_runs(arguments.results), arguments.results)
            write_summary(arguments.results, table_of(rows))
    except (Damaged, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
