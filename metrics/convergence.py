"""Have the chains converged? Rank-normalised split R-hat and bulk and tail ESS (Vehtari et al. 2021), and their price.

To be given function-space traces: the weights of a network are not identifiable, its predictions are. The numbers are
those of arviz, to rounding, of all quantities at once; arviz takes longer to import than an evaluation takes.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtri, softmax

#: Each chain is split in two, and there are two draws in each half at least.
MIN_DRAWS = 4
#: The tail ESS is the lesser of those of the draws below these quantiles.
TAILS = (0.05, 0.95)
#: Smaller relative changes of a quantity are rounding: networks compute in single precision.
ROUNDING = float(np.finfo(np.float32).eps)
#: The fit of a Pareto law leans towards k = 1/2 as if it had seen so many more weights, which steadies it where there
#: are few; fewer weights than MIN_TAIL have no tail to fit.
PRIOR_WEIGHTS, MIN_TAIL = 10, 5


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
    each stuck at a value of their own make R-hat infinite, which is reported as undefined. Predictions of equal draws
    may differ in their last digits, because a product of matrices does not round all its rows alike.
    """
    if traces.ndim != 3 or traces.size == 0:
        raise ValueError(f"traces of shape {traces.shape}: expected (chains, draws, quantities), none of them 0")
    num_chains, num_draws, num_quantities = traces.shape
    is_finite = np.isfinite(traces).all(axis=(0, 1))
    if not is_finite.all():
        return _undefined(f"{np.sum(~is_finite)} of {num_quantities} quantities are not finite")
    if num_draws < MIN_DRAWS:
        return _undefined(f"{num_draws} draws per chain: at least {MIN_DRAWS} are needed")
    halves = split_chains(traces)
    rounding = ROUNDING * np.abs(halves).max(axis=(1, 2))
    is_varying = np.ptp(halves, axis=(1, 2)) > rounding
    varying = halves[is_varying]
    if len(varying) == 0:
        return _undefined("constant chains: no quantity ever changes")
    # Where nearly all draws equal the largest no quantile cuts off a tail, and the ESS would be the number of draws.
    tailed = varying[np.quantile(varying, TAILS[0], axis=(1, 2)) < varying.max(axis=(1, 2))]

    is_stuck = bool((np.ptp(varying, axis=2).max(axis=1) <= rounding[is_varying]).any())
    bulk, tail = bulk_ess(varying), tail_ess(tailed) if len(tailed) else np.zeros(0)
    num_constant, num_tailless = num_quantities - len(varying), len(varying) - len(tailed)
    notes = {
        f"{num_constant} of {num_quantities} quantities never change and are left out": num_constant > 0,
        f"{num_tailless} of {num_quantities} quantities have no tail to estimate": num_tailless > 0,
        "one chain: R-hat needs two": num_chains == 1,
        "half chains stuck each at a value of its own: R-hat is infinite": num_chains > 1 and is_stuck,
    }
    return Convergence(
        r_hat=None if num_chains == 1 or is_stuck else float(r_hat(varying).max()),
        min_bulk_ess=float(bulk.min()),
        median_bulk_ess=float(np.median(bulk)),
        min_tail_ess=float(tail.min()) if len(tail) else None,
        median_tail_ess=float(np.median(tail)) if len(tail) else None,
        reason="; ".join(note for note, applies in notes.items() if applies) or None,
    )


def _undefined(reason: str) -> Convergence:
    return Convergence(None, None, None, None, None, reason)


def split_chains(traces: np.ndarray) -> np.ndarray:
    """Half chains (quantities, 2 chains, draws / 2) of traces (chains, draws, quantities), in double precision.

    Of an odd number of draws the last is left out; arviz leaves out the middle one.
    """
    num_chains, num_draws, num_quantities = traces.shape
    even = np.moveaxis(traces[:, : num_draws - num_draws % 2], 2, 0)
    return np.ascontiguousarray(even, dtype=np.float64).reshape(num_quantities, 2 * num_chains, -1)


