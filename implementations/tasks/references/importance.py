"""Gold standard where the target is close to the Gaussian at its mode: importance sampling from that, with all data.

On tall data a gradient of all points takes so long that no chain of them is affordable, and none is needed: draws of
the Gaussian are weighed by what they miss,

    theta = t + L z,   log W = -U_w(theta) + |z|^2 / 2,   t the mode, L L^T the inverse of U_w's curvature there,

at the price of one likelihood of all points each. They come in independent batches, each with the Gaussian's own mean
and covariance (quadratic resampling, Barraquand 1995): predictions are nearly linear in theta, so that the error of
their mean and sd is far below that of as many independent draws, and the spread between the batches tells it.
"""

from dataclasses import dataclass

import jax
import numpy as np
from jax import Array

from implementations.tasks.problem import Problem
from implementations.tasks.references.one_layer import Points, gaussian_at_mode, log_likelihood_of, log_prior, slices

#: With log weights of a larger sd, which the first draws tell, the work is better spent on a chain.
MAX_LOG_WEIGHT_SD = 0.25
NUM_BATCHES = 10
#: Draws of a batch, a multiple of four; more where a covariance of so many parameters asks for it.
MIN_BATCH = 100


@dataclass(frozen=True, eq=False)
class Weighted:
    """draws (batches, draws, P) and log_weights (batches, draws), up to a constant; float64."""

    draws: np.ndarray
    log_weights: np.ndarray


def sample(problem: Problem, weight: float, *, seed: int) -> Weighted | None:
    """Weighted draws of the target of weight w, or None where the first batch finds it too far from a Gaussian."""
    mode, factor = gaussian_at_mode(problem, weight)
    random = np.random.default_rng(seed)
    batches = np.stack([matched_normals(random, problem.num_parameters) for _ in range(NUM_BATCHES)])
    draws = mode + batches @ factor.T
    found: list[np.ndarray] = []
    with jax.enable_x64(True):
        points = slices(problem)

        # The weight is an argument, so that one compiled program serves all.
        @jax.jit
        def log_density(parameters: Array, points: Points, weight: Array) -> Array:
            likelihood = log_likelihood_of(problem, weight, points)
            return jax.vmap(lambda one: likelihood(one) + log_prior(problem, one))(parameters)

        # In quarters of a batch, the first of which is enough to give up by.
        for normals, parameters in zip(_quarters(batches), _quarters(draws), strict=True):
            found.append(
                np.asarray(log_density(parameters, points, np.float64(weight))) + 0.5 * np.square(normals).sum(axis=1)
            )
            if found[0].std() > MAX_LOG_WEIGHT_SD:
                return None
    return Weighted(draws, np.concatenate(found).reshape(draws.shape[:2]))


def _quarters(batches: np.ndarray) -> np.ndarray:
    return batches.reshape(4 * len(batches), -1, batches.shape[2])


def matched_normals(random: np.random.Generator, dimension: int) -> np.ndarray:
    """Normal numbers (draws, dimension), shifted and stretched to a mean of 0 and a covariance of I, exactly."""
    normals = random.standard_normal((max(MIN_BATCH, 4 * dimension), dimension))
    normals -= normals.mean(axis=0)
    # With covariance A A^T, the rows A^-1 z have covariance I.
    covariance = normals.T @ normals / len(normals)
    return np.linalg.solve(np.linalg.cholesky(covariance), normals.T).T
