"""Problems whose posterior is known: ``linear``, and ``two_classes`` for softmax."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from implementations.tasks.problem import Problem


@cache
def known_problem(name: str) -> "Problem":
    """``linear``; or ``two_classes``: its inputs with classes of log odds 0.5 + 2 x, as a softmax of two outputs."""
    from implementations.tasks import at_mode, prepare

    if name == "linear":
        return prepare("linear", 0, progress=False)
    problem = prepare("linear", 0, num_points=200, progress=False)
    random = np.random.default_rng(0)

    def classes(features: np.ndarray) -> np.ndarray:
        return (random.logistic(size=len(features)) < features @ [0.5, 2.0]).astype(np.int32)

    problem = replace(
        problem,
        task=name,
        likelihood="categorical",
        layers=((2, 2),),
        targets=classes(problem.features),
        test_targets=classes(problem.test_features),
        validation_targets=classes(problem.validation_features),
        map=np.zeros(4, np.float32),
    )
    return at_mode(problem)


def log_odds_posterior(problem: "Problem", weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the log odds' intercept and slope in ``two_classes``, by sums over a grid.

    Two outputs with weights u and v enter the likelihood by b = v - u alone, whose prior is N(0, 2 prior_scale^2):

        log p(b) = -|b|^2 / (4 prior_scale^2) + (w / N) sum_j log expit(±b^T x_j)

    Equal steps are exact but for rounding once they are shorter than the posterior's sd: the third grid's are.
    """
    from scipy.special import log_expit

    signed = problem.features.astype(float) * (2.0 * problem.targets[:, None] - 1)
    mean, covariance = np.zeros(2), 2 * problem.prior_scale**2 * np.eye(2)
    for _ in range(3):
        axes = mean[:, None] + np.sqrt(covariance.diagonal())[:, None] * np.linspace(-8, 8, 65)
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        log_density = weight / problem.num_points * log_expit(grid @ signed.T).sum(axis=1)
        log_density -= np.square(grid).sum(axis=1) / (4 * problem.prior_scale**2)
        shares = np.exp(log_density - log_density.max())
        shares /= shares.sum()
        mean = shares @ grid
        covariance = (grid - mean).T @ (shares[:, None] * (grid - mean))
    return mean, covariance
