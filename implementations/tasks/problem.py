"""A prepared problem: everything a sampler needs of one task and seed, in one file that numpy alone can read.

A network is a list of layer shapes ``(inputs + 1, outputs)``. Every layer multiplies its input, which carries a
leading 1 for the bias, and an activation s (implementations.tasks.activations), tanh by default, stands between layers:

    h_0 = [1, x],   h_l = [1, s(h_{l-1} W_l)],   f = h_{L-1} W_L

The parameter vector is the concatenation of the row-major ``W_l`` of the stochastic layers. Cutting the network
before its last layer makes ``h_{L-1}`` the features and ``W_L`` the parameters; ``linear`` has no other layer.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace, device

from implementations import plugins
from implementations.infrastructure.artefact import Failed, read_arrays, write_arrays
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.networks import Network

Layers = tuple[tuple[int, int], ...]

#: Points whose features are held in double precision at once: all of mnist, or some 10 MB of a tall problem.
CHUNK = 2**16


@dataclass(frozen=True)
class Grid:
    """The rows (G, inputs + 1) float32 on which a density is normalised, compared by what is in them."""

    content: bytes
    num_columns: int

    def like(self, array: Any) -> Any:
        """The rows as an array of the same library, precision and device."""
        rows = np.frombuffer(self.content, np.float32).reshape(-1, self.num_columns)
        # A copy: torch shares no memory that it may not write to.
        return array_namespace(array).asarray(rows.copy(), dtype=array.dtype, device=device(array))


@dataclass(frozen=True)
class Model:
    """What compiled code depends on: the form of a problem's model, and no data but the grid of a density."""

    likelihood: str
    noise_sd: float
    prior: str
    prior_scale: float
    layers: Layers
    num_points: int
    activation: str = "tanh"
    grid: Grid | None = None
    #: In place of layers.
    network: Network | None = None

    @property
    def num_features(self) -> int:
        """Columns of the data, that of the bias included."""
        return self.network.num_inputs + 1 if self.network else self.layers[0][0]

    @property
    def num_parameters(self) -> int:
        return self.network.num_parameters if self.network else sum(rows * columns for rows, columns in self.layers)

    @property
    def num_outputs(self) -> int:
        return self.network.num_outputs if self.network else self.layers[-1][1]

    @property
    def is_linear(self) -> bool:
        """Are the outputs linear in the parameters? Then there is one mode, and proxies are in the outputs."""
        return self.network is None and len(self.layers) == 1


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, model, prior, MAP and curvature of one task and seed."""

    task: str
    seed: int
    #: ``last``: only the last layer is stochastic, ``features`` are the activations before it; ``all``: every layer.
    stochastic: str
    #: A name of implementations.tasks.likelihoods; ``noise_sd`` is that of ``gaussian``.
    likelihood: str
    noise_sd: float
    #: ``gaussian`` (``prior_scale`` is its sd) or ``laplace`` (``prior_scale`` is its b).
    prior: str
    prior_scale: float
    #: Shapes of the stochastic layers, first to last.
    layers: Layers
    #: (N, inputs + 1) float32, leading column 1; targets (N,) of the likelihood's type: float32, or int32.
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
    #: What stands between layers, a name of implementations.tasks.activations.
    activation: str = "tanh"
    #: Of a density: features (G, inputs + 1) float32 on the grid that it is normalised on, the raw inputs (G, 1) there,
    #: and the density (G,) that the data were drawn from, where it is known. Otherwise empty.
    grid: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    grid_inputs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    truth: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    #: Anybody's own network in place of layers, which are then ().
    network: Network | None = None

    @classmethod
    def of(
        cls,
        features: np.ndarray,
        targets: np.ndarray,
        *,
        likelihood: str = "gaussian",
        test: tuple[np.ndarray, np.ndarray] | None = None,
        validation: tuple[np.ndarray, np.ndarray] | None = None,
        **given: Any,
    ) -> Self:
        """A problem out of arrays: one stochastic layer on features (N, d) whose first column is 1.

        ``given`` are other fields, such as ``noise_sd``. Its mode and curvature are found by ``tasks.at_mode``.
        """
        record, network = find_likelihood(likelihood), given.get("network")
        num_outputs = record.num_outputs or int(np.max(targets)) + 1
        nothing = features[:0], targets[:0]
        values: dict[str, Any] = {
            **{
                "task": "own",
                "seed": 0,
                "stochastic": "last",
                "noise_sd": 1.0,
                "prior": "gaussian",
                "prior_scale": 1.0,
            },
            "layers": () if network else ((features.shape[1], num_outputs),),
            "map": network.start(0) if network else np.zeros(features.shape[1] * num_outputs, np.float32),
            "curvature": np.zeros(0),
        }
        for name, part in (
            ("", (features, targets)),
            ("test_", test or nothing),
            ("validation_", validation or nothing),
        ):
            values[f"{name}features"] = np.asarray(part[0], np.float32)
            values[f"{name}targets"] = np.asarray(part[1], record.target_type)
        values |= {"inputs": values["features"][:, :0], "test_inputs": values["test_features"][:, :0]}
        return cls(likelihood=likelihood, **(values | given))

    @cached_property
    def model(self) -> Model:
        names = ("likelihood", "noise_sd", "prior", "prior_scale", "layers", "num_points", "activation", "network")
        grid = Grid(self.grid.tobytes(), self.grid.shape[1]) if self.is_normalised else None
        return Model(**{name: getattr(self, name) for name in names}, grid=grid)

    @property
    def is_linear(self) -> bool:
        """Are the outputs linear in the parameters?"""
        return self.model.is_linear

    @property
    def is_normalised(self) -> bool:
        """Is there a normaliser, worked out on ``grid``?"""
        return len(self.grid) > 0

    @property
    def num_points(self) -> int:
        return len(self.targets)

    @property
    def num_parameters(self) -> int:
        return self.model.num_parameters

    @property
    def num_outputs(self) -> int:
        return self.model.num_outputs

    def outputs(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """f at ``features`` (n, inputs + 1) for parameter vectors (…, P): (…, n, outputs); of a density its log."""
        outputs = self.network_outputs(parameters, features)
        if not self.is_normalised:
            return outputs
        on_grid = self.network_outputs(parameters, self.grid.astype(features.dtype))
        return outputs - normaliser.log_mean(on_grid[..., 0])[..., None, None]

    def network_outputs(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """The same before a density is normalised."""
        if self.network:
            outputs: np.ndarray = self.network(parameters, features)
            return outputs
        return network_outputs(parameters, features, self.layers, self.activation)

    def chunks(self, size: int = CHUNK) -> Iterator[slice]:
        """The training points, so many at a time."""
        return (slice(start, start + size) for start in range(0, self.num_points, size))

    def identity(self) -> dict[str, Any]:
        """What the problem is, and a checksum of what chains depend on."""
        digest = hashlib.sha256()
        for array in (self.features, self.targets, self.map, self.curvature):
            digest.update(np.ascontiguousarray(array).data)
        if self.activation != "tanh":
            # What was there before there were others keeps its checksum.
            digest.update(self.activation.encode())
        digest.update(np.ascontiguousarray(self.grid).data)
        if self.network:
            digest.update(f"{self.network.name} {self.network.checksum}".encode())
        names = ("task", "stochastic", "prior", "prior_scale")
        return {name: getattr(self, name) for name in names} | {"problem_sha256": digest.hexdigest()}

    def save(self, path: Path, origin: Mapping[str, Any] | None = None) -> None:
        """Write it as an artefact; ``origin`` says more of what it was made from than the problem itself knows."""
        names = [one.name for one in fields(self) if one.name not in ("body", "network")]
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.network:
            if not self.network.source:
                raise SettingError(f"the network {self.network.name!r} belongs to no task that a file could name")
            arrays |= {"network": self.network.source, "network_checksum": self.network.checksum}
        for number, matrix in enumerate(self.body):
            arrays[f"body_{number}"] = matrix
        # Raw images are mostly zeros; features are not, and compressing them would only cost time.
        own = {name: getattr(self, name) for name in ("task", "seed", "stochastic", "prior", "prior_scale")}
        write_arrays(path, "problem", arrays, {**own, **(origin or {})}, compress=self.features.shape[1] > 100)

    @classmethod
    def load(cls, path: Path, identity: Mapping[str, Any] | None = None) -> Self:
        """The problem in a file, which has to have this identity; Failed with the reason why there is none."""
        record, arrays = read_arrays(path, "problem", identity)
        if record["failure"] is not None:
            raise Failed(f"no problem: {record['failure']}")
        num_bodies = sum(name.startswith("body_") for name in arrays)
        try:
            body = tuple(arrays.pop(f"body_{number}") for number in range(num_bodies))
            values: dict[str, Any] = {
                name: array.item() if array.ndim == 0 else array for name, array in arrays.items()
            }
            values["layers"] = tuple((int(rows), int(columns)) for rows, columns in arrays["layers"])
            if network := values.pop("network", None):
                network = _network_of(path, network, values.pop("network_checksum"))
            return cls(**values, body=body, network=network)
        except SettingError:
            # Of the network's own file.
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise Damaged(f"{path} is damaged: not a problem ({error})") from None


def _network_of(path: Path, source: str, checksum: str) -> Network:
    """The network of a problem on file, which has to be the one that it was prepared with."""
    if plugins.checksum(source) != checksum:
        raise SettingError(f"{source} has changed since {path} was made with its network; prepare the problem again")
    # A task; their module imports this one.
    task: Any = plugins.load(source, object)
    return replace(task.network, source=source, checksum=checksum)


def split_parameters(parameters: Any, layers: Layers) -> list[Any]:
    """The layers' matrices (…, rows, columns) of parameter vectors (…, P), of whatever library."""
    matrices, start = [], 0
    for rows, columns in layers:
        piece = parameters[..., start : start + rows * columns]
        matrices.append(piece.reshape(*parameters.shape[:-1], rows, columns))
        start += rows * columns
    return matrices


def with_bias(hidden: np.ndarray) -> np.ndarray:
    """[1, h]: a leading column of ones."""
    return np.concatenate([np.ones_like(hidden[..., :1]), hidden], axis=-1)


def network_outputs(
    parameters: np.ndarray, features: np.ndarray, layers: Layers, activation: str = "tanh"
) -> np.ndarray:
    """f at ``features`` (n, inputs + 1) for parameter vectors (…, P): (…, n, outputs)."""
    *hidden_layers, last = split_parameters(parameters, layers)
    hidden = features
    for matrix in hidden_layers:
        hidden = with_bias(find_activation(activation).values(hidden @ matrix))
    return hidden @ last


def body_features(body: tuple[np.ndarray, ...], inputs: np.ndarray, activation: str = "tanh") -> np.ndarray:
    """The features [1, h] that the deterministic layers make of raw inputs (n, d)."""
    hidden = with_bias(inputs)
    for matrix in body:
        hidden = with_bias(find_activation(activation).values(hidden @ matrix))
    return hidden
