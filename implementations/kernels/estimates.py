"""Estimates of the loss difference delta between two positions, and of its variance.

Everywhere d_j = l_j(theta') - l_j(theta), and the prior's part is ``log_prior_drop`` = log p(theta) - log p(theta').
"""

import math

from array_api_compat import array_namespace

from implementations.kernels.contract import Array, Shapes

VARIANCES = {
    "batches": "spread of the M mini-batch means, for their average (paper: chi-squared); too large by N / (N - n M)",
    "batches_finite": "the same with the finite-population factor 1 - n M / N",
    "single": "the first mini-batch, its variance from all M (paper: mini-batch loss difference variance); M >= 2",
    "single_finite": "the same with the finite-population factor 1 - n / N",
    "literal": "single with deviations from the first mini-batch itself: twice the variance on average, a diagnostic",
    "points": "spread of the n M points with the finite-population factor 1 - n M / N; works for M = 1",
    "points_infinite": "the same without that factor",
    "oracle": "the population variance over all N points: a diagnostic, its cost grows with N",
}
#: Estimators whose loss difference is that of the first mini-batch.
OF_ONE_BATCH = frozenset({"single", "single_finite", "literal"})
#: Estimators from the spread of single points; the others but ``oracle`` are from that of mini-batches.
OF_POINTS = frozenset({"points", "points_infinite"})
#: Estimators that are too large by N / (N - points in delta): as if points were drawn with replacement.
WITHOUT_FACTOR = frozenset({"batches", "single", "literal", "points_infinite"})


#: Slots of the table that mini-batches draw from by leverage, K / N (control_variates.leverage). No point is weighed by
#: more, however wrong the leverages are.
SLOTS_PER_POINT = 4


def population(num_points: int, shapes: Shapes) -> int:
    """How many values a mini-batch is drawn from: slots, or the points themselves."""
    return num_points * (SLOTS_PER_POINT if shapes.get("selection") == "leverage" else 1)


def of_all(differences: Array, log_prior_drop: Array, weight: Array) -> tuple[Array, Array]:
    """Delta from the differences of all points (chains, N); its variance is 0.

    Delta = log p(theta) - log p(theta') + (w / N) sum_j d_j   (paper: *MH usual acceptance*)
    """
    xp = array_namespace(differences)
    delta = log_prior_drop + weight * xp.mean(differences, axis=-1)
    return delta, xp.zeros_like(delta)


def of_batches(
    differences: Array, log_prior_drop: Array, weight: Array, num_points: int, variance: str
) -> tuple[Array, Array]:
    """delta and its variance from the differences in M mini-batches of n (chains, M, n).

    delta_i = log p(theta) - log p(theta') + (w / n) sum_{j in B_i} d_j   (paper: *mini-batch loss difference*)

    - ``batches``: the mean of the delta_i; sum (delta_i - delta)^2 / (M (M - 1))   (paper: *chi-squared*)
    - ``single``: delta_1; sum (delta_i - mean)^2 / (M - 1)   (paper: *mini-batch loss difference variance*)
    - ``literal``: delta_1; sum (delta_i - delta_1)^2 / (M - 1)
    - ``points``: the mean of the delta_i; w^2 / (n M) var(d_j) (1 - n M / N)
    - ``oracle``: as ``points``; ``known_variance`` takes the variance's place

    Names with ``_finite`` have the factor 1 - (points in delta) / N, those with ``_infinite`` do not.
    """
    xp = array_namespace(differences)
    num_batches, batch_size = differences.shape[-2:]
    deltas = log_prior_drop[:, None] + weight * xp.mean(differences, axis=-1)
    count = batch_size if variance in OF_ONE_BATCH else num_batches * batch_size
    unsampled = finite_factor(variance, count, num_points)
    if variance == "literal":
        return deltas[:, 0], xp.sum((deltas - deltas[:, :1]) ** 2, axis=-1) / (num_batches - 1)
    if variance in OF_ONE_BATCH:
        return deltas[:, 0], xp.var(deltas, axis=-1, correction=1) * unsampled
    delta = xp.mean(deltas, axis=-1)
    if variance in ("batches", "batches_finite"):
        return delta, xp.var(deltas, axis=-1, correction=1) / num_batches * unsampled
    if count == 1:
        # One point, which only ``naive`` takes, tells nothing of its spread.
        return delta, xp.zeros_like(delta)
    spread = xp.var(differences, axis=(-2, -1), correction=1)
    return delta, weight**2 * spread / count * unsampled


def finite_factor(variance: str, count: int, num_points: int) -> float:
    """The factor 1 - (points in delta) / N of an estimator, or 1 where it has none."""
    return 1 if variance in WITHOUT_FACTOR else 1 - count / num_points


def known_variance(differences: Array, weight: Array, count: int) -> Array:
    """Variance of delta over all draws of ``count`` points without replacement, from all differences (chains, N)."""
    num_points = differences.shape[-1]
    spread = array_namespace(differences).var(differences, axis=-1, correction=1)
    # 1 - count / N would leave less than 0 to rounding where a compiled count is N.
    return weight**2 * spread / count * ((num_points - count) / num_points)


def shape_of_delta(differences: Array, count: int) -> tuple[Array, Array]:
    """Skewness and excess kurtosis of delta over all draws of k = ``count`` points without replacement.

    With g1, g2 those of all differences (chains, N), and f = k / N (the kurtosis to leading order in f):

        skewness = g1 (1 - 2 f) / sqrt(k (1 - f)),   excess kurtosis = g2 / k
    """
    xp = array_namespace(differences)
    deviations = differences - xp.mean(differences, axis=-1)[:, None]
    variance = xp.mean(deviations**2, axis=-1)
    # Where a move changes no loss there is no noise, and its shape is that of none.
    scale = xp.sqrt(xp.where(variance > 0, variance, xp.ones_like(variance)))[:, None]
    third, fourth = (xp.mean((deviations / scale) ** power, axis=-1) for power in (3, 4))
    return third * skewness_of_mean(count, differences.shape[-1]), (fourth - 3) / count


def skewness_of_mean(count: int, num_points: int) -> float:
    """Skewness of the mean of ``count`` points, drawn without replacement, over that of all points."""
    share = count / num_points
    return (1 - 2 * share) / math.sqrt(count * (1 - share)) if share < 1 else 0.0


def points_of_delta(shapes: Shapes) -> int:
    """Points that the loss difference is the mean of: one mini-batch's, or those of all."""
    num_batches = 1 if shapes.get("variance") in OF_ONE_BATCH else shapes.get("num_batches", 0)
    return int(num_batches * shapes.get("batch_size", 0))


def degrees_of_freedom(shapes: Shapes) -> float:
    """nu of the variance estimate; infinite where the variance is known."""
    if shapes.get("variance") in (None, "oracle"):
        return math.inf
    num_batches: int = shapes["num_batches"]
    return num_batches * shapes["batch_size"] - 1 if shapes["variance"] in OF_POINTS else num_batches - 1
