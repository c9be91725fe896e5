"""Collect the runs of a study, one row each, as CSV and as Parquet."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from records.summary import table_of, write_summary
from records.usage import metered
from workflows.runs import read_runs
from workflows.summary import rows_of


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.summary", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "summary"):
        _summarise(arguments)
    return 0


def _summarise(arguments: argparse.Namespace) -> None:
    rows = rows_of(read_runs(arguments.results), arguments.results)
    write_summary(arguments.results, table_of(rows))


if __name__ == "__main__":
    sys.exit(main())
