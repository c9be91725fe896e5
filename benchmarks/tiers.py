"""The three tiers of the gate: how rows are measured, and what is wrong with them, given those of the baseline."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks import statistical
from benchmarks.known_problems import known_problem
from benchmarks.statistical import Rows, incomplete

#: Of runs of unchanged code, the share that exceeds a bound of any row.
FALSE_ALARMS = 1e-2
#: The least slow-down that is worth a word.
LEAST_SLOWDOWN = 1.3


def measure_exact() -> Rows:
    """Evaluations of single points in a step, counted, and decisions and last positions on explicit noise."""
    from benchmarks.explicit_noise import METROPOLIS, make_settings, run_jax, run_torch
    from benchmarks.work import synthetic
    from implementations.tasks.geometry import preconditioner_factor, start_points

    rows = {}
    for problem in (known_problem("linear"), known_problem("two_classes"), synthetic("regression")):
        # Two classes have no mini-batches of their own.
        like = replace(problem, task="linear") if problem.task == "two_classes" else problem
        for method in METROPOLIS:
            settings = make_settings(like, method)
            weight = settings.target_weight(problem.num_points)
            factor = preconditioner_factor(problem, weight, settings.preconditioner)
            start = start_points(problem, weight, settings.chains, 0).astype(float)
            for backend, run in (("jax-cpu", run_jax), ("torch-cpu", run_torch)):
                steps = run(problem, method, settings, start, factor)
                losses, gradients = steps.evaluated
                rows[f"{problem.task} {method} {backend}"] = {
                    "losses": losses,
                    "gradients": gradients,
                    "decisions": ["".join("-+"[int(decision)] for decision in chain) for chain in steps.accepted.T],
                    "position": [float(f"{number:.12g}") for number in steps.positions[-1, :, 0]],
                }
    return rows


def judge_exact(rows: Rows, baseline: Rows) -> list[str]:
    return incomplete(rows, baseline) + [
        f"{name}: {key} {row[key]}, baseline {expected}"
        for name, row in rows.items()
        for key, expected in baseline[name].items()
        if key in row and not _is_same(row[key], expected, is_number=key == "position")
    ]


def _is_same(value: Any, expected: Any, is_number: bool) -> bool:
    if not is_number:
        return bool(value == expected)
    # Infinities are close to each other.
    is_close = len(value) == len(expected) and np.allclose(value, expected, rtol=1e-6, atol=1e-9)
    return is_close and bool(np.isfinite(value).all())


def measure_timing(names: Sequence[str] | None = None) -> Rows:
    """Ratios of short work, timed in turns; all that compiles in seconds."""
    from benchmarks.stopwatch import Work, alternate
    from benchmarks.work import bare_work, steps, synthetic

    mnist, regression = synthetic("mnist"), synthetic("regression")

    def to_bare(method: str) -> tuple[Work, Work]:
        return steps("jax-cpu", mnist, method), bare_work("jax-cpu", mnist, method)

    def to_full(backend: str, **given: Any) -> tuple[Work, Work]:
        return (
            steps(backend, regression, "pbnn", chains=4, **given),
            steps(backend, regression, "full_mh", chains=4, **given),
        )

    timed: dict[str, Callable[[], tuple[Work, Work]]] = {
        "jax-cpu pbnn mnist to bare": lambda: to_bare("pbnn"),
        "jax-cpu sgld mnist to bare": lambda: to_bare("sgld"),
        "jax-cpu full_mh mnist to bare": lambda: to_bare("full_mh"),
        "jax-cpu pbnn regression to full_mh": lambda: to_full("jax-cpu"),
        # Few enough steps that they are not compiled, which would take a minute.
        "torch-cpu pbnn regression to full_mh, eager": lambda: to_full("torch-cpu", num_steps=1000),
    }
    return {name: alternate(*timed[name](), rounds=11) for name in names or timed}


def judge_timing(rows: Rows, baseline: Rows) -> list[str]:
    complaints = []
    for name, row in rows.items():
        expected, allowed = baseline[name]["ratio"], bound(baseline[name], len(baseline))
        if not 0 < row["ratio"] <= allowed < math.inf:
            complaints.append(f"{name}: ratio {row['ratio']:.3g}, baseline {expected:.3g}, allowed {allowed:.3g}")
    return complaints


def bound(row: dict[str, Any], num_rows: int) -> float:
    return float(row["ratio"] * allowed_slowdown(row["ratios"], num_rows))


def allowed_slowdown(ratios: Sequence[float], num_rows: int) -> float:
    """What one more run may exceed the geometric mean of n repeated runs by.

    That is e to the prediction bound s sqrt(1 + 1/n) t of its logarithm, where all rows share the rate of false alarms
    and t has n - 1 degrees of freedom.
    """
    from scipy.stats import t

    quantile = t.isf(FALSE_ALARMS / num_rows, len(ratios) - 1)
    # A ratio that is none makes a bound that is not a number, which nothing passes; max() would take the other one.
    with np.errstate(all="ignore"):
        spread = np.std(np.log(ratios), ddof=1)
        return float(np.maximum(LEAST_SLOWDOWN, np.exp(spread * math.sqrt(1 + 1 / len(ratios)) * quantile)))


def together(runs: Sequence[Rows]) -> Rows:
    """The ratios of repeated runs, and their geometric mean."""
    rows = {}
    for name in runs[0]:
        ratios = [run[name]["ratio"] for run in runs]
        rows[name] = {"ratio": float(f"{np.exp(np.mean(np.log(ratios))):.4g}"), "ratios": ratios}
    return rows


class Tier(NamedTuple):
    """How rows are measured and judged, and the exit code of a tier that fails."""

    code: int
    measure: Callable[[], Rows]
    judge: Callable[[Rows, Rows], list[str]]


TIERS = {
    "exact": Tier(2, measure_exact, judge_exact),
    "statistical": Tier(3, statistical.measure, statistical.judge),
    "timing": Tier(4, measure_timing, judge_timing),
}
