"""Prepare the problem of a variant and seed: data, trained network, MAP and curvature."""

from dataclasses import asdict
from pathlib import Path

from implementations.infrastructure.artefact import Failed, Record, write_arrays
from implementations.plugins import checksum
from implementations.tasks import prepare
from records.artefacts import read_outcome, reason_of
from records.layout import fetched_path, problem_path
from records.usage import metered
from workflows.cache import provide
from workflows.locks import held
from workflows.runs import Variant, read_runs


def main(results: Path, label: str, seed: str) -> None:
    """Write the problem; where that fails, the reason in its place, and its runs become rows that say so."""
    variant, out = read_runs(results, variant=label)[0].variant, problem_path(results, label, int(seed))
    with metered(results, "network", str(out.parent)), held(out.parent):
        identity = {"variant": label, "seed": int(seed)}
        try:
            # A task's file that has changed is another task; of the suite's own, the version of problems tells.
            more = {"task": variant.name, "task_sha256": checksum(variant.task)}
            _check_fetched(results, variant)
            options = {name: value for name, value in asdict(variant).items() if name != "task"}

            def make(path: Path, whole: Record) -> None:
                prepare(variant.task, int(seed), data_dir=Path("data"), **options).save(path, whole)

            provide(out, results, "problem", {**identity, **more, **options}, {}, make)
        except Exception as error:
            write_arrays(out, "problem", {}, identity, failure=reason_of(error))


def _check_fetched(results: Path, variant: Variant) -> None:
    if variant.definition.fetch:
        fetched = read_outcome(fetched_path(results, variant.name), "fetched")
        if fetched and fetched["failure"]:
            raise Failed(f"no data: {fetched['failure']}")
