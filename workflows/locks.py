"""One writer a folder, by a lock that the kernel takes back when its holder ends, however it ends."""

import fcntl
import os
import sys
from pathlib import Path

#: What this process holds. The files are never closed, because that would give up the lock; programs started from here
#: do not get them.
_handles: dict[Path, int] = {}


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
