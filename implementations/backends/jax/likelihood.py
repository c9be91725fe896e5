"""Per-point losses, the prior, and the gradient of the target.

Network outputs are laid out (…, outputs, points): the reductions over ten classes then run along whole vectors
of points, more than twice as fast on a CPU as the other way round.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from implementations.control_variates import proxies
from implementations.kernels.contract import Data
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import Functions, find_likelihood, normaliser
from implementations.tasks.problem import Layers, Model, split_parameters

#: Points whose outputs stay in the processor's cache, from so many tiles on that it matters: all 55,000 points of mnist
#: at once would take three to five times as long.
TILE = 500
MIN_TILES = 8


def network_outputs(position: Array, features: Array, layers: Layers, activation: str = "tanh") -> Array:
    """f of parameter vectors (…, P) at features (…, n, inputs + 1): (…, outputs, n)."""
    first, *others = split_parameters(position, layers)
    # One product for all parameter vectors that see the same points. With the inputs last on both sides the points need
    # no transposed copy, which would take as long as the product.
    rows = first.swapaxes(-1, -2).reshape(*features.shape[:-2], -1, features.shape[-1])
    product = jnp.einsum("...kf,...nf->...kn", rows, features)
    hidden = product.reshape(*first.shape[:-2], first.shape[-1], -1)
    for matrix in others:
        bias, weights = matrix[..., 0, :, None], matrix[..., 1:, :]
        hidden = bias + jnp.einsum("...fk,...fn->...kn", weights, find_activation(activation).values(hidden))
    return hidden


def model_outputs(position: Array, features: Array, model: Model) -> Array:
    """The same of any model."""
    if model.network:
        outputs: Array = model.network(position, features).swapaxes(-1, -2)
        return outputs
    return network_outputs(position, features, model.layers, model.activation)


def point_losses(position: Array, data: Data, model: Model) -> Array:
    """l_j = -log p(y_j | x_j, theta) up to a constant, for every point: (…, n)."""
    losses = in_tiles(lambda tile: (_losses(position, tile, model), jnp.zeros(())), data)[0]
    return losses if model.grid is None else losses + normaliser.log_mean(grid_outputs(position, model))[..., None]


def grid_outputs(position: Array, model: Model) -> Array:
    """f (…, G) on the grid of a density, at parameter vectors (…, P)."""
    assert model.grid is not None
    return model_outputs(position, model.grid.like(position), model)[..., 0, :]


def _losses(position: Array, data: Data, model: Model) -> Array:
    outputs = model_outputs(position, data.features, model)
    return find_likelihood(model.likelihood).losses(outputs, data.targets, model.noise_sd, FUNCTIONS)


def _cross_entropy(outputs: Array, targets: Array) -> Array:
    is_class = jnp.arange(outputs.shape[-2])[:, None] == targets[..., None, :]
    return jax.nn.logsumexp(outputs, axis=-2) - jnp.where(is_class, outputs, 0).sum(axis=-2)


FUNCTIONS = Functions(_cross_entropy, jax.nn.log_sigmoid)


def in_tiles(function: Callable[[Data], tuple[Array, Array]], data: Data) -> tuple[Array, Array]:
    """A function of points, some at a time where there are many: its values (…, n) are joined, its totals added."""
    num_tiles = len(data.targets) // TILE
    if data.targets.ndim > 1 or num_tiles < MIN_TILES:
        return function(data)
    points = data.features, data.targets
    tiles = Data(*(array[: num_tiles * TILE].reshape(num_tiles, TILE, *array.shape[1:]) for array in points))
    values, totals = jax.lax.map(function, tiles)
    joined = jnp.moveaxis(values, 0, -2).reshape(*values.shape[1:-1], -1)
    last_values, last_total = function(Data(*(array[num_tiles * TILE :] for array in points)))
    return jnp.concatenate([joined, last_values], axis=-1), totals.sum(axis=0) + last_total


def remainders(offset: Array, data: Data, model: Model, order: str) -> Array:
    """What control variates leave of the losses (…, n), at an offset (…, P) from their anchor."""
    moves = network_outputs(offset, data.features, model.layers)
    if not proxies.num_columns(model, order):
        return proxies.remainders(moves, data.at_anchor, model, order)
    # A branch, because XLA would merge these loops into whatever uses their values, and run them once for every use.
    # A probability or a rate is never negative, but XLA cannot know.
    return jax.lax.cond(
        data.at_anchor.ravel()[0] >= 0,
        lambda moves: proxies.remainders(moves, data.at_anchor, model, order),
        lambda moves: jnp.zeros_like(moves[..., 0, :]),
        moves,
    )


def log_prior(position: Array, model: Model) -> Array:
    """log p(theta) up to a constant: Gaussian (L2) or Laplace (L1)."""
    if model.prior == "gaussian":
        return -0.5 * jnp.sum((position / model.prior_scale) ** 2, axis=-1)
    return -jnp.sum(jnp.abs(position) / model.prior_scale, axis=-1)


def losses_and_gradient(position: Array, data: Data, weight: Array | float, model: Model) -> tuple[Array, Array]:
    """The losses (chains, n), and the gradient (chains, P) of -log p(theta) + (w / n) sum_j l_j over these n points."""

    def of_tile(tile: Data) -> tuple[Array, Array]:
        losses, back = jax.vjp(lambda position: _losses(position, tile, model), position)
        return losses, back(jnp.ones_like(losses))[0]

    losses, gradient = in_tiles(of_tile, data)
    if model.grid is not None:
        shared, back = jax.vjp(lambda position: normaliser.log_mean(grid_outputs(position, model)), position)
        losses = losses + shared[..., None]
        gradient = gradient + losses.shape[-1] * back(jnp.ones_like(shared))[0]
    of_prior = jax.grad(lambda position: log_prior(position, model).sum())(position)
    return losses, weight / losses.shape[-1] * gradient - of_prior


def gradient_of(function: Callable[[Array], Array], position: Array) -> Array:
    """Gradient (…, P) of the sum of a function's values."""
    gradient: Array = jax.grad(lambda place: function(place).sum())(position)
    return gradient
