"""The most memory that a run had, also where its process had made other runs before."""

import ctypes
import gc
import resource
import sys
from pathlib import Path

#: What Linux tells a process of itself, and where it can be asked to forget its high-water mark.
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """The largest resident memory of this process from now to the last note, in MiB.

    It includes what the process has at the beginning, ``before_mb``: libraries, and the compiled code of earlier runs.
    What is no longer needed is given back first. The audit, which looks at all points and is no part of the sampler,
    comes after the last note. Where the system keeps one mark for the whole life of a process, ``is_of_run`` is False
    unless this is its first run.
    """

    #: Have others been measured in this process?
    _is_first = True

    def __init__(self) -> None:
        _give_back()
        self.is_of_run = _forget_the_mark() or PeakMemory._is_first
        PeakMemory._is_first = False
        self.before_mb = _status_mb("VmRSS") or _largest_mb()
        self.note()

    def note(self) -> None:
        self.mb = _status_mb("VmHWM") or _largest_mb()


def _give_back() -> None:
    """Return freed memory to the system; C's allocator keeps some of it for later."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim:
            trim(0)


def _forget_the_mark() -> bool:
    try:
        # 5 is the kernel's word for it (Documentation/filesystems/proc.rst).
        CLEAR.write_text("5")
    except OSError:
        return False
    return True


def _status_mb(name: str) -> float | None:
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(f"{name}:")), None)


def _largest_mb() -> float:
    # The system counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
