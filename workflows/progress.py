"""While a study runs: one line per finished run, how many are left, and about how long they take."""

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from implementations.infrastructure.files import Damaged
from records.layout import read_json, run_folder
from workflows.batches import expected_seconds
from workflows.runs import Run

#: Seconds between two looks at the results.
INTERVAL = 1.0
#: Jobs whose own lines say nothing that those of the runs do not.
OF_RUNS = ("sample", "evaluate", "all")
#: The plan counts like so many seconds of finished runs, and at least like this share of all it expects. The first of
#: them are mostly compilation or of one task, and alone they would say that a study of half an hour takes a day.
PLANNED, SHARE = 60.0, 0.1


class Progress:
    """Tells of the runs of a study as they finish, by whatever process on whatever machine that has its folder."""

    def __init__(
        self,
        runs: Sequence[Run],
        results: Path,
        stream: TextIO,
        num_cores: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paths: dict[Run, Path] = {}
        #: Worked out once: they ask for the task of each run.
        self.kinds: dict[Run, tuple[str, str, str]] = {}
        self.expected: dict[Run, float] = {}
        self.results, self.stream, self.num_cores, self.clock = results, stream, num_cores, clock
        #: When the first began of the runs that finished in this call.
        self.started_at = math.inf
        #: When the record of each run was written, for those that have one.
        self.times: dict[Run, int] = {}
        #: Seconds of each run that finished in this call.
        self.seconds: dict[Run, float] = {}
        self.add(runs)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def add(self, runs: Sequence[Run]) -> None:
        """Tell of these too, which a look at the claims may have asked for."""
        for run in runs:
            if run in self.paths:
                continue
            path = run_folder(self.results, run.path) / "run.json"
            self.kinds[run] = run.variant.label, run.method, run.backend
            self.expected[run] = expected_seconds(run)
            if (when := _written(path)) is not None:
                self.times[run] = when
            # Last, as the thread goes by these.
            self.paths[run] = path

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Tell of what is left to tell."""
        self.is_over.set()
        self.thread.join(timeout=10 * INTERVAL)
        self.look()

    def look(self) -> None:
        """A line for each run that finished since the last look."""
        for run, path in list(self.paths.items()):
            when = _written(path)
            if when is None or when == self.times.get(run):
                continue
            # Between two files of one name there is a moment without a whole one; the next look finds it.
            with suppress(Damaged, OSError, LookupError, ValueError):
                record = read_json(path)
                if record is not None:
                    self.seconds[run] = _seconds(record)
                    self.times[run] = when
                    self.started_at = min(self.started_at, self.clock() - self.seconds[run])
                    print(self._line(run, record), file=self.stream, flush=True)

    def left(self) -> float | None:
        """Seconds until all are done; None where none is, or none has finished to judge by.

        What finished runs took over what was expected of them, of the same task, method and backend where there are
        any, times what is expected of the others. How many run at a time, and what else is done, is in the time since
        the first of them began; before that there were data and networks, which are not made again. The plan, in which
        runs take what is expected on all cores, weighs less and less.
        """
        waiting = [run for run in list(self.paths) if run not in self.times]
        spent = sum(self.seconds.values())
        if not waiting or spent <= 0:
            return None
        planned = max(PLANNED, SHARE * sum(self.expected[run] for run in (*waiting, *self.seconds)))
        expected: defaultdict[Any, float] = defaultdict(float, {None: planned})
        taken: defaultdict[Any, float] = defaultdict(float, {None: planned})
        for run, seconds in self.seconds.items():
            for kind in (self.kinds[run], None):
                expected[kind] += self.expected[run]
                taken[kind] += seconds
        total = 0.0
        for run in waiting:
            known = self.kinds[run] if self.kinds[run] in taken else None
            total += self.expected[run] * taken[known] / expected[known]
        elapsed = self.clock() - self.started_at
        return total * (elapsed + planned / self.num_cores) / (spent + planned)

    def _line(self, run: Run, record: dict[str, Any]) -> str:
        number, total = len(self.times), len(self.paths)
        left = self.left()
        parts = [f"{number:>{len(str(total))}} of {total} runs", f"{record['status']}: {run.path}"]
        parts += [f"{self.seconds[run]:.1f} s"] if record["status"] == "ok" else [str(record.get("reason"))]
        parts += [] if left is None else [f"{in_words(left)} left"]
        return " · ".join(parts)

    def _watch(self) -> None:
        while not self.is_over.wait(INTERVAL):
            self.look()


def _written(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _seconds(record: dict[str, Any]) -> float:
    """From the beginning of a run to its end."""
    start, end = (datetime.fromisoformat(record[name]) for name in ("started_at", "ended_at"))
    return (end - start).total_seconds()


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
