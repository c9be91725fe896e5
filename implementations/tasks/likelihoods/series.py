"""Functions of which the leading terms are taken away, with all their digits where little is left."""

import math

from array_api_compat import array_namespace

from implementations.tasks.likelihoods.record import Array

#: Terms of the series for exp where |v| < 1/4, by the bits of a number: what follows them is below the rounding of exp.
NUM_TERMS = {32: 4, 64: 10}
#: A loss beyond this exponent cannot be distinguished from one at it, far from where single precision ends at 88.
LARGEST_EXPONENT = 80.0


def third_order(v: Array) -> Array:
    """exp(v) - 1 - v - v^2 / 2, with all its digits also where v is small."""
    xp = array_namespace(v)
    last = NUM_TERMS[xp.finfo(v.dtype).bits] + 2
    series = 1 / math.factorial(last)
    for power in range(last - 1, 2, -1):
        series = series * v + 1 / math.factorial(power)
    squared = v * v
    exponential = xp.exp(xp.where(v < LARGEST_EXPONENT, v, LARGEST_EXPONENT))
    return xp.where(squared < 1 / 16, series * v * squared, exponential - (1 + v + 0.5 * squared))


def log1p_less_itself(total: Array) -> Array:
    """log(1 + x) - x for 0 <= x < 1/2: -x z + 2 z^3 (1/3 + z^2 / 5 + z^4 / 7 + …), z = x / (2 + x)."""
    z = total / (2 + total)
    squared, series = z * z, 1 / 15
    for odd in (13, 11, 9, 7, 5, 3):
        series = series * squared + 1 / odd
    return 2 * z * squared * series - total * z
