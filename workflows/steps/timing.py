"""Time the steps of a study at its several N, by turns."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stopwatch import Work
from benchmarks.work import draw_rows, steps_of
from implementations.backends import build_sampler, use_one_thread
from implementations.infrastructure.files import sealed, write_json
from implementations.infrastructure.provenance import git_state, machine
from implementations.methods import find_method
from implementations.settings import Settings
from records.failures import load_problem, reason_of
from records.layout import problem_path
from records.usage import metered
from workflows.timing import timed


def main(argv: Sequence[str] | None = None) -> int:
    """Write what was measured; where that fails, the reason, and the claim that asks for it says so."""
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.timing", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    parser.add_argument("--backend", required=True)
    parser.add_argument(
        "--steps", type=json.loads, required=True, help="for each step and seed a list of sizes, as JSON"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "timing"):
        runs: dict[str, dict[str, float]] = {}
        failure = None
        try:
            use_one_thread(arguments.backend)
            for sizes in arguments.steps:
                works = [_works(size, arguments) for size in sizes]
                found = timed(*(dict(enumerate(kind)) for kind in zip(*works, strict=True)))
                runs |= {path: found[number] for number, size in enumerate(sizes) for path in size["paths"]}
        except Exception as error:
            failure, runs = reason_of(error), {}
        write_json(arguments.out, sealed({"failure": failure, "runs": runs, **git_state(), **machine()}))
    return 0


def _works(size: dict[str, Any], arguments: argparse.Namespace) -> tuple[Work, Work]:
    """The step, and the bare reading of as many rows."""
    problem = load_problem(problem_path(arguments.results, size["variant"], size["seed"]))
    settings = Settings.of(size["settings"])
    sampler = build_sampler(arguments.backend, problem, find_method(size["method"]), settings)
    start = sampler.start(np.tile(problem.map, (settings.chains, 1)), size["seed"])
    sampler.compile(start)
    return steps_of(sampler, start, settings.chains), draw_rows(problem, settings.batch_size * settings.num_batches)


if __name__ == "__main__":
    sys.exit(main())
