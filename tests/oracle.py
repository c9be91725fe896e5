"""The methods, slowly and readably: the executable definition that both backends are tested against.

One chain, one step at a time, double precision, every quantity straight from its formula: sums over points are
written as such, proposal densities are evaluated as densities, and nothing is kept from one step to the next.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, hyp0f1, logsumexp, softmax

from implementations.control_variates.anchor import Anchor
from implementations.control_variates.averaging import Averages
from implementations.kernels.metropolis import Metropolis
from implementations.methods import METHODS
from implementations.settings import Settings
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.problem import Problem, split_parameters, with_bias


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
    outputs = problem.network_outputs(position, problem.features[indices].astype(float))
    targets = problem.targets[indices]
    if problem.likelihood == "gaussian":
        return 0.5 * ((targets - outputs[:, 0]) / problem.noise_sd) ** 2
    if problem.likelihood == "bernoulli":
        return np.asarray(np.logaddexp(0, outputs[:, 0]) - targets * outputs[:, 0])
    if problem.likelihood == "poisson":
        return np.asarray(np.exp(outputs[:, 0]) - targets * outputs[:, 0])
    if problem.likelihood == "density":
        on_grid = problem.network_outputs(position, problem.grid.astype(float))
        return np.asarray(np.log(np.mean(np.exp(on_grid))) - outputs[:, 0])
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
    if problem.likelihood == "density":
        activations = [np.concatenate([activations[0], problem.grid.astype(float)])]
    for matrix in matrices[:-1]:
        inputs = activations[-1] @ matrix
        activations.append(with_bias(np.maximum(inputs, 0) if problem.activation == "relu" else np.tanh(inputs)))
    outputs = activations[-1] @ matrices[-1]
    targets = problem.targets[indices]
    if problem.likelihood == "gaussian":
        error = (outputs - targets[:, None]) / problem.noise_sd**2
    elif problem.likelihood == "bernoulli":
        error = expit(outputs) - targets[:, None]
    elif problem.likelihood == "poisson":
        error = np.exp(outputs) - targets[:, None]
    elif problem.likelihood == "density":
        # Every point has the normaliser once.
        shares = len(indices) * softmax(outputs[len(indices) :], axis=0)
        error = np.concatenate([-np.ones((len(indices), 1)), shares])
    else:
        error = softmax(outputs, axis=1) - np.eye(problem.num_outputs)[targets]
    pieces = []
    for matrix, activation in zip(reversed(matrices), reversed(activations), strict=True):
        pieces.append((activation.T @ error).ravel())
        # Through the weights, without the bias, and through relu' = 1 above 0, or tanh' = 1 - tanh^2.
        slope = activation[:, 1:] > 0 if problem.activation == "relu" else 1 - activation[:, 1:] ** 2
        error = (error @ matrix.T)[:, 1:] * slope
    return prior_gradient(position, problem) + weight / len(indices) * np.concatenate(pieces[::-1])


def prior_gradient(position: np.ndarray, problem: Problem) -> np.ndarray:
    """Gradient of -log p(theta)."""
    if problem.prior == "gaussian":
        return position / problem.prior_scale**2
    return np.asarray(np.sign(position) / problem.prior_scale)


def point_proxies(problem: Problem, anchor: Anchor, parameters: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """q_j(theta) of the points ``indices`` (n,), for one parameter vector (P,)."""
    likelihood, at_anchor = find_likelihood(problem.likelihood), anchor.outputs[indices]
    # f_j(theta) - f_j(t) as one product: a difference of two outputs would lose digits where the step is small.
    step = (parameters - anchor.position).reshape(problem.layers[0])
    outputs = problem.features[indices].astype(np.float64) @ step
    _, residuals = likelihood.loss_and_residuals(at_anchor, problem.targets[indices], problem.noise_sd)
    curved = likelihood.curvature_product(at_anchor, outputs, problem.noise_sd)
    proxies = np.sum((residuals + curved / 2) * outputs, axis=1)
    if not problem.is_normalised:
        return proxies
    # The normaliser's own, the same of every point.
    grid = problem.grid.astype(np.float64)
    moves, shares = grid @ step[:, 0], normaliser.shares(grid @ anchor.position)
    return proxies + moves @ (shares + normaliser.curvature_product(shares, moves) / 2)


def proxy_sum(anchor: Anchor, parameters: np.ndarray) -> np.ndarray:
    """(w/N) sum_j q_j(theta) over all points, in closed form, for parameter vectors (…, P): (…)."""
    step = parameters - anchor.position
    return step @ anchor.gradient + 0.5 * np.einsum("...i,ij,...j->...", step, anchor.curvature, step)


def proxy_gradient(anchor: Anchor, parameters: np.ndarray) -> np.ndarray:
    """Gradient (…, P) of ``proxy_sum``."""
    return anchor.gradient + (parameters - anchor.position) @ anchor.curvature


def first_order(problem: Problem, anchor: Anchor, position: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The plane that touches the losses at the anchor, for the points ``indices``: dl_j/df · (f_j(theta) - f_j(t))."""
    moves = problem.features[indices].astype(float) @ (position - anchor.position).reshape(problem.layers[0])
    planes = np.sum(anchor_residuals(problem, anchor, indices) * moves, axis=1)
    if problem.likelihood == "density":
        grid = problem.grid.astype(float)
        planes += softmax(grid @ anchor.position) @ grid @ (position - anchor.position)
    return planes


