"""What a task is: its data, its network, its likelihood."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from implementations.infrastructure.errors import SettingError, unknown
from implementations.settings import Setting, Size
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.networks import Network
from implementations.tasks.problem import Layers

STOCHASTIC = {
    "last": "only the last layer is sampled; the layers before it stay as trained",
    "all": "every layer is sampled",
}
PRIORS = {
    "gaussian": "N(0, prior_scale^2) on every parameter (L2)",
    "laplace": "density exp(-|theta| / prior_scale) / (2 prior_scale) on every parameter (L1)",
}
#: Its square has to be a number in single precision.
PRIOR_SCALE = Setting(
    "prior_scale",
    "standard deviation of the gaussian prior, b of the laplace",
    float,
    minimum=1e-18,
    maximum=1e18,
    is_positive=True,
)


@dataclass(frozen=True, eq=False)
class Points:
    """Raw inputs (n, d) float32 and their targets (n,): float32, or int32 class numbers.

    Inputs of a task with ``features`` may have any shape (n, …) and type: its network alone reads them.
    """

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

    learning_rate: float
    num_epochs: int
    #: Initial sd of the first layer's weights and biases; the later layers start with sd gain / sqrt(their
    #: inputs), the gain being the activation's. A network of the task's own knows where it starts.
    weight_sd: float = 1.0
    bias_sd: float = 1.0
    #: Points per step; None for all of them.
    batch_size: int | None = None


#: From raw inputs (n, …) to the features (n, h) that a frozen network makes of them.
Body = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Task:
    """A task: a row of the table of tasks, or out of anybody's file."""

    name: str
    summary: str
    #: N, the number of training points.
    num_points: int
    #: Shapes (inputs + 1, outputs) of the whole network's layers; () where ``network`` stands in their place.
    layers: Layers
    #: A name of implementations.tasks.likelihoods; ``noise_sd`` is that of ``gaussian``.
    likelihood: str
    #: The data of a seed, read from the folder of downloaded data where the task has any.
    load: Callable[[int, Path], Data]
    noise_sd: float = 1.0
    #: What stands between the layers: a name of implementations.tasks.activations.
    activation: str = "tanh"
    #: None where there is no network to train.
    training: Training | None = None
    #: Fetches what ``load`` reads into the data folder; None where nothing needs fetching.
    fetch: Callable[[Path], object] | None = None
    #: How large that is on the disk, for those who plan; 0 where nobody has said.
    fetched_bytes: int = 0
    #: The same task with another N; None where the data are what they are.
    resize: Callable[[int], "Task"] | None = None
    #: So many fresh points of a seed, from the law that the data are drawn from; None where it is not known.
    draw: Callable[[int, int], Points] | None = None
    #: Are the points that chains read fresh ones? The network is that of the task's own data all the same.
    is_fresh: bool = False
    #: A network of any library, in place of the suite's own: fits or loads it, for a seed, and gives what maps inputs
    #: to features. It is run once (implementations.tasks.data.features); ``layers`` then has the stochastic one alone.
    features: Callable[[Points, int], Body] | None = None
    #: A network of its own, all of whose parameters are sampled, in place of layers.
    network: Network | None = None
    #: Of a density: the interval that it is on, and, where it is known, the density that the data are drawn from at
    #: inputs (n, 1), relative to the uniform one: (n,).
    support: tuple[float, float] | None = None
    truth: Callable[[np.ndarray], np.ndarray] | None = None
    #: Files that ``features`` reads, such as weights: with another content they make other features.
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """A task that cannot be right is refused where it is made, with its line."""
        if not re.fullmatch("[a-z][a-z0-9_]*", self.name):
            raise SettingError(f"name = {self.name!r} must be small letters, digits and underscores")
        likelihood = find_likelihood(self.likelihood)
        find_activation(self.activation)
        for (_, outputs), (inputs, _) in pairwise(self.layers):
            if inputs != outputs + 1:
                raise SettingError(f"layers = {self.layers}: after {outputs} outputs a layer has {outputs + 1} rows")
        if bool(self.network) == bool(self.layers) or (self.network and (self.features or not self.training)):
            raise SettingError("a task has layers; or layers=() and a network, with a training and without features")
        if self.network:
            self.network.check()
        if likelihood.num_outputs not in (None, self.num_outputs):
            raise SettingError(f"{self.num_outputs} outputs: a {self.likelihood} likelihood has one")
        if likelihood.is_normalised != (self.support is not None):
            raise SettingError(f"support = {self.support}: a density has one, and nothing else does")
        if self.support and (self.features or self.num_inputs != 1 or not self.support[0] < self.support[1]):
            raise SettingError("a density has one input, from support[0] to support[1], and no features of its own")
        if self.features and (self.training or self.draw or len(self.layers) != 1):
            raise SettingError("with features there is one layer, (features + 1, outputs), no training and no draw")
        if not self.features and len(self.layers) > 1 and self.training is None:
            raise SettingError(f"{len(self.layers)} layers need a training")

    @property
    def num_inputs(self) -> int:
        return self.network.num_inputs if self.network else self.layers[0][0] - 1

    @property
    def num_outputs(self) -> int:
        return self.network.num_outputs if self.network else self.layers[-1][1]

    def check_stochastic(self, stochastic: str) -> None:
        """Can that part of its network be sampled? Raises SettingError."""
        if stochastic not in STOCHASTIC:
            raise SettingError(unknown("stochastic part", stochastic, STOCHASTIC))
        if self.network and stochastic != "all":
            raise SettingError(f"{self.name!r} has a network of its own, without a last layer: say stochastic = 'all'")
        if stochastic != "last" and len(self.layers) == 1:
            raise SettingError(f"{self.name!r} has one layer, so {stochastic!r} is 'last'; leave it out")

    def stochastic_layers(self, stochastic: str) -> Layers:
        return self.layers[-1:] if stochastic == "last" else self.layers

    def size(self, stochastic: str = "last") -> Size:
        """What settings are checked against before the data are there."""
        return Size(self.name, self.num_points, self.num_parameters(stochastic))

    def num_parameters(self, stochastic: str = "last") -> int:
        """P, the number of stochastic parameters."""
        if self.network:
            return self.network.num_parameters
        return sum(rows * columns for rows, columns in self.stochastic_layers(stochastic))
