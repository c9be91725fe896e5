"""Sample the runs of a batch, one after the other in one process, unless they are finished."""

import functools
import gc
import io
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from implementations.backends import import_library, use_one_thread
from implementations.infrastructure.artefact import Failed, Record
from implementations.infrastructure.files import Damaged
from implementations.infrastructure.provenance import git_state, machine, versions
from implementations.run import Job, run
from implementations.run_files import finished, write_run
from implementations.tasks.problem import Problem
from records.artefacts import load_problem, load_tuning, reason_of
from records.usage import Meter, metered
from workflows.locks import held, is_orphan
from workflows.runs import Run, read_runs, write_mark

#: Seconds of a run after which, and between which, its progress is shown to the person who waits.
PATIENCE = 30.0


def main(results: Path, batch: str) -> None:
    """Sample them all. What becomes of one run is nothing to the others: one that fails has a record that says so."""
    runs = read_runs(results, batch=batch)
    with metered(results, "sample", batch) as meter:
        # Runs of one seed share a problem.
        problem_of = functools.lru_cache(maxsize=1)(lambda seed: load_problem(results, runs[0].variant.label, seed))
        errors = []
        for one in sorted(runs, key=lambda one: (was_interrupted(one.folder(results)), one.seed)):
            if is_orphan():
                raise OSError(f"Snakemake was killed; the next call samples the rest of {batch}")
            try:
                make(one, results, problem_of, meter)
            except (OSError, Damaged) as error:
                # A full disk or a damaged file is for another call; the other runs may be as well as ever.
                errors.append(error)
        if errors:
            raise errors[0]
        write_mark(results, batch, "sampled", runs)


def was_interrupted(folder: Path) -> bool:
    """Was the run begun and not finished? It comes last: if it ends its process each time, it ends no other run."""
    log, record = folder / "log.txt", folder / "run.json"
    return log.exists() and not (record.exists() and record.stat().st_mtime_ns >= log.stat().st_mtime_ns)


def make(planned: Run, results: Path, problem_of: Callable[[int], Problem], meter: Meter) -> None:
    """Make a run with what becomes of it."""
    folder, tuning = planned.folder(results), planned.tuning_path(results)

    def job() -> Job:
        tuned = load_tuning(tuning, planned.tuning_identity) if tuning else None
        method = planned.source or planned.method
        return Job(problem_of(planned.seed), method, planned.settings, planned.backend, planned.seed, tuned)

    record: Record | None = None
    try:
        record = finished(folder, job().identity() | {"run": planned.path})
    except (OSError, Damaged):
        raise
    except Exception:
        # It is raised again below, and goes into the log of the run.
        pass
    if record is None:
        with logged(folder / "log.txt"), held(folder):
            with meter.clock("imports"):
                _import_once(planned.backend)
            record = outcome(planned, folder, job)
            for phase, seconds in phases_of(record, is_tuned_apart=tuning is not None).items():
                meter.add(phase, seconds)
    # Into the log of the batch: the person who waits hears of all batches together (workflows.progress).
    outcome_of = f"{record['status']}: {folder}" + (f": {record['reason']}" if record["reason"] else "")
    print(outcome_of, file=sys.stderr, flush=True)


@functools.cache
def _import_once(backend: str) -> None:
    use_one_thread(backend)
    import_library(backend)
    # What libraries are made of is never garbage: looking through it before each run would take a tenth of a second.
    gc.freeze()


def phases_of(record: Record, is_tuned_apart: bool) -> dict[str, float]:
    """Processor seconds of a run by the names of records.usage.WORK; a tuning apart is in the line of its own step."""
    columns = {
        "sampling": ("cpu_s", "warmup_cpu_s"),
        "compilation": ("compile_cpu_s",),
        "audit": ("audit_cpu_s",),
        "tuning": () if is_tuned_apart else ("tuning_cpu_s",),
    }
    seconds = {phase: sum(record.get(name, 0.0) for name in names) for phase, names in columns.items()}
    return {phase: used for phase, used in seconds.items() if used}


def outcome(planned: Run, folder: Path, job: Callable[[], Job]) -> Record:
    """The record of a run: another process's that has just finished, a new one, or that of its failure."""
    identity: dict[str, Any] = {name: getattr(planned, name) for name in ("method", "backend", "seed")}
    identity |= {"run": planned.path, "settings": planned.settings.as_dict()}
    started_at = datetime.now(UTC)
    try:
        wanted = job()
        record = finished(folder, wanted.identity() | identity)
        return record or run(wanted, folder, stream=Slow(sys.stderr, sys.stdout), place=planned.path)
    except Exception as error:
        reason = reason_of(error)
        # Where the problem is what failed, a run that is finished stays what it is.
        is_kept = isinstance(error, Failed) and finished(folder, identity)
        return is_kept or record_failure(identity, reason, started_at, folder)


def record_failure(identity: dict[str, Any], reason: str, started_at: datetime, out: Path) -> Record:
    """Write the record of a run that failed for a reason of its own, and no draws."""
    content = {
        "status": "failed",
        "reason": reason,
        "log": str(out / "log.txt"),
        "started_at": started_at.isoformat(),
        "ended_at": datetime.now(UTC).isoformat(),
        "versions": versions(),
        **git_state(),
        **machine(),
    }
    return write_run(out, identity, content, {"draws": np.zeros((0, 0, 0), np.float32)})


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Send all that is written to stderr in the block to a file, by libraries in C and by a crash too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # By lines, so that a kill loses none.
    with path.open("w", encoding="utf-8", buffering=1) as log:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            # Each run gets the warnings that Python would give once per process.
            with redirect_stderr(log), warnings.catch_warnings():
                yield
        except BaseException as error:
            traceback.print_exception(error, file=log)
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


class Slow(io.TextIOBase):
    """A stream for the log, that shows a line to the person who waits when there has been none for a while."""

    def __init__(self, log: Any, person: Any) -> None:
        self.log, self.person = log, person
        self.shown_at = time.monotonic()

    def write(self, text: str) -> int:
        self.log.write(text)
        self.log.flush()
        if text.strip() and time.monotonic() - self.shown_at >= PATIENCE:
            self.shown_at = time.monotonic()
            print(text.rstrip(), file=self.person, flush=True)
        return len(text)
