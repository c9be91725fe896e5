"""The closed-form posterior of a linear-Gaussian model, at any weight."""

from dataclasses import dataclass

import numpy as np

from implementations.tasks.geometry import prior_precision
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem


@dataclass(frozen=True, eq=False)
class Gaussian:
    """mean (P,), covariance (P, P), float64."""

    mean: np.ndarray
    covariance: np.ndarray


def has_closed_form(problem: Problem) -> bool:
    """One stochastic layer, a Gaussian likelihood and a Gaussian prior."""
    is_quadratic = find_likelihood(problem.likelihood).is_quadratic and problem.prior == "gaussian"
    return problem.is_linear and is_quadratic


def gaussian_posterior(problem: Problem, weight: float) -> Gaussian:
    """The target of weight w of a linear-Gaussian problem (Bishop 2006, equations 3.50 and 3.51, tempered).

    covariance^-1 = I / prior_scale^2 + (w/N) X^T X / sigma^2,   mean = covariance (w/N) X^T y / sigma^2
    """
    assert has_closed_form(problem), "ask has_closed_form first"
    features = problem.features.astype(np.float64)
    scale = weight / problem.num_points / problem.noise_sd**2
    precision = prior_precision(problem) * np.eye(problem.num_parameters) + scale * features.T @ features
    covariance = np.linalg.inv(precision)
    mean = np.linalg.solve(precision, scale * features.T @ problem.targets.astype(np.float64))
    return Gaussian(mean, (covariance + covariance.T) / 2)
