"""Numbers with normal noise of known sd: l = (y - f)^2 / (2 sigma^2)."""

import numpy as np

from implementations.infrastructure.errors import SettingError
from implementations.tasks.likelihoods.record import Array, Functions, Likelihood


def _check_targets(targets: np.ndarray, num_outputs: int) -> None:
    if not np.isfinite(targets).all():
        raise SettingError(f"{np.sum(~np.isfinite(targets))} of {len(targets)} targets are not finite")


def _loss_and_residuals(outputs: np.ndarray, targets: np.ndarray, noise_sd: float) -> tuple[float, np.ndarray]:
    residuals = (outputs - targets[:, None]) / noise_sd**2
    return float(0.5 * noise_sd**2 * np.square(residuals).sum()), residuals


def _losses(outputs: Array, targets: Array, noise_sd: float, functions: Functions) -> Array:
    return 0.5 * ((targets - outputs[..., 0, :]) / noise_sd) ** 2


def _at_anchor(outputs: Array, targets: Array, noise_sd: float) -> tuple[Array, Array]:
    return (), (outputs - targets[..., None, :]) / noise_sd**2


def _curvature_form(kept: Array, u: Array, v: Array, noise_sd: float) -> Array:
    return u[..., 0, :] * v[..., 0, :] / noise_sd**2


def _remainders(moves: Array, kept: Array, noise_sd: float, order: str) -> Array:
    return 0.5 * (moves[..., 0, :] / noise_sd) ** 2 * (1 if order == "first" else 0)


def _remainder_residuals(moves: Array, kept: Array, noise_sd: float, order: str) -> Array:
    return moves / noise_sd**2 * (1 if order == "first" else 0)


GAUSSIAN = Likelihood(
    name="gaussian",
    summary="numbers, with normal noise of known noise_sd",
    target_type=np.float32,
    num_outputs=1,
    has_classes=False,
    check_targets=_check_targets,
    loss_and_residuals=_loss_and_residuals,
    curvature_root=lambda outputs, noise_sd: np.full((*outputs.shape, 1), 1 / noise_sd),
    curvature_product=lambda outputs, vectors, noise_sd: vectors / noise_sd**2,
    predictions=lambda outputs: outputs,
    losses=_losses,
    num_kept=lambda num_outputs: 0,
    at_anchor=_at_anchor,
    curvature_form=_curvature_form,
    remainders=_remainders,
    remainder_residuals=_remainder_residuals,
    mean_slope=lambda kept, moves: 0 * moves[0],
    # A parabola: its slope is unbounded, its curvature constant, and beyond that there is nothing.
    derivative_bounds=lambda noise_sd: (None, 1 / noise_sd**2, 0.0),
    variance=lambda mean, noise_sd: noise_sd**2,
    is_quadratic=True,
)
