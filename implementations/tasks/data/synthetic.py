"""Tasks whose data are drawn from a known law, in any number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from implementations.tasks.task import Data, Points, Task

#: So many points of a law.
Draw = Callable[[np.random.Generator, int], Points]


def drawn_task(
    draw: Draw,
    num_points: int,
    *,
    num_validation: int = 1000,
    num_test: int = 2000,
    has_fresh: bool = False,
    **about: Any,
) -> Task:
    """A task of points that ``draw`` gives; ``has_fresh`` allows chains to read more of them than the network saw.

    Each part has its own stream of random numbers, so that the size of one does not move the others.
    """
    sizes: dict[str, Any] = {"num_validation": num_validation, "num_test": num_test, "has_fresh": has_fresh}

    def load(seed: int, data_dir: Path) -> Data:
        train, validation, test = np.random.default_rng(seed).spawn(3)
        return Data(draw(train, num_points), draw(validation, num_validation), draw(test, num_test))

    def fresh(seed: int, count: int) -> Points:
        return draw(np.random.default_rng(seed).spawn(4)[3], count)

    def resize(count: int) -> Task:
        return drawn_task(draw, count, **sizes, **about)

    return Task(num_points=num_points, load=load, resize=resize, draw=fresh if has_fresh else None, **about)


def on_curve(curve: Callable[[np.ndarray], np.ndarray], noise_sd: float) -> Draw:
    """Points with x ~ U(-1, 1) and y = curve(x) + noise_sd N(0, 1)."""

    def draw(random: np.random.Generator, num_points: int) -> Points:
        inputs = random.uniform(-1, 1, (num_points, 1))
        targets = curve(inputs[:, 0]) + noise_sd * random.standard_normal(num_points)
        return Points(inputs.astype(np.float32), targets.astype(np.float32))

    return draw
