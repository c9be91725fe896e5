"""While a study runs: one line per finished run, how many runs are left, and about how long they take."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from implementations.infrastructure.files import Damaged
from records.layout import read_json
from workflows.batches import expected_seconds
from workflows.runs import Run

#: Seconds between two readings of the results.
INTERVAL = 1.0
#: Jobs whose own lines say nothing that the lines of the runs do not say.
OF_RUNS = ("sample", "evaluate", "all")
#: The plan counts like this many seconds of finished runs, and at least like this share of what the whole study is
#: expected to take: the first runs are mostly compilation, and alone they would say that half an hour takes a day.
PLANNED, SHARE = 60.0, 0.1


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


class Quiet(logging.Filter):
    """Keeps Snakemake's talk of jobs off the terminal; its log file has all of it."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self.stream = stream

    def filter(self, record: logging.LogRecord) -> bool:
        event = getattr(getattr(record, "event", None), "value", None)
        message = getattr(record, "rule_msg", None)
        if event == "job_info" and message:
            if self.stream is not None and getattr(record, "rule_name", "") not in OF_RUNS:
                print(message, file=self.stream, flush=True)
            return False
        is_chatter = event in ("job_started", "job_finished", "progress", "resources_info")
        return not (is_chatter or record.getMessage().startswith("Select jobs to execute"))


def hush(logger: logging.Logger, stream: TextIO | None) -> None:
    """Send what only Snakemake needs to know to its log file alone; the names of other jobs than runs to ``stream``."""
    for handler in logger.handlers:
        if handler.get_name() == "DefaultStreamHandler":
            handler.addFilter(Quiet(stream))
