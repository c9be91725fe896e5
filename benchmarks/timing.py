"""The timing tier: ratios of short work timed by turns, and how much slower they may become."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import Rows

#: Of runs of unchanged code, the share that exceeds a bound of any row.
FALSE_ALARMS = 1e-2
#: The least slow-down that is worth a word.
LEAST_SLOWDOWN = 1.3


def measure(names: Sequence[str] | None = None) -> Rows:
    """Ratios of short work, timed by turns; all that compiles in seconds."""
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


def judge(rows: Rows, baseline: Rows) -> list[str]:
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
