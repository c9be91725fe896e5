"""The likelihoods as functions of a network's outputs f, in NumPy: loss, its derivatives, and predictions.

    gaussian      l = (y - f)^2 / (2 sigma^2)        known noise_sd = sigma
    categorical   l = log sum_k exp(f_k) - f_y       softmax over the outputs, y a class number
    bernoulli     l = log(1 + exp(f)) - y f          one output, the log odds of y = 1 against y = 0

Outputs are (n, K) and targets (n,). The samplers' backends and the gold standard have their own lines for the same
formulas: what judges and what is judged share no code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from implementations.infrastructure.errors import SettingError, unknown


@dataclass(frozen=True)
class Likelihood:
    """What the mode, the curvature, the control variates and the predictions need of a likelihood."""

    #: (outputs, targets, noise_sd) -> sum_j l_j and the residuals dl_j / df_j (n, K).
    loss_and_residuals: Callable[[np.ndarray, np.ndarray, float], tuple[float, np.ndarray]]
    #: (outputs, noise_sd) -> S (n, K, K) with S S^T = H = d^2 l / df^2.
    curvature_root: Callable[[np.ndarray, float], np.ndarray]
    #: (outputs, u (…, n, K), noise_sd) -> H u (…, n, K), without a K x K matrix per point.
    curvature_product: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    #: outputs (…, K) -> f itself, or the probabilities of the classes (…, classes); may overwrite the outputs.
    predictions: Callable[[np.ndarray], np.ndarray]


def find_likelihood(name: str) -> Likelihood:
    if name not in LIKELIHOODS:
        raise SettingError(unknown("likelihood", name, LIKELIHOODS))
    return LIKELIHOODS[name]


def _gaussian_loss(outputs: np.ndarray, targets: np.ndarray, noise_sd: float) -> tuple[float, np.ndarray]:
    residuals = (outputs - targets[:, None]) / noise_sd**2
    return float(0.5 * noise_sd**2 * np.square(residuals).sum()), residuals


def _gaussian_root(outputs: np.ndarray, noise_sd: float) -> np.ndarray:
    return np.full((*outputs.shape, 1), 1 / noise_sd)


def _categorical_loss(outputs: np.ndarray, targets: np.ndarray, noise_sd: float) -> tuple[float, np.ndarray]:
    # Every run imports this module for its preconditioner, and scipy takes as long as all the rest of it.
    from scipy.special import logsumexp

    points = np.arange(len(targets))
    log_sums = logsumexp(outputs, axis=1)
    loss = (log_sums - outputs[points, targets]).sum()
    residuals = np.exp(outputs - log_sums[:, None])
    residuals[points, targets] -= 1
    return float(loss), residuals


def _categorical_root(outputs: np.ndarray, noise_sd: float) -> np.ndarray:
    """H = diag(p) - p p^T, S = (I - p 1^T) diag(sqrt p)."""
    probabilities = _softmax(outputs.copy())
    root = np.sqrt(probabilities)
    return root[:, :, None] * np.eye(outputs.shape[1]) - probabilities[:, :, None] * root[:, None, :]


def _categorical_product(outputs: np.ndarray, vectors: np.ndarray, noise_sd: float) -> np.ndarray:
    probabilities = _softmax(outputs.copy())
    weighted = probabilities * vectors
    return weighted - probabilities * weighted.sum(axis=-1, keepdims=True)


def _softmax(outputs: np.ndarray) -> np.ndarray:
    """In place: predictions of many draws are large."""
    outputs -= outputs.max(axis=-1, keepdims=True)
    np.exp(outputs, out=outputs)
    outputs /= outputs.sum(axis=-1, keepdims=True)
    return outputs


def _bernoulli_loss(outputs: np.ndarray, targets: np.ndarray, noise_sd: float) -> tuple[float, np.ndarray]:
    # log(1 + exp(-f)) for y = 1 and log(1 + exp(f)) for y = 0: nothing cancels where f is large.
    losses = np.logaddexp(0, (1 - 2.0 * targets[:, None]) * outputs)
    return float(losses.sum()), _expit(outputs) - targets[:, None]


def _expit(outputs: np.ndarray) -> np.ndarray:
    """p = 1 / (1 + exp(-f)), without overflow."""
    small = np.exp(-np.abs(outputs))
    return np.where(outputs < 0, small, 1) / (1 + small)


def _bernoulli_curvature(outputs: np.ndarray) -> np.ndarray:
    """H = p (1 - p)."""
    return _expit(outputs) * _expit(-outputs)


def _bernoulli_predictions(outputs: np.ndarray) -> np.ndarray:
    return np.concatenate([_expit(-outputs), _expit(outputs)], axis=-1)


LIKELIHOODS: Mapping[str, Likelihood] = {
    "gaussian": Likelihood(
        loss_and_residuals=_gaussian_loss,
        curvature_root=_gaussian_root,
        curvature_product=lambda outputs, vectors, noise_sd: vectors / noise_sd**2,
        predictions=lambda outputs: outputs,
    ),
    "categorical": Likelihood(
        loss_and_residuals=_categorical_loss,
        curvature_root=_categorical_root,
        curvature_product=_categorical_product,
        predictions=_softmax,
    ),
    "bernoulli": Likelihood(
        loss_and_residuals=_bernoulli_loss,
        curvature_root=lambda outputs, noise_sd: np.sqrt(_bernoulli_curvature(outputs))[:, :, None],
        curvature_product=lambda outputs, vectors, noise_sd: _bernoulli_curvature(outputs) * vectors,
        predictions=_bernoulli_predictions,
    ),
}
