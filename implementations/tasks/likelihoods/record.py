"""What a likelihood is: all that depends on it, so that nothing else asks for its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

#: Of numpy, jax or torch.
Array = Any


class Functions(NamedTuple):
    """What each library has its own fast form of; everything else is written once, in the namespace of the arrays."""

    #: (outputs (…, K, n), class numbers (…, n)) -> log sum_k exp(f_k) - f_y (…, n).
    cross_entropy: Callable[[Array, Array], Array]
    #: f -> -log(1 + exp(-f)).
    log_sigmoid: Callable[[Array], Array]


@dataclass(frozen=True)
class Likelihood:
    """A loss l(f, y) = -log p(y | f) up to a constant, its derivatives by the outputs f, and what is predicted."""

    name: str
    #: What targets are, in a few words.
    summary: str

    # Targets.
    target_type: type[np.float32] | type[np.int32]
    #: Outputs of the network; None for one per class.
    num_outputs: int | None
    #: Are classes predicted, and judged by their probabilities? Otherwise numbers are, judged by coverage.
    has_classes: bool
    #: (targets (n,), outputs of the network) -> None, or SettingError.
    check_targets: Callable[[np.ndarray, int], None]

    # In NumPy and double precision, with outputs (n, K): the mode, its curvature, the predictions.
    #: (outputs, targets, noise_sd) -> sum_j l_j and the residuals dl_j / df_j (n, K).
    loss_and_residuals: Callable[[np.ndarray, np.ndarray, float], tuple[float, np.ndarray]]
    #: (outputs, noise_sd) -> S (n, K, K) with S S^T = H = d^2 l / df^2.
    curvature_root: Callable[[np.ndarray, float], np.ndarray]
    #: (outputs, u (…, n, K), noise_sd) -> H u (…, n, K), without a K x K matrix per point.
    curvature_product: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    #: outputs (…, K) -> f itself, the mean of y, or the probabilities of the classes; may overwrite the outputs.
    predictions: Callable[[np.ndarray], np.ndarray]

    # In the samplers, in any library, with outputs (…, K, n).
    #: (outputs, targets (…, n), noise_sd, functions) -> l_j (…, n).
    losses: Callable[[Array, Array, float, Functions], Array]
    #: K -> the numbers that control variates keep of a point at their anchor: its predictions, or nothing.
    num_kept: Callable[[int], int]
    #: (outputs at the anchor, targets, noise_sd) -> what is kept (…, kept, n), and dl/df (…, K, n).
    at_anchor: Callable[[Array, Array, float], tuple[Array, Array]]
    #: (kept, u, v, noise_sd) -> u^T H v (…, n) at the anchor.
    curvature_form: Callable[[Array, Array, Array, float], Array]
    #: (moves u of the outputs, kept, noise_sd, order) -> what a Taylor polynomial in the outputs leaves of l (…, n).
    remainders: Callable[[Array, Array, float, str], Array]
    #: The same arguments -> the derivative of that by the outputs (…, K, n).
    remainder_residuals: Callable[[Array, Array, float, str], Array]
    #: (kept (kept, n), moves u (draws, K, n)) -> the mean over draws of d^3 l / df^3 (u, u) / 2 at the anchor, (K, n).
    mean_slope: Callable[[np.ndarray, np.ndarray], np.ndarray]
    #: noise_sd -> the largest size of the first, second and third derivative along a unit vector; None for no bound.
    derivative_bounds: Callable[[float], tuple[float | None, float | None, float | None]]

    #: (mean of y, noise_sd) -> the variance of y around it.
    variance: Callable[[np.ndarray, float], np.ndarray | float]
    #: Is the loss its own second-order polynomial, with noise_sd as its scale?
    is_quadratic: bool = False
    #: Do all losses share a normaliser, worked out on a grid (implementations.tasks.likelihoods.normaliser)? What
    #: stands above is then of the rest of the loss.
    is_normalised: bool = False
