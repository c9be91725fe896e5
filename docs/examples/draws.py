"""Draws of a tempered logistic regression by a random walk, in NumPy alone, for ``pbnn-bench score``."""

import numpy as np

weight, random = 100.0, np.random.default_rng(0)
with np.load("problem.npz") as file:
    problem = dict(file)
features, signs = problem["features"].astype(float), 2.0 * problem["targets"] - 1
precision = np.eye(features.shape[1]) / problem["prior_scale"] ** 2


def energy(theta: np.ndarray) -> float:
    """U_w = -log p + (w / N) sum_j l_j, up to a constant."""
    losses = np.logaddexp(0, -signs * (features @ theta))
    return float(theta @ precision @ theta / 2 + weight * losses.mean())


# Moves with the covariance of the Gaussian at the mode; ``curvature`` is the mean one of a point's loss.
root = np.linalg.cholesky(np.linalg.inv(precision + weight * problem["curvature"]))
chains = []
for _ in range(4):
    theta = problem["map"] + 2 * root @ random.normal(size=len(root))
    here, draws = energy(theta), []
    for _ in range(6000):
        proposed = theta + 0.8 * root @ random.normal(size=len(root))
        there = energy(proposed)
        if np.log(random.random()) < here - there:
            theta, here = proposed, there
        draws.append(theta)
    chains.append(draws[500:])
np.savez("draws.npz", draws=np.array(chains))
