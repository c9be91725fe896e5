"""Two sines by a residual network of one's own, all of whose parameters are sampled."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from implementations.tasks.data import regression
from implementations.tasks.networks import Network
from implementations.tasks.task import Task, Training

WIDTH = 10


def outputs(weights: Mapping[str, Any], features: Any) -> Any:
    """h = tanh(x A), then h + tanh(h B), then a linear layer; features are [1, x], so that A has the biases."""
    xp = array_namespace(features)
    hidden = xp.tanh(features @ weights["first"])
    hidden = hidden + xp.tanh(hidden @ weights["block"])
    return hidden @ weights["last"] + weights["bias"][..., None, :]


def initial(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Where training starts."""
    return {
        "first": random.normal(size=(2, WIDTH)) * [[1.0], [2.0]],
        "block": random.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH),
        "last": random.normal(size=(WIDTH, 1)) / np.sqrt(WIDTH),
        "bias": np.zeros(1),
    }


NETWORK = Network(
    name="residual",
    num_inputs=1,
    num_outputs=1,
    shapes={"first": (2, WIDTH), "block": (WIDTH, WIDTH), "last": (WIDTH, 1), "bias": (1,)},
    outputs=outputs,
    initial=initial,
)

TASK = Task(
    name="residual",
    summary="two sines by a residual network of 10 units",
    num_points=regression.TASK.num_points,
    layers=(),
    network=NETWORK,
    likelihood="gaussian",
    noise_sd=regression.NOISE_SD,
    load=regression.TASK.load,
    # Of Adam; where training starts is the network's own.
    training=Training(learning_rate=0.01, num_epochs=1000),
)
