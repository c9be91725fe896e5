"""Write a study to MLflow; where that fails, say why, because no run is lost by it."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from implementations.infrastructure.files import sealed, write_json
from records.study import StudyResults
from records.usage import metered
from workflows.tracking.address import Hiding, without_secrets
from workflows.tracking.store import chosen_store, reason_of
from workflows.tracking.watch import Watch
from workflows.tracking.write import track

#: Seconds in which a store has to get a run further, however many requests that takes. One takes a tenth of a second.
PATIENCE = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.track", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results, with its summary")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file that says what came of it")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, metavar="S", help="seconds between two runs (%(default)s)"
    )
    arguments = parser.parse_args(argv)
    uri = chosen_store(arguments.results.parent)
    # MLflow and what it is built on log addresses as they please.
    with (
        Hiding(sys.stderr, uri) as err,
        Hiding(sys.stdout, uri) as out,
        redirect_stderr(err),
        redirect_stdout(out),
        metered(arguments.results, "track"),
    ):
        _track(uri, arguments.results, arguments.out, arguments.patience)
    return 0


def _track(uri: str, results: Path, out: Path, patience: float) -> None:
    started = time.monotonic()

    def tell(failure: str | None, **counts: int) -> None:
        seconds = round(time.monotonic() - started, 1)
        outcome = {"store": without_secrets(uri), "failure": failure, **counts, "seconds": seconds}
        write_json(out, sealed(outcome))
        print(outcome, file=sys.stderr, flush=True)

    def give_up() -> None:
        tell(f"the store got nothing done for {patience:g} s")
        # The main thread waits for the store. What it was writing counts as not written (workflows.tracking.write).
        os._exit(0)

    # It takes seconds, for which the store is not to blame.
    import mlflow  # noqa: F401

    try:
        with Watch(patience, give_up) as watch:
            counts = track(uri, results.name, StudyResults.load(results).rows, results, watch.note)
    except Exception as error:
        traceback.print_exception(error)
        tell(reason_of(error, uri))
    else:
        tell(None, **counts)


if __name__ == "__main__":
    sys.exit(main())
