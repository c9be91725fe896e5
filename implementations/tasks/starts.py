"""Where chains begin: around the mode, on the levels of U_w that draws of the Gaussian there would have.

Of one layer the target is close to that Gaussian, and starts are its draws. Of several layers it is not: outputs bend
within a standard deviation of the parameters, and the Gaussian's draws on `regression` lie 1,000 to 10^7 nats above
the mode, where the posterior's own lie some P / 2 = 30. No chain gets back from there. So each draw is pulled towards
the mode, along the line between them, until U_w is what it would be of a Gaussian target:

    theta = mode + t L z,   0 < t <= s,   U_w(theta) - U_w(mode) <= s^2 |z|^2 / 2

with z ~ N(0, I) and L L^T the inverse of the Gauss-Newton curvature plus that of the prior. For a Gaussian target
t = s, the spread asked for, and nothing is pulled.
"""

from dataclasses import replace

import numpy as np

from implementations.tasks.geometry import START_SPREAD, mean_curvature, start_normals, start_points
from implementations.tasks.problem import Problem
from implementations.tasks.references.mode import target_and_gradient
from implementations.tasks.references.network_mode import find_network_mode

#: Starts of networks lie on the levels of the target itself. Predictions are spread wider than that: on `regression`
#: at w = 10 (seed 7) by 2.5 times the sd of the reference.
NETWORK_SPREAD = 1.0
#: Halvings of the distance to the mode that the search for t covers, and those that place it between two of them.
NUM_HALVINGS, NUM_BISECTIONS = 20, 6


def starts(problem: Problem, weight: float, chains: int, seed: int, spread: float = START_SPREAD) -> np.ndarray:
    """Start points (chains, P) for the target of weight w; of several layers never wider than NETWORK_SPREAD."""
    if problem.is_linear:
        return start_points(problem, weight, chains, seed, spread)
    # A Laplace prior has kinks, and the search for a mode stops at them: the trained weights do there.
    if problem.prior == "gaussian":
        mode = find_network_mode(problem, weight, True)
        problem = replace(problem, map=mode, curvature=mean_curvature(problem, mode))
    spread = min(spread, NETWORK_SPREAD)
    drawn = start_points(problem, weight, chains, seed, spread)
    levels = np.square(spread * start_normals(problem, chains, seed)).sum(axis=1) / 2
    return np.stack([pulled(problem, weight, point, level) for point, level in zip(drawn, levels, strict=True)])


def pulled(problem: Problem, weight: float, point: np.ndarray, level: float) -> np.ndarray:
    """A point (P,) between the mode, ``problem.map``, and ``point``, with U_w at most ``level`` above the mode's."""
    centre = problem.map.astype(np.float64)
    lowest = target_and_gradient(problem, centre, weight)[0]

    def is_within(share: float) -> bool:
        return target_and_gradient(problem, centre + share * (point - centre), weight)[0] - lowest <= level

    outside = 1.0
    if is_within(outside):
        return point
    inside = next((outside := 2.0**-power) / 2 for power in range(NUM_HALVINGS) if is_within(2.0**-power / 2))
    for _ in range(NUM_BISECTIONS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_within(middle) else (inside, middle)
    return centre + inside * (point - centre)
