"""A mode of the target of any weight, for networks of any depth: the one that the trained weights lead to.

U_w of a network has many modes, and a random search would find another every time. From the trained weights L-BFGS goes
downhill in coordinates z that the Gauss-Newton curvature whitens, theta = theta_0 + L z, where a slope of 1 is one
standard deviation of the target.
"""

import sys
import time
from dataclasses import replace
from functools import lru_cache

import numpy as np

from implementations.kernels.proposals import scale_by, scale_by_transpose
from implementations.tasks.derivatives import loss_and_gradient
from implementations.tasks.geometry import mean_curvature, preconditioner_factor
from implementations.tasks.problem import Problem

#: The slope at which a search ends, in standard deviations of the target.
TOLERANCE = 0.01
#: Searches, each in the coordinates of where the last one ended, and the steps of each. What is not found by then is no
#: error: an anchor off the mode costs noise, and is warned of.
NUM_SEARCHES, MAX_STEPS = 40, 50
#: A search among more numbers than these, data times parameters, says how far it is.
SHOW_FROM = 10_000_000


# Starts and the anchor of control variates ask for the same one.
@lru_cache(maxsize=4)
def find_network_mode(problem: Problem, weight: float, progress: bool = False) -> np.ndarray:
    """A local minimum of U_w near ``problem.map``, float64 (P,), under a Gaussian prior."""
    assert problem.prior == "gaussian", "a Laplace prior has kinks"
    started, mode = time.perf_counter(), problem.map.astype(np.float64)
    for number in range(1, NUM_SEARCHES + 1):
        mode, slope = _search(problem, weight, mode)
        if progress and problem.num_points * len(mode) >= SHOW_FROM:
            seconds = time.perf_counter() - started
            label = f"mode of {problem.task}, {len(mode):,} parameters: search {number}"
            print(f"{label}, slope {slope:.2g} sd, {seconds:.1f} s", file=sys.stderr, flush=True)
        if slope < TOLERANCE:
            break
    return mode


def _search(problem: Problem, weight: float, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Where L-BFGS ends in the coordinates of a start, and the slope that is left, in standard deviations."""
    # Here, because who only checks a study imports the tasks too.
    from scipy import optimize

    curvature = mean_curvature(problem, start)
    kind = "full" if curvature.ndim == 2 else "diagonal"
    factor = preconditioner_factor(replace(problem, curvature=curvature), weight, kind)

    def target(whitened: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = start + scale_by(factor, whitened)
        loss, gradient = loss_and_gradient(problem, parameters, weight)
        of_prior = parameters / problem.prior_scale**2
        return loss + float(parameters @ of_prior) / 2, scale_by_transpose(factor, gradient + of_prior)

    found = optimize.minimize(
        target,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        # It looks at the largest part of the slope, and stops by that alone.
        options={"maxiter": MAX_STEPS, "gtol": TOLERANCE / np.sqrt(len(start)), "ftol": 0.0, "maxcor": 30},
    )
    return start + scale_by(factor, found.x), float(np.linalg.norm(found.jac))
