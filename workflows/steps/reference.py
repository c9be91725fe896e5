"""Find the exact or gold-standard answer of a problem at a weight."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.backends import use_one_thread
from implementations.infrastructure.files import sha256_of
from records.checksums import list_of, listed
from records.failures import load_problem, reason_of, write_failure
from records.reference import reference
from records.usage import metered
from workflows.locks import hold
from workflows.shared import provide


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.reference", description=__doc__)
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--weight", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "reference", str(arguments.out.parent)):
        hold(arguments.out.parent, is_patient=True)
        # The workflow gives it one core; and small matrices handed from thread to thread have stopped for ever.
        use_one_thread("jax-cpu")
        with listed(list_of(arguments.out), lambda: [arguments.out]):
            try:
                problem, weight, seed = load_problem(arguments.problem), arguments.weight, arguments.seed
                origin = {"problem_sha256": sha256_of(arguments.problem), "weight": weight, "seed": seed}
                provide(
                    arguments.out,
                    arguments.results,
                    origin,
                    lambda path: reference(problem, weight, seed=seed).save(path),
                )
            except Exception as error:
                write_failure(arguments.out, reason_of(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
