"""Write a study to MLflow; where that fails, say why, because no run is lost by it."""

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path

from implementations.infrastructure.artefact import write_record
from records.study import StudyResults
from records.usage import metered
from workflows.tracking.client import Hiding, chosen_store, reason_of, without_secrets
from workflows.tracking.write import track

#: Seconds that a store has for a study, and for each of its runs, which takes a tenth of a second.
PATIENCE, PATIENCE_WITH_A_RUN = 120.0, 2.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.track", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results, with its summary")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file that says what came of it")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="S",
        help=f"seconds for the store, besides {PATIENCE_WITH_A_RUN:g} per run (%(default)s)",
    )
    arguments = parser.parse_args(argv)
    uri = chosen_store(arguments.results.parent)
    # MLflow and the libraries that it is built on log addresses as they please.
    with (
        closing(Hiding(sys.stderr, uri)) as err,
        closing(Hiding(sys.stdout, uri)) as out,
        redirect_stderr(err),
        redirect_stdout(out),
        metered(arguments.results, "track"),
    ):
        try:
            _track(uri, arguments.results, arguments.out, arguments.patience)
        except OSError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _track(uri: str, results: Path, out: Path, patience: float) -> None:
    started = time.monotonic()

    def tell(failure: str | None, **counts: int) -> None:
        seconds = round(time.monotonic() - started, 1)
        outcome = {"store": without_secrets(uri), **counts, "seconds": seconds}
        write_record(out, "tracked", outcome, failure=failure)
        print(outcome | {"failure": failure}, file=sys.stderr, flush=True)

    def give_up() -> None:
        try:
            tell(f"the store was not done after {limit:g} s")
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        # The main thread waits for the store: limits of single reads do not help where a server sends a byte now and
        # then, and a driver written in C heeds no signal. An entry that is not ended counts as not written.
        os._exit(0)

    # It takes seconds, for which the store is not to blame.
    import mlflow  # noqa: F401

    try:
        rows = StudyResults.load(results).rows
        limit = patience + PATIENCE_WITH_A_RUN * len(rows)
        timer = threading.Timer(limit, give_up)
        timer.daemon = True
        timer.start()
        try:
            counts = track(uri, results.name, rows, results)
        finally:
            timer.cancel()
    except Exception as error:
        traceback.print_exception(error)
        tell(reason_of(error, uri))
    else:
        tell(None, **counts)


if __name__ == "__main__":
    sys.exit(main())
