"""A template of a task: copy it, give it a name, and put your data and your network in. It runs as it is:

    pbnn-bench sample --task my_task.py:TASK --method pbnn --out out

and in a study as ``task: my_task.py:TASK``. What it is now: a noisy curve, and a network of random cosines, frozen,
whose last layer is stochastic.
"""

from pathlib import Path

import numpy as np

from implementations.tasks.task import Body, Data, Points, Task

NUM_POINTS, NUM_FEATURES, NOISE_SD = 400, 8, 0.3


def load(seed: int, data_dir: Path) -> Data:
    """Your data: training, validation and test part. The seed moves the split, or draws the data.

    Files of yours are best named in full, or read from ``data_dir``. Targets are float32 of a regression, or int32
    numbers of classes from 0 on.
    """
    random = np.random.default_rng(seed)
    inputs = random.uniform(-2, 2, size=(NUM_POINTS + 400, 1)).astype(np.float32)
    targets = (np.sin(2 * inputs[:, 0]) + random.normal(scale=NOISE_SD, size=len(inputs))).astype(np.float32)
    ends = np.split(np.arange(len(inputs)), [NUM_POINTS, NUM_POINTS + 200])
    return Data(*(Points(inputs[part], targets[part]) for part in ends))


def features(train: Points, seed: int) -> Body:
    """Your network, of any library: fit it to the training points, or load its weights, and cut off its last layer.

    What is returned maps inputs (n, …) to features (n, NUM_FEATURES), and is called once for each part; the features
    are kept in ``data/features`` until this file, the data or the seed changes. Features of the order of 1 suit the
    prior, which is N(0, 1) on every weight.
    """
    random = np.random.default_rng(seed)
    frequencies, phases = random.normal(scale=2, size=(1, NUM_FEATURES)), random.uniform(0, 2 * np.pi, NUM_FEATURES)

    def body(inputs: np.ndarray) -> np.ndarray:
        return np.cos(inputs @ frequencies + phases)

    return body


TASK = Task(
    name="my_task",  # in studies, paths and tables
    summary="a noisy curve on random cosines",
    num_points=NUM_POINTS,
    layers=((NUM_FEATURES + 1, 1),),  # the stochastic layer: features and a bias, outputs
    likelihood="gaussian",  # or categorical (an output per class), bernoulli or poisson (one output)
    noise_sd=NOISE_SD,
    load=load,
    features=features,
    files=(),  # what else the network is made from, such as Path("/where/my/weights.pt")
)
