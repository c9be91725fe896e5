"""What an earlier call left behind and the next must not take for a result: failures, damaged files, what follows them.

Snakemake looks at dates, not into files. What is taken away here it finds missing and makes again; finished runs stay.
"""

import functools
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, ParamSpec

from implementations.finished import check_archive, check_draws, read_record
from implementations.infrastructure.files import Damaged, sha256_of
from records.checksums import check_list, list_of, made_from
from records.layout import REPORT, read_metrics, read_outcome
from records.marks import is_mark_of
from records.summary import is_complete, read_rows, report_failures

Arguments = ParamSpec("Arguments")


class Job(NamedTuple):
    """The folder of a run, and the files that the run and its evaluation are made from."""

    folder: Path
    problem: Path
    #: None where the study asks for none.
    reference: Path | None


class _Inspection:
    """Calls checks that say whether a file may stay, and keeps the names of damaged ones."""

    def __init__(self) -> None:
        self.damaged: list[str] = []

    def passes(self, check: Callable[Arguments, bool], *arguments: Arguments.args, **more: Arguments.kwargs) -> bool:
        try:
            return check(*arguments, **more)
        except Damaged as error:
            self.damaged.append(str(error))
            return False


def clear_failures(results: Path, jobs: Sequence[Job], of_pilots: Sequence[Path] = ()) -> list[str]:
    """Take away failed and damaged files, from downloads to evaluations; the damaged ones, in a line each.

    A failed run keeps its record as failed.json; one whose evaluation failed keeps its draws. ``of_pilots`` are the
    problems and references that steps are tuned on.
    """
    inspection = _Inspection()
    outcomes = ("data/*/fetched.json", "timings/*.json", "tunings/*/*/*/tuned.json")
    for path in [path for pattern in outcomes for path in results.glob(pattern)]:
        if not inspection.passes(_is_no_failure, path):
            path.unlink()
    tracked = results / "tracked.json"
    if tracked.exists() and not inspection.passes(_is_tracked, tracked):
        tracked.unlink()
    for path in sorted({path for job in jobs for path in (job.problem, job.reference) if path} | set(of_pilots)):
        if path.exists() and not inspection.passes(_is_result, path):
            path.unlink()
            list_of(path).unlink(missing_ok=True)
    # Runs share problem and references.
    digest = functools.cache(sha256_of)
    for job in jobs:
        record, metrics = job.folder / "run.json", job.folder / "metrics.json"
        if record.exists() and not inspection.passes(_is_run, job.folder):
            record.replace(record.with_name("failed.json"))
        has_sources = all(path.exists() for path in (record, job.problem, job.reference) if path)
        if metrics.exists() and not (has_sources and inspection.passes(_is_evaluation, job, digest)):
            metrics.unlink()
    return inspection.damaged


def clear_marks(marks: Mapping[Path, Sequence[Path]]) -> list[str]:
    """Take away marks of parts whose files are not all what they were; the damaged marks, in a line each."""
    inspection = _Inspection()
    for mark, files in marks.items():
        if mark.exists() and not inspection.passes(is_mark_of, mark, files):
            mark.unlink()
    return inspection.damaged


def clear_conclusions(results: Path, runs: Sequence[str]) -> list[str]:
    """Take away a summary or report that is damaged, incomplete or of other runs: it is made and judged again."""
    inspection = _Inspection()
    summary, page = results / "summary.csv", results / "report.html"
    if summary.exists() and not inspection.passes(_is_whole_summary, summary, runs):
        summary.unlink()
    if page.exists() and not inspection.passes(_is_whole_report, results):
        page.unlink()
    return inspection.damaged


def _is_no_failure(path: Path) -> bool:
    outcome = read_outcome(path)
    return outcome is not None and outcome["failure"] is None


def _is_tracked(path: Path) -> bool:
    """Was it tracked? In a database file that is no longer there, or not whole, it is not."""
    store = str((read_outcome(path) or {}).get("store"))
    file = Path(store.removeprefix("sqlite:///")) if store.startswith("sqlite:///") and "?" not in store else None
    return _is_no_failure(path) and (file is None or _is_database(file))


def _is_database(path: Path) -> bool:
    """Does SQLite's header begin as it should, and is the file as long as it says?"""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError:
        return False
    # Two bytes cannot hold 65536, so 1 stands for it.
    page_size = int.from_bytes(header[16:18]) if header[16:18] != b"\x00\x01" else 65536
    num_bytes = page_size * int.from_bytes(header[28:32])
    return header.startswith(b"SQLite format 3\0") and len(header) == 100 and path.stat().st_size >= num_bytes


def _is_result(path: Path) -> bool:
    if list_of(path).exists():
        check_list(list_of(path), path.name)
    else:
        # Of an earlier version.
        check_archive(path)
    with zipfile.ZipFile(path) as archive:
        return "failure.npy" not in archive.namelist()


def _is_run(folder: Path) -> bool:
    record = read_record(folder)
    if record is None or record["status"] == "failed":
        return False
    check_draws(folder, record)
    return True


def _is_evaluation(job: Job, digest: Callable[[Path], str]) -> bool:
    metrics = read_metrics(job.folder)
    if metrics is None or metrics["failure"] is not None:
        return False
    sources = made_from(job.problem, job.folder / "run.json", job.reference, digest)
    return bool(metrics.get("made_from", sources) == sources)


def _is_whole_summary(path: Path, runs: Sequence[str]) -> bool:
    if not list_of(path).exists():
        return False
    check_list(list_of(path), path.name, "summary.parquet")
    rows = read_rows(path)
    return [row["run"] for row in rows] == list(runs) and is_complete(rows)


def _is_whole_report(results: Path) -> bool:
    checksums = list_of(results / "report.html")
    if not checksums.exists():
        return False
    check_list(checksums, *REPORT)
    return not report_failures(results)
