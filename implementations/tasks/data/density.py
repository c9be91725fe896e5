"""The density of points on a line, without targets (paper: -sum log p(x | theta)): a mixture of two humps and a floor.

    p(x | theta) = exp f(x) / mean of exp f over the support

The features of the log-linear density are learned: f is a network of 20 tanh, trained like the others on the negative
log posterior, of which the last layer is stochastic, or every one.
"""

import numpy as np

from implementations.tasks.data.synthetic import drawn_task
from implementations.tasks.task import Points, Training

#: Numbers y from 0 to 1 are stretched to inputs x = 4 (y - 1/2), around 0, where tanh units bend. Relative to the
#: uniform law on the support, the density of x is that of y.
SUPPORT = (-2.0, 2.0)
#: Weight, a and b of Beta laws of y. The floor keeps the logarithm of their sum bounded.
HUMPS = ((0.5, 18.0, 40.0), (0.3, 40.0, 18.0), (0.2, 1.0, 1.0))


def draw_points(random: np.random.Generator, num_points: int) -> Points:
    weights, a, b = np.transpose(HUMPS)
    chosen = random.choice(len(weights), num_points, p=weights)
    inputs = 4 * (random.beta(a[chosen], b[chosen]) - 0.5)
    return Points(inputs[:, None].astype(np.float32), np.zeros(num_points, np.float32))


def truth(inputs: np.ndarray) -> np.ndarray:
    """The density of the points relative to the uniform one."""
    # Here, because who only checks a study imports this module too.
    from scipy import stats

    return np.asarray(sum(weight * stats.beta(a, b).pdf(inputs[:, 0] / 4 + 0.5) for weight, a, b in HUMPS))


TASK = drawn_task(
    draw_points,
    num_points=2000,
    has_fresh=True,
    name="density",
    summary="a density on a line without targets, log-linear in the features of 20 tanh, normalised on a grid",
    layers=((2, 20), (21, 1)),
    likelihood="density",
    # Units whose steps are as wide as a hump, and stand all over the support.
    training=Training(weight_sd=2.0, bias_sd=2.0, learning_rate=0.01, num_epochs=2000),
    support=SUPPORT,
    truth=truth,
)
