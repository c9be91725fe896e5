"""Fetch the files of a task that has to be downloaded."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.files import sealed, write_json
from implementations.tasks import find_task
from records.failures import reason_of


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.data", description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of downloads")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file that says whether it worked")
    arguments = parser.parse_args(argv)
    fetch = find_task(arguments.task).fetch
    assert fetch is not None, "the rule is asked only for tasks with files to fetch"
    try:
        fetch(arguments.data)
        failure = None
    except Exception as error:
        failure = reason_of(error)
    write_json(arguments.out, sealed({"task": arguments.task, "failure": failure}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
