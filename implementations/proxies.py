"""Control variates: Taylor polynomials of the losses around an anchor, and what they leave of the losses.

With one stochastic layer the outputs are linear in the parameters: from the anchor t to theta they move by
u = x^T (theta - t). The proxy q is the Taylor polynomial of the loss in the outputs, of second order or of first. Its
sum over all points is a quadratic form in theta; what it leaves of a loss, l(theta) - l(t) - q(theta), is the
likelihood's (implementations.tasks.likelihoods).
"""

from array_api_compat import array_namespace

from implementations.kernel import Anchor, Array
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Model

ORDERS = {
    "second": "a quadratic around the mode: what it leaves is of third order",
    "first": "a plane: what it leaves is of second order",
}


def num_columns(model: Model) -> int:
    """Numbers that are kept of every point at the anchor: its predictions, or none; of networks none."""
    if not model.is_linear:
        return 0
    return find_likelihood(model.likelihood).num_kept(model.num_outputs)


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
    """l_j(theta) - l_j(t) - q_j(theta), (…, n); ``moves`` of the outputs are u (…, outputs, n)."""
    return find_likelihood(model.likelihood).remainders(moves, at_anchor, model.noise_sd, order)


def residuals(moves: Array, at_anchor: Array, model: Model, order: str) -> Array:
    """Derivatives of the remainders by the outputs, (…, outputs, n)."""
    return find_likelihood(model.likelihood).remainder_residuals(moves, at_anchor, model.noise_sd, order)
