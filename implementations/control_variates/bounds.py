"""Bounds on how much the loss of a point can change in a move, for methods that are exact by them.

With one stochastic layer the loss l_j depends on theta through the outputs alone, so that for a move from a to a'
around the anchor (D = a' - a), with kappa_k the largest size of the k-th derivative of the loss by the outputs,

    none    |d_j| <= kappa_1 |x_j| |D|
    first   |d_j| <= kappa_2 |x_j|^2 |D| (|a| s + |a'| s') / 2
    second  |d_j| <= kappa_3 |x_j|^3 |D| (|a|^2 t + |a'|^2 t') / 4

where d_j is what the proxy of this order leaves of the difference: c_j M, with c_j a number of the point and M one of
the move, the same both ways. The lines follow from d_j = integral over s in (0, 1) of the remainder's slope along the
move, at most kappa_2 |u| |x·D| or kappa_3 u^2 |x·D| / 2, u = x·(a + s D), and from the integrand being convex in s.

For one output, s = (1 + |cos|) / 2 and t = ``_cubic`` are the largest (x·a)(x·D) and (x·a)^2 |x·D| of unit vectors, by
the cosine of the angle between a and D (Prado, Nemeth and Sherlock, 2024, find the same two); for several they are 1.
"""

from array_api_compat import array_namespace

from implementations.kernels.contract import Array, Bounds, Data, Points
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Model

#: Powers of |x_j|, by the order of the control variates.
POWERS = {None: 1, "first": 2, "second": 3}


def slope(model: Model, order: str | None) -> float | None:
    """kappa of an order; None where the derivative has no bound."""
    if not model.is_linear:
        return None
    return find_likelihood(model.likelihood).derivative_bounds(model.noise_sd)[POWERS[order] - 1]


def point_bounds(points: Data, kappa: float, order: str | None) -> Array:
    """c_j of points, (…, n)."""
    xp = array_namespace(points.features)
    return kappa * xp.sqrt(xp.sum(points.features**2, axis=-1)) ** POWERS[order]


def move_bound(position: Array, proposed: Array, data: Points, model: Model, order: str | None) -> Array:
    """M of a move, (chains,)."""
    xp = array_namespace(position)
    length = _norm(proposed - position)
    if order is None:
        return length
    ends = []
    for end in (position, proposed):
        offset = end - data.anchor.position
        distance = _norm(offset)
        share = xp.ones_like(distance)
        if model.num_outputs == 1:
            tiny = xp.finfo(length.dtype).tiny
            cosine = xp.abs(xp.sum(offset * (proposed - position), axis=-1)) / (distance * length + tiny)
            share = (1 + cosine) / 2 if order == "first" else _cubic(cosine)
        ends.append(distance * share if order == "first" else distance**2 * share / 2)
    return length * (ends[0] + ends[1]) / 2


def _norm(vector: Array) -> Array:
    xp = array_namespace(vector)
    return xp.sqrt(xp.sum(vector**2, axis=-1))


def _cubic(cosine: Array) -> Array:
    """The largest (x·a)^2 |x·b| of unit vectors, by the cosine of a and b: between 2 / 27^(1/2) and 1."""
    xp = array_namespace(cosine)
    root = xp.sqrt(2 + cosine**2 / 4) - cosine / 2
    return (2 + cosine * root) ** 1.5 / (root * 27**0.5)


def totals(data: Points, kappa: float, order: str | None) -> tuple[Array, Array]:
    """The sum of the c_j of all points, and the largest."""
    bounds: Bounds = data.bounds
    return kappa * bounds.totals[POWERS[order] - 1], kappa * bounds.largest ** POWERS[order]
