"""A density without targets (paper: -sum log p(x | theta)): l = A(theta) - f, f the log density up to its normaliser.

The points have the term -f to themselves, which is linear in the output. A is the same for all of them and needs the
outputs on a grid (implementations.tasks.likelihoods.normaliser); who evaluates losses adds it. A constant in f cancels:
the bias of the last layer is known by its prior alone.
"""

import numpy as np
from array_api_compat import array_namespace

from implementations.infrastructure.errors import SettingError
from implementations.tasks.likelihoods.record import Array, Functions, Likelihood

#: Cells of the support. On the task ``density`` the midpoint rule is off by less than 1e-5 of A at the mode, which a
#: test measures; at places where A has features finer than a cell it would be off by more.
NUM_CELLS = 200


def midpoints(support: tuple[float, float]) -> np.ndarray:
    """The grid: inputs (NUM_CELLS, 1) float32."""
    start, end = support
    return (start + (end - start) * (np.arange(NUM_CELLS) + 0.5) / NUM_CELLS)[:, None].astype(np.float32)


def _check_targets(targets: np.ndarray, num_outputs: int) -> None:
    if len(targets) and np.any(targets != 0):
        raise SettingError("a density has no targets: give zeros")


def _loss_and_residuals(outputs: np.ndarray, targets: np.ndarray, noise_sd: float) -> tuple[float, np.ndarray]:
    return -float(outputs.sum()), np.full_like(outputs, -1.0)


def _losses(outputs: Array, targets: Array, noise_sd: float, functions: Functions) -> Array:
    return -outputs[..., 0, :]


def _at_anchor(outputs: Array, targets: Array, noise_sd: float) -> tuple[Array, Array]:
    return (), array_namespace(outputs).full_like(outputs, -1.0)


def _densities(outputs: np.ndarray) -> np.ndarray:
    """Of outputs that are normalised, as those of ``Problem.outputs`` are."""
    with np.errstate(over="ignore"):
        return np.exp(outputs)


DENSITY = Likelihood(
    name="density",
    summary="no targets, one output, the log density of the input up to its normaliser",
    target_type=np.float32,
    num_outputs=1,
    has_classes=False,
    check_targets=_check_targets,
    loss_and_residuals=_loss_and_residuals,
    curvature_root=lambda outputs, noise_sd: np.zeros((*outputs.shape, 1)),
    curvature_product=lambda outputs, vectors, noise_sd: np.zeros_like(vectors),
    predictions=_densities,
    losses=_losses,
    num_kept=lambda num_outputs: 0,
    at_anchor=_at_anchor,
    curvature_form=lambda kept, u, v, noise_sd: 0 * u[..., 0, :] * v[..., 0, :],
    remainders=lambda moves, kept, noise_sd, order: 0 * moves[..., 0, :],
    remainder_residuals=lambda moves, kept, noise_sd, order: 0 * moves,
    mean_slope=lambda kept, moves: 0 * moves[0],
    # Of one point's own term there are, but the normaliser moves with all parameters at once.
    derivative_bounds=lambda noise_sd: (None, None, None),
    variance=lambda mean, noise_sd: np.nan * mean,
    is_normalised=True,
)
