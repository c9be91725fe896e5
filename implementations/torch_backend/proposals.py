"""Proposals: a move, and the log ratio of proposing it back.

Both propose with covariance 2 eta C, C = L L^T. Standard normal noise e is given along with its image L e, which
is computed for many steps at once.
"""

from torch import Tensor


def scale_by(factor: Tensor, vector: Tensor) -> Tensor:
    """L v for vectors (…, P); the factor is a scalar, a diagonal or a matrix."""
    return vector @ factor.T if factor.ndim == 2 else factor * vector


def scale_by_transpose(factor: Tensor, vector: Tensor) -> Tensor:
    """L^T v."""
    return vector @ factor if factor.ndim == 2 else factor * vector


def random_walk(position: Tensor, move: Tensor, step_size: Tensor) -> Tensor:
    """theta' = theta + sqrt(2 eta) L e; symmetric, so the log ratio is 0."""
    return position + (2 * step_size) ** 0.5 * move


def langevin(position: Tensor, gradient: Tensor, factor: Tensor, move: Tensor, step_size: Tensor) -> Tensor:
    """theta' = theta - eta C grad U(theta) + sqrt(2 eta) L e (paper: *Langevin dynamics*)."""
    drift = scale_by(factor, scale_by_transpose(factor, gradient))
    return position - step_size * drift + (2 * step_size) ** 0.5 * move


def langevin_log_ratio(
    gradient: Tensor, proposed_gradient: Tensor, factor: Tensor, noise: Tensor, step_size: Tensor
) -> Tensor:
    """log q(theta | theta') - log q(theta' | theta) (paper: the equation after *PBNN MH acceptance*).

    The way back needs the noise sqrt(eta / 2) L^T (g + g') - e, so the ratio is

        |e|^2 / 2 - |sqrt(eta / 2) L^T (g + g') - e|^2 / 2
    """
    back = (step_size / 2) ** 0.5 * scale_by_transpose(factor, gradient + proposed_gradient) - noise
    return 0.5 * ((noise**2).sum(dim=-1) - (back**2).sum(dim=-1))
