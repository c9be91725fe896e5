"""Files that are either whole or absent: every result of the suite is written through here."""

import errno
import glob
import hashlib
import json
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

#: What zipfile and numpy raise on damaged files. An array file (.npy), which numpy reads too, is no archive.
_OF_DAMAGED_FILES = (
    *(zipfile.BadZipFile, zlib.error, ValueError, TypeError, AttributeError, LookupError, EOFError),
    *(OSError, RuntimeError, SyntaxError),
)
#: Files are written in seconds, so a temporary one that nobody has touched for so long is nobody's.
ABANDONED_SECONDS = 600


class Damaged(ValueError):
    """A file is there and cannot be used; the message names it."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour of ``path`` that takes its name only when the block ends well.

    The rename is atomic within a file system and the content is flushed before it, so after a kill, a crash or
    a full disk a reader finds the old file or the new one, never a part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        # mkstemp makes private files; results are shared like any other file the user writes.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def clear_abandoned(path: Path) -> None:
    """Remove what killed processes left of their attempts to write ``path``, and what databases keep beside theirs."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(FileNotFoundError):
            if time.time() - temporary.stat().st_mtime > ABANDONED_SECONDS:
                temporary.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a JSON file with a checksum of all of it, so that a changed number is noticed."""
    return {**content, "sha256": _digest(content)}


def check_seal(path: Path, content: Mapping[str, Any]) -> None:
    """Damaged where the content of ``path`` is not what was sealed. Files of earlier versions have no seal."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    if "sha256" in content and content["sha256"] != _digest(rest):
        raise Damaged(f"{path} is damaged: its content is not that of its SHA-256")


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_npz(path: Path, arrays: Mapping[str, Any], compress: bool = False) -> None:
    save: Callable[..., None] = np.savez_compressed if compress else np.savez
    with atomic_path(path) as temporary:
        file: BinaryIO
        with temporary.open("wb") as file:
            save(file, **arrays)


def sha256_of(path: Path) -> str:
    """The checksum of a file, as ``sha256sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file, never a pickle. Damaged where it is not one of arrays."""
    with _opened(path) as archive:
        return {name: archive[name] for name in archive.files}


def read_array(path: Path, name: str) -> np.ndarray | None:
    """One array of a file, None where it has none of this name; the others are not read."""
    with _opened(path) as archive:
        array: np.ndarray | None = archive[name] if name in archive.files else None
        return array


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    # Opened here: np.load would leave a damaged file open.
    with path.open("rb") as file:
        try:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                raise Damaged(f"{path} is a single array, as numpy.save writes it")
            with found as archive:
                yield archive
        except Damaged:
            raise
        except _OF_DAMAGED_FILES as error:
            # A place before the beginning of the file is an error of the file's; others are the system's.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            raise Damaged(f"{path} is damaged: {error or type(error).__name__}") from None
