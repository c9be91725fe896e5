"""A whole Bayesian neural network: all parameters, whitened so that the prior of each is a standard normal.

    theta = scale * z,   z ~ N(0, I),   U_w(z) = w / N * sum_i l_i(z) + |z|^2 / 2

The prior has one scale per layer. *scaled*: first weights N(0, 1/inputs), biases N(0, 1), later weights N(0, 1/units),
twice that variance behind relu. *wide*: the same with first weights N(0, 1).

Parameters are in the order of every problem of the suite (implementations.tasks.problem): layer by layer, row-major
matrices of inputs and units, the bias in the first row; the logarithm of a learned noise comes last. Units are rows and
data points columns of what is computed from them. One chain then works through a few large products of matrices, which
takes a fifth to a tenth of the time of the same products with chains as a leading dimension.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import jax

ACTIVATIONS = ("tanh", "relu", "silu")
PRIORS = ("scaled", "wide")
LIKELIHOODS = ("gaussian", "softmax")
#: The prior of the logarithm of a noise sd that is learned: N(LOG_NOISE, 1).
LOG_NOISE = -1.0
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class Network:
    """Layers, prior and likelihood of a network."""

    #: Numbers of inputs, of the units of each hidden layer, and of outputs.
    widths: tuple[int, ...]
    activation: str = "tanh"
    prior: str = "scaled"
    likelihood: str = "gaussian"
    #: The sd of Gaussian noise; None learns it, as one more parameter.
    noise_sd: float | None = None

    def __post_init__(self) -> None:
        choices = (("activation", ACTIVATIONS), ("prior", PRIORS), ("likelihood", LIKELIHOODS))
        for name, allowed in choices:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} = {getattr(self, name)!r} must be one of {', '.join(allowed)}")
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise ValueError(f"widths = {self.widths} must name inputs and outputs, each of one unit or more")
        if self.likelihood == "gaussian" and self.widths[-1] != 1:
            raise ValueError(f"widths = {self.widths}: a Gaussian likelihood has one output")

    @property
    def learns_noise(self) -> bool:
        return self.likelihood == "gaussian" and self.noise_sd is None

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Of each layer's matrix: inputs as rows, the bias as the first of them, and units as columns."""
        return [(inputs + 1, units) for inputs, units in zip(self.widths[:-1], self.widths[1:], strict=True)]

    @property
    def num_parameters(self) -> int:
        return sum(rows * columns for rows, columns in self.shapes) + self.learns_noise

    @cached_property
    def scale(self) -> np.ndarray:
        """The prior sd of every parameter."""
        behind = 2.0 if self.activation == "relu" else 1.0
        parts = []
        for number, (rows, columns) in enumerate(self.shapes):
            variance = behind / (rows - 1) if number else 1.0 if self.prior == "wide" else 1.0 / (rows - 1)
            matrix = np.ones((rows, columns), np.float32)
            matrix[1:] = np.sqrt(variance)
            parts.append(matrix.ravel())
        return np.concatenate([*parts, np.ones(int(self.learns_noise), np.float32)])

    def layers(self, position: "jax.Array") -> "Iterator[jax.Array]":
        """The matrices of a whitened position (P,), the input layer first."""
        parameters = position * self.scale
        start = 0
        for rows, columns in self.shapes:
            yield parameters[start : start + rows * columns].reshape(rows, columns)
            start += rows * columns

    def log_noise(self, position: "jax.Array") -> Any:
        return position[-1] + LOG_NOISE if self.noise_sd is None else np.log(self.noise_sd)

    def outputs(
        self, position: "jax.Array", columns: "jax.Array", masks: "Sequence[jax.Array] | None" = None
    ) -> "jax.Array":
        """Outputs (outputs, n) at ``columns`` (inputs + 1, n), the first row of which is 1.

        ``masks`` are factors of the hidden units, one array (units, n) or (units, 1) per hidden layer (dropout).
        """
        import jax
        import jax.numpy as jnp

        function = {"tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}[self.activation]
        first, *others = self.layers(position)
        units = first.T @ columns
        for number, matrix in enumerate(others):
            hidden = function(units) if masks is None else masks[number] * function(units)
            units = matrix[1:].T @ hidden + matrix[:1].T
        return units

    def losses(
        self,
        position: "jax.Array",
        columns: "jax.Array",
        targets: "jax.Array",
        masks: "Sequence[jax.Array] | None" = None,
    ) -> "jax.Array":
        """-log p(y | x, z) of each point (n,)."""
        import jax
        import jax.numpy as jnp

        outputs = self.outputs(position, columns, masks)
        if self.likelihood == "softmax":
            chosen = jnp.take_along_axis(outputs, targets[None], axis=0)[0]
            return jax.nn.logsumexp(outputs, axis=0) - chosen
        log_noise = self.log_noise(position)
        return 0.5 * jnp.square((targets - outputs[0]) * jnp.exp(-log_noise)) + log_noise + HALF_LOG_2PI

    def potential(
        self, position: "jax.Array", columns: "jax.Array", targets: "jax.Array", weight: float | None = None
    ) -> "jax.Array":
        """U_w(z) over all points; their own number is the weight where there is none."""
        import jax.numpy as jnp

        share = 1.0 if weight is None else weight / targets.shape[0]
        losses = self.losses(position, columns, targets)
        return share * losses.sum() + 0.5 * jnp.vdot(position, position)


def columns_of(inputs: np.ndarray) -> np.ndarray:
    """Inputs (n, D) as ``Network.outputs`` reads them: (D + 1, n) with a first row of ones."""
    return np.concatenate([np.ones((1, len(inputs))), inputs.T]).astype(np.float32)
