"""The artefacts of a study, each read by its place: a file that says it belongs elsewhere is damaged.

Failure is data: a step that fails writes the reason in the place of its result, and the study goes on. Only failures of
the step itself are treated so. A full disk, an interruption or a kill says nothing about a method: the job fails, and
the next call makes it again.
"""

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from implementations.infrastructure.artefact import (
    Arrays,
    Failed,
    Record,
    read_arrays,
    read_record,
    write_arrays,
    write_record,
)
from implementations.infrastructure.files import Damaged
from implementations.tasks.problem import Problem
from implementations.tuning.pilot import TunedApart
from records.layout import problem_path, reference_path, run_folder
from records.reference import Reference


def reason_of(error: Exception) -> str:
    """The error in a line, its traceback in the log; what is no failure of the step's own is raised again."""
    if isinstance(error, OSError | Damaged):
        raise error
    traceback.print_exception(error, file=sys.stderr)
    return str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"


def load_problem(results: Path, variant: str, seed: int) -> Problem:
    """The problem of a variant and seed; Failed with the reason why it could not be prepared."""
    return Problem.load(problem_path(results, variant, seed), {"variant": variant, "seed": seed})


def load_reference(
    results: Path, variant: str, weight: float, seed: int, made_from: Mapping[str, str] | None = None
) -> Reference | str:
    """The right answer of a problem at a weight, or the reason why it could not be made."""
    identity = {"variant": variant, "weight": weight, "seed": seed}
    return Reference.load(reference_path(results, variant, weight, seed), identity, made_from)


def write_tuning(path: Path, found: TunedApart, identity: Mapping[str, Any], **more: Any) -> None:
    """Write the step of one method and setting, for all its seeds."""
    write_record(path, "tuning", {**identity, **vars(found)}, **more)


def load_tuning(path: Path, identity: Mapping[str, Any]) -> TunedApart:
    """What the stage ``tune`` found; Failed with the reason why it found nothing."""
    found = read_record(path, "tuning", identity)
    if found["failure"] is not None:
        raise Failed(f"not tuned: {found['failure']}")
    return TunedApart(**{name: found[name] for name in ("record", "skipped", "seconds", "cpu_seconds")})


def write_metrics(
    results: Path,
    run: str,
    metrics: Mapping[str, Any],
    curves: Mapping[str, Any],
    made_from: Mapping[str, str],
    failure: str | None = None,
) -> None:
    """Write metrics.json and curves.npz of a run; both are empty for a run that did not end well."""
    folder, identity = run_folder(results, run), {"run": run}
    # Interrupted, this leaves no metrics next to curves of others.
    (folder / "metrics.json").unlink(missing_ok=True)
    written = write_arrays(folder / "curves.npz", "curves", curves, identity)
    sources = {**made_from, "curves": written["sha256"]}
    write_record(folder / "metrics.json", "metrics", {**identity, **metrics}, made_from=sources, failure=failure)


def read_metrics(folder: Path, run: str | None = None) -> Record | None:
    """The metrics.json of a run, None where there is none."""
    try:
        return read_record(folder / "metrics.json", "metrics", {"run": run} if run else None)
    except FileNotFoundError:
        return None


def read_curves(folder: Path, metrics: Mapping[str, Any] | None = None) -> Arrays:
    """The curves.npz of a run: the one that its metrics.json was written with."""
    metrics = metrics or read_metrics(folder)
    checksum = metrics["made_from"]["curves"] if metrics else None
    try:
        return read_arrays(folder / "curves.npz", "curves", checksum=checksum)[1]
    except FileNotFoundError:
        raise Damaged(f"{folder / 'curves.npz'} is missing") from None


def read_outcome(path: Path, kind: str) -> Record | None:
    """What became of a download, a timing or tracking; None where it was not tried."""
    try:
        return read_record(path, kind)
    except FileNotFoundError:
        return None
