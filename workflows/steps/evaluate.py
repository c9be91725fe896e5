"""Evaluate a part of a study: metrics.json and curves.npz beside the draws of each of its runs."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from implementations.finished import read_draws, read_record
from implementations.infrastructure.files import Damaged, sealed, sha256_of, write_json, write_npz
from implementations.tasks.problem import Problem
from records.checksums import made_from
from records.failures import load_problem, load_reference, reason_of
from records.layout import problem_path, read_metrics, reference_path, run_folder
from records.marks import write_mark
from records.reference import Reference
from records.usage import metered
from workflows.evaluation import evaluate
from workflows.locks import held, is_superseded


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.evaluate", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    parser.add_argument("--variant", required=True, help="label of the task's variant")
    parser.add_argument(
        "--runs",
        type=json.loads,
        required=True,
        help="folder below runs/, seed and weight of the reference (null for none) of each, as JSON",
    )
    parser.add_argument("--out", type=Path, required=True, help="a mark that says that all of them are evaluated")
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "evaluate", str(arguments.out.parent)):
        return _evaluate(arguments)


def _evaluate(arguments: argparse.Namespace) -> int:
    results, variant = arguments.results, arguments.variant
    # Runs share problems and references; those of one seed come together, because a problem can be large.
    digest, problem_at, reference_at = cache(sha256_of), lru_cache(maxsize=1)(load_problem), cache(load_reference)
    for path, seed, weight in sorted(arguments.runs, key=lambda run: int(run[1])):
        folder = run_folder(results, path)
        problem = problem_path(results, variant, seed)
        reference = None if weight is None else reference_path(results, variant, weight, seed)
        with held(folder):
            sources = made_from(problem, folder / "run.json", reference, digest)
            if is_done(folder, sources):
                continue
            print(folder, file=sys.stderr, flush=True)
            # Interrupted, it leaves no metrics beside curves of others.
            (folder / "metrics.json").unlink(missing_ok=True)
            answer = partial(reference_at, reference) if reference else lambda: None
            metrics = outcome(folder, partial(problem_at, problem), answer)
            checksums = {"made_from": sources, "curves_sha256": sha256_of(folder / "curves.npz")}
            write_json(folder / "metrics.json", sealed(checksums | metrics))
    if is_superseded(results):
        return 1
    write_mark(arguments.out, [run_folder(results, path) / "metrics.json" for path, _, _ in arguments.runs])
    return 0


def is_done(folder: Path, sources: dict[str, str]) -> bool:
    """Are the metrics on file made from these very files, and whole?"""
    # A run.json has the checksum of its draws in it, so it stands for both.
    try:
        metrics = read_metrics(folder)
    except Damaged:
        return False
    return metrics is not None and metrics.get("made_from") == sources and not metrics["failure"]


def outcome(
    folder: Path, problem: Callable[[], Problem], reference: Callable[[], Reference | str | None]
) -> dict[str, Any]:
    """The metrics of a run, its curves written beside it; both are empty for a run that did not end well."""
    curves: dict[str, np.ndarray] = {}
    write_npz(folder / "curves.npz", curves)
    try:
        record = read_record(folder)
        if record is None or record["status"] != "ok":
            return {"failure": None}
        metrics, curves = evaluate(problem(), record, read_draws(folder, record), reference())
    except Exception as error:
        return {"failure": reason_of(error)}
    write_npz(folder / "curves.npz", curves)
    return {"failure": None, **metrics}


if __name__ == "__main__":
    sys.exit(main())
