"""How far a run is from the reference answer of its own target, in units of the reference's sd.

Every deviation carries the size that Monte Carlo error alone would give it, from the effective sample sizes of run and
reference: a smaller bias is not claimed. A closed-form reference has an infinite one.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

#: Deviations below this many Monte Carlo errors are not claimed: 95 % of a normal deviation lies within.
RESOLUTION = 2.0
#: Directions of the sliced distance, the same for all runs.
NUM_DIRECTIONS = 128


@dataclass(frozen=True)
class Deviation:
    """A deviation from the reference, beside the Monte Carlo error of run and reference together."""

    value: float
    #: None where the run's effective sample size is undefined; nothing is claimed then.
    monte_carlo_error: float | None
    is_resolved: bool


def mean_error(
    mean: np.ndarray,
    sd: np.ndarray,
    reference_mean: np.ndarray,
    reference_sd: np.ndarray,
    ess: float | None,
    reference_ess: float = math.inf,
) -> Deviation:
    """Error of the predictive mean in units of the reference's sd, both as RMS over test points (and classes)."""
    _check(mean, sd, reference_mean, reference_sd)
    unit = _unit(reference_sd)
    error = _monte_carlo_error(_rms(sd) / unit, ess, 1.0, reference_ess)
    return _deviation(_rms(mean - reference_mean) / unit, 0.0, error)


def squared_bias(
    chain_means: np.ndarray, reference_mean: np.ndarray, reference_sd: np.ndarray, reference_error: np.ndarray
) -> float | None:
    """Square of ``mean_error`` with the Monte Carlo part taken off, from the means of C chains (chains, n, K).

    With d_c the error of chain c, mean over test points of the products of different chains, whose errors are
    independent, less the reference's own squared standard error:

        b^2 = mean_n [ sum_{c != c'} d_c d_c' / (C (C - 1)) - e^2 ] / unit^2

    On average the square of the bias, and so below 0 half of the time where there is none; None of one chain.
    """
    num_chains = len(chain_means)
    _check(chain_means[0], reference_mean, reference_sd, reference_error)
    if num_chains == 1:
        return None
    errors = chain_means - reference_mean
    products = errors.sum(axis=0) ** 2 - np.sum(errors**2, axis=0)
    squares = products / (num_chains * (num_chains - 1)) - reference_error**2
    return float(np.mean(squares)) / _unit(reference_sd) ** 2


def point_error(
    mean: np.ndarray,
    reference_mean: np.ndarray,
    reference_sd: np.ndarray,
    ess: float | None,
    reference_ess: float = math.inf,
) -> Deviation:
    """RMS over the predictions of the error of the mean, each in units of its own sd in the reference.

    Unlike ``mean_error``, to which the most uncertain predictions count most, it tells a mean that is off where the
    reference is sure. Predictions without any spread are left out.
    """
    _check(mean, reference_mean, reference_sd)
    _unit(reference_sd)
    is_spread = reference_sd > 0
    value = _rms((mean - reference_mean)[is_spread] / reference_sd[is_spread])
    return _deviation(value, 0.0, _monte_carlo_error(1.0, ess, 1.0, reference_ess))


def sd_ratio(sd: np.ndarray, reference_sd: np.ndarray, ess: float | None, reference_ess: float = math.inf) -> Deviation:
    """Predictive sd relative to the reference's, pooled: sqrt(mean variance / mean reference variance)."""
    _check(sd, reference_sd)
    ratio = _rms(sd) / _unit(reference_sd)
    # The sd of S normal draws has the relative error 1 / sqrt(2 S).
    error = _monte_carlo_error(ratio / math.sqrt(2), ess, ratio / math.sqrt(2), reference_ess)
    return _deviation(ratio, 1.0, error)


def total_variation(
    mean: np.ndarray,
    sd: np.ndarray,
    reference_mean: np.ndarray,
    reference_sd: np.ndarray,
    ess: float | None,
    reference_ess: float = math.inf,
) -> Deviation:
    """Mean over test points of 1/2 sum_k |p_k - q_k| between class probabilities (n, K); from 0 to 1."""
    _check(mean, sd, reference_mean, reference_sd)
    value = 0.5 * float(np.abs(mean - reference_mean).sum(axis=1).mean())
    if ess is None:
        return _deviation(value, 0.0, None)
    error = np.sqrt(sd**2 / ess + reference_sd**2 / reference_ess)
    # sqrt(2 / pi) is the mean of |N(0, 1)|.
    return _deviation(value, 0.0, 0.5 * math.sqrt(2 / math.pi) * float(error.sum(axis=1).mean()))


def agreement(mean: np.ndarray, reference_mean: np.ndarray) -> float:
    """Share of test points with the same most probable class, of class probabilities (n, K)."""
    _check(mean, reference_mean)
    return float(np.mean(mean.argmax(axis=1) == reference_mean.argmax(axis=1)))


