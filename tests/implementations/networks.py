"""A network small enough for its posterior to be known by brute force."""

import numpy as np

from implementations.tasks import at_mode
from implementations.tasks.problem import Problem


def tiny_network_problem(num_points: int = 30, likelihood: str = "gaussian") -> Problem:
    """Two tanh units on a line, seven parameters, all of them stochastic."""
    random = np.random.default_rng(0)
    inputs = random.uniform(-2, 2, num_points)
    targets = np.sin(inputs) + 0.3 * random.normal(size=num_points)
    line = np.linspace(-3, 3, 9)
    right = np.sin(line)
    if likelihood == "bernoulli":
        targets, right = targets > 0, right > 0
    test = np.stack([np.ones(9), line], axis=1), right
    return at_mode(
        Problem.of(
            np.stack([np.ones(num_points), inputs], axis=1),
            targets,
            task="tiny",
            likelihood=likelihood,
            stochastic="all",
            noise_sd=0.3,
            layers=((2, 2), (3, 1)),
            map=np.array([0.1, -0.2, 0.8, 0.7, 0.0, 0.9, 0.6], np.float32),
            test=test,
            validation=test,
        )
    )
