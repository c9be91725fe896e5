"""Classes: a softmax of one output per class, or the log odds of the second of two.

    categorical   l = log sum_k exp(f_k) - f_y       y a class number
    bernoulli     l = log(1 + exp(f)) - y f          a softmax of the outputs 0 and f

Let p be the probabilities of the classes at an anchor t, from which the outputs move by u. Then

    l(theta) - l(t) = log sum_k p_k exp(u_k) - u_y

is the cumulant generating function of u under p, less u_y. A Taylor polynomial q in the outputs takes its first two
cumulants (``second``), or the mean alone (``first``), so that with v = u - sum_k p_k u_k

    q(theta) = sum_k p_k u_k - u_y + sum_k p_k v_k^2 / 2
    l(theta) - l(t) - q(theta) = log sum_k p_k exp(v_k) - sum_k p_k v_k^2 / 2

The remainder needs no target, and it rounds like u and not like l: no large numbers cancel in it.
"""

import math
import operator
from collections.abc import Iterable
from functools import partial, reduce

import numpy as np
from array_api_compat import array_namespace, device

from implementations.infrastructure.errors import SettingError
from implementations.tasks.likelihoods.record import Array, Functions, Likelihood
from implementations.tasks.likelihoods.series import log1p_less_itself, third_order


def _check_classes(targets: np.ndarray, num_classes: int) -> None:
    if len(targets) and (targets.dtype.kind not in "iu" or not 0 <= targets.min() <= targets.max() < num_classes):
        found = f"of type {targets.dtype} from {targets.min()} to {targets.max()}"
        raise SettingError(f"targets {found}: expected class numbers, whole from 0 to {num_classes - 1}")


def _softmax(outputs: np.ndarray) -> np.ndarray:
    """In place: predictions of many draws are large."""
    outputs -= outputs.max(axis=-1, keepdims=True)
    np.exp(outputs, out=outputs)
    outputs /= outputs.sum(axis=-1, keepdims=True)
    return outputs


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


def _categorical_losses(outputs: Array, targets: Array, noise_sd: float, functions: Functions) -> Array:
    return functions.cross_entropy(outputs, targets)


def _categorical_form(kept: Array, u: Array, v: Array, noise_sd: float) -> Array:
    xp = array_namespace(u)
    means = [xp.sum(kept * vector, axis=-2) for vector in (u, v)]
    return xp.sum(kept * u * v, axis=-2) - means[0] * means[1]


