"""Handwritten digits of 8 x 8 pixels (scikit-learn's copy of UCI's test set): a classification without a download."""

from pathlib import Path

import numpy as np

from implementations.tasks.data.tables import split_rows
from implementations.tasks.task import Data, Points, Task, Training

NUM_POINTS = 1200
NUM_TEST = 300


def load(seed: int, data_dir: Path) -> Data:
    """All 1797 images with pixels in [0, 1]; the seed moves the split into training and validation."""
    # scikit-learn costs a second, and only this task needs it.
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    inputs, targets = (images / 16).astype(np.float32), classes.astype(np.int32)
    parts = split_rows(len(inputs), seed, NUM_POINTS, NUM_TEST)
    return Data(*(Points(inputs[rows], targets[rows]) for rows in parts))


TASK = Task(
    name="digits",
    summary="8 x 8 handwritten digits, 64-20-10 softmax",
    num_points=NUM_POINTS,
    layers=((65, 20), (21, 10)),
    likelihood="categorical",
    load=load,
    training=Training(weight_sd=1 / 8, bias_sd=0.0, learning_rate=0.02, num_epochs=500),
)
