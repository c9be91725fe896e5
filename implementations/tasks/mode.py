"""Mode of the target of any weight, for one stochastic layer."""

import numpy as np
from scipy import optimize, special

from implementations.tasks.geometry import mean_curvature
from implementations.tasks.problem import Problem

#: A step that lowers U_w by less than this (in nats, where chains see differences of order 1) ends the search.
TOLERANCE = 1e-8
MAX_STEPS = 200
#: Added to the model's curvature, relative to its mean, so that it can be inverted also along directions that leave
#: every output as it is (softmax has some). The model stays centred at the current point, so the mode does not move.
RIDGE = 1e-6


def find_mode(problem: Problem, weight: float) -> np.ndarray:
    """argmin of U_w, float64 (P,), by Newton's method from ``problem.map``; every step minimises a quadratic model.

    U_w is convex for one layer, and a step that would raise it is halved. A Gaussian likelihood needs one step.
    """
    assert len(problem.layers) == 1, "with several layers the mode is what training found"
    parameters = problem.map.astype(np.float64)
    value = _target(problem, parameters, weight)
    for _ in range(MAX_STEPS):
        step = _model_mode(problem, parameters, weight) - parameters
        for _ in range(50):
            proposed = parameters + step
            proposed_value = _target(problem, proposed, weight)
            if proposed_value <= value:
                break
            step /= 2
        else:
            # Newton's direction falls; where no part of it does, rounding hides what is left to gain.
            return parameters
        parameters, previous, value = proposed, value, proposed_value
        if previous - value < TOLERANCE:
            return parameters
    raise RuntimeError(
        f"no mode found for {problem.task!r}, weight {weight:g}: U_w still falls after {MAX_STEPS} steps"
    )


def _model_mode(problem: Problem, parameters: np.ndarray, weight: float) -> np.ndarray:
    """argmin over t of the prior plus the quadratic model t^T H t / 2 - slope^T t of the loss around ``parameters``."""
    hessian = weight * mean_curvature(problem, parameters)
    gradient = loss_and_gradient(problem, parameters, weight)[1]
    identity = np.eye(len(parameters))
    if problem.prior == "gaussian":
        precision = identity / problem.prior_scale**2
        return np.linalg.solve(hessian + precision, hessian @ parameters - gradient)
    # With the prior |t| / b the dual is a least-squares problem in a box, which scipy solves: over |s| <= 1 / b
    # minimise (slope - s)^T H^-1 (slope - s); then t = H^-1 (slope - s).
    hessian += RIDGE * hessian.diagonal().mean() * identity
    slope = hessian @ parameters - gradient
    inverse_root = np.linalg.inv(np.linalg.cholesky(hessian))
    bound = 1 / problem.prior_scale
    dual = optimize.lsq_linear(inverse_root, inverse_root @ slope, (-bound, bound), tol=1e-15, max_iter=1000).x
    return inverse_root.T @ inverse_root @ (slope - dual)


def _target(problem: Problem, parameters: np.ndarray, weight: float) -> float:
    """U_w(theta), up to a constant."""
    if problem.prior == "laplace":
        prior = np.abs(parameters).sum() / problem.prior_scale
    else:
        prior = parameters @ parameters / (2 * problem.prior_scale**2)
    return loss_and_gradient(problem, parameters, weight)[0] + float(prior)


def loss_and_gradient(problem: Problem, parameters: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
    """(w/N) sum_j l_j(theta), up to a constant, and its gradient (P,), in float64."""
    features = problem.features.astype(np.float64)
    outputs = features @ parameters.reshape(problem.layers[0])
    if problem.likelihood == "gaussian":
        residuals = (outputs - problem.targets[:, None]) / problem.noise_sd**2
        loss = 0.5 * problem.noise_sd**2 * np.square(residuals).sum()
    else:
        points = np.arange(problem.num_points)
        log_sums = special.logsumexp(outputs, axis=1)
        loss = (log_sums - outputs[points, problem.targets]).sum()
        residuals = np.exp(outputs - log_sums[:, None])
        residuals[points, problem.targets] -= 1
    scale = weight / problem.num_points
    return scale * float(loss), scale * (features.T @ residuals).ravel()