def _categorical_slope(kept: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """p_k (E[v_k^2] - sum_i p_i E[v_i^2]) / 2, v = u - sum_i p_i u_i."""
    centred = moves - (kept * moves).sum(axis=1, keepdims=True)
    squares = np.einsum("dkn,dkn->kn", centred, centred) / len(moves)
    return np.asarray(0.5 * kept * (squares - (kept * squares).sum(axis=0)))


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


def _bernoulli_losses(outputs: Array, targets: Array, noise_sd: float, functions: Functions) -> Array:
    # log(1 + exp(f)) - y f, in the form in which nothing cancels.
    return -functions.log_sigmoid((2 * targets - 1) * outputs[..., 0, :])


def _bernoulli_form(kept: Array, u: Array, v: Array, noise_sd: float) -> Array:
    return kept[..., 0, :] * kept[..., 1, :] * u[..., 0, :] * v[..., 0, :]


def _bernoulli_slope(kept: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """p (1 - p) (1 - 2 p) E[u^2] / 2."""
    return np.asarray(0.5 * kept[:1] * kept[1:] * (kept[:1] - kept[1:]) * np.square(moves).mean(axis=0))


def _at_anchor(outputs: Array, targets: Array, noise_sd: float, *, is_log_odds: bool) -> tuple[Array, Array]:
    """p and p - [k = y]."""
    xp = array_namespace(outputs)
    scores = xp.concat([xp.zeros_like(outputs), outputs], axis=-2) if is_log_odds else outputs
    odds = xp.exp(scores - xp.max(scores, axis=-2, keepdims=True))
    shares = odds / xp.sum(odds, axis=-2, keepdims=True)
    numbers = xp.arange(shares.shape[-2], device=device(outputs))[:, None]
    slope = shares - xp.astype(numbers == targets[..., None, :], outputs.dtype)
    return shares, slope[..., -outputs.shape[-2] :, :]


def remainders(moves: Array, kept: Array, noise_sd: float, order: str) -> Array:
    """log sum_k p_k exp(v_k), less sum_k p_k v_k^2 / 2 in second order: (…, n)."""
    spread, rest, _ = _parts(moves, kept)
    total = spread + rest
    # The sum of p exp(v) is 1 + total. Where that is close to 1, only what is left of it is added up.
    small, large = log1p_less_itself(total), array_namespace(moves).log(1 + total)
    is_small = total < 0.5
    if order == "first":
        return array_namespace(moves).where(is_small, total + small, large)
    return array_namespace(moves).where(is_small, rest + small, large - spread)


def remainder_residuals(moves: Array, kept: Array, noise_sd: float, order: str) -> Array:
    """p_k exp(v_k) / (sum_i p_i exp(v_i)) - p_k, and of a quadratic less p_k v_k: (…, outputs, n)."""
    spread, rest, classes = _parts(moves, kept)
    total = spread + rest
    by_class = []
    for share, centred, third in classes:
        second = third + 0.5 * centred**2
        change = second - total * (1 + centred) if order == "second" else second - total + centred
        by_class.append(share * change / (1 + total))
    # The output of log odds is that of the second class.
    return array_namespace(moves).stack(by_class[-moves.shape[-2] :], axis=-2)


def _parts(moves: Array, kept: Array) -> tuple[Array, Array, list[tuple[Array, Array, Array]]]:
    """sum_k p_k v_k^2 / 2 and sum_k p_k r(v_k) (…, n), with r(v) = exp(v) - 1 - v - v^2 / 2; and p, v, r by class.

    Class by class: XLA makes one loop of it, and of sums along an axis several that take twenty times as long.
    """
    shares = [kept[..., number, :] for number in range(kept.shape[-2])]
    if len(shares) > moves.shape[-2]:
        # Log odds: the first of two outputs stays 0.
        move = moves[..., 0, :]
        centred = [-shares[1] * move, shares[0] * move]
    else:
        by_class = [moves[..., number, :] for number in range(moves.shape[-2])]
        mean = _total(share * move for share, move in zip(shares, by_class, strict=True))
        centred = [move - mean for move in by_class]
    classes = [(share, v, third_order(v)) for share, v in zip(shares, centred, strict=True)]
    spread = 0.5 * _total(share * v * v for share, v, _ in classes)
    return spread, _total(share * third for share, _, third in classes), classes


def _total(terms: Iterable[Array]) -> Array:
    return reduce(operator.add, terms)


CATEGORICAL = Likelihood(
    name="categorical",
    summary="class numbers, a softmax of one output per class",
    target_type=np.int32,
    num_outputs=None,
    has_classes=True,
    check_targets=_check_classes,
    loss_and_residuals=_categorical_loss,
    curvature_root=_categorical_root,
    curvature_product=_categorical_product,
    predictions=_softmax,
    losses=_categorical_losses,
    num_kept=lambda num_outputs: num_outputs,
    at_anchor=partial(_at_anchor, is_log_odds=False),
    curvature_form=_categorical_form,
    remainders=remainders,
    remainder_residuals=remainder_residuals,
    mean_slope=_categorical_slope,
    # |p - e_y|, the largest eigenvalue of diag(p) - p p^T, and that times the range sqrt(2) of a direction's classes.
    derivative_bounds=lambda noise_sd: (math.sqrt(2), 0.5, math.sqrt(2) / 2),
    variance=lambda mean, noise_sd: mean * (1 - mean),
)

BERNOULLI = Likelihood(
    name="bernoulli",
    summary="0 or 1, one output, the log odds of 1",
    target_type=np.int32,
    num_outputs=1,
    has_classes=True,
    check_targets=lambda targets, num_outputs: _check_classes(targets, 2),
    loss_and_residuals=_bernoulli_loss,
    curvature_root=lambda outputs, noise_sd: np.sqrt(_bernoulli_curvature(outputs))[:, :, None],
    curvature_product=lambda outputs, vectors, noise_sd: _bernoulli_curvature(outputs) * vectors,
    predictions=_bernoulli_predictions,
    losses=_bernoulli_losses,
    num_kept=lambda num_outputs: 2,
    at_anchor=partial(_at_anchor, is_log_odds=True),
    curvature_form=_bernoulli_form,
    remainders=remainders,
    remainder_residuals=remainder_residuals,
    mean_slope=_bernoulli_slope,
    derivative_bounds=lambda noise_sd: (1.0, 0.25, math.sqrt(3) / 18),
    variance=lambda mean, noise_sd: mean * (1 - mean),
)
