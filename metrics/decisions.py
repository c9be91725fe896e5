"""The decision audit: what the noise of mini-batches did to the accept/reject decisions of a run.

On audited steps the full-data loss difference stands beside the noisy one, and both rules decide with the same
uniform u: accept where log u <= log A.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

#: Fewer values than this say nothing about a distribution's shape.
MIN_SHAPE = 8
#: Moves whose acceptances differ by a larger factor than exp of this are hardly ever made, and redrawn mini-batches may
#: not show how rarely.
LARGEST_MOVE = 7.5


@dataclass(frozen=True)
class Rate:
    """A share of the audited steps with its 95 % interval (Wilson); steps far apart are taken as independent."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class VarianceRatio:
    """Estimated over true variance, step by step. Without bias the mean is 1; the median is lower, for few batches."""

    mean: float
    median: float
    #: Quantiles 5 % and 95 %.
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """Shape of z = (delta - true_delta) / sqrt(true_variance), which the penalty takes for N(0, 1)."""

    mean: float
    sd: float
    skewness: float
    excess_kurtosis: float
    #: Largest error of a probability if z is taken for N(0, 1) (Kolmogorov-Smirnov): an effect size, which does not
    #: grow with the number of steps as the test's verdict does. By chance about 0.9 / sqrt(steps).
    normality_distance: float
    normality_p_value: float


@dataclass(frozen=True)
class Shape:
    """The loss difference given the move, over all mini-batches: RMS over moves, whose signs would cancel in a mean."""

    skewness: float
    excess_kurtosis: float


@dataclass(frozen=True)
class Spread:
    """What the penalty has to follow, and how well it does: standard deviations over moves, relative to the mean."""

    #: Of the true variance.
    variance: float
    #: Of estimated over true variance.
    noise: float


@dataclass(frozen=True)
class Audit:
    """The audit of a run; ``variance_ratio`` and ``noise`` are None where there is no noise to speak of."""

    num_audited: int
    #: Audited steps whose loss difference is finite and has a positive true variance.
    num_noisy: int
    wrong_accepts: Rate
    wrong_rejects: Rate
    #: Mean acceptance probability of the run's rule, and of the exact rule on the same proposals.
    acceptance: float
    exact_acceptance: float
    #: Mean acceptance probability that the same noisy differences would have without the penalty, minus ``acceptance``.
    lost_to_penalty: float
    #: Mean acceptance of the penalty method if its noise were normal and of known variance (``averaged_acceptance``).
    averaged_acceptance: float
    variance_ratio: VarianceRatio | None
    noise: Noise | None
    shape: Shape | None = None
    spread: Spread | None = None
    #: Mean number of points that a decision looked at; None where every decision looks at the same number.
    mean_points: float | None = None


def audit(
    log_ratio_proposal: np.ndarray,
    delta: np.ndarray,
    variance: np.ndarray,
    log_accept: np.ndarray,
    true_delta: np.ndarray,
    true_variance: np.ndarray,
    log_uniform: np.ndarray,
    skewness: np.ndarray | None = None,
    excess_kurtosis: np.ndarray | None = None,
    log_exact: np.ndarray | None = None,
    num_points: np.ndarray | None = None,
) -> Audit:
    """Audit of the steps whose numbers are given, one array entry (num_audited,) a step.

    The run accepted where log_uniform <= log_accept; the exact rule (paper: *MH usual acceptance*) accepts where

        log u <= log q(theta | theta') - log q(theta' | theta) - true_delta

    or, for a rule other than Metropolis', where log u <= ``log_exact``, that rule's acceptance without noise.
    ``skewness`` and ``excess_kurtosis`` are those of the loss difference over all draws of its mini-batches, and
    ``num_points`` those a decision looked at, where that varies.
    """
    # The arguments by name: first, while there is nothing else.
    given = {name: array for name, array in locals().items() if array is not None}
    shape = given.pop("skewness", None), given.pop("excess_kurtosis", None)
    _check(given)
    is_accepted = log_uniform <= log_accept
    if log_exact is None:
        log_exact = log_ratio_proposal - true_delta
    is_right_to_accept = log_uniform <= log_exact
    acceptance = _mean_acceptance(log_accept)
    # An infinite difference (a proposal of no density) is a decision, but no sample of the noise.
    is_noisy = (true_variance > 0) & np.isfinite([delta, variance, true_delta, true_variance]).all(axis=0)
    noise = delta[is_noisy] - true_delta[is_noisy]
    return Audit(
        num_audited=len(delta),
        num_noisy=int(is_noisy.sum()),
        wrong_accepts=_rate(is_accepted & ~is_right_to_accept),
        wrong_rejects=_rate(~is_accepted & is_right_to_accept),
        acceptance=acceptance,
        exact_acceptance=_mean_acceptance(log_exact),
        lost_to_penalty=_mean_acceptance(log_ratio_proposal - delta) - acceptance,
        averaged_acceptance=_mean_averaged(true_delta - log_ratio_proposal, true_variance),
        variance_ratio=_variance_ratio(variance[is_noisy], true_variance[is_noisy]),
        noise=_noise(noise / np.sqrt(true_variance[is_noisy])),
        shape=_shape(*shape, is_noisy),
        spread=_spread(variance[is_noisy], true_variance[is_noisy]),
        mean_points=None if num_points is None else float(num_points.mean()),
    )


