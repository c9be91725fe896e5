"""Logistic regression with known parameters, of any number of points: what tall data are without a download."""

import numpy as np

from implementations.tasks.data.synthetic import drawn_task
from implementations.tasks.task import Points

#: Intercept, then slopes of inputs that are N(0, 1): a third of the targets are 1, and the inputs tell much of which.
PARAMETERS = (-1.0, 1.2, -0.9, 0.7, -0.5, 0.3, -0.2, 0.1)
#: Points drawn at once, so that no other array grows with N than the data themselves.
CHUNK = 2**18


def draw_points(random: np.random.Generator, num_points: int) -> Points:
    """Inputs x ~ N(0, I), and targets that are 1 with probability 1 / (1 + exp(-f)), f = PARAMETERS · [1, x]."""
    intercept, slopes = PARAMETERS[0], np.array(PARAMETERS[1:], np.float32)
    inputs = np.empty((num_points, len(slopes)), np.float32)
    targets = np.empty(num_points, np.int32)
    for start in range(0, num_points, CHUNK):
        part = inputs[start : start + CHUNK]
        random.standard_normal(out=part, dtype=np.float32)
        noise = random.logistic(size=len(part))
        targets[start : start + CHUNK] = noise < intercept + part @ slopes
    return Points(inputs, targets)


TASK = drawn_task(
    draw_points,
    num_points=10_000,
    name="logistic",
    summary="logistic regression with known parameters: intercept and seven slopes",
    layers=((len(PARAMETERS), 1),),
    likelihood="bernoulli",
)