def anchor_residuals(problem: Problem, anchor: Anchor, indices: np.ndarray) -> np.ndarray:
    """dl_j/df at the anchor."""
    likelihood = find_likelihood(problem.likelihood)
    return likelihood.loss_and_residuals(anchor.outputs[indices], problem.targets[indices], problem.noise_sd)[1]


def anchored_gradient(
    position: np.ndarray,
    problem: Problem,
    indices: np.ndarray,
    weight: float,
    anchor: Anchor,
    order: str,
    averages: Averages | None = None,
) -> np.ndarray:
    """Gradient of U_w with control variates from the points ``indices``; none of them: that of the proxies alone."""
    of_proxies = anchor.gradient if order == "first" else proxy_gradient(anchor, position)
    if averages is not None:
        everything = np.arange(problem.num_points)
        of_proxies = of_proxies + weight / problem.num_points * _slopes_by_parameter(problem, averages, everything)
    if len(indices) == 0:
        return np.asarray(of_proxies + prior_gradient(position, problem))
    features = problem.features[indices].astype(float)
    moves = features @ (position - anchor.position).reshape(problem.layers[0])
    slopes = anchor_residuals(problem, anchor, indices)
    if order != "first":
        product = find_likelihood(problem.likelihood).curvature_product
        slopes = slopes + product(anchor.outputs[indices], moves, problem.noise_sd)
    of_batch_proxies = weight / len(indices) * (features.T @ slopes).ravel()
    if averages is not None:
        of_batch_proxies += weight / len(indices) * _slopes_by_parameter(problem, averages, indices)
    if problem.likelihood == "density":
        grid = problem.grid.astype(float)
        shares = softmax(grid @ anchor.position)
        mean = shares @ grid
        of_batch_proxies += weight * mean
        if order == "second":
            covariance = (grid - mean).T @ np.diag(shares) @ (grid - mean)
            of_batch_proxies += weight * covariance @ (position - anchor.position)
    return of_proxies + gradient(position, problem, indices, weight) - of_batch_proxies


def _slopes_by_parameter(problem: Problem, averages: Averages, indices: np.ndarray) -> np.ndarray:
    """The sum of x_j c_j over the points ``indices``."""
    return np.asarray((problem.features[indices].astype(float).T @ averages.slopes[indices].astype(float)).ravel())


