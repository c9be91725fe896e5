"""Work through a part of a study: the chains of each of its runs, unless they are finished."""

import argparse
import functools
import gc
import io
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from implementations.backends import import_library, use_one_thread
from implementations.finished import Record, finished
from implementations.infrastructure.files import sealed, sha256_of, write_json, write_npz
from implementations.infrastructure.provenance import git_state, machine, versions
from implementations.run import Job, run
from implementations.settings import Settings
from implementations.tasks.problem import Problem
from records.failures import Absent, load_problem, reason_of
from records.layout import problem_path, run_folder
from records.marks import write_mark
from records.tuning import load_tuning
from records.usage import Meter, metered
from workflows.locks import held, is_superseded

#: Seconds of a run after which, and between which, its progress is shown to the person who waits.
PATIENCE = 30.0


class Planned(NamedTuple):
    """A run as the command line has it."""

    #: Its folder below ``runs``.
    path: str
    method: str
    settings: dict[str, Any]
    seed: int
    #: The file with its step, where that is tuned for all seeds at once.
    tuned: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.sample", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    parser.add_argument("--variant", required=True, help="label of the task's variant")
    parser.add_argument("--backend", required=True)
    parser.add_argument(
        "--runs", type=json.loads, required=True, help="fields of Planned for each run, as JSON; all their settings"
    )
    parser.add_argument("--out", type=Path, required=True, help="a mark that says that all of them are made")
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "sample", str(arguments.out.parent)) as meter:
        return _sample(arguments, meter)


def _sample(arguments: argparse.Namespace, meter: Meter) -> int:
    results, backend = arguments.results, arguments.backend
    # Runs of one seed share a problem.
    problem_of = functools.lru_cache(maxsize=1)(
        lambda seed: load_problem(problem_path(results, arguments.variant, seed))
    )
    planned = [Planned(**fields) for fields in arguments.runs]
    is_made = []
    for one in sorted(planned, key=lambda one: (was_interrupted(run_folder(results, one.path)), one.seed)):
        if not is_superseded(results):
            is_made.append(make(one, run_folder(results, one.path), backend, problem_of, meter))
    if is_superseded(results):
        print(f"a later call has taken over {results}; what is left is left to it", file=sys.stderr)
        return 1
    if all(is_made):
        write_mark(arguments.out, [run_folder(results, one.path) / "run.json" for one in planned])
    return int(not all(is_made))


def was_interrupted(folder: Path) -> bool:
    """Was the run begun and not finished? It comes last: if it ends its process each time, it ends no other run."""
    log, record = folder / "log.txt", folder / "run.json"
    return log.exists() and not (record.exists() and record.stat().st_mtime_ns >= log.stat().st_mtime_ns)


def make(planned: Planned, folder: Path, backend: str, problem_of: Callable[[int], Problem], meter: Meter) -> bool:
    """Make a run with what becomes of it; False where that is for another call, because the system failed."""

    def job() -> Job:
        tuned = load_tuning(Path(planned.tuned)) if planned.tuned else None
        settings = Settings.of(planned.settings)
        return Job(problem_of(planned.seed), planned.method, settings, backend, planned.seed, tuned)

    record: Record | None = None
    # Whatever is wrong goes into its log, below.
    with suppress(Exception):
        record = finished(folder, job().identity())
    if record is None:
        try:
            with logged(folder / "log.txt"), held(folder):
                with meter.clock("imports"):
                    _import_once(backend)
                record = outcome(planned, folder, backend, job)
                for phase, seconds in phases_of(record, is_tuned_apart=planned.tuned is not None).items():
                    meter.add(phase, seconds)
        except OSError:
            return False
    # Into the part's log: the person who waits hears of all parts together (workflows.progress).
    outcome_of = f"{record['status']}: {folder}" + (f": {record['reason']}" if record["reason"] else "")
    print(outcome_of, file=sys.stderr, flush=True)
    return True


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


def outcome(planned: Planned, folder: Path, backend: str, job: Callable[[], Job]) -> Record:
    """The record of a run: another process's that has just finished, a new one, or that of its failure."""
    what = planned._asdict() | {"backend": backend}
    del what["path"], what["tuned"]
    started_at = datetime.now(UTC)
    try:
        wanted = job()
        return finished(folder, wanted.identity()) or run(wanted, folder, stream=Slow(sys.stderr, sys.stdout))
    except Exception as error:
        failure = {"status": "failed", "reason": reason_of(error), "log": str(folder / "log.txt")}
        # Where the problem is what failed, a run that is finished stays what it is.
        is_kept = isinstance(error, Absent) and finished(folder, what)
        return is_kept or record_failure(what | failure, started_at, folder)


def record_failure(what: dict[str, Any], started_at: datetime, out: Path) -> Record:
    """Write the record of a run that failed for a reason of its own, and no draws."""
    times = {"started_at": started_at.isoformat(), "ended_at": datetime.now(UTC).isoformat()}
    record = {**what, **times, "versions": versions(), **git_state(), **machine()}
    write_npz(out / "draws.npz", {"draws": np.zeros((0, 0, 0), np.float32)})
    record = sealed({**record, "draws_sha256": sha256_of(out / "draws.npz")})
    write_json(out / "run.json", record)
    return record


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


if __name__ == "__main__":
    sys.exit(main())