def averaged_acceptance(difference: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The penalty's acceptance, integrated over its Gaussian noise (paper: *noisy averaged A*).

        A(D) = E min(1, exp(-D - sigma Z - sigma^2 / 2)),   Z ~ N(0, 1)

    In closed form, with m = D + sigma^2 / 2, that is Phi(-m / sigma) + exp(-D) Phi(m / sigma - sigma); without noise
    the usual min(1, exp(-D)).
    """
    mean = difference + variance / 2
    # So little noise that it is none, in place of a division by 0.
    sd = np.sqrt(np.maximum(variance, 1e-24))
    # A tail whose factor is infinite has a probability of 0; only their logarithms can be added.
    tail = np.exp(np.minimum(0.0, stats.norm.logcdf(mean / sd - sd) - difference))
    return np.asarray(stats.norm.cdf(-mean / sd) + tail)


def _mean_averaged(difference: np.ndarray, variance: np.ndarray) -> float:
    """Over moves; one of an infinite difference is never accepted."""
    found = np.zeros(len(difference))
    is_finite = np.isfinite(difference) & np.isfinite(variance)
    found[is_finite] = averaged_acceptance(difference[is_finite], variance[is_finite])
    return float(found.mean())


@dataclass(frozen=True)
class Balance:
    """How far a rule is from detailed balance, on moves from low to high loss: > 0 goes uphill too often."""

    residual: float
    #: Standard error, of the moves and of the redrawn mini-batches together.
    error: float
    num_moves: int


def balance(
    there: np.ndarray,
    there_variance: np.ndarray,
    back: np.ndarray,
    back_variance: np.ndarray,
    exact: np.ndarray,
) -> Balance | None:
    """The detailed-balance residual of moves (k,), whose mini-batches were redrawn many times each way.

        r = log E[A(theta -> theta')] - log E[A(theta' -> theta)] - exact

    ``there`` and ``back`` are the mean acceptances with the variances of these means, ``exact`` is the log of what
    their ratio should be. r changes its sign with the direction, so moves are taken uphill, where exact < 0. They are
    chosen by what is known of them, |exact| <= LARGEST_MOVE: those whose estimate happens to be above 0 are estimated
    too high. None where too few are left that were ever accepted both ways.
    """
    # In single precision the square of a rare acceptance is 0.
    there, there_variance, back, back_variance, exact = (
        array.astype(np.float64) for array in (there, there_variance, back, back_variance, exact)
    )
    is_seen = (abs(exact) <= LARGEST_MOVE) & (there > 0) & (back > 0)
    if is_seen.sum() < 2:
        return None
    # The mean of a logarithm is below the logarithm of the mean by half its relative variance.
    logs = [
        np.log(mean[is_seen]) + 0.5 * variance[is_seen] / mean[is_seen] ** 2
        for mean, variance in ((there, there_variance), (back, back_variance))
    ]
    residuals = -np.sign(exact[is_seen]) * (logs[0] - logs[1] - exact[is_seen])
    error = residuals.std(ddof=1) / np.sqrt(len(residuals))
    return Balance(float(residuals.mean()), float(error), len(residuals))


def _mean_acceptance(log_accept: np.ndarray) -> float:
    """Mean of min(1, A)."""
    return float(np.mean(np.exp(np.minimum(log_accept, 0))))


def _rate(is_wrong: np.ndarray) -> Rate:
    test = stats.binomtest(int(is_wrong.sum()), len(is_wrong))
    interval = test.proportion_ci(confidence_level=0.95, method="wilson")
    return Rate(float(test.statistic), float(interval.low), float(interval.high))


def _variance_ratio(variance: np.ndarray, true_variance: np.ndarray) -> VarianceRatio | None:
    if len(variance) == 0:
        return None
    ratio = variance / true_variance
    low, median, high = (float(value) for value in np.quantile(ratio, [0.05, 0.5, 0.95]))
    return VarianceRatio(float(ratio.mean()), median, low, high)


def _shape(skewness: np.ndarray | None, excess_kurtosis: np.ndarray | None, is_noisy: np.ndarray) -> Shape | None:
    if skewness is None or excess_kurtosis is None or not is_noisy.any():
        return None
    return Shape(*(float(np.sqrt(np.mean(array[is_noisy] ** 2))) for array in (skewness, excess_kurtosis)))


def _spread(variance: np.ndarray, true_variance: np.ndarray) -> Spread | None:
    if len(variance) < MIN_SHAPE or not variance.any():
        return None
    relative, ratio = true_variance / true_variance.mean(), variance / true_variance
    return Spread(float(relative.std(ddof=1)), float(ratio.std(ddof=1) / ratio.mean()))


def _noise(standardised: np.ndarray) -> Noise | None:
    if len(standardised) < MIN_SHAPE or np.ptp(standardised) == 0:
        return None
    test = stats.kstest(standardised, "norm")
    return Noise(
        mean=float(standardised.mean()),
        sd=float(standardised.std(ddof=1)),
        skewness=float(stats.skew(standardised)),
        excess_kurtosis=float(stats.kurtosis(standardised)),
        normality_distance=float(test.statistic),
        normality_p_value=float(test.pvalue),
    )


def _check(arrays: dict[str, np.ndarray]) -> None:
    shape = arrays["delta"].shape
    for name, array in arrays.items():
        if array.shape != shape or array.ndim != 1 or array.size == 0:
            raise ValueError(f"{name} of shape {array.shape}: expected (num_audited,) like delta {shape}, not empty")
        if np.isnan(array).any():
            raise ValueError(f"{name}: {np.isnan(array).sum()} of {array.size} values are NaN")
    for name in ("variance", "true_variance"):
        if arrays[name].min() < 0:
            raise ValueError(f"{name}: the least value {arrays[name].min()} is negative")
