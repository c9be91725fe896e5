"""What a task is: its data, its network, its likelihood."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from implementations.tasks.problem import Layers

STOCHASTIC = {
    "last": "only the last layer is sampled; the layers before it stay as trained",
    "all": "every layer is sampled",
}
PRIORS = {
    "gaussian": "N(0, prior_scale^2) on every parameter (L2)",
    "laplace": "density exp(-|theta| / prior_scale) / (2 prior_scale) on every parameter (L1)",
}


@dataclass(frozen=True, eq=False)
class Points:
    """Raw inputs (n, d) float32 and their targets (n,): float32, or int32 class numbers."""

    inputs: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True, eq=False)
class Data:
    """The three parts of a data set. The validation part is for tuning n, and touches neither fit nor test."""

    train: Points
    validation: Points
    test: Points


@dataclass(frozen=True)
class Training:
    """How a network is trained: Adam on the negative log posterior, from Gaussian initial weights."""

    #: Initial sd of the first layer's weights and biases; the later layers start with sd 1 / sqrt(their inputs).
    weight_sd: float
    bias_sd: float
    learning_rate: float
    num_epochs: int
    #: Points a step; None for all of them.
    batch_size: int | None = None


@dataclass(frozen=True)
class Task:
    """One row of the table of tasks."""

    name: str
    summary: str
    #: N, the number of training points.
    num_points: int
    #: Shapes (inputs + 1, outputs) of the whole network's layers.
    layers: Layers
    #: ``gaussian`` with known ``noise_sd``, or ``categorical`` (softmax).
    likelihood: str
    #: The data of a seed, read from the folder of downloaded data where the task has any.
    load: Callable[[int, Path], Data]
    noise_sd: float = 1.0
    #: None where there is no network to train.
    training: Training | None = None
    #: Fetches what ``load`` reads into the data folder; None where nothing needs fetching.
    fetch: Callable[[Path], object] | None = None
    #: The same task with another N; None where the data are what they are.
    resize: Callable[[int], "Task"] | None = None

    def stochastic_layers(self, stochastic: str) -> Layers:
        return self.layers[-1:] if stochastic == "last" else self.layers

    def num_parameters(self, stochastic: str = "last") -> int:
        """P, the number of stochastic parameters."""
        return sum(rows * columns for rows, columns in self.stochastic_layers(stochastic))
