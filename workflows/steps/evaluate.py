"""Evaluate the runs of a batch: metrics.json and curves.npz next to the draws of each of its runs."""

import sys
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from implementations.infrastructure.artefact import Record, read_record
from implementations.infrastructure.files import Damaged
from implementations.run_files import read_draws, read_run
from implementations.tasks.problem import Problem
from records.artefacts import load_problem, load_reference, read_curves, read_metrics, reason_of, write_metrics
from records.evaluation import evaluate
from records.reference import Reference
from records.usage import metered
from workflows.locks import held, is_orphan
from workflows.runs import Run, read_runs, write_mark

Metrics = dict[str, Any]


def main(results: Path, batch: str) -> None:
    """Evaluate what has changed since it was evaluated last."""
    runs = read_runs(results, batch=batch)
    with metered(results, "evaluate", batch):
        # Runs share problems and references; those of one seed come together, because a problem can be large.
        checksum = cache(lambda path, kind: read_record(path, kind)["sha256"])
        problem_of = lru_cache(maxsize=1)(partial(load_problem, results))
        reference_of = cache(partial(load_reference, results))
        for run in sorted(runs, key=lambda run: run.seed):
            if is_orphan():
                raise OSError(f"Snakemake was killed; the next call evaluates the rest of {batch}")
            with held(run.folder(results)):
                record = read_run(run.folder(results), {"run": run.path})
                if record is None:
                    raise FileNotFoundError(f"{run.folder(results) / 'run.json'} is missing")
                label, weight, reference = run.variant.label, run.target_weight, run.reference_path(results)
                sources = {"problem": checksum(run.problem_path(results), "problem"), "run": record["sha256"]}
                if reference:
                    sources["reference"] = checksum(reference, "reference")
                if is_done(run, results, sources):
                    continue
                print(run.path, file=sys.stderr, flush=True)
                metrics, curves, failure = outcome(
                    record,
                    run.folder(results),
                    partial(problem_of, label, run.seed),
                    partial(reference_of, label, weight, run.seed) if reference else lambda: None,
                )
                write_metrics(results, run.path, metrics, curves, sources, failure)
        write_mark(results, batch, "evaluated", runs)


def is_done(run: Run, results: Path, sources: dict[str, str]) -> bool:
    """Are the metrics on file made from these very files, and whole?"""
    try:
        metrics = read_metrics(run.folder(results), run.path)
        if metrics is None or metrics["failure"] or not sources.items() <= metrics["made_from"].items():
            return False
        read_curves(run.folder(results), metrics)
    except Damaged as error:
        print(f"{error}; it is made again", file=sys.stderr)
        return False
    return True


def outcome(
    record: Record, folder: Path, problem: Callable[[], Problem], reference: Callable[[], Reference | str | None]
) -> tuple[Metrics, dict[str, np.ndarray], str | None]:
    """Metrics, curves and why there are none; nothing for a run that did not end well."""
    if record["status"] != "ok":
        return {}, {}, None
    draws = read_draws(folder, record)
    try:
        return *evaluate(problem(), record, draws, reference()), None
    except Exception as error:
        return {}, {}, reason_of(error)
