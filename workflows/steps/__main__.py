"""Run one step of a study, as rules do: ``python -m workflows.steps sample results/smoke linear/jax-cpu/batch0``."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.files import Damaged

STEPS = ("data", "network", "reference", "tune", "sample", "timing", "evaluate")


def main(argv: Sequence[str] | None = None) -> int:
    """Run it. A damaged input or an error of the system's fails the job, in a line."""
    parser = argparse.ArgumentParser(prog="python -m workflows.steps", description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("results", type=Path, help="folder of the study's results")
    parser.add_argument("key", nargs="*", help="what the step is for: a batch, or a variant and a seed")
    arguments = parser.parse_args(argv)
    try:
        importlib.import_module(f"workflows.steps.{arguments.step}").main(arguments.results, *arguments.key)
    except (Damaged, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
