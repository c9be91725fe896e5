"""Poisson regression with known parameters, of any number of points: counts whose log rate is linear in the inputs."""

from pathlib import Path

import numpy as np

from implementations.tasks.task import Data, Points, Task

#: Intercept, then slopes of inputs that are N(0, 1): two thirds of the counts are 0, 1 or 2.
PARAMETERS = (0.5, 0.6, -0.4, 0.3, -0.2)


def draw_points(random: np.random.Generator, num_points: int) -> Points:
    """Inputs x ~ N(0, I), and counts of rate exp(f), f = PARAMETERS · [1, x]."""
    inputs = random.standard_normal((num_points, len(PARAMETERS) - 1))
    counts = random.poisson(np.exp(PARAMETERS[0] + inputs @ PARAMETERS[1:]))
    return Points(inputs.astype(np.float32), counts.astype(np.int32))


def task(num_points: int) -> Task:
    def load(seed: int, data_dir: Path) -> Data:
        # Each part has its own stream of random numbers, so that the size of one does not move the others.
        train, validation, test = np.random.default_rng(seed).spawn(3)
        return Data(draw_points(train, num_points), draw_points(validation, 1000), draw_points(test, 2000))

    return Task(
        name="counts",
        summary="Poisson regression with known parameters: intercept and four slopes",
        num_points=num_points,
        layers=((len(PARAMETERS), 1),),
        likelihood="poisson",
        load=load,
        resize=task,
    )


TASK = task(num_points=2000)
