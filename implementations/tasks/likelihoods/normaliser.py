"""The term that all points of a density share: A = log of the mean of exp(f) over a grid of its support.

    l_j(theta) = A(theta) - f_j(theta),    A(theta) = log (1/G sum_g exp f_g(theta)),    f_g the outputs on the grid

The grid has the midpoints of G equal cells, so that the mean is the midpoint rule for the integral, and p = exp(f - A)
the density relative to the uniform law on the support; on an interval of length 1 it is the density itself. A is worked
out once for all points of an evaluation: it costs as much as G points, however many points there are.

With p_g the shares exp(f_g) / sum exp(f), the derivatives of A by the outputs on the grid are p and diag(p) - p p^T, as
of a softmax. From an anchor, the outputs on the grid moving by u_g, A grows by

    log sum_g p_g exp(u_g) = sum_g p_g u_g + log sum_g p_g exp(v_g),    v = u - sum_g p_g u_g

All functions take outputs with the grid as last dimension, in any library.
"""

from array_api_compat import array_namespace

from implementations.tasks.likelihoods.record import Array
from implementations.tasks.likelihoods.series import log1p_less_itself, third_order


def log_mean(outputs: Array) -> Array:
    """A (…,) of outputs (…, G)."""
    xp = array_namespace(outputs)
    largest = xp.max(outputs, axis=-1, keepdims=True)
    return xp.log(xp.mean(xp.exp(outputs - largest), axis=-1)) + largest[..., 0]


def shares(outputs: Array) -> Array:
    """p_g (…, G)."""
    xp = array_namespace(outputs)
    odds = xp.exp(outputs - xp.max(outputs, axis=-1, keepdims=True))
    return odds / xp.sum(odds, axis=-1, keepdims=True)


def curvature_product(at: Array, vectors: Array) -> Array:
    """(diag(p) - p p^T) v (…, G)."""
    weighted = at * vectors
    return weighted - at * array_namespace(vectors).sum(weighted, axis=-1, keepdims=True)


def remainders(moves: Array, at: Array, order: str) -> Array:
    """What a Taylor polynomial in the outputs on the grid leaves of A (…,); ``at`` are the shares at the anchor."""
    xp = array_namespace(moves)
    spread, rest, _ = _parts(moves, at)
    total = spread + rest
    # The sum of p exp(v) is 1 + total. Where that is close to 1, only what is left of it is added up.
    small, large = log1p_less_itself(total), xp.log(1 + total)
    if order == "first":
        return xp.where(total < 0.5, total + small, large)
    return xp.where(total < 0.5, rest + small, large - spread)


def remainder_slopes(moves: Array, at: Array, order: str) -> Array:
    """Derivatives of that by the outputs (…, G)."""
    spread, rest, centred = _parts(moves, at)
    total = (spread + rest)[..., None]
    second = third_order(centred) + 0.5 * centred**2
    change = second - total * (1 + centred) if order == "second" else second - total + centred
    return at * change / (1 + total)


def _parts(moves: Array, at: Array) -> tuple[Array, Array, Array]:
    """sum_g p_g v_g^2 / 2 (…,); sum_g p_g (exp(v_g) - 1 - v_g - v_g^2 / 2) (…,); and v (…, G)."""
    xp = array_namespace(moves)
    centred = moves - xp.sum(at * moves, axis=-1, keepdims=True)
    return 0.5 * xp.sum(at * centred**2, axis=-1), xp.sum(at * third_order(centred), axis=-1), centred
