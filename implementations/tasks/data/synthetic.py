"""Data drawn from a known curve."""

from collections.abc import Callable

import numpy as np

from implementations.tasks.task import Data, Points


def draw_data(
    curve: Callable[[np.ndarray], np.ndarray],
    noise_sd: float,
    seed: int,
    *,
    num_train: int,
    num_validation: int,
    num_test: int,
) -> Data:
    """Points with x ~ U(-1, 1) and y = curve(x) + noise_sd N(0, 1).

    Each part has its own stream of random numbers, so that the size of one does not move the others.
    """
    train, validation, test = np.random.default_rng(seed).spawn(3)
    return Data(
        train=_draw_points(curve, noise_sd, train, num_train),
        validation=_draw_points(curve, noise_sd, validation, num_validation),
        test=_draw_points(curve, noise_sd, test, num_test),
    )


def draw_fresh(curve: Callable[[np.ndarray], np.ndarray], noise_sd: float, seed: int, num_points: int) -> Points:
    """More points of the same law, apart from all parts of the seed's data."""
    return _draw_points(curve, noise_sd, np.random.default_rng(seed).spawn(4)[3], num_points)


def _draw_points(
    curve: Callable[[np.ndarray], np.ndarray], noise_sd: float, random: np.random.Generator, num_points: int
) -> Points:
    inputs = random.uniform(-1, 1, (num_points, 1))
    targets = curve(inputs[:, 0]) + noise_sd * random.standard_normal(num_points)
    return Points(inputs.astype(np.float32), targets.astype(np.float32))
