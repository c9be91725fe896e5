"""Prepare the problem of a task and seed: data, trained network, MAP and curvature."""

import argparse
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.files import sha256_of
from implementations.tasks import find_task, prepare
from records.checksums import list_of, listed
from records.failures import Absent, reason_of, write_failure
from records.layout import read_outcome
from records.usage import metered
from workflows.locks import hold
from workflows.shared import provide


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.network", description=__doc__)
    parser.add_argument("--variant", type=json.loads, required=True, help="fields of workflows.study.Variant, as JSON")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of downloads")
    parser.add_argument("--fetched", type=Path, help="what came of the download, where there was one")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "network", str(arguments.out.parent)):
        hold(arguments.out.parent, is_patient=True)
        name = arguments.variant.pop("task")
        with listed(list_of(arguments.out), lambda: [arguments.out]):
            _prepare(name, arguments)
    return 0


def _prepare(name: str, arguments: argparse.Namespace) -> None:
    try:
        fetched = read_outcome(arguments.fetched) if arguments.fetched else None
        if fetched and fetched["failure"]:
            raise Absent(f"no data: {fetched['failure']}")
        seed, variant = arguments.seed, arguments.variant
        # The checksums of what is downloaded stand in the code of its task.
        provide(
            arguments.out,
            arguments.results,
            {"task": name, "code_of_task": _source_of(name, variant.get("num_points")), **variant, "seed": seed},
            lambda path: prepare(name, seed, data_dir=arguments.data, **variant).save(path),
        )
    except Exception as error:
        write_failure(arguments.out, reason_of(error))


def _source_of(name: str, num_points: int | None) -> str:
    """A checksum of the file that a task's data come from, which may be somebody's own."""
    load = find_task(name, num_points).load
    return sha256_of(Path(inspect.getfile(getattr(load, "func", load))))


if __name__ == "__main__":
    sys.exit(main())
