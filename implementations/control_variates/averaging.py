"""Control variates that fit the losses on average, and the Gaussian that they make.

A Taylor polynomial q_j fits a loss best at the anchor t, and chains are elsewhere: over the Gaussian at the mode the
mean slope of the loss differs from that of q_j, to leading order by

    c_j = E[d^3 l_j/df^3 (u_j, u_j)] / 2,   u_j = f_j(theta) - f_j(t)

The proxy q_j + c_j · u_j has the mean slope of its loss, and leaves less of it. Its sum over all data is a quadratic
form as before, with another slope: together with the prior it is the Gaussian of the same covariance C around

    t - C (w / N) sum_j x_j c_j

which is the mean of the target to the same order, where t is its mode. On mnist, for independent draws of it, the noise
of mini-batches has 0.4 of the variance that Taylor polynomials leave, and the target's own differences a sixth.

Any c_j would be right: what it adds to the sum, mini-batches take off again.
"""

import time
from dataclasses import dataclass

import numpy as np

from implementations.control_variates.anchor import Anchor, gaussian_factor, probed
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem

#: Draws of the Gaussian that a mean is taken over: with sixteen mnist has a tenth more noise, with 128 a tenth less.
NUM_PROBES = 32


@dataclass(frozen=True, eq=False)
class Averages:
    """Of the target of an anchor."""

    #: (N, outputs) float32: c_j.
    slopes: np.ndarray
    #: (P,): the gradient that they add to the sum of the proxies.
    gradient: np.ndarray
    #: (P,): the mean of the Gaussian.
    centre: np.ndarray
    #: Processor seconds that it took to find them.
    cpu_seconds: float


def averages(problem: Problem, anchor: Anchor) -> Averages:
    """The mean slopes of all points."""
    started = time.process_time()
    likelihood = find_likelihood(problem.likelihood)
    slopes = np.empty((problem.num_points, problem.num_outputs), np.float32)
    total = np.zeros(problem.layers[0])
    for chunk, moves, kept in probed(problem, anchor, NUM_PROBES):
        slopes[chunk] = likelihood.mean_slope(kept, moves).T
        total += problem.features[chunk].astype(np.float64).T @ slopes[chunk]
    gradient = anchor.weight / problem.num_points * total.ravel()
    factor = gaussian_factor(problem, anchor)
    shift = factor @ (factor.T @ gradient) if factor.ndim == 2 else factor**2 * gradient
    return Averages(slopes, gradient, anchor.position - shift, time.process_time() - started)
