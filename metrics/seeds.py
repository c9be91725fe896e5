"""Statistics over seeds. Few seeds give wide intervals, one gives none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95 % interval; None where there are too few seeds for it."""

    mean: float | None
    low: float | None
    high: float | None
    num_seeds: int
    #: Seeds without a value (a failed run), or, for a difference, without a partner.
    num_missing: int

    @property
    def excludes_zero(self) -> bool:
        """Does the interval lie on one side of 0? Never so without an interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean_over_seeds(values: Mapping[int, float | None]) -> Estimate:
    """Mean of one value a seed, with the t interval of seeds - 1 degrees of freedom; None marks a missing value."""
    present = _present(values)
    return _estimate(list(present.values()), num_missing=len(values) - len(present))


def paired_difference(values: Mapping[int, float | None], baseline: Mapping[int, float | None]) -> Estimate:
    """Mean of value - baseline over the seeds that have both.

    A seed fixes data, network and start points, so what they contribute to both cancels.
    """
    ours, theirs = _present(values), _present(baseline)
    common = sorted(ours.keys() & theirs.keys())
    num_missing = len(values.keys() | baseline.keys()) - len(common)
    return _estimate([ours[seed] - theirs[seed] for seed in common], num_missing)


def _present(values: Mapping[int, float | None]) -> dict[int, float]:
    present = {seed: float(value) for seed, value in values.items() if value is not None}
    for seed, value in present.items():
        if not math.isfinite(value):
            raise ValueError(f"seed {seed} has the value {value}: expected a finite number, or None for a missing one")
    return present


def _estimate(numbers: list[float], num_missing: int) -> Estimate:
    count = len(numbers)
    if count == 0:
        return Estimate(None, None, None, 0, num_missing)
    mean = float(np.mean(numbers))
    if count == 1:
        return Estimate(mean, None, None, 1, num_missing)
    half_width = float(stdtrit(count - 1, (1 + LEVEL) / 2) * np.std(numbers, ddof=1) / math.sqrt(count))
    return Estimate(mean, mean - half_width, mean + half_width, count, num_missing)
