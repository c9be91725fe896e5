"""Gradient and Hessian of the loss of a network of any depth, in NumPy and double precision.

The signals s_l = dl/da_l run backwards from s_L = dl/df through a_l = h_{l-1} W_l and h_l = [1, s(a_l)]:

    dl/dW_l = h_{l-1}^T s_l,     s_{l-1} = s'(a_{l-1}) (s_l W_l^T without its bias)

A product of the Hessian with a vector v is the derivative of these lines along v (Pearlmutter 1994): what changes at
the rate R{.} when the weights W_l change at the rate V_l.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.problem import CHUNK, Problem, split_parameters, with_bias

#: Points at once where there are hidden layers, whose activations are held for all directions together.
NETWORK_CHUNK = 2**12
#: Columns of the Hessian that are worked out together: fewer calls, and some 20 MB of activations.
NUM_DIRECTIONS = 32


class Part(NamedTuple):
    """Some points, or the grid of a density, with the sum of their losses as a function of their outputs (n, K)."""

    features: np.ndarray
    #: outputs -> the sum, and its derivatives by the outputs (n, K).
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]]
    #: (outputs, u (…, n, K)) -> the second derivatives times u.
    product: Callable[[np.ndarray, np.ndarray], np.ndarray]


class Pass(NamedTuple):
    """Forward and backward through a network at some points."""

    hidden: list[np.ndarray]  # h_0 … h_{L-1}: (n, units + 1)
    outputs: np.ndarray  # f: (n, outputs)
    signals: list[np.ndarray]  # s_1 … s_L: (n, units)
    loss: float


def loss_and_gradient(problem: Problem, parameters: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
    """(w/N) sum_j l_j(theta), up to a constant, and its gradient (P,), in float64."""
    total, gradient = 0.0, np.zeros(problem.num_parameters)
    parameters = parameters.astype(np.float64)
    for part in _parts(problem):
        loss, piece = _of_part(problem, parameters, part)
        total += loss
        gradient += piece
    scale = weight / problem.num_points
    return scale * total, scale * gradient


def _of_part(problem: Problem, parameters: np.ndarray, part: Part) -> tuple[float, np.ndarray]:
    """Sum and gradient of the losses of a part, whose activations are gone when it returns."""
    if problem.network:
        from implementations.tasks import autodiff

        return autodiff.loss_and_gradient(problem.network, parameters, part)
    done = _pass(problem, split_parameters(parameters, problem.layers), part)
    pieces = [(hidden.T @ signals).ravel() for hidden, signals in zip(done.hidden, done.signals, strict=True)]
    return done.loss, np.concatenate(pieces)


def hessian(problem: Problem, parameters: np.ndarray, weight: float) -> np.ndarray:
    """Second derivatives (P, P) of (w/N) sum_j l_j, by products with the unit vectors."""
    size = problem.num_parameters
    total = np.zeros((size, size))
    for part in _parts(problem):
        products = _products_with(problem, parameters.astype(np.float64), part)
        for first in range(0, size, NUM_DIRECTIONS):
            directions = np.eye(min(NUM_DIRECTIONS, size - first), size, first)
            total[first : first + NUM_DIRECTIONS] += products(directions)
    total *= weight / problem.num_points
    # Symmetric but for rounding.
    return (total + total.T) / 2


def _products_with(problem: Problem, parameters: np.ndarray, part: Part) -> Callable[[np.ndarray], np.ndarray]:
    """Directions (k, P) -> products (k, P) with the Hessian of the sum of a part's losses."""
    if problem.network:
        from implementations.tasks import autodiff

        return partial(autodiff.products, problem.network, parameters, part)
    matrices = split_parameters(parameters, problem.layers)
    return partial(_products, problem, matrices, part, _pass(problem, matrices, part))


def _parts(problem: Problem) -> Iterator[Part]:
    likelihood = find_likelihood(problem.likelihood)

    def product(outputs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return likelihood.curvature_product(outputs, vectors, problem.noise_sd)

    def loss(targets: np.ndarray, outputs: np.ndarray) -> tuple[float, np.ndarray]:
        return likelihood.loss_and_residuals(outputs, targets, problem.noise_sd)

    for chunk in problem.chunks(CHUNK if problem.is_linear else NETWORK_CHUNK):
        yield Part(problem.features[chunk].astype(np.float64), partial(loss, problem.targets[chunk]), product)
    if problem.is_normalised:
        yield Part(problem.grid.astype(np.float64), *_normaliser(problem.num_points))


def _normaliser(times: int) -> tuple[Callable[..., tuple[float, np.ndarray]], Callable[..., np.ndarray]]:
    """So many times the normaliser of a density, of its outputs (G, 1) on the grid."""

    def loss(outputs: np.ndarray) -> tuple[float, np.ndarray]:
        return times * float(normaliser.log_mean(outputs[:, 0])), times * normaliser.shares(outputs[:, 0])[:, None]

    def product(outputs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return times * normaliser.curvature_product(normaliser.shares(outputs[:, 0]), vectors[..., 0])[..., None]

    return loss, product


def _pass(problem: Problem, matrices: list[np.ndarray], part: Part) -> Pass:
    hidden, form = [part.features], find_activation(problem.activation)
    for matrix in matrices[:-1]:
        hidden.append(with_bias(form.values(hidden[-1] @ matrix)))
    outputs = hidden[-1] @ matrices[-1]
    loss, residuals = part.loss(outputs)
    signals = [residuals]
    for matrix, activations in zip(matrices[:0:-1], hidden[:0:-1], strict=True):
        signals.append(form.slopes(activations[:, 1:]) * (signals[-1] @ matrix[1:].T))
    return Pass(hidden, outputs, signals[::-1], loss)


def _products(
    problem: Problem, matrices: list[np.ndarray], part: Part, done: Pass, directions: np.ndarray
) -> np.ndarray:
    """Products (k, P) of the Hessian of the sum of a part's losses with directions (k, P)."""
    rates, form = split_parameters(directions, problem.layers), find_activation(problem.activation)
    # Forward: R{a_l} = R{h_{l-1}} W_l + h_{l-1} V_l, R{h} = s' R{a}.
    of_inputs, of_hidden = [done.hidden[0] @ rates[0]], [np.zeros((1, 1, done.hidden[0].shape[1]))]
    for matrix, rate, activations in zip(matrices[1:], rates[1:], done.hidden[1:], strict=True):
        of_hidden.append(form.slopes(activations[:, 1:]) * of_inputs[-1])
        of_inputs.append(of_hidden[-1] @ matrix[1:] + activations @ rate)
    # Backward: R{s_L} = H R{f}; then the product rule through s' (s W^T).
    of_signals = [part.product(done.outputs, of_inputs[-1])]
    for layer in range(len(matrices) - 1, 0, -1):
        activations = done.hidden[layer][:, 1:]
        back = done.signals[layer] @ matrices[layer][1:].T
        of_back = of_signals[-1] @ matrices[layer][1:].T + done.signals[layer] @ rates[layer][:, 1:].swapaxes(1, 2)
        of_slope = form.slope_rates(activations, of_hidden[layer])
        of_signals.append(form.slopes(activations) * of_back + of_slope * back)
    pieces = []
    for layer, of_signal in enumerate(reversed(of_signals)):
        product = done.hidden[layer].T @ of_signal
        if layer:
            # The bias is a constant input.
            product[:, 1:] += of_hidden[layer].swapaxes(1, 2) @ done.signals[layer]
        pieces.append(product.reshape(len(directions), -1))
    return np.concatenate(pieces, axis=1)
