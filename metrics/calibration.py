"""Does the predictive distribution know what it does not know? Reliability curves, and two numbers of any of them.

A curve compares what the model claimed with what happened, for classes (confidence and accuracy in bins) and for
regression (nominal and observed coverage of central intervals). ``ece`` and ``confidence_gap`` read both.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from metrics.prediction import check_probabilities

NUM_BINS = 15
NUM_LEVELS = 19
#: Test sets drawn to see what chance alone gives; the mean of so many is known to some three per cent.
NUM_RESAMPLED = 200


@dataclass(frozen=True, eq=False)
class Reliability:
    """One entry a bin or level. A bin without points says nothing and is left out."""

    #: Mean confidence of the bin's predictions, or the interval's level.
    nominal: np.ndarray
    #: Share of them that are right, or of targets inside the interval.
    observed: np.ndarray
    counts: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        return self.counts / self.counts.sum()


def ece(curve: Reliability) -> float:
    """Expected calibration error: the mean of |nominal - observed|, over points or levels.

    Never below |confidence_gap|, and above 0 by chance alone (``class_ece_by_chance``, ``coverage_ece_by_chance``).
    """
    return float(curve.weights @ np.abs(curve.nominal - curve.observed))


def confidence_gap(curve: Reliability) -> float:
    """The mean of nominal - observed: positive is overconfident, negative underconfident.

    For classes that is mean confidence - accuracy, whatever the bins.
    """
    return float(curve.weights @ (curve.nominal - curve.observed))


def class_ece_by_chance(probabilities: np.ndarray, num_bins: int = NUM_BINS) -> float:
    """Mean ECE of a calibrated model with these predictions: each is right with its own confidence, resampled."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    bins = np.searchsorted(np.linspace(0, 1, num_bins + 1)[1:-1], confidence, side="right")
    random = np.random.default_rng(0)
    gaps = [
        np.abs(np.bincount(bins, weights=confidence - (random.random(len(confidence)) < confidence))).sum()
        for _ in range(NUM_RESAMPLED)
    ]
    return float(np.mean(gaps)) / len(confidence)


@cache
def coverage_ece_by_chance(num_points: int, num_levels: int = NUM_LEVELS) -> float:
    """The same of coverage: the distribution function at the targets is uniform."""
    random = np.random.default_rng(0)
    return float(
        np.mean([ece(coverage_reliability(random.random(num_points), num_levels)) for _ in range(NUM_RESAMPLED)])
    )


def class_reliability(probabilities: np.ndarray, targets: np.ndarray, num_bins: int = NUM_BINS) -> Reliability:
    """Accuracy against confidence (the largest probability) in bins [k, k + 1) / num_bins of equal width."""
    check_probabilities(probabilities, targets)
    return _binned(probabilities, targets, np.linspace(0, 1, num_bins + 1))


def equal_mass_reliability(probabilities: np.ndarray, targets: np.ndarray, num_bins: int = NUM_BINS) -> Reliability:
    """The same in bins of equally many points, so that a crowd near confidence 1 does not share one bin.

    Equal confidences stay together, in fewer bins if need be: no answer depends on the order of the points.
    """
    check_probabilities(probabilities, targets)
    edges = np.quantile(probabilities.max(axis=1), np.linspace(0, 1, num_bins + 1))
    return _binned(probabilities, targets, edges)


def coverage_reliability(pit: np.ndarray, num_levels: int = NUM_LEVELS) -> Reliability:
    """Observed against nominal coverage of the central intervals of levels k / (num_levels + 1).

    ``pit`` is the predictive distribution function at the targets: the interval of level c holds the target where
    |2 pit - 1| <= c.
    """
    if pit.ndim != 1 or pit.size == 0 or not (pit.min() >= 0 and pit.max() <= 1):
        raise ValueError(f"pit of shape {pit.shape}: expected values from 0 to 1, one a target, none of them NaN")
    levels = np.arange(1, num_levels + 1) / (num_levels + 1)
    observed = np.mean(np.abs(2 * pit - 1)[:, None] <= levels, axis=0)
    return Reliability(levels, observed, np.full(num_levels, len(pit)))


def _binned(probabilities: np.ndarray, targets: np.ndarray, edges: np.ndarray) -> Reliability:
    """Mean confidence and accuracy between edges; the last bin includes its upper edge."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    is_right = probabilities.argmax(axis=1) == targets
    bins = np.searchsorted(edges[1:-1], confidence, side="right")
    counts = np.bincount(bins)
    is_filled = counts > 0
    nominal = np.bincount(bins, weights=confidence)[is_filled] / counts[is_filled]
    observed = np.bincount(bins, weights=is_right)[is_filled] / counts[is_filled]
    return Reliability(nominal, observed, counts[is_filled])
