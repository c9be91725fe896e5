"""Failure is data: a step that fails writes the reason in the place of its result, and the study goes on.

Only failures of the step itself are treated so. A full disk, an interruption or a kill says nothing about a method: the
job fails, and the next call makes it again. Reasons are cleared once they have been reported (``workflows.recovery``),
so the next call makes these jobs again too.
"""

import sys
import traceback
from pathlib import Path

from implementations.infrastructure.files import Damaged, read_array, write_npz
from implementations.tasks.problem import Problem
from records.reference import Reference


class Absent(RuntimeError):
    """A file holds no result but the reason why there is none."""


def reason_of(error: Exception) -> str:
    """The error in a line, its traceback in the log; an error of the system's (a full disk, say) is raised again."""
    if isinstance(error, OSError):
        raise error
    traceback.print_exception(error, file=sys.stderr)
    return str(error) if isinstance(error, Absent | Damaged) else f"{type(error).__name__}: {error}"


def write_failure(path: Path, reason: str) -> None:
    """Write ``reason`` in the place of an .npz file."""
    write_npz(path, {"failure": reason})


def read_failure(path: Path) -> str | None:
    """The reason that stands in the place of an .npz file, if one does."""
    reason = read_array(path, "failure")
    return None if reason is None else str(reason)


def load_problem(path: Path) -> Problem:
    """The problem, or Absent with the reason why it could not be prepared."""
    reason = read_failure(path)
    if reason is not None:
        raise Absent(f"no problem: {reason}")
    return Problem.load(path)


def load_reference(path: Path) -> Reference | str:
    """The reference, or the reason why it could not be made."""
    return read_failure(path) or Reference.load(path)
