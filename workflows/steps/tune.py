"""Find the step of a method on a whole network, by pilots on a problem whose reference is known."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from implementations.backends import Skipped, import_library, use_one_thread
from implementations.infrastructure.artefact import Record, read_record, write_record
from implementations.plugins import checksum
from implementations.tasks.problem import Problem
from implementations.tuning.ladder import JUDGED_BUDGET, Bias, Known, climb
from implementations.tuning.pilot import TunedApart
from metrics.convergence import convergence
from records.artefacts import load_problem, load_reference, reason_of, write_tuning
from records.evaluation import deviations_of, predictive_of
from records.layout import problem_path, reference_path
from records.reference import Reference
from records.usage import Meter, metered
from workflows.cache import provide
from workflows.locks import held
from workflows.runs import Run, read_runs


def main(results: Path, path: str, seed: str) -> None:
    """Write the step of the setting of the run at ``path``, from pilots on the problem of ``seed``."""
    run, pilot_seed = read_runs(results, run=path)[0], int(seed)
    out, variant, weight = run.tuning_path(results), run.variant.label, run.target_weight
    assert out is not None
    with metered(results, "tune", str(out.parent)) as meter, held(out.parent):
        identity = run.tuning_identity
        files = {
            "problem": problem_path(results, variant, pilot_seed),
            "reference": reference_path(results, variant, weight, pilot_seed),
        }
        made_from = {kind: read_record(file, kind)["sha256"] for kind, file in files.items()}
        try:
            problem = load_problem(results, variant, pilot_seed)
            reference = load_reference(results, variant, weight, pilot_seed)
            sha256 = checksum(run.source) if run.source else None

            def make(path: Path, whole: Record) -> None:
                write_tuning(path, _tuned(run, problem, reference, pilot_seed, meter), whole, made_from=made_from)

            more = {"method_sha256": sha256, "settings": run.settings.as_dict(), "pilot_seed": pilot_seed}
            provide(out, results, "tuning", identity | more, made_from, make)
        except Exception as error:
            write_record(out, "tuning", identity, made_from=made_from, failure=reason_of(error))


def _tuned(run: Run, problem: Problem, reference: Reference | str, seed: int, meter: Meter) -> TunedApart:
    # Without a reference to be trusted the bound is that of the temperature; the budget stays.
    right = None if isinstance(reference, str) or not reference.is_usable else known(problem, reference)
    with meter.clock("imports"):
        use_one_thread(run.backend)
        import_library(run.backend)
    started, cpu_started = time.perf_counter(), time.process_time()
    try:
        found = climb(problem, run.card, run.settings, run.backend, seed, right, JUDGED_BUDGET)
    except Skipped as reason:
        return TunedApart(None, skipped=str(reason))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    meter.add("compilation", found.compile_cpu_seconds)
    record: dict[str, Any] = {**found.record(), "pilot_seed": seed, "has_reference": right is not None}
    return TunedApart(
        record, seconds=seconds - found.compile_seconds, cpu_seconds=cpu_seconds - found.compile_cpu_seconds
    )


def known(problem: Problem, reference: Reference) -> Known:
    """The reference's draws, and the bias of predictions by the numbers that leaderboards go by."""

    def bias(draws: np.ndarray) -> Bias | None:
        """Of draws (chains, draws, P); None where they are too few, or stand still."""
        test = predictive_of(problem, draws.astype(np.float32), problem.test_features, problem.test_targets)
        ess = convergence(test.traces).min_bulk_ess
        if ess is None:
            return None
        found = deviations_of(test, ess, reference)
        error = found["sd_ratio"].monte_carlo_error
        assert error is not None, "there is an effective sample size"
        bias = Bias(found["mean_error"].value, found["sd_ratio"].value, error, ess)
        return bias if np.isfinite(bias).all() else None

    return Known(reference.draws, bias)
