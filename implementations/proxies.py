"""Control variates: Taylor polynomials of the losses around an anchor, and what they leave of the losses.

With one stochastic layer the outputs are linear in the parameters: from the anchor t to theta they move by
u = x^T (theta - t). Let p be the probabilities of the classes at the anchor. For a softmax

    l(theta) - l(t) = log sum_k p_k exp(u_k) - u_y

is the cumulant generating function of u under p, less u_y. The proxy q takes its first two cumulants (``second``), or
the mean alone (``first``), so that with v = u - sum_k p_k u_k

    q(theta) = sum_k p_k u_k - u_y + sum_k p_k v_k^2 / 2
    l(theta) - l(t) - q(theta) = log sum_k p_k exp(v_k) - sum_k p_k v_k^2 / 2

The remainder needs no target, and it rounds like u and not like l: no large numbers cancel in it. Log odds are a
softmax of the outputs 0 and f. A Gaussian loss is its own second-order polynomial.
"""

import math
import operator
from collections.abc import Iterable
from functools import reduce

from array_api_compat import array_namespace

from implementations.kernel import Anchor, Array
from implementations.tasks.problem import Model

ORDERS = {
    "second": "a quadratic around the mode: what it leaves is of third order",
    "first": "a plane: what it leaves is of second order",
}

#: Terms of the series for exp where |v| < 1/4, by the bits of a number: what follows them is below the rounding of exp.
NUM_TERMS = {32: 4, 64: 10}
#: A loss beyond this exponent is not told from one at it, far from where single precision ends at 88.
LARGEST_EXPONENT = 80.0


def num_columns(model: Model) -> int:
    """Numbers that are kept of every point at the anchor: the probabilities of its classes; of networks none."""
    if len(model.layers) > 1:
        return 0
    return {"gaussian": 0, "bernoulli": 2}.get(model.likelihood, model.num_outputs)


def proxy_difference(position: Array, proposed: Array, anchor: Anchor, order: str) -> Array:
    """(w / N) sum_j (q_j(theta') - q_j(theta)) over all points, (chains,) of (chains, P).

    The sum is a quadratic form, so its difference is the move times the gradient halfway.
    """
    halfway = proxy_gradient((position + proposed) / 2, anchor, order)
    return array_namespace(position).sum(halfway * (proposed - position), axis=-1)


def proxy_gradient(position: Array, anchor: Anchor, order: str) -> Array:
    """Gradient of (w / N) sum_j q_j, (chains, P), or (P,) where it is the same everywhere."""
    if order == "first":
        return anchor.gradient
    return anchor.gradient + (position - anchor.position) @ anchor.curvature


def remainders(moves: Array, at_anchor: Array, model: Model, order: str) -> Array:
    """l_j(theta) - l_j(t) - q_j(theta), (…, n); ``moves`` of the outputs are u (…, outputs, n), ``at_anchor`` is p."""
    if model.likelihood == "gaussian":
        return 0.5 * (moves[..., 0, :] / model.noise_sd) ** 2 * (1 if order == "first" else 0)
    spread, rest, _ = _parts(moves, at_anchor, model)
    total = spread + rest
    # The sum of p exp(v) is 1 + total. Where that is close to 1, only what is left of it is added up.
    small, large = _log1p_less_itself(total), array_namespace(moves).log(1 + total)
    is_small = total < 0.5
    if order == "first":
        return array_namespace(moves).where(is_small, total + small, large)
    return array_namespace(moves).where(is_small, rest + small, large - spread)


def residuals(moves: Array, at_anchor: Array, model: Model, order: str) -> Array:
    """Derivatives of the remainders by the outputs, (…, outputs, n): p_k exp(v_k) / (sum_i p_i exp(v_i)) - p_k, and of
    a quadratic less p_k v_k."""
    if model.likelihood == "gaussian":
        return moves / model.noise_sd**2 * (1 if order == "first" else 0)
    spread, rest, classes = _parts(moves, at_anchor, model)
    total = spread + rest
    by_class = []
    for share, centred, third in classes:
        second = third + 0.5 * centred**2
        change = second - total * (1 + centred) if order == "second" else second - total + centred
        by_class.append(share * change / (1 + total))
    # The output of log odds is that of the second class.
    return array_namespace(moves).stack(by_class[-model.num_outputs :], axis=-2)


def _parts(moves: Array, at_anchor: Array, model: Model) -> tuple[Array, Array, list[tuple[Array, Array, Array]]]:
    """sum_k p_k v_k^2 / 2 and sum_k p_k r(v_k) (…, n), with r(v) = exp(v) - 1 - v - v^2 / 2; and p, v, r by class.

    Class by class: XLA makes one loop of it, and of sums along an axis several that take twenty times as long.
    """
    shares = [at_anchor[..., number, :] for number in range(at_anchor.shape[-2])]
    if model.likelihood == "bernoulli":
        move = moves[..., 0, :]
        centred = [-shares[1] * move, shares[0] * move]
    else:
        by_class = [moves[..., number, :] for number in range(model.num_outputs)]
        mean = _total(share * move for share, move in zip(shares, by_class, strict=True))
        centred = [move - mean for move in by_class]
    classes = [(share, v, _third_order(v)) for share, v in zip(shares, centred, strict=True)]
    spread = 0.5 * _total(share * v * v for share, v, _ in classes)
    return spread, _total(share * third for share, _, third in classes), classes


def _total(terms: Iterable[Array]) -> Array:
    return reduce(operator.add, terms)


def _third_order(v: Array) -> Array:
    """exp(v) - 1 - v - v^2 / 2, with all its digits also where v is small."""
    xp = array_namespace(v)
    last = NUM_TERMS[xp.finfo(v.dtype).bits] + 2
    series = 1 / math.factorial(last)
    for power in range(last - 1, 2, -1):
        series = series * v + 1 / math.factorial(power)
    squared = v * v
    exponential = xp.exp(xp.where(v < LARGEST_EXPONENT, v, LARGEST_EXPONENT))
    return xp.where(squared < 1 / 16, series * v * squared, exponential - (1 + v + 0.5 * squared))


def _log1p_less_itself(total: Array) -> Array:
    """log(1 + x) - x for 0 <= x < 1/2: -x z + 2 z^3 (1/3 + z^2 / 5 + z^4 / 7 + …), z = x / (2 + x)."""
    z = total / (2 + total)
    squared, series = z * z, 1 / 15
    for odd in (13, 11, 9, 7, 5, 3):
        series = series * squared + 1 / odd
    return 2 * z * squared * series - total * z
