"""A network of anybody's own, all of whose parameters are sampled: outputs, parameters, where training starts.

Without one, a task has the suite's own network, layers with tanh or relu between them (implementations.tasks.problem),
for which faster lines are written out in each library. A record is written once, for arrays of numpy, jax and torch:

    NETWORK = Network(
        name="residual",
        num_inputs=1,
        num_outputs=1,
        shapes={"first": (2, 20), "block": (20, 20), "last": (20, 1)},
        outputs=outputs,
        initial=lambda random: {"first": random.normal(size=(2, 20)), ...},
    )

Its derivatives, for training, mode and curvature, are those of automatic differentiation.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from implementations.infrastructure.errors import SettingError

#: Of numpy, jax or torch.
Array = Any


@dataclass(frozen=True, eq=False)
class Network:
    """A function of features and named arrays of parameters, which are one vector to every sampler."""

    name: str
    #: Columns of the inputs, without the leading 1 that features have.
    num_inputs: int
    num_outputs: int
    #: Shapes of the parameters, by name, in the order in which they stand in the vector.
    shapes: Mapping[str, tuple[int, ...]]
    #: (parameters (…, *shape) by name, features (…, n, inputs + 1), whose first column is 1) -> f (…, n, outputs), for
    #: leading dimensions that broadcast: of chains, or none.
    outputs: Callable[[Mapping[str, Array], Array], Array]
    #: Parameters by name from which training starts.
    initial: Callable[[np.random.Generator], Mapping[str, np.ndarray]]
    #: The task that it belongs to, where a problem on file finds it, as ``path/to/file.py:TASK``; and the SHA-256 of
    #: that file. Filled in by ``prepare``.
    source: str = ""
    checksum: str = ""

    @property
    def num_parameters(self) -> int:
        return sum(map(math.prod, self.shapes.values()))

    def unpack(self, parameters: Array) -> dict[str, Array]:
        """Vectors (…, P) as arrays (…, *shape) by name."""
        arrays, start = {}, 0
        for name, shape in self.shapes.items():
            piece = parameters[..., start : start + math.prod(shape)]
            arrays[name] = piece.reshape(*parameters.shape[:-1], *shape)
            start += math.prod(shape)
        return arrays

    def __call__(self, parameters: Array, features: Array) -> Array:
        """f (…, n, outputs) of vectors (…, P) at features (…, n, inputs + 1)."""
        return self.outputs(self.unpack(parameters), features)

    def start(self, seed: int) -> np.ndarray:
        """The vector (P,) float32 from which training starts."""
        given = self.initial(np.random.default_rng(seed))
        for name, shape in self.shapes.items():
            found = np.shape(given[name]) if name in given else "missing"
            if found != shape:
                raise SettingError(f"network {self.name!r}: initial {name!r} is {found}; expected shape {shape}")
        return np.concatenate([np.ravel(given[name]) for name in self.shapes]).astype(np.float32)

    def check(self) -> None:
        """Does it give outputs of the right shape, for one vector and for chains? Raises SettingError."""
        start = self.start(0)
        features = np.ones((3, self.num_inputs + 1), np.float32)
        # One vector, chains on the same points, and pairs of positions on the points of each chain.
        for leading, of_points in (((), ()), ((2,), ()), ((2, 2), (2, 1))):
            parameters = np.broadcast_to(start, (*leading, len(start)))
            found = np.shape(self(parameters, np.broadcast_to(features, (*of_points, *features.shape))))
            expected = (*leading, 3, self.num_outputs)
            if found != expected:
                raise SettingError(
                    f"network {self.name!r}: outputs of shape {found} for parameters {parameters.shape} and features "
                    f"{(*of_points, *features.shape)}; expected {expected}"
                )
