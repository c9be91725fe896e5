"""Running chains in tests: many short ones side by side, and their moments in function space."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from implementations.methods import resolve
from implementations.sampling import sample as sample_in_memory
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior

BACKENDS = ("jax-cpu", "torch-cpu")
#: For long chains: torch steps through them in Python. Fed the same numbers it makes the same decisions as jax and the
#: NumPy reference (test_parity.py), and the moments of its own are for the slow tests.
LONG_CHAINS = ("jax-cpu", pytest.param("torch-cpu", marks=pytest.mark.slow))
#: Many chains that begin in the target: they leave it where it is not theirs, and their spread tells the error.
MANY = {"chains": 128, "num_steps": 1000, "num_warmup": 300, "thin": 10}
#: torch's loops run eagerly, where a step of more chains costs hardly more: as many draws in a quarter of the steps.
LENGTH = {"jax-cpu": MANY, "torch-cpu": {"chains": 512, "num_steps": 250, "num_warmup": 75, "thin": 10}}


def at_once(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function in jax as one program, soon compiled: call by call, each of its operations would be one."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0}, **options)


class Moments(NamedTuple):
    """Of f at the test points, against the closed form of the run's own target; errors are those of the Monte Carlo."""

    sd_ratio: float
    sd_ratio_error: float
    mean_error: float
    mean_error_error: float
    acceptance: float


def sample(problem: Problem, method: str, backend: str, seed: int = 0, **given: Any) -> tuple[np.ndarray, float]:
    """Draws (chains, draws, P) from chains that begin in the exact posterior of their target, and the acceptance."""
    settings = resolve(method, given, problem)
    exact = gaussian_posterior(problem, settings.target_weight(problem.num_points))
    start = np.random.default_rng(seed).multivariate_normal(exact.mean, exact.covariance, settings.chains)
    sampled = sample_in_memory(problem, method, settings, backend, seed, start=start, is_audited=False)
    assert sampled.status == "ok", sampled.reason
    return sampled.draws.positions.astype(float), float(sampled.draws.acceptance.mean())


def moments(problem: Problem, method: str, backend: str, seed: int = 0, **given: Any) -> Moments:
    """The predictive mean and sd of a run, over those of its target."""
    draws, acceptance = sample(problem, method, backend, seed, **given)
    exact = gaussian_posterior(problem, resolve(method, given, problem).target_weight(problem.num_points))
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
