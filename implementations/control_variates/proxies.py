"""Control variates: Taylor polynomials of the losses around an anchor, and what they leave of the losses.

With one stochastic layer the outputs are linear in the parameters: from the anchor t to theta they move by
u = x^T (theta - t). The proxy q is the Taylor polynomial of the loss in the outputs, of second order or of first. Its
sum over all points is a quadratic form in theta; what it leaves of a loss, l(theta) - l(t) - q(theta), is the
likelihood's (implementations.tasks.likelihoods). An ``averaged`` proxy is the quadratic with another slope, which is
kept with the point (control_variates.averaging).
"""

import operator
from functools import reduce

from array_api_compat import array_namespace

from implementations.kernels.contract import Array, Expansion
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Model

ORDERS = {
    "second": "a quadratic around the mode: what it leaves is of third order",
    "first": "a plane: what it leaves is of second order",
}
AVERAGED = "averaged"


def num_columns(model: Model, order: str) -> int:
    """Numbers that are kept of every point at the anchor: its predictions, and its slopes where they are averaged.

    Of networks none, and none of losses that are parabolas.
    """
    num_kept = find_likelihood(model.likelihood).num_kept(model.num_outputs) if model.is_linear else 0
    return num_kept + (model.num_outputs if num_kept and order == AVERAGED else 0)


def proxy_difference(position: Array, proposed: Array, anchor: Expansion, order: str) -> Array:
    """(w / N) sum_j (q_j(theta') - q_j(theta)) over all points, (chains,) of (chains, P).

    The sum is a quadratic form, so its difference is the move times the gradient halfway.
    """
    halfway = proxy_gradient((position + proposed) / 2, anchor, order)
    return array_namespace(position).sum(halfway * (proposed - position), axis=-1)


def proxy_gradient(position: Array, anchor: Expansion, order: str) -> Array:
    """Gradient of (w / N) sum_j q_j, (chains, P), or (P,) where it is the same everywhere."""
    if order == "first":
        return anchor.gradient
    return anchor.gradient + (position - anchor.position) @ anchor.curvature


def remainders(moves: Array, at_anchor: Array, model: Model, order: str) -> Array:
    """l_j(theta) - l_j(t) - q_j(theta), (…, n); ``moves`` of the outputs are u (…, outputs, n)."""
    likelihood = find_likelihood(model.likelihood)
    if order != AVERAGED or not num_columns(model, order):
        return likelihood.remainders(moves, at_anchor, model.noise_sd, _taylor(order))
    kept, slopes = _parts(at_anchor, model)
    # Output by output, as the remainders are: one loop of XLA for all of it.
    tilt = reduce(operator.add, (slopes[..., one, :] * moves[..., one, :] for one in range(model.num_outputs)))
    return likelihood.remainders(moves, kept, model.noise_sd, "second") - tilt


def residuals(moves: Array, at_anchor: Array, model: Model, order: str) -> Array:
    """Derivatives of the remainders by the outputs, (…, outputs, n)."""
    likelihood = find_likelihood(model.likelihood)
    if order != AVERAGED or not num_columns(model, order):
        return likelihood.remainder_residuals(moves, at_anchor, model.noise_sd, _taylor(order))
    kept, slopes = _parts(at_anchor, model)
    return likelihood.remainder_residuals(moves, kept, model.noise_sd, "second") - slopes


def _taylor(order: str) -> str:
    """The order of the polynomial."""
    return "second" if order == AVERAGED else order


def _parts(at_anchor: Array, model: Model) -> tuple[Array, Array]:
    """What is kept of a point: its predictions (…, kept, n), and its slopes (…, outputs, n)."""
    num_kept = at_anchor.shape[-2] - model.num_outputs
    return at_anchor[..., :num_kept, :], at_anchor[..., num_kept:, :]
