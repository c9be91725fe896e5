"""Is a run already finished? One answer, for the workflow and for the command line."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from implementations.infrastructure.files import Damaged, check_seal, read_npz, sha256_of

Record = dict[str, Any]

#: Statuses of a run that need not be made again. One that was skipped may find its device the next time.
FINAL = ("ok", "diverged")


def read_record(out: Path) -> Record | None:
    """The run.json in ``out``, None where there is none; Damaged where it is not a run's record."""
    path = out / "run.json"
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("status"), str):
        raise Damaged(f"{path} is damaged: not a run's record")
    check_seal(path, record)
    return record


def check_archive(path: Path) -> None:
    """Damaged where an .npz file is missing, cut short or changed since it was written."""
    try:
        with zipfile.ZipFile(path) as archive:
            changed = archive.testzip()
    except FileNotFoundError:
        raise Damaged(f"{path} is missing") from None
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    if changed:
        raise Damaged(f"{path} is damaged: wrong checksum of {changed}")


def check_draws(out: Path, record: Mapping[str, Any]) -> None:
    """Damaged where the draws.npz in ``out`` is not the one that ``record``, the run.json beside it, was written with.

    Records of earlier versions have no checksum. Their draws are taken as they are, if the archive is whole.
    """
    path = out / "draws.npz"
    if "draws_sha256" not in record:
        check_archive(path)
        return
    try:
        is_same = sha256_of(path) == record["draws_sha256"]
    except FileNotFoundError:
        raise Damaged(f"{path} is missing") from None
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error}") from None
    if not is_same:
        raise Damaged(f"{path} is damaged: its SHA-256 is not the one in run.json")


def read_draws(out: Path, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a run's draws.npz, once they are known to be those of ``record``."""
    check_draws(out, record)
    return read_npz(out / "draws.npz")


def finished(out: Path, wanted: Mapping[str, Any]) -> Record | None:
    """The record in ``out`` if it is of a finished run that has all of ``wanted``, with its draws beside it."""
    try:
        record = read_record(out)
        if record is None or record["status"] not in FINAL:
            return None
        check_draws(out, record)
    except Damaged:
        return None
    return record if all(record.get(name) == value for name, value in wanted.items()) else None
