"""Collect the runs of a study, one row each, as CSV and as Parquet."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.files import atomic_path
from workflows.grid import load_study
from workflows.summary import rows_of, table_of


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.summary", description=__doc__)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    arguments = parser.parse_args(argv)
    rows = rows_of(load_study(arguments.study), arguments.results)
    table = table_of(rows)
    with atomic_path(arguments.results / "summary.parquet") as path:
        table.to_parquet(path, index=False)
    with atomic_path(arguments.results / "summary.csv") as path:
        table.to_csv(path, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
