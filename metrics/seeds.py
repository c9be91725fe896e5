"""Statistics over seeds. Few seeds give wide intervals, one gives none."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import chdtr, chdtri, stdtr, stdtrit

from metrics.fidelity import RESOLUTION

LEVEL = 0.95
#: Chance of a wrong answer on either side of an interval.
ALPHA = (1 - LEVEL) / 2
#: What values a quantity can have, and so where its interval may lie (``bounded``); anything else may have any sign.
POSITIVE, DISTANCE, RATE = "positive", "distance", "rate"
#: On which scale an interval is made: the quantity's own, that of its logarithm, or that of its square.
PLAIN, LOG, SQUARE = "plain", "log", "square"
#: How much farther the upper end of a mean of squares lies than that of its logarithm (``_Squares``), from simulations:
#: with it 2.5 to 3.5 % of three or more squares of a normal deviation have their true mean above it.
SKEWED = 4.0


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95 % interval; None where there are too few seeds for it."""

    mean: float | None
    low: float | None
    high: float | None
    num_seeds: int
    #: Seeds without a value (a failed run), or, for a difference, without a partner.
    num_missing: int
    #: Mean and standard error on the interval's scale; None where there is no interval.
    place: float | None = None
    error: float | None = None
    scale: str = PLAIN
    #: Of squares: what was taken off them.
    shift: float = 0.0
    #: Degrees of freedom of the error, where they are not those of the seeds.
    dof: float | None = None
    #: The runs that it was made from; those of other seeds of their settings would make it surer.
    runs: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def degrees(self) -> float:
        """Of freedom, of its t distribution."""
        return self.num_seeds - 1 if self.dof is None else self.dof

    @property
    def excludes_zero(self) -> bool:
        """Does the interval lie on one side of 0? Never so without an interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def scaled(self, factor: float) -> "Estimate":
        """The same in another unit; ``factor`` is positive."""
        mean, low, high = (None if end is None else end * factor for end in (self.mean, self.low, self.high))
        place, error, shift = self.place, self.error, self.shift
        if place is not None and error is not None:
            if self.scale == LOG:
                place += math.log(factor)
            else:
                unit = factor**2 if self.scale == SQUARE else factor
                place, error, shift = place * unit, error * unit, shift * unit
        return replace(self, mean=mean, low=low, high=high, place=place, error=error, shift=shift)


def p_above(value: Estimate, bound: float) -> float:
    """One-sided p-value against "at most ``bound``"; 1 where there is no interval.

    It is at most 0.025 where the 95 % interval lies above the bound: both are of the same t distribution.
    """
    return _tail(value, bound, 1)


def p_below(value: Estimate, bound: float) -> float:
    """One-sided p-value against "at least ``bound``"."""
    if value.scale == SQUARE and value.place is not None and value.error:
        return _Squares.of(value).p_below(bound * abs(bound))
    return _tail(value, bound, -1)


def _tail(value: Estimate, bound: float, sign: int) -> float:
    if value.place is None or value.error is None:
        return 1.0
    if value.scale == LOG:
        limit = math.log(bound) if bound > 0 else -math.inf
    else:
        limit = bound * abs(bound) if value.scale == SQUARE else bound
    distance = sign * (value.place - limit)
    if value.error == 0 or math.isinf(distance):
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(value.degrees, -distance / value.error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (1979): those at most alpha are wrong with a chance of alpha at most, all together."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def mean_over_seeds(values: Mapping[int, float | None]) -> Estimate:
    """Mean of one value per seed, with the t interval of seeds - 1 degrees of freedom; None marks a missing value."""
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


def paired_ratio(values: Mapping[int, float | None], baseline: Mapping[int, float | None]) -> Estimate:
    """Geometric mean of value / baseline, both positive, over the seeds that have both; the interval is its log's."""
    ours, theirs = ({seed: value and math.log(value) for seed, value in side.items()} for side in (values, baseline))
    found = paired_difference(ours, theirs)
    mean, low, high = (None if value is None else math.exp(value) for value in (found.mean, found.low, found.high))
    return replace(found, mean=mean, low=low, high=high, scale=LOG)


def root_of_mean(squares: Mapping[int, float | None], with_noise: Mapping[int, float | None] | None = None) -> Estimate:
    """Root of the mean of squares, each of which may be below 0 by chance; the interval is the squares'.

    For distances whose Monte Carlo part has been taken off, square by square: their mean has no bias. ``with_noise``
    are the distances with that part still in them: the more was taken off, the less skewed the squares are.
    """
    found = mean_over_seeds(squares)
    low, high, shift = found.low, found.high, 0.0
    if found.place is not None and found.error:
        taken_off = [
            noisy**2 - square
            for seed, noisy in (with_noise or {}).items()
            if noisy is not None and (square := squares.get(seed)) is not None
        ]
        # Squares of normal deviations have an sd of at most sqrt(2) times their mean.
        least = found.error * math.sqrt(found.num_seeds / 2)
        shift = max(float(np.mean(taken_off)) if taken_off else 0.0, least - found.place)
        high = _Squares.of(replace(found, shift=shift)).high
    mean, low, high = (None if value is None else math.sqrt(max(0.0, value)) for value in (found.mean, low, high))
    return replace(found, mean=mean, low=low, high=high, scale=SQUARE, shift=shift)


