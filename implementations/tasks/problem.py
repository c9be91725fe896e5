"""A prepared problem: everything a sampler needs of one task and seed, in one file that numpy alone can read.

A network is a list of layer shapes ``(inputs + 1, outputs)``. Every layer multiplies its input, which carries a
leading 1 for the bias, and tanh stands between layers:

    h_0 = [1, x],   h_l = [1, tanh(h_{l-1} W_l)],   f = h_{L-1} W_L

The parameter vector is the concatenation of the row-major ``W_l`` of the stochastic layers. Cutting the network
before its last layer makes ``h_{L-1}`` the features and ``W_L`` the parameters; ``linear`` has no other layer.
"""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from implementations.files import read_npz, write_npz

Layers = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, model, prior, MAP and curvature of one task and seed."""

    task: str
    seed: int
    #: ``last``: only the last layer is stochastic, ``features`` are the activations before it; ``all``: every layer.
    stochastic: str
    #: ``gaussian`` (known ``noise_sd``) or ``categorical`` (softmax).
    likelihood: str
    noise_sd: float
    #: ``gaussian`` (``prior_scale`` is its sd) or ``laplace`` (``prior_scale`` is its b).
    prior: str
    prior_scale: float
    #: Shapes of the stochastic layers, first to last.
    layers: Layers
    #: (N, inputs + 1) float32, leading column 1; targets (N,) float32, or int32 class numbers.
    features: np.ndarray
    targets: np.ndarray
    validation_features: np.ndarray
    validation_targets: np.ndarray
    test_features: np.ndarray
    test_targets: np.ndarray
    #: (P,) float32: mode of the posterior with weight N.
    map: np.ndarray
    #: Mean over the training points of the Gauss-Newton Hessian of the loss at the MAP: (P, P), or its diagonal (P,).
    curvature: np.ndarray
    #: The raw inputs of the training and test points, for plots; no columns where they are images.
    inputs: np.ndarray
    test_inputs: np.ndarray
    #: Weights of the layers before the cut, so that new inputs can be mapped to features.
    body: tuple[np.ndarray, ...] = ()

    @property
    def num_points(self) -> int:
        return len(self.targets)

    @property
    def num_parameters(self) -> int:
        return sum(rows * columns for rows, columns in self.layers)

    @property
    def num_outputs(self) -> int:
        return self.layers[-1][1]

    def target_weight(self, weight: str | float, batch_size: int | None) -> float:
        """The number w of U_w = -log p(theta) + (w/N) sum_j l_j that ``data``, ``batch`` or a number names."""
        if weight == "data":
            return float(self.num_points)
        if weight == "batch":
            assert batch_size is not None, "settings are checked before they get here"
            return float(batch_size)
        return float(weight)

    def identity(self) -> dict[str, Any]:
        """What the problem is, and a checksum of what chains depend on."""
        digest = hashlib.sha256()
        for array in (self.features, self.targets, self.map, self.curvature):
            digest.update(np.ascontiguousarray(array).tobytes())
        names = ("task", "stochastic", "prior", "prior_scale")
        return {name: getattr(self, name) for name in names} | {"problem_sha256": digest.hexdigest()}

    def save(self, path: Path) -> None:
        arrays: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "body"
        }
        for number, matrix in enumerate(self.body):
            arrays[f"body_{number}"] = matrix
        # Raw images are mostly zeros; features are not, and compressing them would only cost time.
        write_npz(path, arrays, compress=self.features.shape[1] > 100)

    @classmethod
    def load(cls, path: Path) -> Self:
        arrays = read_npz(path)
        body = tuple(arrays.pop(f"body_{number}") for number in range(sum(name.startswith("body_") for name in arrays)))
        values: dict[str, Any] = {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()}
        values["layers"] = tuple((int(rows), int(columns)) for rows, columns in arrays["layers"])
        return cls(**values, body=body)


def split_parameters(parameters: np.ndarray, layers: Layers) -> list[np.ndarray]:
    """The layers' matrices (…, rows, columns) of parameter vectors (…, P)."""
    ends = np.cumsum([rows * columns for rows, columns in layers])
    pieces = np.split(parameters, ends[:-1], axis=-1)
    return [piece.reshape(*piece.shape[:-1], *shape) for piece, shape in zip(pieces, layers, strict=True)]


def with_bias(hidden: np.ndarray) -> np.ndarray:
    """[1, h]: a leading column of ones."""
    return np.concatenate([np.ones_like(hidden[..., :1]), hidden], axis=-1)


def network_outputs(parameters: np.ndarray, features: np.ndarray, layers: Layers) -> np.ndarray:
    """f at ``features`` (n, inputs + 1) for parameter vectors (…, P): (…, n, outputs)."""
    *hidden_layers, last = split_parameters(parameters, layers)
    hidden = features
    for matrix in hidden_layers:
        hidden = with_bias(np.tanh(hidden @ matrix))
    return hidden @ last


def body_features(body: tuple[np.ndarray, ...], inputs: np.ndarray) -> np.ndarray:
    """The features [1, h] that the deterministic layers make of raw inputs (n, d)."""
    hidden = with_bias(inputs)
    for matrix in body:
        hidden = with_bias(np.tanh(hidden @ matrix))
    return hidden
