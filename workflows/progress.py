"""What a person reads of a study: before it runs, while its runs finish, and at the end."""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from implementations.infrastructure.files import Damaged
from records.artefacts import read_outcome
from records.layout import read_json
from records.summary import is_complete, report_failures
from workflows.batches import expected_seconds, in_batches
from workflows.runs import Run
from workflows.study import Study

#: Seconds between two readings of the results.
INTERVAL = 1.0
#: The plan counts like this many seconds of finished runs, and at least like this share of what the whole study is
#: expected to take: the first runs are mostly compilation, and alone they would say that half an hour takes a day.
PLANNED, SHARE = 60.0, 0.1
#: Processor seconds that a batch takes besides its runs: imports, compilation and evaluation, in two processes.
OF_A_BATCH = 20.0
#: Bytes of a number of a draw.
NUMBER = 4


def plan_lines(study: Study, results: Path, num_cores: int | None = None) -> list[str]:
    """What a call would do, before it does; ``results`` is the study's folder."""
    cores = num_cores or os.cpu_count() or 1
    waiting = [run for run in study.runs if not (run.folder(results) / "run.json").exists()]
    made = len(study.runs) - len(waiting)
    lines = [f"runs: {len(waiting)} to do" + (f", {made} of {len(study.runs)} done" if made else "")]
    if not waiting:
        return lines
    seconds = sum(map(expected_seconds, waiting)) + OF_A_BATCH * len(in_batches(waiting))
    more = ", references not counted" if any(run.has_reference for run in waiting) else ""
    lines.append(f"time: {in_words(seconds / cores)} on {cores} cores{more}, give or take a factor of three")
    # A device that is missing makes no draws, but that is not known yet.
    lines.append(f"disk: about {_size(sum(map(draw_bytes, waiting)))} of draws in {results}")
    sizes = {run.variant.name: run.variant.definition.fetched_bytes for run in waiting if run.variant.definition.fetch}
    lines.append(f"downloads: {_downloads(sizes)}")
    return lines


def draw_bytes(run: Run) -> int:
    """Of the draws that a run keeps."""
    settings = run.settings
    return settings.chains * (settings.num_steps // settings.thin) * run.variant.size.num_parameters * NUMBER


def _downloads(sizes: Mapping[str, int]) -> str:
    tasks = [f"{name} ({_size(size)})" if size else name for name, size in sorted(sizes.items())]
    return f"the data of {', '.join(tasks)}, unless they are in data/ already" if tasks else "none"


def _size(num_bytes: int) -> str:
    unit, size = next(
        (pair for pair in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)) if num_bytes >= pair[1]), ("bytes", 1)
    )
    return f"{num_bytes / size:.{0 if num_bytes >= 10 * size or size == 1 else 1}f} {unit}"


class Progress:
    """Prints a line for each run of a study that finishes, in whatever process on whatever machine."""

    def __init__(
        self,
        runs: Sequence[Run],
        results: Path,
        stream: TextIO,
        num_cores: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream, self.num_cores, self.clock = stream, num_cores, clock
        self.files = {run.path: run.folder(results) / "run.json" for run in runs}
        self.expected = {run.path: expected_seconds(run) for run in runs}
        #: When the record of each run was written, for the runs that have one.
        self.written = {path: when for path, file in self.files.items() if (when := _written(file)) is not None}
        #: The runs that finished in this call, and when the first of them began.
        self.finished: set[str] = set()
        self.started_at = math.inf
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Print what is left to print."""
        self.is_over.set()
        if self.thread.is_alive():
            self.thread.join(timeout=10 * INTERVAL)
        self.update()

    def update(self) -> None:
        """Print a line for each run that has finished since the last call."""
        for path, file in self.files.items():
            when = _written(file)
            if when is None or when == self.written.get(path):
                continue
            # Between two files of one name there is a moment without a whole one; the next update finds it.
            with suppress(Damaged, OSError, LookupError, ValueError):
                record = read_json(file)
                if record is not None:
                    began, ended = (datetime.fromisoformat(record[name]) for name in ("started_at", "ended_at"))
                    seconds = (ended - began).total_seconds()
                    self.written[path] = when
                    self.finished.add(path)
                    self.started_at = min(self.started_at, self.clock() - seconds)
                    print(self._line(path, record, seconds), file=self.stream, flush=True)

    def left(self) -> float | None:
        """Seconds until all runs are done; None if none is left, or none has finished to judge by.

        The waiting runs take as long for each second that is expected of them as the finished ones have taken since the
        first of them began (before that there were data and networks, which are not made again). The plan, in which
        runs take what is expected on all cores, counts like runs that have finished.
        """
        waiting = sum(seconds for path, seconds in self.expected.items() if path not in self.written)
        finished = sum(self.expected[path] for path in self.finished)
        if not waiting or not finished:
            return None
        planned = max(PLANNED, SHARE * (waiting + finished))
        elapsed = self.clock() - self.started_at
        return waiting * (elapsed + planned / self.num_cores) / (finished + planned)

    def _line(self, path: str, record: dict[str, Any], seconds: float) -> str:
        number, total = len(self.written), len(self.files)
        parts = [f"{number:>{len(str(total))}} of {total} runs", f"{record['status']}: {path}"]
        parts += [f"{seconds:.1f} s"] if record["status"] == "ok" else [str(record.get("reason"))]
        # Of the last minute nobody needs a forecast.
        if (left := self.left()) is not None and left >= 60:
            parts.append(f"{in_words(left)} left")
        return " · ".join(parts)

    def _watch(self) -> None:
        while not self.is_over.wait(INTERVAL):
            self.update()


def _written(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def in_words(seconds: float) -> str:
    """``less than a minute``, ``about 5 min``, ``about 2.5 h``"""
    if seconds < 55:
        return "less than a minute"
    return f"about {seconds / 60:.0f} min" if seconds < 90 * 60 else f"about {seconds / 3600:.1f} h"


def closing_lines(rows: Sequence[Mapping[str, Any]], results: Path, most: int = 10) -> list[str]:
    """What came of a study, what is missing, where it is, and how to go on; ``results`` is its folder."""
    counts = Counter(row["status"] for row in rows)
    lines = [f"{results.name}: {counts['ok']} of {len(rows)} runs ok"]
    for status in ("skipped", "diverged", "failed", "missing"):
        found = [row for row in rows if row["status"] == status]
        for reason in dict.fromkeys(row["reason"] for row in found):
            runs = [row["run"] for row in found if row["reason"] == reason]
            lines.append(f"{len(runs)} {status}: {reason}")
            # A missing device needs no list; what may be a fault does.
            if status != "skipped":
                lines += [f"    {run}" for run in runs[:most]]
                lines += [f"    and {len(runs) - most} more"] if len(runs) > most else []
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


def _tracking_lines(results: Path) -> list[str]:
    """Where the study is in MLflow, and how to look."""
    tracked = read_outcome(results / "tracked.json", "tracked")
    if tracked is None:
        return []
    if tracked["failure"]:
        line = f"MLflow: not tracked in {tracked['store']}: {tracked['failure']}"
        return [f"{line}; once that is fixed, the same command catches up"]
    is_ours = tracked["store"].startswith("sqlite:///results/")
    how = "see it with: make ui, or pbnn-bench ui" if is_ours else f"experiment {results.name}"
    return [f"MLflow: tracked in {tracked['store']}; {how}"]