@dataclass(frozen=True)
class _Squares:
    """Mean of squares of about normal deviations over seeds, and its standard error; ``shift`` was taken off them.

    Squares are skewed: where their mean is too small by chance, so is their spread, and a t interval ends too low. The
    logarithm of the mean has no such tie, so that the upper end is that of

        (log mean - log truth) / (r + SKEWED r^3) ~ t,   r = error / mean

    with the shift in them, and at most that of squares of one normal deviation each, mean / truth ~ chi^2_S / S, at
    half the level. The lower end of a t interval of squares is right more often than promised and stays.
    """

    place: float
    error: float
    num_seeds: int
    shift: float

    @classmethod
    def of(cls, value: Estimate) -> "_Squares":
        assert value.place is not None and value.error is not None
        return cls(value.place, value.error, value.num_seeds, value.shift)

    @property
    def _mean(self) -> float:
        """With the shift; without it, squares are on average not below 0."""
        return max(0.0, self.place) + self.shift

    @property
    def _width(self) -> float:
        """Standard error of the logarithm."""
        relative = self.error / (self.place + self.shift)
        return relative + SKEWED * relative**3

    @property
    def high(self) -> float:
        # Beyond e^700 there are no floating-point numbers.
        by_log = math.exp(min(700.0, float(stdtrit(self.num_seeds - 1, 1 - ALPHA)) * self._width))
        factor = min(by_log, self.num_seeds / float(chdtri(self.num_seeds, 1 - ALPHA / 2)))
        return self._mean * factor - self.shift

    def p_below(self, bound: float) -> float:
        """One-sided p-value against a true mean of at least ``bound``."""
        truth = bound + self.shift
        if truth <= 0:
            return 1.0
        by_log = stdtr(self.num_seeds - 1, -math.log(truth / self._mean) / self._width)
        return float(min(by_log, 2 * chdtr(self.num_seeds, self.num_seeds * self._mean / truth), 1.0))


def with_shared_error(value: Estimate, error: float) -> Estimate:
    """The estimate with an error that all its seeds share, as that of one test set, on top of their own.

    The shared one is known from very many points and the other from a few seeds; the t distribution of both together
    has the degrees of freedom of Welch and Satterthwaite.
    """
    if value.place is None or value.error is None:
        return value
    assert value.scale == PLAIN, "an error adds up on the quantity's own scale"
    both = math.hypot(value.error, error)
    # Beyond a thousand it is the normal distribution.
    dof = value.degrees * min(1e3, (both / value.error) ** 4 if value.error > 0 else math.inf)
    return _with_error(replace(value, dof=dof), both)


def widened(value: Estimate, errors: Mapping[int, float]) -> Estimate:
    """The estimate with an interval of at least what the Monte Carlo errors of its values leave open.

    Three seeds can agree by chance; what the chains' own length leaves open stays open.
    """
    if value.mean is None or value.low is None or value.high is None or not errors:
        return value
    half_width = RESOLUTION * math.sqrt(sum(error**2 for error in errors.values())) / len(errors)
    if half_width <= value.high - value.mean:
        return value
    return _with_error(value, half_width / _quantile(value))


def mean_of_measured(values: Mapping[int, float], errors: Mapping[int, float]) -> Estimate:
    """Mean of values that are the same for all seeds, each measured with a standard error of its own.

    Three seeds tell little of their spread; errors that come from many moves each tell that of the mean. It is taken
    to be normal, so a single seed has an interval too.
    """
    if not values:
        return Estimate(None, None, None, 0, 0)
    mean = float(np.mean(list(values.values())))
    error = math.sqrt(sum(errors[seed] ** 2 for seed in values)) / len(values)
    return _with_error(Estimate(mean, None, None, len(values), 0, mean, dof=1e6), error)


def bounded(value: Estimate, values: str) -> Estimate:
    """The estimate with an interval that lies inside the values a quantity can have; its mean is the same.

    A POSITIVE quantity (seconds, ESS per second, a ratio) is never 0 and its noise is a factor, so the interval is
    that of the logarithm: mean × exp(± half width / mean). A DISTANCE (ECE, an error) and a RATE can be 0, and close
    to it their noise adds; a factor would then be any number. Their interval is cut at 0, that of a rate at 1 too,
    which loses no coverage.
    """
    if value.mean is None or value.low is None or value.high is None:
        return value
    if values == POSITIVE and value.mean > 0:
        # Beyond e^700 there are no floating-point numbers.
        factor = math.exp(min(700.0, (value.high - value.mean) / value.mean))
        error = None if value.error is None else value.error / value.mean
        low, high = value.mean / factor, value.mean * factor
        return replace(value, low=low, high=high, place=math.log(value.mean), error=error, scale=LOG)
    low = max(0.0, value.low) if values in (DISTANCE, RATE) else value.low
    high = min(1.0, value.high) if values == RATE else value.high
    return replace(value, low=low, high=high)


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
    error = float(np.std(numbers, ddof=1)) / math.sqrt(count)
    return _with_error(Estimate(mean, None, None, count, num_missing, mean), error)


def _with_error(value: Estimate, error: float) -> Estimate:
    """The estimate with the interval of a standard error."""
    assert value.mean is not None
    half_width = _quantile(value) * error
    return replace(value, low=value.mean - half_width, high=value.mean + half_width, error=error)


def _quantile(value: Estimate) -> float:
    """Of its t distribution, for an interval of LEVEL."""
    return float(stdtrit(value.degrees, (1 + LEVEL) / 2))
