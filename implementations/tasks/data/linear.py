"""Bayesian linear regression, the paper's first figure: y = 0.3 + 0.8 x + 0.5 noise."""

from pathlib import Path

import numpy as np

from implementations.tasks.data.synthetic import draw_data, draw_fresh
from implementations.tasks.task import Data, Points, Task

NOISE_SD = 0.5


def line(inputs: np.ndarray) -> np.ndarray:
    return 0.3 + 0.8 * inputs


def task(num_points: int) -> Task:
    def load(seed: int, data_dir: Path) -> Data:
        return draw_data(line, NOISE_SD, seed, num_train=num_points, num_validation=100, num_test=1000)

    def draw(seed: int, num_points: int) -> Points:
        return draw_fresh(line, NOISE_SD, seed, num_points)

    return Task(
        name="linear",
        summary="Bayesian linear regression with known noise: intercept and slope",
        num_points=num_points,
        layers=((2, 1),),
        likelihood="gaussian",
        noise_sd=NOISE_SD,
        load=load,
        resize=task,
        draw=draw,
    )


TASK = task(num_points=100)
