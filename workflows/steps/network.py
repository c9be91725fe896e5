"""Prepare the problem of a task and seed: data, trained network, MAP and curvature."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.tasks import prepare
from workflows.failures import Absent, leave, reason_of
from workflows.locks import hold


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.network", description=__doc__)
    parser.add_argument("--variant", type=json.loads, required=True, help="fields of workflows.grid.Variant, as JSON")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of downloads")
    parser.add_argument("--fetched", type=Path, help="what came of the download, where there was one")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(argv)
    hold(arguments.out.parent, is_patient=True)
    name = arguments.variant.pop("task")
    try:
        if arguments.fetched and (failure := json.loads(arguments.fetched.read_text())["failure"]):
            raise Absent(f"no data: {failure}")
        prepare(name, arguments.seed, data_dir=arguments.data, **arguments.variant).save(arguments.out)
    except Exception as error:
        leave(arguments.out, reason_of(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
