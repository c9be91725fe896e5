"""What a call begins with, whatever its targets: every result of a study is read by its own reader.

Snakemake looks at dates, not into files, and where nothing seems to be missing it runs no job that could. A file that
its reader refuses has been moved aside. Failures that an earlier call reported are forgotten. A mark goes unless all
that it stands for is there. What Snakemake then finds missing it makes again; finished runs stay.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from sqlite3 import DatabaseError, connect

from implementations.infrastructure.artefact import Record, read_arrays, read_record
from implementations.infrastructure.files import Damaged, move_aside
from implementations.run_files import read_draws, read_run
from records.artefacts import read_curves, read_metrics
from records.layout import mark_path
from records.summary import check_csv, is_complete, read_rows, read_summary, report_failures
from workflows.runs import Run
from workflows.study import Study


class Inspection:
    """Reads files, and keeps a line for each that is damaged."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.lines: list[str] = []
        #: Snakemake does not miss a file behind a summary that is there.
        self.has_lost = False

    def read(self, path: Path, reader: Callable[[], Record | None]) -> Record | None:
        """What ``reader`` finds at ``path``; None, and nothing is left there, where it is damaged or a failure."""
        try:
            record = reader()
        except FileNotFoundError:
            return None
        except (Damaged, NotADirectoryError) as error:
            self.lines.append(f"{error}; it is made again")
            self._clear_way(path)
        else:
            if record is None or (record["failure"] is None and record.get("status") != "failed"):
                return record
        _remove(path)
        self.has_lost = True
        return None

    def _clear_way(self, path: Path) -> None:
        """Move aside a file or a link loop that took the place of a folder of the study on the way to ``path``."""
        for folder in reversed(path.parents):
            if folder.is_relative_to(self.results) and os.path.lexists(folder) and not folder.is_dir():
                self.lines.append(f"{folder} is no folder; moved to {move_aside(folder).name}")
                return

    def problem(self, run: Run) -> None:
        path, identity = run.problem_path(self.results), {"variant": run.variant.label, "seed": run.seed}
        self.read(path, partial(_record_of_arrays, path, "problem", identity, None))

    def reference(self, run: Run) -> None:
        path, problem = run.reference_path(self.results), run.problem_path(self.results)
        if path is not None:
            identity = {"variant": run.variant.label, "weight": run.target_weight, "seed": run.seed}
            made_from = {"problem": read_record(problem, "problem")["sha256"]} if problem.exists() else None
            self.read(path, partial(_record_of_arrays, path, "reference", identity, made_from))

    def tuning(self, run: Run) -> None:
        path = run.tuning_path(self.results)
        assert path is not None
        self.read(path, partial(read_record, path, "tuning", run.tuning_identity))

    def run(self, run: Run) -> Record | None:
        """Its record, where its draws are whole too."""
        folder = run.folder(self.results)
        record = self.read(folder / "run.json", partial(read_run, folder, {"run": run.path}))
        return record and self.read(folder / "run.json", partial(_with_arrays, record, partial(read_draws, folder)))

    def metrics(self, run: Run) -> Record | None:
        """Its metrics, where its curves are whole too."""
        folder = run.folder(self.results)
        metrics = self.read(folder / "metrics.json", partial(read_metrics, folder, run.path))
        return metrics and self.read(
            folder / "metrics.json", partial(_with_arrays, metrics, partial(read_curves, folder))
        )


def _with_arrays(record: Record, read: Callable[[Record], object]) -> Record:
    """A record, once its arrays have been read."""
    read(record)
    return record


def inspect(results: Path, study: Study) -> list[str]:
    """Read all there is in ``results``, the folder of the study; a line for each file that is damaged."""
    inspection = Inspection(results)
    for path in results.glob("data/*/fetched.json"):
        inspection.read(path, partial(read_record, path, "fetched", {"task": path.parent.name}))
    for path in results.glob("timings/*.json"):
        inspection.read(path, partial(read_record, path, "timing", {"backend": path.stem}))
    pilots = {run.tuning_path(results): replace(run, seed=study.pilot_seed) for run in study.runs if run.is_tuned_apart}
    for run in {run.problem_path(results): run for run in (*study.runs, *pilots.values())}.values():
        inspection.problem(run)
    for run in {run.reference_path(results): run for run in (*study.runs, *pilots.values())}.values():
        inspection.reference(run)
    for run in pilots.values():
        inspection.tuning(run)
    for mark in _stale_marks(inspection, study):
        inspection.has_lost |= _remove(mark)
    inspection.lines += _conclusions(results, inspection.has_lost)
    tracked = results / "tracked.json"
    found = inspection.read(tracked, partial(read_record, tracked, "tracked"))
    if found and not _is_there(found["store"]):
        _remove(tracked)
    return inspection.lines


def _stale_marks(inspection: Inspection, study: Study) -> list[Path]:
    """The marks that stand for a run which is not there, or not made from what is there.

    Of a study that was edited the marks are as they were; Snakemake compares what its jobs were asked for.
    """
    results, is_current = inspection.results, dict[tuple[str, str], bool]()
    for run in study.runs:
        record, metrics, tuning = inspection.run(run), inspection.metrics(run), run.tuning_path(results)
        sources = [path for path in (run.problem_path(results), run.reference_path(results)) if path]
        is_current["sampled", run.path] = record is not None and (tuning is None or tuning.exists())
        is_current["evaluated", run.path] = bool(
            record and metrics and metrics["made_from"]["run"] == record["sha256"]
        ) and all(path.exists() for path in sources)
    stale = []
    for batch, name in product(study.batches, ("sampled", "evaluated")):
        path = mark_path(results, batch.name, name)
        mark = inspection.read(path, partial(read_record, path, "mark", {"batch": batch.name, "name": name}))
        if mark is None or not all(is_current.get((name, run), True) for run in mark["runs"]):
            stale.append(path)
    return stale


def _record_of_arrays(
    path: Path, kind: str, identity: Mapping[str, object], made_from: dict[str, str] | None
) -> Record:
    return read_arrays(path, kind, identity, made_from=made_from)[0]


def _conclusions(results: Path, has_lost: bool) -> list[str]:
    """The summary, which goes unless it has all runs, and what of the report says whether it is whole."""
    lines, is_whole = [], False
    try:
        check_csv(results, read_summary(results))
        is_whole = not has_lost and is_complete(read_rows(results / "summary.csv"))
    except FileNotFoundError:
        pass
    except Damaged as error:
        lines.append(f"{error}; it is made again")
    if not is_whole:
        _remove(results / "summary.parquet")
        _remove(results / "summary.csv")
    try:
        has_failures = bool(report_failures(results))
    except (Damaged, OSError, LookupError, TypeError) as error:
        lines.append(f"the report cannot be read: {error}; it is made again")
        has_failures = True
        for name in ("figures.json", "claims.json"):
            _remove(results / name)
    if has_failures:
        _remove(results / "report.html")
    return lines


def _is_there(store: str) -> bool:
    """Is the database of tracked runs still there, and one? Another kind of store is asked when it is written to."""
    if not store.startswith("sqlite:///") or "?" in store:
        return True
    try:
        address = Path(store.removeprefix("sqlite:///")).absolute().as_uri()
        with closing(connect(f"{address}?mode=ro", uri=True)) as database:
            database.execute("SELECT count(*) FROM sqlite_master")
    except DatabaseError:
        return False
    return True


def _remove(path: Path) -> bool:
    """Remove a file, whatever stands in its place. Was there anything?"""
    if not os.path.lexists(path):
        return False
    if path.is_dir() and not path.is_symlink():
        move_aside(path)
    else:
        path.unlink()
    return True
