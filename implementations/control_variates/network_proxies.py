"""Control variates of networks: what Taylor polynomials in the parameters leave of the losses of single points.

With several stochastic layers the outputs are no longer linear in theta. Along t + s v, from the anchor t (s = 0) to
theta (s = 1), every layer is a polynomial in s, of which the first three coefficients are carried forward:

    a = h W:       a_0 = h_0 W,   a_1 = h_1 W + h_0 V,   a_2 = h_2 W + h_1 V
    h = s(a):      h_0 = s(a_0),   h_1 = s' a_1,   h_2 = s' a_2 + s'' a_1^2 / 2     (implementations.tasks.activations)

with W the anchor's weights and V the offset's. With g and H the derivatives of the loss by the outputs at the anchor,
the proxy is q = g f_1 (``first``), or q = g (f_1 + f_2) + f_1 H f_1 / 2 (``second``). The outputs move by u in all, and

    l(theta) - l(t) - q = [l - l(t) - g u - u H u / 2] + g (u - f_1 - f_2) + (u - f_1) H (u + f_1) / 2

whose bracket is the remainder in the outputs (control_variates.proxies). This is forward-over-forward differentiation:
no Jacobian, nothing of the size of points times parameters.
"""

from typing import NamedTuple

from array_api_compat import array_namespace

from implementations.control_variates import proxies
from implementations.kernels.contract import Array, Data, Expansion
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.problem import Layers, Model, split_parameters


class Outputs(NamedTuple):
    """Of a network at an anchor and beyond it, each (…, outputs, n)."""

    start: Array  # f(t)
    moves: Array  # u = f(theta) - f(t)
    first: Array  # f_1
    second: Array  # f_2

    def rest(self, order: str) -> Array:
        """What the polynomial of an order leaves of the moves."""
        return self.moves - self.first if order == "first" else self.moves - self.first - self.second


def remainders(position: Array, data: Data, anchor: Expansion, model: Model, order: str) -> Array:
    """l_j(theta) - l_j(t) - q_j(theta) of every point (…, n), at positions (…, P)."""
    outputs = outputs_of(anchor.position, position - anchor.position, data.features, model.layers, model.activation)
    start, moves, first, _ = outputs
    rest = outputs.rest(order)
    likelihood, xp = find_likelihood(model.likelihood), array_namespace(moves)
    if likelihood.is_quadratic:
        # The remainder in the outputs is 0, or the whole of u H u / 2: nothing has to be added up.
        slope = (start[..., 0, :] - data.targets) / model.noise_sd**2
        bend = moves**2 if order == "first" else (moves - first) * (moves + first)
        return slope * rest[..., 0, :] + 0.5 * bend[..., 0, :] / model.noise_sd**2
    kept, slope = likelihood.at_anchor(start, data.targets, model.noise_sd)
    left = proxies.remainders(moves, kept, model, order) + xp.sum(slope * rest, axis=-2)
    if order == "second":
        left = left + 0.5 * likelihood.curvature_form(kept, moves - first, moves + first, model.noise_sd)
    return left if model.grid is None else left + _normaliser(position, anchor, model, order)[..., None]


def _normaliser(position: Array, anchor: Expansion, model: Model, order: str) -> Array:
    """The same of the normaliser of a density (…,), whose outputs are those on the grid."""
    assert model.grid is not None
    grid = model.grid.like(position)
    outputs = outputs_of(anchor.position, position - anchor.position, grid, model.layers, model.activation)
    start, moves, first, _ = (part[..., 0, :] for part in outputs)
    shares, xp = normaliser.shares(start), array_namespace(position)
    left = normaliser.remainders(moves, shares, order) + xp.sum(shares * outputs.rest(order)[..., 0, :], axis=-1)
    if order == "first":
        return left
    return left + 0.5 * xp.sum((moves - first) * normaliser.curvature_product(shares, moves + first), axis=-1)


def outputs_of(anchor: Array, offset: Array, features: Array, layers: Layers, activation: str = "tanh") -> Outputs:
    """The network along anchor (P,) + s offset (…, P), at features (…, n, inputs + 1)."""
    xp, form = array_namespace(offset), find_activation(activation)
    (first_start, first_move), *others = zip(
        split_parameters(anchor, layers), split_parameters(offset, layers), strict=True
    )
    points = features.mT
    start, move = first_start.mT @ points, first_move.mT @ points
    first, second = move, xp.zeros_like(move)
    for weights, rates in others:
        hidden = form.values(start)
        slope = form.slopes(hidden)
        moved = form.moves(start, hidden, slope, move)
        one, two = slope * first, form.second(hidden, slope, first, second)
        start = _affine(weights, hidden)
        second = rates[..., 1:, :].mT @ one + weights[1:, :].mT @ two
        first = _affine(rates, hidden) + weights[1:, :].mT @ one
        move = _affine(rates, hidden + moved) + weights[1:, :].mT @ moved
    return Outputs(start, move, first, second)


def _affine(matrix: Array, hidden: Array) -> Array:
    """[1, h] W for points that stand last: (…, columns, n)."""
    return matrix[..., 0, :, None] + matrix[..., 1:, :].mT @ hidden
