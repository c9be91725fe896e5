"""Running chains in tests: many short ones side by side, their moments in function space, and what a step evaluates."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from implementations.backends import build_sampler
from implementations.methods import resolve
from implementations.schedule import chunks
from implementations.tasks.exact import gaussian_posterior
from implementations.tasks.problem import Problem

BACKENDS = ("jax-cpu", "torch-cpu")


class Moments(NamedTuple):
    """Of f at the test points, against the closed form of the run's own target; errors are those of the Monte Carlo."""

    sd_ratio: float
    sd_ratio_error: float
    mean_error: float
    mean_error_error: float
    acceptance: float


def sample(problem: Problem, method: str, backend: str, seed: int = 0, **given: Any) -> tuple[np.ndarray, float]:
    """Draws (chains, draws, P) from chains that begin in the exact posterior of their target, and the acceptance."""
    settings = resolve(
        method, given, task=problem.task, num_points=problem.num_points, num_parameters=problem.num_parameters
    )
    weight = problem.target_weight(settings.weight, settings.batch_size)
    exact = gaussian_posterior(problem, weight)
    start = np.random.default_rng(seed).multivariate_normal(exact.mean, exact.covariance, settings.chains)
    sampler = build_sampler(backend, problem, method, settings)
    carry = sampler.start(start, seed)
    kept = []
    for chunk in chunks(settings):
        carry, draws = sampler.advance(carry, chunk.num_steps)
        if not chunk.is_warmup:
            kept.append(draws)
    positions = np.concatenate([draws.positions for draws in kept], axis=1)
    return positions.astype(float), float(np.mean([draws.acceptance.mean() for draws in kept]))


def moments(problem: Problem, method: str, backend: str, seed: int = 0, **given: Any) -> Moments:
    """The predictive mean and sd of a run, over those of its target."""
    draws, acceptance = sample(problem, method, backend, seed, **given)
    exact = gaussian_posterior(problem, problem.target_weight(*_weight(method, problem, given)))
    features = problem.test_features.astype(float)
    exact_variance = np.einsum("nf,fg,ng->n", features, exact.covariance, features)
    outputs = draws @ features.T - features @ exact.mean
    # Chains are independent, so the spread over them is the Monte Carlo error, whatever their autocorrelation.
    scale = np.sqrt(exact_variance.mean())
    shifts = outputs.mean(axis=1)
    mean_error = np.sqrt((shifts.mean(axis=0) ** 2).mean()) / scale
    mean_error_error = np.sqrt((shifts.var(axis=0, ddof=1) / len(draws)).mean()) / scale
    squares = (outputs**2).mean(axis=(1, 2))
    variance_ratio = (squares.mean() - (shifts.mean(axis=0) ** 2).mean()) / exact_variance.mean()
    error = squares.std(ddof=1) / np.sqrt(len(draws)) / exact_variance.mean()
    sd_ratio = np.sqrt(variance_ratio)
    return Moments(
        float(sd_ratio), float(error / (2 * sd_ratio)), float(mean_error), float(mean_error_error), acceptance
    )


def _weight(method: str, problem: Problem, given: dict[str, Any]) -> tuple[Any, Any]:
    settings = resolve(
        method, given, task=problem.task, num_points=problem.num_points, num_parameters=problem.num_parameters
    )
    return settings.weight, settings.batch_size


@contextmanager
def counted(chain: ModuleType) -> Iterator[dict[str, int]]:
    """What the last step that a backend's ``chain`` made or traced evaluates: losses and gradients of single points."""
    counts: dict[str, int] = {}
    build = chain.build_step

    def build_step(*arguments: Any) -> Any:
        step = build(*arguments)

        def move(*arguments: Any) -> Any:
            counts.update(losses=0, gradients=0)
            return step.move(*arguments)

        return step._replace(move=move)

    def counting(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            result = function(*arguments)
            losses = result[0] if kind == "gradients" else result
            counts[kind] = counts.get(kind, 0) + math.prod(losses.shape)
            return result

        return count

    with patch.multiple(
        chain,
        build_step=build_step,
        point_losses=counting(chain.point_losses, "losses"),
        losses_and_gradient=counting(chain.losses_and_gradient, "gradients"),
    ):
        yield counts