def loss_difference(
    position: np.ndarray,
    proposed: np.ndarray,
    noise: Noise,
    problem: Problem,
    method_name: str,
    settings: Settings,
    anchor: Anchor | None = None,
    averages: Averages | None = None,
) -> tuple[float, float]:
    """delta and its variance."""
    weight = settings.target_weight(problem.num_points)
    everything = np.arange(problem.num_points)
    prior = log_prior(position, problem) - log_prior(proposed, problem)
    order = settings.shapes.get("proxy")

    def differences(indices: np.ndarray) -> np.ndarray:
        change = point_losses(proposed, problem, indices) - point_losses(position, problem, indices)
        if anchor is None or order is None:
            return change
        proxies = first_order if order == "first" else point_proxies
        there, here = (proxies(problem, anchor, place, indices) for place in (proposed, position))
        return change - (there - here) - tilts(indices)

    def tilts(indices: np.ndarray) -> np.ndarray:
        """What averaged proxies have beyond the quadratic: c_j · (f_j(theta') - f_j(theta))."""
        if averages is None:
            return np.zeros(len(indices))
        moves = problem.features[indices].astype(float) @ (proposed - position).reshape(problem.layers[0])
        return np.sum(averages.slopes[indices] * moves, axis=1)

    if anchor is not None and order == "first":
        prior += float((proposed - position) @ anchor.gradient)
    elif anchor is not None and order is not None:
        prior += float(proxy_sum(anchor, proposed) - proxy_sum(anchor, position))
    prior += weight / problem.num_points * float(np.sum(tilts(everything)))

    if parts_of(method_name).estimate == "all":
        return prior + weight / problem.num_points * float(np.sum(differences(everything))), 0.0
    assert noise.indices is not None
    num_batches, batch_size = noise.indices.shape
    count = num_batches * batch_size
    deltas = np.array([prior + weight / batch_size * np.sum(differences(batch)) for batch in noise.indices])
    delta = float(np.mean(deltas))
    name = settings.variance or "points"
    unsampled = 1 - count / problem.num_points
    if name == "oracle":
        return delta, weight**2 / count * float(np.var(differences(everything), ddof=1)) * unsampled
    if name == "literal":
        return float(deltas[0]), float(np.sum((deltas - deltas[0]) ** 2) / (num_batches - 1))
    if name in ("single", "single_finite"):
        share = 1 - batch_size / problem.num_points if name == "single_finite" else 1.0
        return float(deltas[0]), share * float(np.sum((deltas - delta) ** 2) / (num_batches - 1))
    if name in ("batches", "batches_finite"):
        share = unsampled if name == "batches_finite" else 1.0
        return delta, share * float(np.sum((deltas - delta) ** 2) / (num_batches * (num_batches - 1)))
    share = unsampled if name == "points" else 1.0
    return delta, share * weight**2 / count * float(np.var(differences(noise.indices.ravel()), ddof=1))


def parts_of(method_name: str) -> Metropolis:
    """The parts that a method is put together from."""
    kernel = METHODS[method_name].kernel
    assert isinstance(kernel, Metropolis), f"{method_name} is not a choice of parts"
    return kernel


def degrees_of_freedom(settings: Settings) -> float:
    """nu of the variance estimate."""
    assert settings.num_batches is not None and settings.batch_size is not None
    num_values = settings.num_batches * (
        settings.batch_size if settings.variance in ("points", "points_infinite") else 1
    )
    return num_values - 1


def log_acceptance(kind: str, delta: float, variance: float, settings: Settings) -> float:
    """log A without the proposal's ratio."""
    if kind in ("exact", "naive"):
        return -delta
    if kind == "penalty" or (kind == "penalty_corrected" and settings.variance == "oracle"):
        return -delta - variance / 2
    if kind == "penalty_corrected":
        dof = degrees_of_freedom(settings)
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
    anchor: Anchor | None = None,
    averages: Averages | None = None,
) -> Outcome:
    """One step of a chain (paper: Algorithm 1); ``factor`` is the lower triangular L of C = L L^T."""
    method = parts_of(method_name)
    weight = settings.target_weight(problem.num_points)
    order = settings.shapes.get("proxy")
    gradient_of = settings.shapes.get("gradient", method.gradient)

    def centre(place: np.ndarray) -> np.ndarray:
        """The mean of the proposal from a place."""
        if method.proposal == "random_walk":
            return place
        if method.proposal == "crank_nicolson":
            assert anchor is not None
            mean = anchor.position if averages is None else averages.centre
            return np.asarray(mean + np.sqrt(1 - 2 * step_size) * (place - mean))
        indices = np.arange(problem.num_points) if gradient_of == "all" else noise.gradient_indices
        assert indices is not None
        if order is None:
            slope = gradient(place, problem, indices, weight)
        else:
            assert anchor is not None
            slope = anchored_gradient(place, problem, indices, weight, anchor, order, averages)
        return np.asarray(place - step_size * factor @ factor.T @ slope)

    def log_density(to: np.ndarray, place: np.ndarray) -> float:
        """log N(to; centre(place), 2 eta C) up to a constant (paper: *Langevin proposal*)."""
        whitened = solve_triangular(factor, to - centre(place), lower=True)
        return float(-np.sum(whitened**2) / (4 * step_size))

    proposed = centre(position) + np.sqrt(2 * step_size) * factor @ noise.normals
    log_ratio = delta = variance = 0.0
    if method.acceptance != "always":
        log_ratio = log_density(position, proposed) - log_density(proposed, position)
    if method.estimate != "none":
        delta, variance = loss_difference(position, proposed, noise, problem, method_name, settings, anchor, averages)
    log_accept = log_ratio + log_acceptance(method.acceptance, delta, variance, settings)
    is_accepted = noise.log_uniform < log_accept
    return Outcome(proposed if is_accepted else position, is_accepted, log_accept, delta, variance)
