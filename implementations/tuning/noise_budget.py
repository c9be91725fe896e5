"""How noisy a loss difference may be: the largest variance whose bias stays within a budget.

A rule that accepts with A(theta -> theta') keeps the target where, for every move that raises U by Delta,

    r = log E[A(theta -> theta')] - log E[A(theta' -> theta)] + Delta = 0

with the mean over mini-batches. Two things take it away from 0: a variance that is itself an estimate with few degrees
of freedom nu, and noise that is no Gaussian.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from implementations.kernels import estimates
from implementations.kernels.acceptance import ACCEPTANCES
from implementations.kernels.contract import Array, Shapes

#: log A of a loss difference, its variance and that variance's degrees of freedom. The function itself, not its name:
#: what is remembered of one is never taken for another.
Acceptance = Callable[[Array, Array, float], Array]

#: r that a run may have: its density is off by 2 % for every nat.
BIAS_BUDGET = 0.02
#: The rise Delta at which r is looked at, in nats: what a typical move of a chain sees.
TYPICAL_RISE = 1.0
#: Skewness of the difference of one point's losses where nothing has measured it: that of an exponential law.
SKEWNESS = 2.0
#: Standard errors that are added to a skewness which was measured on a few moves.
NUM_ERRORS = 2.0
#: Rules that take the noise into account, or should.
NOISY_RULES = ("naive", "penalty", "penalty_corrected")
#: Where moves cost nothing but noise, sigma^2 2 Phi(-sigma / 2), the distance they cover, is largest at sigma = 2.38.
MOST_NOISE = 2.38**2
NUM_NODES = 200


def balance_residual(acceptance: Acceptance, variance: float, dof: float) -> float:
    """r of an acceptance under Gaussian noise whose variance is a chi-squared estimate, by quadrature.

    For ``penalty`` and nu = 4: 0.005, 0.020, 0.063, 0.199 at variances of 0.3, 0.7, 1.6 and 5. NaN where there is so
    much noise that no move is accepted.
    """
    # Here, because every run imports this module and few call this; scipy.stats would take half a second to import.
    from scipy.special import gammaincinv, ndtri

    quantiles = (np.arange(NUM_NODES) + 0.5) / NUM_NODES
    noise = math.sqrt(variance) * ndtri(quantiles)
    estimated = variance * (np.ones(1) if math.isinf(dof) else 2 * gammaincinv(dof / 2, quantiles) / dof)

    def mean_acceptance(rise: float) -> float:
        delta, spread = (part.ravel() for part in np.meshgrid(rise + noise, estimated))
        # Beyond its first zero ``penalty_corrected`` rejects, whatever its recurrence then divides by.
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.exp(np.minimum(acceptance(delta, spread, dof), 0)).mean())

    there, back = mean_acceptance(TYPICAL_RISE), mean_acceptance(-TYPICAL_RISE)
    return math.log(there / back) + TYPICAL_RISE if there and back else math.nan


@lru_cache(maxsize=256)
def largest_estimated(acceptance: Acceptance, dof: float) -> float:
    """The largest variance, up to MOST_NOISE, at which ``balance_residual`` is within the budget."""
    low, high = 1e-3, MOST_NOISE
    if balance_residual(acceptance, high, dof) <= BIAS_BUDGET:
        return high
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if balance_residual(acceptance, middle, dof) <= BIAS_BUDGET else (low, middle)
    return low


def largest_skewed(count: int, skewness: float = SKEWNESS, is_known: bool = False) -> float:
    """The largest variance of a mean of ``count`` points whose third cumulant kappa_3 is within the budget.

    That cumulant is gamma sigma^3 / sqrt(count), with gamma the skewness of one point, and takes log E[exp(-delta)]
    away by -kappa_3 / 6. Where the variance is estimated from the same points it goes along with delta, by kappa_3 too,
    and half of that is added: |r| is kappa_3 / 6 with a known variance, and up to kappa_3 / 3 with an estimated one.
    """
    allowed = (6 if is_known else 3) * BIAS_BUDGET
    return float((allowed * math.sqrt(count) / max(skewness, 1e-6)) ** (2 / 3))


def largest_variance(rule: str, shapes: Shapes, skewness: float | None = None) -> float:
    """The variance of the loss difference that a method may have; infinite where it has no noise.

    ``skewness`` is that of one point, where it was measured (``shared_skewness``).
    """
    if rule not in NOISY_RULES:
        return math.inf
    dof, count = estimates.degrees_of_freedom(shapes), estimates.points_of_delta(shapes)
    of_shape = largest_skewed(count, SKEWNESS if skewness is None else skewness, math.isinf(dof))
    return min(largest_estimated(ACCEPTANCES[rule], dof), of_shape)


def shared_skewness(audit: Mapping[str, np.ndarray], shapes: Shapes) -> float | None:
    """The skewness of one point that audited moves have in common, each taken uphill, and what its error may hide.

    Back and forth a move has noise of opposite skewness. What changes its sign from one uphill move to the next evens
    out over a chain, and what all of them share tilts its target. None where no move tells.
    """
    if "skewness" not in audit or len(audit["skewness"]) < 2:
        return None
    uphill = np.sign(audit["true_delta"] - audit["log_ratio_proposal"]) * audit["skewness"]
    error = np.std(uphill, ddof=1, dtype=float) / math.sqrt(len(uphill))
    of_delta = abs(np.mean(uphill, dtype=float)) + NUM_ERRORS * error
    return float(of_delta * math.sqrt(estimates.points_of_delta(shapes)))