def r_hat(halves: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat (quantities,): the larger of that of place and, folded at the median, of spread."""
    folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    # 0/0 where the folded trace is constant: it says nothing, and the other counts.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.fmax(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(folded)))


def bulk_ess(halves: np.ndarray) -> np.ndarray:
    """Effective draws (quantities,) for the place of the distribution."""
    return _ess(_normal_scores(halves))


def tail_ess(halves: np.ndarray) -> np.ndarray:
    """Effective draws (quantities,) for its tails: the lesser of those of two indicators."""
    cuts = np.quantile(halves, TAILS, axis=(1, 2), keepdims=True)
    low, high = (_ess((halves <= cut).astype(np.float64)) for cut in cuts)
    return np.minimum(low, high)


def _r_hat(halves: np.ndarray) -> np.ndarray:
    """sqrt((B / W + n - 1) / n), with B / n the variance between the means of n draws each and W that within."""
    num_draws = halves.shape[2]
    between = num_draws * halves.mean(axis=2).var(axis=1, ddof=1)
    within = halves.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt((between / within + num_draws - 1) / num_draws))


def _normal_scores(halves: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks among all draws of a quantity, with Blom's offset of 3/8."""
    flat = halves.reshape(len(halves), -1)
    return ndtri((_ranks(flat) - 3 / 8) / (flat.shape[1] + 1 / 4)).reshape(halves.shape)


def _ranks(rows: np.ndarray) -> np.ndarray:
    """Ranks from 1 in each row; equal values share the mean of theirs. As scipy.stats has it, without its import."""
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    places = np.arange(rows.shape[1])
    is_new = np.diff(ordered, axis=1, prepend=-np.inf) > 0
    first = np.maximum.accumulate(np.where(is_new, places, 0), axis=1)
    is_last = np.roll(is_new, -1, axis=1)
    is_last[:, -1] = True
    last = np.minimum.accumulate(np.where(is_last, places, places[-1])[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(rows.shape)
    np.put_along_axis(ranks, order, 1 + (first + last) / 2, axis=1)
    return ranks


def _ess(halves: np.ndarray) -> np.ndarray:
    """Effective draws of the mean of each quantity, from its autocorrelations by Geyer's initial monotone sequence.

    Sums of neighbouring autocorrelations are positive and fall; where an estimate is not, and beyond, there is noise.
    A quantity that never changes counts as independent draws.
    """
    _, num_chains, num_draws = halves.shape
    total = num_chains * num_draws
    covariance = _autocovariance(halves).mean(axis=1)
    within = covariance[:, :1] * num_draws / (num_draws - 1)
    variance = covariance[:, :1] + halves.mean(axis=2).var(axis=1, ddof=1)[:, None]
    is_constant = np.ptp(halves, axis=(1, 2)) < np.finfo(np.float64).resolution
    correlation = 1 - (within - covariance) / np.where(is_constant[:, None], 1, variance)
    correlation[:, 0] = 1
    # The last lags, of which nothing is known, are not looked at.
    num_pairs = max(1, math.ceil((num_draws - 2) / 2))
    pairs = correlation[:, 0 : 2 * num_pairs : 2] + correlation[:, 1 : 2 * num_pairs : 2]
    is_end = pairs <= 0
    is_end[:, -1] = True
    end = is_end.argmax(axis=1)
    falling = np.where(np.arange(num_pairs) < end[:, None], np.minimum.accumulate(pairs, axis=1), 0)
    rows = np.arange(len(halves))
    beyond = correlation[rows, 2 * end]
    beyond = np.where(pairs[rows, end] < 0, np.maximum(beyond, 0), beyond)
    time = np.maximum(-1 + 2 * falling.sum(axis=1) + beyond, 1 / np.log10(total))
    return np.where(is_constant, total, total / time)


def _autocovariance(halves: np.ndarray) -> np.ndarray:
    """At every lag, by the Fourier transform of the chains followed by as many zeros."""
    num_draws = halves.shape[2]
    length = next_fast_len(2 * num_draws, real=True)
    transformed = np.fft.rfft(halves - halves.mean(axis=2, keepdims=True), n=length)
    power = transformed.real**2 + transformed.imag**2
    return np.asarray(np.fft.irfft(power, n=length)[..., :num_draws] / num_draws)


@dataclass(frozen=True)
class Efficiency:
    """The cost of an effective draw, to be read with the fidelity: a biased chain can have excellent ESS.

    None where the effective sample size is undefined, or where the method makes no such evaluations.
    """

    ess_per_second: float | None
    ess_per_million_likelihoods: float | None
    ess_per_million_gradients: float | None
    #: Work of a step as a share of one pass over the data: evaluations per step and data point.
    data_fraction: float


def efficiency(
    ess: float | None, seconds: float, num_likelihoods: int, num_gradients: int, num_steps: int, num_points: int
) -> Efficiency:
    """Efficiency of a run: counts and ``ess`` are totals over its chains, ``seconds`` the sampling time of them all.

    Evaluations count single data points: a step of full_mh makes N likelihood evaluations (data fraction 1), a step of
    pbnn 2 n M, at the current and at the proposed parameters.
    """
    if not seconds > 0:
        raise ValueError(f"seconds = {seconds}: expected the positive sampling time of a finished run")
    if num_steps < 1 or num_points < 1 or num_likelihoods < 0 or num_gradients < 0:
        raise ValueError(
            f"num_steps = {num_steps}, num_points = {num_points}, num_likelihoods = {num_likelihoods}, "
            f"num_gradients = {num_gradients}: expected at least 1, 1, 0, 0"
        )
    return Efficiency(
        ess_per_second=_ratio(ess, seconds),
        ess_per_million_likelihoods=_ratio(ess, num_likelihoods / 1e6),
        ess_per_million_gradients=_ratio(ess, num_gradients / 1e6),
        data_fraction=(num_likelihoods + num_gradients) / (num_steps * num_points),
    )


def _ratio(ess: float | None, cost: float) -> float | None:
    return None if ess is None or cost == 0 else ess / cost


def pareto_k(log_weights: np.ndarray) -> float:
    """The shape k of a generalised Pareto law of the largest 3 sqrt(S) of S importance weights, a fifth at most.

    Above 1/2 their variance is infinite (Vehtari et al. 2024, *Pareto smoothed importance sampling*); k is infinite
    where these are too few or equal.
    """
    ordered = np.sort(log_weights.ravel())
    num_tail = math.floor(min(3 * math.sqrt(len(ordered)), len(ordered) / 5))
    if num_tail < MIN_TAIL or ordered[-num_tail] == ordered[-1]:
        return math.inf
    weights = np.exp(ordered[-num_tail - 1 :] - ordered[-1])
    fitted = _fitted_k(weights[1:] - weights[0])
    return (num_tail * fitted + PRIOR_WEIGHTS / 2) / (num_tail + PRIOR_WEIGHTS)


def _fitted_k(excess: np.ndarray) -> float:
    """k from the sorted excesses over a threshold: Zhang and Stephens (2009), the posterior mean of b = -k / sigma on a
    grid of their choice, and the k that is likeliest given it."""
    count = len(excess)
    num_grid = 30 + int(math.sqrt(count))
    quartile = excess[int(count / 4 + 0.5) - 1]
    grid = 1 / excess[-1] + (1 - np.sqrt(num_grid / (np.arange(1, num_grid + 1) - 0.5))) / (3 * quartile)
    shapes = np.log1p(-grid[:, None] * excess).mean(axis=1)
    posterior = softmax(count * (np.log(-grid / shapes) - shapes - 1))
    return float(np.log1p(-(grid @ posterior) * excess).mean())
