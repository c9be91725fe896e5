"""Non-linear regression, the paper's figures 2, 3a and 4: y = sin 3x + 0.3 sin 15x + 0.05 noise.

The trained network cannot follow the fast sine everywhere, so its last layer alone carries too little uncertainty:
the posterior given all data is overconfident, which is what a smaller weight repairs.
"""

import numpy as np

from implementations.tasks.data.synthetic import drawn_task, on_curve
from implementations.tasks.task import Training

NOISE_SD = 0.05


def two_sines(inputs: np.ndarray) -> np.ndarray:
    return np.sin(3 * inputs) + 0.3 * np.sin(15 * inputs)


TASK = drawn_task(
    on_curve(two_sines, NOISE_SD),
    num_points=2000,
    has_fresh=True,
    name="regression",
    summary="two sines, one hidden layer of 20 tanh, Gaussian likelihood with known noise",
    layers=((2, 20), (21, 1)),
    likelihood="gaussian",
    noise_sd=NOISE_SD,
    # A wide first layer spreads the tanh over the interval, so that some units can see the fast sine at all.
    training=Training(weight_sd=2.0, bias_sd=1.0, learning_rate=0.01, num_epochs=3000),
)
