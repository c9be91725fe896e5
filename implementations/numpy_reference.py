"""The methods, slowly and readably: the executable definition that both backends are tested against.

One chain, one step at a time, double precision, every quantity straight from its formula: sums over points are
written as such, proposal densities are evaluated as densities, and nothing is kept from one step to the next.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import hyp0f1, logsumexp, softmax

from implementations.methods import METHODS, Settings, degrees_of_freedom
from implementations.tasks.problem import Problem, network_outputs, split_parameters, with_bias


class Noise(NamedTuple):
    """All the randomness of a step of one chain."""

    normals: np.ndarray  # (P,)
    log_uniform: float
    indices: np.ndarray | None = None  # (M, n)
    gradient_indices: np.ndarray | None = None  # (n,)


class Outcome(NamedTuple):
    """A step, weighed."""

    position: np.ndarray
    is_accepted: bool
    log_accept: float
    delta: float
    variance: float


def point_losses(position: np.ndarray, problem: Problem, indices: np.ndarray) -> np.ndarray:
    """l_j = -log p(y_j | x_j, theta) up to a constant, for the points ``indices``."""
    outputs = network_outputs(position, problem.features[indices].astype(float), problem.layers)
    targets = problem.targets[indices]
    if problem.likelihood == "gaussian":
        return 0.5 * ((targets - outputs[:, 0]) / problem.noise_sd) ** 2
    return np.asarray(logsumexp(outputs, axis=1) - outputs[np.arange(len(targets)), targets])


def log_prior(position: np.ndarray, problem: Problem) -> float:
    """log p(theta) up to a constant."""
    if problem.prior == "gaussian":
        return float(-0.5 * np.sum((position / problem.prior_scale) ** 2))
    return float(-np.sum(np.abs(position)) / problem.prior_scale)


def gradient(position: np.ndarray, problem: Problem, indices: np.ndarray, weight: float) -> np.ndarray:
    """Gradient of -log p(theta) + (w / n) sum_j l_j over the n points ``indices``, by back-propagation."""
    matrices = split_parameters(position, problem.layers)
    activations = [problem.features[indices].astype(float)]
    for matrix in matrices[:-1]:
        activations.append(with_bias(np.tanh(activations[-1] @ matrix)))
    outputs = activations[-1] @ matrices[-1]
    targets = problem.targets[indices]
    if problem.likelihood == "gaussian":
        error = (outputs - targets[:, None]) / problem.noise_sd**2
    else:
        error = softmax(outputs, axis=1) - np.eye(problem.num_outputs)[targets]
    pieces = []
    for matrix, activation in zip(reversed(matrices), reversed(activations), strict=True):
        pieces.append((activation.T @ error).ravel())
        # Through the weights, without the bias, and through tanh' = 1 - tanh^2.
        error = (error @ matrix.T)[:, 1:] * (1 - activation[:, 1:] ** 2)
    of_prior = (
        position / problem.prior_scale**2 if problem.prior == "gaussian" else np.sign(position) / problem.prior_scale
    )
    return np.asarray(of_prior + weight / len(indices) * np.concatenate(pieces[::-1]))


def loss_difference(
    position: np.ndarray, proposed: np.ndarray, noise: Noise, problem: Problem, method_name: str, settings: Settings
) -> tuple[float, float]:
    """delta and its variance."""
    weight = problem.target_weight(settings.weight, settings.batch_size)
    everything = np.arange(problem.num_points)
    prior = log_prior(position, problem) - log_prior(proposed, problem)

    def differences(indices: np.ndarray) -> np.ndarray:
        return point_losses(proposed, problem, indices) - point_losses(position, problem, indices)

    if METHODS[method_name].estimate == "all":
        return prior + weight / problem.num_points * float(np.sum(differences(everything))), 0.0
    assert noise.indices is not None
    num_batches, batch_size = noise.indices.shape
    count = num_batches * batch_size
    deltas = np.array([prior + weight / batch_size * np.sum(differences(batch)) for batch in noise.indices])
    delta = float(np.mean(deltas))
    unsampled = 1 - count / problem.num_points
    if settings.variance == "single":
        return float(deltas[0]), float(np.sum((deltas - delta) ** 2) / (num_batches - 1))
    if settings.variance == "batches":
        return delta, float(np.sum((deltas - delta) ** 2) / (num_batches * (num_batches - 1)))
    if settings.variance == "oracle":
        return delta, weight**2 / count * float(np.var(differences(everything), ddof=1)) * unsampled
    return delta, weight**2 / count * float(np.var(differences(noise.indices.ravel()), ddof=1)) * unsampled


def log_acceptance(kind: str, delta: float, variance: float, dof: float) -> float:
    """log A without the proposal's ratio."""
    if kind in ("exact", "naive"):
        return -delta
    if kind == "penalty" or (kind == "penalty_corrected" and np.isinf(dof)):
        return -delta - variance / 2
    if kind == "penalty_corrected":
        # Positive all the way from 0 means before the first zero.
        values = hyp0f1(dof / 2, -dof * np.linspace(0, variance, 1000) / 4)
        return -delta + float(np.log(values[-1])) if np.all(values > 0) else -np.inf
    return np.inf


def step(
    position: np.ndarray,
    noise: Noise,
    step_size: float,
    factor: np.ndarray,
    problem: Problem,
    method_name: str,
    settings: Settings,
) -> Outcome:
    """One step of a chain (paper: Algorithm 1); ``factor`` is the lower triangular L of C = L L^T."""
    method = METHODS[method_name]
    weight = problem.target_weight(settings.weight, settings.batch_size)

    def centre(place: np.ndarray) -> np.ndarray:
        """The mean of the proposal from a place."""
        if method.proposal == "random_walk":
            return place
        indices = np.arange(problem.num_points) if method.gradient == "all" else noise.gradient_indices
        assert indices is not None
        return place - step_size * factor @ factor.T @ gradient(place, problem, indices, weight)

    def log_density(to: np.ndarray, place: np.ndarray) -> float:
        """log N(to; centre(place), 2 eta C) up to a constant (paper: *Langevin proposal*)."""
        whitened = solve_triangular(factor, to - centre(place), lower=True)
        return float(-np.sum(whitened**2) / (4 * step_size))

    proposed = centre(position) + np.sqrt(2 * step_size) * factor @ noise.normals
    log_ratio = delta = variance = 0.0
    if method.acceptance != "always":
        log_ratio = log_density(position, proposed) - log_density(proposed, position)
    if method.estimate != "none":
        delta, variance = loss_difference(position, proposed, noise, problem, method_name, settings)
    log_accept = log_ratio + log_acceptance(method.acceptance, delta, variance, degrees_of_freedom(settings))
    is_accepted = noise.log_uniform < log_accept
    return Outcome(proposed if is_accepted else position, is_accepted, log_accept, delta, variance)
