"""Failure is data: a step that fails leaves the reason in the place of its result, and the study goes on.

Only a failure of the step's own is treated so. A full disk, an interruption or a kill says nothing about a method: the
job fails, and is made again by the next call. Reasons are cleared away when a person has been told of them, so the next
call makes these jobs again too.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from implementations.files import write_npz
from implementations.tasks.problem import Problem
from implementations.tasks.reference import Reference


class Absent(RuntimeError):
    """A file holds no result but the reason why there is none."""


def reason_of(error: Exception) -> str:
    """The error in a line, its traceback in the log; an error of the system's (a full disk, say) is raised again."""
    if isinstance(error, OSError):
        raise error
    traceback.print_exception(error, file=sys.stderr)
    return str(error) if isinstance(error, Absent) else f"{type(error).__name__}: {error}"


def leave(path: Path, reason: str) -> None:
    """Put ``reason`` in the place of an .npz file."""
    write_npz(path, {"failure": reason})


def reason_in(path: Path) -> str | None:
    """The reason that stands in the place of an .npz file, if one does."""
    with np.load(path, allow_pickle=False) as archive:
        return str(archive["failure"]) if "failure" in archive.files else None


def load_problem(path: Path) -> Problem:
    """The problem, or Absent with the reason why it could not be prepared."""
    reason = reason_in(path)
    if reason is not None:
        raise Absent(f"no problem: {reason}")
    return Problem.load(path)


def load_reference(path: Path) -> Reference | str:
    """The reference, or the reason why it could not be made."""
    return reason_in(path) or Reference.load(path)


def clear(results: Path) -> None:
    """Take failures out of the way, so that Snakemake finds them missing and makes them again.

    A failed run keeps its record as failed.json; one whose evaluation failed keeps its draws.
    """
    for path in results.glob("data/*/fetched.json"):
        if _content(path)["failure"]:
            path.unlink()
    for path in [*results.glob("problems/*/*/problem.npz"), *results.glob("references/*/*/*/reference.npz")]:
        if reason_in(path):
            path.unlink()
    for path in results.glob("runs/*/*/*/*/run.json"):
        if _content(path)["status"] == "failed":
            path.replace(path.with_name("failed.json"))
    for path in results.glob("runs/*/*/*/*/metrics.json"):
        if _content(path)["failure"]:
            path.unlink()
            variant, _, _, seed = path.parent.relative_to(results / "runs").parts
            for done in results.glob(f"evaluations/{variant}/{seed}/*/done"):
                done.unlink()


def _content(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