def sliced_w2_to_gaussian(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray, ess: float | None) -> Deviation:
    """Sliced 2-Wasserstein distance of parameter draws (..., P) from N(mean, covariance), in its sd.

    Root mean square, over random directions of the space in which the reference is N(0, I), of the distance between
    the projections; so no direction counts more for being wide. Exact in each direction: with x_(i) sorted,

        W2^2 = mean x^2 + 1 - 2 sum_i x_(i) c_i,   c_i = integral of Phi^-1 over ((i - 1) / S, i / S)
    """
    projected = np.sort(_project(draws, mean, covariance), axis=0)
    squares = np.mean(projected**2, axis=0) + 1 - 2 * _normal_cells(len(projected)) @ projected
    return _w2_deviation(squares, ess, math.inf)


def sliced_w2_to_draws(draws: np.ndarray, reference: np.ndarray, ess: float | None, reference_ess: float) -> Deviation:
    """The same distance from reference draws (..., P), whitened by their own mean and covariance."""
    reference = reference.reshape(-1, reference.shape[-1]).astype(np.float64)
    num_draws, num_parameters = reference.shape
    if num_draws <= num_parameters:
        raise ValueError(
            f"{num_draws} reference draws of {num_parameters} parameters: expected more draws than parameters"
        )
    mean, covariance = reference.mean(axis=0), np.atleast_2d(np.cov(reference, rowvar=False))
    ours = np.sort(_project(draws, mean, covariance), axis=0)
    theirs = np.sort(_project(reference, mean, covariance), axis=0)
    # Both quantile functions are constant between the merged steps k / S and k / R.
    steps = np.union1d(np.arange(len(ours) + 1) / len(ours), np.arange(len(theirs) + 1) / len(theirs))
    middles, widths = (steps[1:] + steps[:-1]) / 2, np.diff(steps)
    gaps = ours[(middles * len(ours)).astype(int)] - theirs[(middles * len(theirs)).astype(int)]
    return _w2_deviation(widths @ gaps**2, ess, reference_ess)


def _project(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Draws (S, directions) along random directions, where the reference has mean 0 and covariance I."""
    num_parameters = len(mean)
    if draws.shape[-1] != num_parameters or draws.size == 0 or not np.isfinite(draws).all():
        raise ValueError(
            f"draws of shape {draws.shape}: expected finite ones of the reference's {num_parameters} parameters"
        )
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ValueError(
            "the reference's covariance is not positive definite: some parameter, or sum, is fixed"
        ) from None
    directions = np.random.default_rng(0).normal(size=(num_parameters, NUM_DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    centred = draws.reshape(-1, num_parameters).astype(np.float64) - mean
    return solve_triangular(factor, centred.T, lower=True).T @ directions


def _normal_cells(count: int) -> np.ndarray:
    """Integrals of Phi^-1 over ((i - 1) / count, i / count), from the antiderivative -phi(Phi^-1(u))."""
    density = np.exp(-0.5 * ndtri(np.arange(count + 1) / count) ** 2) / math.sqrt(2 * math.pi)
    return -np.diff(density)


def _w2_by_chance(ess: float) -> float:
    """E W2^2 between ``ess`` independent normal draws and their law: the mean variance of sample quantiles.

    1/S mean_i u_i (1 - u_i) / phi(Phi^-1(u_i))^2,   u_i = (i - 1/2) / S       (5 % low at most for S >= 50)
    """
    if math.isinf(ess):
        return 0.0
    count = max(1, round(ess))
    levels = (np.arange(count) + 0.5) / count
    return float(np.mean(levels * (1 - levels) * 2 * math.pi * np.exp(ndtri(levels) ** 2)) / count)


def _w2_deviation(squares: np.ndarray, ess: float | None, reference_ess: float) -> Deviation:
    value = math.sqrt(max(0.0, float(squares.mean())))
    error = None if ess is None else math.sqrt(_w2_by_chance(ess) + _w2_by_chance(reference_ess))
    return _deviation(value, 0.0, error)


def _monte_carlo_error(sd: float, ess: float | None, reference_sd: float, reference_ess: float) -> float | None:
    """Standard error of a difference of two means."""
    return None if ess is None else math.sqrt(sd**2 / ess + reference_sd**2 / reference_ess)


def _deviation(value: float, without_bias: float, error: float | None) -> Deviation:
    return Deviation(value, error, error is not None and abs(value - without_bias) > RESOLUTION * error)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def _unit(reference_sd: np.ndarray) -> float:
    unit = _rms(reference_sd)
    if unit == 0:
        raise ValueError("the reference's sd is 0 everywhere: there is no unit to measure an error in")
    return unit


def _check(*arrays: np.ndarray) -> None:
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) != 1 or arrays[0].size == 0 or not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(f"run and reference of shapes {shapes}: expected finite values of one shape, not empty")
