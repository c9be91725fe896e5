"""Wines by their chemistry: 13 measurements, three growers, softmax regression."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

from implementations.tasks.task import Data, Points, Task


def load(seed: int, data_dir: Path) -> Data:
    """A split of the 178 wines: 100 to train, 38 to validate, 40 to test."""
    inputs, targets = load_wine(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(inputs))
    train = inputs[order[:100]]
    # Scaled by the training part alone: the others are not to be seen yet.
    scaled = ((inputs - train.mean(axis=0)) / train.std(axis=0)).astype(np.float32)
    parts = np.split(order, [100, 138])
    return Data(*(Points(scaled[part], targets[part].astype(np.int32)) for part in parts))


TASK = Task(
    name="wine",
    summary="three growers of wine by 13 measurements, softmax regression",
    num_points=100,
    layers=((14, 3),),
    likelihood="categorical",
    load=load,
)
