"""Mode of the target of any weight, for one stochastic layer."""

import sys
import time

import numpy as np

from implementations.tasks.derivatives import loss_and_gradient
from implementations.tasks.geometry import mean_curvature
from implementations.tasks.problem import CHUNK, Problem

#: A step that lowers U_w by less than this (in nats, where chains see differences of order 1) ends the search.
TOLERANCE = 1e-8
#: A few do for a Gaussian prior. Under a Laplace prior, with features that are nearly collinear, RIDGE shortens the
#: steps along what the outputs hardly see, and thousands were needed (regression, w = N).
MAX_STEPS = 10_000
#: Added to the model's curvature, relative to its mean, so that it can be inverted also along directions that leave
#: every output as it is (softmax has some). The model stays centred at the current point, so the mode does not move.
RIDGE = 1e-6
#: A search among more points says how far it is.
SHOW_FROM = 1_000_000


def find_mode(problem: Problem, weight: float, progress: bool = False) -> np.ndarray:
    """argmin of U_w, float64 (P,), by Newton's method from ``problem.map``; every step minimises a quadratic model.

    U_w is convex for one layer, and a step that would raise it is halved. A Gaussian likelihood needs one step.
    ``progress`` writes a line per step to stderr, where there are SHOW_FROM points or more.
    """
    assert problem.is_linear, "several layers have many modes"
    start = time.perf_counter()
    parameters = problem.map.astype(np.float64)
    value, gradient = target_and_gradient(problem, parameters, weight)
    for number in range(1, MAX_STEPS + 1):
        step = _model_mode(problem, parameters, gradient, weight) - parameters
        # In a sum over millions of points rounding can hide the last fall of U_w; halving the step does not help then,
        # and every try is a pass over the data.
        rounding = 16 * np.finfo(float).eps * abs(value) if problem.num_points > CHUNK else 0.0
        for _ in range(50):
            proposed = parameters + step
            proposed_value, proposed_gradient = target_and_gradient(problem, proposed, weight)
            if proposed_value <= value + rounding:
                break
            step /= 2
        else:
            # Newton's direction falls; where no part of it does, rounding hides what is left to gain.
            return parameters
        fall = value - proposed_value
        parameters, value, gradient = proposed, proposed_value, proposed_gradient
        if progress and problem.num_points >= SHOW_FROM:
            seconds = time.perf_counter() - start
            label = f"mode of {problem.task}, {problem.num_points:,} points: step {number}"
            print(f"{label}, U falls by {fall:.3g}, {seconds:.1f} s", file=sys.stderr, flush=True)
        if fall < TOLERANCE:
            return parameters
    raise RuntimeError(
        f"no mode found for {problem.task!r}, weight {weight:g}: U_w still falls after {MAX_STEPS} steps"
    )


def _model_mode(problem: Problem, parameters: np.ndarray, gradient: np.ndarray, weight: float) -> np.ndarray:
    """argmin over t of the prior plus the quadratic model t^T H t / 2 - slope^T t of the loss around ``parameters``.

    ``gradient`` is that of the loss, there.
    """
    hessian = weight * mean_curvature(problem, parameters)
    identity = np.eye(len(parameters))
    if problem.prior == "gaussian":
        precision = identity / problem.prior_scale**2
        return np.linalg.solve(hessian + precision, hessian @ parameters - gradient)
    # Here, because who only checks a study imports this module too.
    from scipy import optimize

    # With the prior |t| / b the dual is a least-squares problem in a box, which scipy solves: over |s| <= 1 / b
    # minimise (slope - s)^T H^-1 (slope - s); then t = H^-1 (slope - s).
    hessian += RIDGE * hessian.diagonal().mean() * identity
    slope = hessian @ parameters - gradient
    inverse_root = np.linalg.inv(np.linalg.cholesky(hessian))
    bound = 1 / problem.prior_scale
    dual = optimize.lsq_linear(inverse_root, inverse_root @ slope, (-bound, bound), tol=1e-15, max_iter=1000).x
    return inverse_root.T @ inverse_root @ (slope - dual)


def target_and_gradient(problem: Problem, parameters: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
    """U_w(theta), up to a constant, and the gradient of its loss."""
    if problem.prior == "laplace":
        prior = np.abs(parameters).sum() / problem.prior_scale
    else:
        prior = parameters @ parameters / (2 * problem.prior_scale**2)
    loss, gradient = loss_and_gradient(problem, parameters, weight)
    return loss + float(prior), gradient
