"""Proposals: a move, and the log ratio of proposing it back.

Both propose with covariance 2 eta C, C = L L^T. Standard normal noise e is given along with its image L e, which
is computed for many steps at once.
"""

import jax.numpy as jnp
from jax import Array


def scale_by(factor: Array, vector: Array) -> Array:
    """L v for vectors (…, P); the factor is a scalar, a diagonal or a matrix."""
    return vector @ factor.T if factor.ndim == 2 else factor * vector


def scale_by_transpose(factor: Array, vector: Array) -> Array:
    """L^T v."""
    return vector @ factor if factor.ndim == 2 else factor * vector


def random_walk(position: Array, move: Array, step_size: Array) -> Array:
    """theta' = theta + sqrt(2 eta) L e; symmetric, so the log ratio is 0."""
    return position + jnp.sqrt(2 * step_size) * move


def langevin(position: Array, gradient: Array, factor: Array, move: Array, step_size: Array) -> Array:
    """theta' = theta - eta C grad U(theta) + sqrt(2 eta) L e (paper: *Langevin dynamics*)."""
    drift = scale_by(factor, scale_by_transpose(factor, gradient))
    return position - step_size * drift + jnp.sqrt(2 * step_size) * move


def langevin_log_ratio(
    gradient: Array, proposed_gradient: Array, factor: Array, noise: Array, step_size: Array
) -> Array:
    """log q(theta | theta') - log q(theta' | theta) (paper: the equation after *PBNN MH acceptance*).

    The way back needs the noise sqrt(eta / 2) L^T (g + g') - e, so the ratio is

        |e|^2 / 2 - |sqrt(eta / 2) L^T (g + g') - e|^2 / 2
    """
    back = jnp.sqrt(step_size / 2) * scale_by_transpose(factor, gradient + proposed_gradient) - noise
    return 0.5 * (jnp.sum(noise**2, axis=-1) - jnp.sum(back**2, axis=-1))
