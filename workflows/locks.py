"""One writer a folder, by a lock that the kernel takes back when its holder ends, however it ends."""

import fcntl
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What this process holds. The files are never closed, because that would give up the lock; programs started from here
#: do not get them.
_handles: dict[Path, int] = {}

#: The environment variable by which jobs know the call that started them.
CALL = "STUDY_CALL"


class Held(RuntimeError):
    """Another process works in the folder."""


def hold(folder: Path, *, is_patient: bool) -> None:
    """Keep others out of ``folder`` until this process ends; where one is in it, wait for its end or raise Held.

    After kill -9 of Snakemake its jobs live on. The next one's job for the same folder waits here, so that no file
    changes its date behind Snakemake's back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    if folder in _handles:
        return
    handle = _handles[folder] = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not is_patient:
            os.close(_handles.pop(folder))
            raise Held(f"another process works in {folder}") from None
        print(f"waiting for another process that works in {folder}", file=sys.stderr, flush=True)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems have no locks. Files are whole or absent all the same.
        print(f"{folder} cannot be locked ({error}); going on without", file=sys.stderr, flush=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep others out of ``folder`` in the block, after waiting for whoever is in it.

    Whoever needs several folders takes one after the other, and never waits for one while it holds another.
    """
    hold(folder, is_patient=True)
    try:
        yield
    finally:
        os.close(_handles.pop(folder.resolve()))


def take(results: Path) -> None:
    """Sign the lock of a study that this process holds, for the jobs it starts and those of earlier calls to see."""
    os.environ[CALL] = uuid.uuid4().hex
    handle = _handles[results.resolve()]
    os.truncate(handle, 0)
    os.pwrite(handle, os.environ[CALL].encode(), 0)
    # For other machines, since the file stays open.
    os.fsync(handle)


def is_superseded(results: Path) -> bool:
    """Has another call taken the study since the one that started this process? That one was killed then, and the other
    may want something else in the same folders."""
    call = os.environ.get(CALL)
    try:
        last = (results / ".lock").read_text()
    except OSError:
        return False
    return call is not None and last not in ("", call)
