"""Proposals: a move, and the log ratio of proposing it back.

All propose with covariance 2 eta C, C = L L^T. Standard normal noise e is given along with its image L e, which
is computed for many steps at once.
"""

from array_api_compat import array_namespace

from implementations.kernels.contract import Array


def scale_by(factor: Array, vector: Array) -> Array:
    """L v for vectors (…, P); the factor is a scalar, a diagonal or a matrix."""
    return vector @ factor.T if factor.ndim == 2 else factor * vector


def scale_by_transpose(factor: Array, vector: Array) -> Array:
    """L^T v."""
    return vector @ factor if factor.ndim == 2 else factor * vector


def scale_by_inverse(factor: Array, vector: Array) -> Array:
    """L^-1 v."""
    return array_namespace(vector).linalg.solve(factor, vector.T).T if factor.ndim == 2 else vector / factor


def random_walk(position: Array, move: Array, step_size: Array) -> Array:
    """theta' = theta + sqrt(2 eta) L e; symmetric, so the log ratio is 0."""
    return position + array_namespace(position).sqrt(2 * step_size) * move


def langevin(position: Array, gradient: Array, factor: Array, move: Array, step_size: Array) -> Array:
    """theta' = theta - eta C grad U(theta) + sqrt(2 eta) L e (paper: *Langevin dynamics*)."""
    drift = scale_by(factor, scale_by_transpose(factor, gradient))
    return position - step_size * drift + array_namespace(position).sqrt(2 * step_size) * move


def langevin_log_ratio(
    gradient: Array, proposed_gradient: Array, factor: Array, noise: Array, step_size: Array
) -> Array:
    """log q(theta | theta') - log q(theta' | theta) (paper: the equation after *PBNN MH acceptance*).

    The way back needs the noise sqrt(eta / 2) L^T (g + g') - e, so the ratio is

        |e|^2 / 2 - |sqrt(eta / 2) L^T (g + g') - e|^2 / 2
    """
    xp = array_namespace(noise)
    back = xp.sqrt(step_size / 2) * scale_by_transpose(factor, gradient + proposed_gradient) - noise
    return 0.5 * (xp.sum(noise**2, axis=-1) - xp.sum(back**2, axis=-1))


def crank_nicolson(offset: Array, move: Array, step_size: Array) -> Array:
    """theta' - t = sqrt(1 - 2 eta) (theta - t) + sqrt(2 eta) L e around an anchor t, for eta up to 1/2.

    Reversible for N(t, C): there the drift is eta C grad U to first order, and eta = 1/2 is an independent draw. The
    same line moves the whitened offsets z = L^-1 (theta - t), with e as their move.
    """
    xp = array_namespace(offset)
    return xp.sqrt(1 - 2 * step_size) * offset + xp.sqrt(2 * step_size) * move


def crank_nicolson_log_ratio(whitened: Array, proposed_whitened: Array) -> Array:
    """log q(theta | theta') - log q(theta' | theta) = (|z'|^2 - |z|^2) / 2, as N(t, C) is kept in balance."""
    xp = array_namespace(whitened)
    return 0.5 * (xp.sum(proposed_whitened**2, axis=-1) - xp.sum(whitened**2, axis=-1))
