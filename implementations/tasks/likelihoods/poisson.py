"""Counts: l = exp(f) - y f, the output f being the logarithm of the rate.

From an anchor at which the rate is r the output moves by u, and l(theta) - l(t) = r (exp(u) - 1) - y u. What the Taylor
polynomials leave of it is r (exp(u) - 1 - u), and r (exp(u) - 1 - u - u^2 / 2) in second order, without the count.
"""

import numpy as np
from array_api_compat import array_namespace

from implementations.infrastructure.errors import SettingError
from implementations.tasks.likelihoods.record import Array, Functions, Likelihood
from implementations.tasks.likelihoods.series import third_order


def _check_targets(targets: np.ndarray, num_outputs: int) -> None:
    if len(targets) and (targets.dtype.kind not in "iu" or targets.min() < 0):
        found = f"of type {targets.dtype} from {targets.min()} to {targets.max()}"
        raise SettingError(f"targets {found}: expected counts, whole numbers from 0")


def _loss_and_residuals(outputs: np.ndarray, targets: np.ndarray, noise_sd: float) -> tuple[float, np.ndarray]:
    rates = _rates(outputs)
    return float((rates - targets[:, None] * outputs).sum()), rates - targets[:, None]


def _rates(outputs: np.ndarray) -> np.ndarray:
    # A step of Newton's method that goes too far is taken back: its loss is infinite.
    with np.errstate(over="ignore"):
        return np.exp(outputs)


def _losses(outputs: Array, targets: Array, noise_sd: float, functions: Functions) -> Array:
    log_rates = outputs[..., 0, :]
    return array_namespace(log_rates).exp(log_rates) - targets * log_rates


def _at_anchor(outputs: Array, targets: Array, noise_sd: float) -> tuple[Array, Array]:
    rates = array_namespace(outputs).exp(outputs)
    return rates, rates - targets[..., None, :]


def _curvature_form(kept: Array, u: Array, v: Array, noise_sd: float) -> Array:
    return kept[..., 0, :] * u[..., 0, :] * v[..., 0, :]


def _remainders(moves: Array, kept: Array, noise_sd: float, order: str) -> Array:
    left = third_order(moves) + (0.5 * moves**2 if order == "first" else 0)
    return (kept * left)[..., 0, :]


def _remainder_residuals(moves: Array, kept: Array, noise_sd: float, order: str) -> Array:
    return kept * (third_order(moves) + 0.5 * moves**2 + (moves if order == "first" else 0))


POISSON = Likelihood(
    name="poisson",
    summary="counts, one output, the logarithm of the rate",
    target_type=np.int32,
    num_outputs=1,
    has_classes=False,
    check_targets=_check_targets,
    loss_and_residuals=_loss_and_residuals,
    curvature_root=lambda outputs, noise_sd: _rates(outputs / 2)[:, :, None],
    curvature_product=lambda outputs, vectors, noise_sd: _rates(outputs) * vectors,
    predictions=_rates,
    losses=_losses,
    num_kept=lambda num_outputs: 1,
    at_anchor=_at_anchor,
    curvature_form=_curvature_form,
    remainders=_remainders,
    remainder_residuals=_remainder_residuals,
    mean_slope=lambda kept, moves: 0.5 * kept * np.square(moves).mean(axis=0),
    # An exponential has none.
    derivative_bounds=lambda noise_sd: (None, None, None),
    variance=lambda mean, noise_sd: mean,
)
