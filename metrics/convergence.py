"""Have the chains converged? Rank-normalised split R-hat and bulk and tail ESS (Vehtari et al. 2021), by arviz.

To be given function-space traces: the weights of a network are not identifiable, its predictions are.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

#: arviz splits each chain in two and needs two draws in each half.
MIN_DRAWS = 4


@dataclass(frozen=True)
class Convergence:
    """Worst and typical of many quantities; None where undefined, and then ``reason`` says why."""

    #: The largest of all quantities.
    r_hat: float | None
    min_bulk_ess: float | None
    median_bulk_ess: float | None
    min_tail_ess: float | None
    median_tail_ess: float | None
    reason: str | None = None


def convergence(traces: np.ndarray) -> Convergence:
    """R-hat and ESS over all quantities of ``traces`` (chains, draws, quantities).

    A quantity that never changes carries no information and is left out, with a note in ``reason``; chains that are
    each stuck at a value of their own make R-hat infinite, which is reported as undefined.
    """
    if traces.ndim != 3 or traces.size == 0:
        raise ValueError(f"traces of shape {traces.shape}: expected (chains, draws, quantities), none of them 0")
    num_chains, num_draws, num_quantities = traces.shape
    is_finite = np.isfinite(traces).all(axis=(0, 1))
    if not is_finite.all():
        return _undefined(f"{np.sum(~is_finite)} of {num_quantities} quantities are not finite")
    if num_draws < MIN_DRAWS:
        return _undefined(f"{num_draws} draws per chain: at least {MIN_DRAWS} are needed")
    # arviz splits chains in halves and drops the middle draw of an odd number: drop the last, before looking at them.
    halves = traces[:, : num_draws - num_draws % 2].astype(np.float64)
    varying = [trace for trace in np.moveaxis(halves, 2, 0) if np.ptp(trace) > 0]
    if not varying:
        return _undefined("constant chains: no quantity ever changes")
    # Where nearly all draws equal the largest no quantile cuts off a tail, and arviz would return the number of draws.
    tailed = [trace for trace in varying if np.quantile(trace, 0.05) < trace.max()]

    arviz = import_arviz()
    is_stuck = any(np.ptp(trace.reshape(2 * num_chains, -1), axis=1).max() == 0 for trace in varying)
    r_hat = None if num_chains == 1 or is_stuck else _worst_r_hat(arviz, varying)
    bulk = [float(arviz.ess(trace, method="bulk")) for trace in varying]
    tail = [float(arviz.ess(trace, method="tail")) for trace in tailed]
    num_constant, num_tailless = num_quantities - len(varying), len(varying) - len(tailed)
    notes = {
        f"{num_constant} of {num_quantities} quantities never change and are left out": num_constant > 0,
        f"{num_tailless} of {num_quantities} quantities have no tail to estimate": num_tailless > 0,
        "one chain: R-hat needs two": num_chains == 1,
        "half chains stuck each at a value of its own: R-hat is infinite": num_chains > 1 and is_stuck,
    }
    return Convergence(
        r_hat=r_hat,
        min_bulk_ess=min(bulk),
        median_bulk_ess=float(np.median(bulk)),
        min_tail_ess=min(tail, default=None),
        median_tail_ess=float(np.median(tail)) if tail else None,
        reason="; ".join(note for note, applies in notes.items() if applies) or None,
    )


def _undefined(reason: str) -> Convergence:
    return Convergence(None, None, None, None, None, reason)


def _worst_r_hat(arviz: Any, traces: list[np.ndarray]) -> float:
    # 0/0 where the folded trace is constant: arviz then keeps the unfolded one.
    with np.errstate(divide="ignore", invalid="ignore"):
        return max(float(arviz.rhat(trace)) for trace in traces)


def import_arviz() -> Any:
    """Imported where it is used: it costs two to four seconds, and no part of it comes without the rest."""
    with warnings.catch_warnings():
        # Announces, once a day, that a later version will be organised differently.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz
        except FileNotFoundError:
            # It keeps the day in a file, and processes that do so at the same moment take it from each other. The one
            # that came too late finds it there.
            import arviz

    return arviz
