"""Poisson regression with known parameters, of any number of points: counts whose log rate is linear in the inputs."""

import numpy as np

from implementations.tasks.data.synthetic import drawn_task
from implementations.tasks.task import Points

#: Intercept, then slopes of inputs that are N(0, 1): two thirds of the counts are 0, 1 or 2.
PARAMETERS = (0.5, 0.6, -0.4, 0.3, -0.2)


def draw_points(random: np.random.Generator, num_points: int) -> Points:
    """Inputs x ~ N(0, I), and counts of rate exp(f), f = PARAMETERS · [1, x]."""
    inputs = random.standard_normal((num_points, len(PARAMETERS) - 1))
    counts = random.poisson(np.exp(PARAMETERS[0] + inputs @ PARAMETERS[1:]))
    return Points(inputs.astype(np.float32), counts.astype(np.int32))


TASK = drawn_task(
    draw_points,
    num_points=2000,
    name="counts",
    summary="Poisson regression with known parameters: intercept and four slopes",
    layers=((len(PARAMETERS), 1),),
    likelihood="poisson",
)
