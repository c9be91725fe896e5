"""One writer a folder, by a lock that the kernel takes back when its holder ends, however it ends.

After kill -9 of Snakemake its jobs live on. The next call's job for the same folder waits here for the orphan's end,
and an orphan begins nothing new.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What this process holds. The files are never closed, because that would give up the lock; programs started from here
#: do not inherit them.
_handles: dict[Path, int] = {}
#: The process that started this one: rules start their steps by ``exec``, so it is Snakemake.
_PARENT = os.getppid()


class Held(RuntimeError):
    """Another process works in the folder."""


def hold(folder: Path, *, is_patient: bool) -> None:
    """Keep others out of ``folder`` until this process ends; where one is in it, wait for its end or raise Held."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    if folder in _handles:
        return
    try:
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        # Results that nobody may write to can be read all the same.
        print(f"{folder} cannot be locked ({error.strerror}); going on without", file=sys.stderr, flush=True)
        return
    _handles[folder] = handle
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
    """Keep others out of ``folder`` in the block. A process that waits for one folder holds no other."""
    hold(folder, is_patient=True)
    try:
        yield
    finally:
        if (handle := _handles.pop(folder.resolve(), None)) is not None:
            os.close(handle)


def is_orphan() -> bool:
    """Has Snakemake been killed? Another call may want something else in the same folders by now."""
    return os.getppid() != _PARENT
