"""Find the exact or gold-standard answer of a problem at a weight."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.tasks.reference import reference
from workflows.failures import leave, load_problem, reason_of
from workflows.locks import hold


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.reference", description=__doc__)
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--weight", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(argv)
    hold(arguments.out.parent, is_patient=True)
    try:
        reference(load_problem(arguments.problem), arguments.weight, seed=arguments.seed).save(arguments.out)
    except Exception as error:
        leave(arguments.out, reason_of(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
