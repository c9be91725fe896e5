"""Per-point losses, the prior, and the gradient of the target.

Network outputs are laid out (…, outputs, points): the reductions over ten classes then run along whole vectors
of points, more than twice as fast on a CPU as the other way round.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from implementations.tasks.problem import Layers, Problem


class Data(NamedTuple):
    """Points: all of them, or a mini-batch for each chain."""

    features: Array  # (…, n, inputs + 1)
    targets: Array  # (…, n)

    def take(self, indices: Array) -> "Data":
        """The mini-batches (chains, n) of these points."""
        return Data(self.features[indices], self.targets[indices])


def network_outputs(position: Array, features: Array, layers: Layers) -> Array:
    """f of parameter vectors (…, P) at features (…, n, inputs + 1): (…, outputs, n)."""
    first, *others = split_parameters(position, layers)
    hidden = jnp.einsum("...fk,...nf->...kn", first, features)
    for matrix in others:
        hidden = matrix[..., 0, :, None] + jnp.einsum("...fk,...fn->...kn", matrix[..., 1:, :], jnp.tanh(hidden))
    return hidden


def split_parameters(position: Array, layers: Layers) -> list[Array]:
    """The layers' matrices (…, rows, columns) of parameter vectors (…, P)."""
    matrices, start = [], 0
    for rows, columns in layers:
        matrices.append(position[..., start : start + rows * columns].reshape(*position.shape[:-1], rows, columns))
        start += rows * columns
    return matrices


def point_losses(position: Array, data: Data, problem: Problem) -> Array:
    """l_j = -log p(y_j | x_j, theta) up to a constant, for every point: (…, n)."""
    outputs = network_outputs(position, data.features, problem.layers)
    if problem.likelihood == "gaussian":
        return 0.5 * ((data.targets - outputs[..., 0, :]) / problem.noise_sd) ** 2
    is_class = jnp.arange(problem.num_outputs)[:, None] == data.targets[..., None, :]
    return jax.nn.logsumexp(outputs, axis=-2) - jnp.where(is_class, outputs, 0).sum(axis=-2)


def log_prior(position: Array, problem: Problem) -> Array:
    """log p(theta) up to a constant: Gaussian (L2) or Laplace (L1)."""
    if problem.prior == "gaussian":
        return -0.5 * jnp.sum((position / problem.prior_scale) ** 2, axis=-1)
    return -jnp.sum(jnp.abs(position) / problem.prior_scale, axis=-1)


def losses_and_gradient(position: Array, data: Data, weight: float, problem: Problem) -> tuple[Array, Array]:
    """The losses (chains, n), and the gradient (chains, P) of -log p(theta) + (w / n) sum_j l_j over these n points."""

    def potential(position: Array) -> tuple[Array, Array]:
        losses = point_losses(position, data, problem)
        return jnp.sum(weight * losses.mean(axis=-1) - log_prior(position, problem)), losses

    gradient, losses = jax.grad(potential, has_aux=True)(position)
    return losses, gradient
