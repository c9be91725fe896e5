"""The files of a run: run.json, which says what became of it, and the draws.npz that it was written with."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from implementations.infrastructure.artefact import (
    Arrays,
    Record,
    first_difference,
    read_arrays,
    read_record,
    write_arrays,
    write_record,
)
from implementations.infrastructure.files import Damaged

#: Statuses of a run that need not be made again. One that was skipped may find its device the next time.
FINAL = ("ok", "diverged")


def write_run(out: Path, identity: Mapping[str, Any], content: Mapping[str, Any], arrays: Mapping[str, Any]) -> Record:
    """Write the files of a run into ``out``; the content of its run.json."""
    # Not next to draws of another run, not even for a moment.
    (out / "run.json").unlink(missing_ok=True)
    draws = write_arrays(out / "draws.npz", "draws", arrays, identity)
    # Last, so that a run.json means a finished run.
    return write_record(out / "run.json", "run", {**identity, **content}, made_from={"draws": draws["sha256"]})


def read_run(out: Path, identity: Mapping[str, Any] | None = None) -> Record | None:
    """The run.json in ``out``, None where there is none; Damaged where it is not the record of this run."""
    try:
        return read_record(out / "run.json", "run", identity)
    except FileNotFoundError:
        return None


def read_draws(out: Path, record: Mapping[str, Any]) -> Arrays:
    """The arrays that a run wrote together with ``record``, its run.json."""
    try:
        return read_arrays(out / "draws.npz", "draws", checksum=record["made_from"]["draws"])[1]
    except FileNotFoundError:
        raise Damaged(f"{out / 'draws.npz'} is missing") from None


def finished(out: Path, identity: Mapping[str, Any]) -> Record | None:
    """The record in ``out`` if it is that of a finished run with this identity and its draws are whole."""
    try:
        record = read_run(out)
        if record is None or record["status"] not in FINAL or first_difference(record, identity):
            return None
        read_draws(out, record)
    except Damaged as error:
        print(f"{error}; the run is made again", file=sys.stderr, flush=True)
        return None
    return record
