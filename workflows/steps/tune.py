"""Find the step of a method on a whole network, by pilots on a problem whose reference is known."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from implementations.backends import Skipped, import_library, use_one_thread
from implementations.infrastructure.files import sha256_of
from implementations.methods import find_method, source_of
from implementations.plugins import checksum
from implementations.settings import Settings
from implementations.tuning.ladder import JUDGED_BUDGET, climb
from implementations.tuning.pilot import TunedApart
from records.failures import load_problem, load_reference, reason_of
from records.tuning import write_failed_tuning, write_tuning
from records.usage import Meter, metered
from workflows import evaluation, judge
from workflows.locks import hold
from workflows.shared import IMPLEMENTATIONS, METRICS, code_of, provide
from workflows.steps.sample import Planned

#: The code that a pilot runs or is judged by.
CODE = (IMPLEMENTATIONS, METRICS, Path(judge.__file__), Path(evaluation.__file__))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.tune", description=__doc__)
    parser.add_argument("--problem", type=Path, required=True, help="that of the pilots")
    parser.add_argument("--reference", type=Path, required=True, help="its right answer at the weight of the target")
    parser.add_argument("--backend", required=True)
    parser.add_argument("--run", type=json.loads, required=True, help="fields of workflows.steps.sample.Planned")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    arguments = parser.parse_args(argv)
    planned = Planned(**arguments.run)
    source = source_of(find_method(planned.method))
    with metered(arguments.results, "tune", str(arguments.out.parent)) as meter:
        hold(arguments.out.parent, is_patient=True)
        try:
            origin = {
                "problem_sha256": sha256_of(arguments.problem),
                "reference_sha256": sha256_of(arguments.reference),
                "method": planned.method,
                "method_sha256": checksum(source) if source else None,
                "settings": planned.settings,
                "backend": arguments.backend,
                "seed": planned.seed,
                "code_of_methods": code_of(*CODE),
            }
            provide(
                arguments.out,
                arguments.results,
                origin,
                lambda path: write_tuning(path, _tuned(arguments, planned, meter)),
            )
        except Exception as error:
            write_failed_tuning(arguments.out, reason_of(error))
    return 0


def _tuned(arguments: argparse.Namespace, planned: Planned, meter: Meter) -> TunedApart:
    problem, reference = load_problem(arguments.problem), load_reference(arguments.reference)
    card, settings = find_method(planned.method), Settings.of(planned.settings)
    # Without a reference to be trusted the bound is that of the temperature; the budget stays.
    right = None if isinstance(reference, str) or not reference.is_usable else judge.known(problem, reference)
    with meter.clock("imports"):
        use_one_thread(arguments.backend)
        import_library(arguments.backend)
    started, cpu_started = time.perf_counter(), time.process_time()
    try:
        found = climb(problem, card, settings, arguments.backend, planned.seed, right, JUDGED_BUDGET)
    except Skipped as reason:
        return TunedApart(None, skipped=str(reason))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    meter.add("compilation", found.compile_cpu_seconds)
    record: dict[str, Any] = {**found.record(), "pilot_seed": planned.seed, "has_reference": right is not None}
    return TunedApart(
        record, seconds=seconds - found.compile_seconds, cpu_seconds=cpu_seconds - found.compile_cpu_seconds
    )


if __name__ == "__main__":
    sys.exit(main())
