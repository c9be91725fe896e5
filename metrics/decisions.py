"""The decision audit: what the noise of mini-batches did to the accept/reject decisions of a run.

On audited steps the full-data loss difference stands beside the noisy one, and both rules decide with the same
uniform u: accept where log u <= log A.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

#: Fewer values than this say nothing about a distribution's shape.
MIN_SHAPE = 8


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
    variance_ratio: VarianceRatio | None
    noise: Noise | None


def audit(
    log_ratio_proposal: np.ndarray,
    delta: np.ndarray,
    variance: np.ndarray,
    log_accept: np.ndarray,
    true_delta: np.ndarray,
    true_variance: np.ndarray,
    log_uniform: np.ndarray,
) -> Audit:
    """Audit of the steps whose numbers are given, one array entry (num_audited,) a step.

    The run accepted where log_uniform <= log_accept; the exact rule (paper: *MH usual acceptance*) accepts where

        log u <= log q(theta | theta') - log q(theta' | theta) - true_delta
    """
    _check(locals())  # The arguments by name: first, while there is nothing else.
    is_accepted = log_uniform <= log_accept
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
        variance_ratio=_variance_ratio(variance[is_noisy], true_variance[is_noisy]),
        noise=_noise(noise / np.sqrt(true_variance[is_noisy])),
    )


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
