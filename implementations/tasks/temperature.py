"""Temperature scaling: one number, fitted on the validation points, that makes a trained network less or more sure.

    classes       p(y | x) = softmax(f(x) / T)_y          (Guo, Pleiss, Sun and Weinberger 2017)
    regression    p(y | x) = N(y; f(x), (T sigma)^2)
    counts        none: the rate alone says how much they vary

T minimises the negative log likelihood of the validation points. Because f is linear in the parameters of the last
layer, a softmax at temperature T is the softmax of the parameters divided by T: one draw, and no chain.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np

from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem

#: Temperatures from a twentieth to twenty; a network that needs more is no classifier.
RANGE = np.log(20)

P = TypeVar("P", bound=Problem)


def has_temperature(problem: Problem) -> bool:
    """Is there anything in its likelihood that a temperature could scale?"""
    likelihood = find_likelihood(problem.likelihood)
    return likelihood.has_classes or likelihood.is_quadratic


def fit_temperature(problem: Problem, position: np.ndarray | None = None) -> float:
    """T of the network at its mode, or at another ``position`` (P,)."""
    # Here, because every run imports this module.
    from scipy import optimize

    place = problem.map if position is None else position
    outputs = problem.outputs(place.astype(np.float64), problem.validation_features)
    targets = problem.validation_targets
    if find_likelihood(problem.likelihood).is_quadratic:
        return float(np.sqrt(np.mean(np.square(targets - outputs[:, 0]))) / problem.noise_sd)
    loss = find_likelihood(problem.likelihood).loss_and_residuals

    def validation_loss(log_temperature: float) -> float:
        return loss(outputs / np.exp(log_temperature), targets, problem.noise_sd)[0]

    return float(np.exp(optimize.minimize_scalar(validation_loss, bounds=(-RANGE, RANGE), method="bounded").x))


def at_temperature(problem: P, temperature: float) -> tuple[P, np.ndarray]:
    """The problem and the one draw (1, 1, P) that predict as the trained network does at this temperature."""
    if find_likelihood(problem.likelihood).is_quadratic:
        return replace(problem, noise_sd=temperature * problem.noise_sd), problem.map[None, None]
    return problem, problem.map[None, None] / np.float32(temperature)
