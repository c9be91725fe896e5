"""Files that are either whole or absent: every result of the suite is written through here."""

import errno
import glob
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

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
        try:
            temporary.replace(path)
        except IsADirectoryError:
            move_aside(path)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def move_aside(path: Path) -> Path:
    """Rename a file, or what stands in its place, to ``<name>.damaged``; its new path."""
    for number in range(1, 100):
        aside = path.with_name(f"{path.name}.damaged" + (f"-{number}" if number > 1 else ""))
        try:
            path.replace(aside)
        except OSError as error:
            # A folder of that name, or a folder to be moved over a file.
            if error.errno not in (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return aside
    raise OSError(errno.EEXIST, "too many damaged files", str(path))


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
