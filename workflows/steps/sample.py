"""Run the chains of one method, setting, backend and seed on one problem."""

import argparse
import io
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from implementations.files import write_json, write_npz
from implementations.methods import Settings
from implementations.provenance import git_state, machine, versions
from implementations.run import Job, run
from workflows.failures import load_problem, reason_of
from workflows.locks import hold

#: Seconds of a run after which, and between which, its progress is shown to the person who waits.
PATIENCE = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.sample", description=__doc__)
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--method", required=True)
    parser.add_argument("--settings", type=json.loads, required=True, help="all settings of the method, as JSON")
    parser.add_argument("--backend", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="run.json; draws.npz is put beside it")
    arguments = parser.parse_args(argv)
    out = arguments.out.parent
    hold(out, is_patient=True)
    what = {name: getattr(arguments, name) for name in ("method", "settings", "backend", "seed")}
    started_at = datetime.now(UTC)
    try:
        problem = load_problem(arguments.problem)
        job = Job(problem, arguments.method, Settings(**arguments.settings), arguments.backend, arguments.seed)
        record = finished(job, out) or run(job, out, stream=Slow(sys.stderr, sys.stdout))
    except Exception as error:
        failure = {"status": "failed", "reason": reason_of(error), "log": str(out / "log.txt")}
        record = record_failure(what | failure, started_at, out)
    print(f"{record['status']}: {out}" + (f": {record['reason']}" if record["reason"] else ""), flush=True)
    return 0


def finished(job: Job, out: Path) -> dict[str, Any] | None:
    """The record of this very job, where a process that outlived its Snakemake has just ended it."""
    try:
        record: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return record if job.identity().items() <= record.items() else None


def record_failure(what: dict[str, Any], started_at: datetime, out: Path) -> dict[str, Any]:
    """Write the record of a run that failed for a reason of its own, and no draws."""
    times = {"started_at": started_at.isoformat(), "ended_at": datetime.now(UTC).isoformat()}
    record = {**what, **times, "versions": versions(), **git_state(), **machine()}
    write_npz(out / "draws.npz", {"draws": np.zeros((0, 0, 0), np.float32)})
    write_json(out / "run.json", record)
    return record


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
