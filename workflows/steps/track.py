"""Write a study to MLflow; where that fails, say why, because no run is lost by it."""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from implementations.files import write_json
from workflows.tracking import chosen_store, reason_of, track, without_password


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.track", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results, with its summary")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file that says what came of it")
    arguments = parser.parse_args(argv)
    uri = chosen_store(arguments.results.parent)
    started = time.monotonic()
    outcome: dict[str, Any] = {"store": without_password(uri), "failure": None}
    try:
        outcome |= track(uri, arguments.results.name, summary_rows(arguments.results), arguments.results)
    except Exception as error:
        traceback.print_exception(error)
        outcome["failure"] = reason_of(error, uri)
    outcome["seconds"] = round(time.monotonic() - started, 1)
    write_json(arguments.out, outcome)
    print(outcome, file=sys.stderr)
    return 0


def summary_rows(results: Path) -> list[dict[str, Any]]:
    """The rows of the summary in plain values, None where a cell is empty."""
    import pandas as pd

    table = pd.read_parquet(results / "summary.parquet").astype(object)
    records = table.where(table.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]


if __name__ == "__main__":
    sys.exit(main())
