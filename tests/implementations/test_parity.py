"""Fed the same random numbers, jax, torch and the NumPy reference make the same decisions and reach the same state."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from benchmarks import explicit_noise
from benchmarks.explicit_noise import CHAINS, METROPOLIS, make_noise, make_settings, run_jax, run_torch
from implementations.backends import Inputs, build_sampler
from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.jax import minibatch as jax_minibatch
from implementations.kernels.contract import Data as JaxData
from implementations.kernels.estimates import VARIANCES
from implementations.kernels.metropolis import Noise
from implementations.methods import METHODS
from implementations.settings import Settings
from implementations.tasks.geometry import preconditioner_factor, start_points
from implementations.tasks.problem import Problem
from tests import oracle
from tests.implementations.chains import at_once

#: A wrong decision or state shows within a few steps; the gate makes more.
NUM_STEPS = 40


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(explicit_noise, "NUM_STEPS", NUM_STEPS)
    # Fewer steps than it takes to compile them well.
    monkeypatch.setattr(explicit_noise, "COMPILER_OPTIONS", {"xla_backend_optimization_level": 0})


def run_reference(problem: Problem, method: str, settings: Settings, start: np.ndarray, factor: np.ndarray) -> Any:
    noise = make_noise(problem, method, settings, factor)
    inputs = Inputs(problem, METHODS[method], settings)
    trail, accepted = np.zeros((NUM_STEPS, *start.shape)), np.zeros((NUM_STEPS, CHAINS), bool)
    dense = factor if factor.ndim == 2 else factor * np.eye(problem.num_parameters)
    for chain in range(CHAINS):
        position = start[chain]
        for number in range(NUM_STEPS):
            step_noise = oracle.Noise(
                noise.normals[number, chain],
                noise.log_uniforms[number, chain],
                noise.indices[number, chain],
                noise.gradient_indices[number, chain],
            )
            outcome = oracle.step(
                position,
                step_noise,
                settings.step_size,
                dense,
                problem,
                method,
                settings,
                inputs.anchor,
                inputs.averages,
            )
            position = outcome.position
            trail[number, chain], accepted[number, chain] = position, outcome.is_accepted
    return trail, accepted


def assert_parity(problem: Problem, method: str, settings: Settings) -> None:
    weight = settings.target_weight(problem.num_points)
    factor = preconditioner_factor(problem, weight, settings.preconditioner)
    start = start_points(problem, weight, CHAINS, 0).astype(float)
    if "anchor" in METHODS[method].needs:
        # Farther out their noise is so large that nothing is accepted.
        start = problem.map + (start - problem.map) / 4
    trail, accepted = run_reference(problem, method, settings, start, factor)
    is_gaussian = problem.likelihood == "gaussian" == problem.prior and settings.shapes.get("proxy") != "first"
    if METHODS[method].acceptance == "always" or (method == "pbnn_cn" and is_gaussian):
        # The target is the Gaussian that Crank-Nicolson moves keep.
        assert accepted.all()
    else:
        # Only a chain that does both can tell a wrong decision from a right one.
        assert 0.05 < accepted.mean() < 0.98
    for run in (run_jax, run_torch):
        other_trail, other_accepted, *_ = run(problem, method, settings, start, factor)
        np.testing.assert_array_equal(other_accepted, accepted, err_msg=run.__name__)
        np.testing.assert_allclose(other_trail, trail, rtol=1e-8, atol=1e-8, err_msg=run.__name__)


@pytest.mark.parametrize("task", ["linear", "regression", "digits", "logistic"])
@pytest.mark.parametrize("method", METROPOLIS)
def test_both_backends_make_the_references_decisions(problem, task, method):
    assert_parity(problem(task), method, make_settings(problem(task), method))


@pytest.mark.parametrize("task", ["regression", "digits"])
@pytest.mark.parametrize("method", ["pbnn", "pbnn_mala"])
def test_rows_that_are_fetched_ahead_are_the_references(problem, task, method, monkeypatch):
    monkeypatch.setattr(jax_minibatch, "CACHE_BYTES", 0)
    assert_parity(problem(task), method, make_settings(problem(task), method))


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
@pytest.mark.parametrize("method", ["pbnn", "pbnn_mala", "naive"])
def test_an_audited_move_is_the_references(problem, method, backend):
    """With the proposal's ratio, and beside it the difference of all points."""
    regression = problem("regression")
    settings = make_settings(regression, method)
    sampler = build_sampler(backend, regression, METHODS[method], settings)
    weight = settings.target_weight(regression.num_points)
    factor = preconditioner_factor(regression, weight, settings.preconditioner)
    start = start_points(regression, weight, CHAINS, 0).astype(float)
    explicit = make_noise(regression, method, settings, factor)
    with jax.enable_x64(True), torch.no_grad():
        put = jnp.asarray if backend == "jax-cpu" else torch.from_numpy
        noise = Noise(*(put(part[0]) for part in explicit))
        kernel = sampler.loop.kernel

        def weigh(noise, start, points, values):
            return kernel.audit(noise, kernel.init(noise, start, points, values), points, values)

        run = at_once(weigh) if backend == "jax-cpu" else weigh
        audit = run(noise, put(start), sampler.all_points(), sampler.values)
        audit = {name: np.asarray(array) for name, array in audit.items()}
    for chain in range(CHAINS):
        step_noise = oracle.Noise(
            explicit.normals[0, chain],
            explicit.log_uniforms[0, chain],
            explicit.indices[0, chain],
            explicit.gradient_indices[0, chain],
        )
        outcome = oracle.step(start[chain], step_noise, settings.step_size, factor, regression, method, settings)
        np.testing.assert_allclose(audit["log_accept"][chain], outcome.log_accept, rtol=1e-8)
        np.testing.assert_allclose(audit["delta"][chain], outcome.delta, rtol=1e-8)
    if method == "pbnn_mala":
        assert (abs(audit["log_ratio_proposal"]) > 1e-3).all()


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("method", ["pbnn", "pbnn_corrected"])
def test_every_variance_estimator_is_the_references(problem, method, variance):
    assert_parity(problem("linear"), method, make_settings(problem("linear"), method, variance=variance))


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("pbnn_cv", {"proxy": "first"}),
        ("pbnn_cv", {"variance": "batches"}),
        ("pbnn_cv", {"variance": "oracle"}),
        ("pbnn_cn", {"proxy": "first", "variance": "single_finite"}),
        ("pbnn_mala_cv", {"proxy": "first"}),
        ("pbnn_mala_cv", {"gradient": "proxy"}),
        ("pbnn_cv", {"proxy": "averaged"}),
        ("pbnn_cn", {"proxy": "averaged"}),
        ("pbnn_mala_cv", {"proxy": "averaged"}),
        ("pbnn_mala_cv", {"proxy": "averaged", "gradient": "proxy"}),
        ("sgld_cv", {"proxy": "second"}),
    ],
)
@pytest.mark.parametrize("task", ["linear", "digits", "logistic"])
def test_every_control_variate_is_the_references(problem, task, method, given):
    # Where the prior rules, as in digits at a small weight, the target is far from the Gaussian at its mode.
    weight = 200.0 if task == "digits" else 20.0
    assert_parity(problem(task), method, make_settings(problem(task), method, weight=weight, **given))


@pytest.mark.parametrize("method", ["pbnn_cv", "pbnn_cn", "pbnn_mala_cv"])
def test_control_variates_under_a_laplace_prior_are_the_references(problem, method):
    lasso = problem("regression", prior="laplace")
    assert_parity(lasso, method, make_settings(lasso, method))


@pytest.mark.parametrize(("preconditioner", "step_size"), [("none", 1e-5), ("diagonal", 0.05)])
@pytest.mark.parametrize("method", ["pbnn_mala", "mala"])
def test_every_preconditioner_is_the_references(problem, method, preconditioner, step_size):
    settings = make_settings(problem("regression"), method, preconditioner=preconditioner, step_size=step_size)
    assert_parity(problem("regression"), method, settings)


@pytest.mark.parametrize("prior", ["gaussian", "laplace"])
@pytest.mark.parametrize(("method", "step_size"), [("full_mh", 1e-4), ("pbnn", 1e-4), ("pbnn_mala", 1e-6)])
def test_all_layers_stochastic_and_both_priors_are_the_references(problem, method, step_size, prior):
    whole = problem("regression", stochastic="all", prior=prior)
    settings = make_settings(whole, method, step_size=step_size, weight=1.0, preconditioner="diagonal")
    assert_parity(whole, method, settings)


@pytest.mark.parametrize("tile", [97, 150])
def test_many_points_in_tiles_are_the_references_losses_and_gradient(problem, monkeypatch, tile):
    """1,200 points in twelve tiles and a rest, and in eight without one."""
    monkeypatch.setattr(jax_likelihood, "TILE", tile)
    digits = problem("digits")
    everything = np.arange(digits.num_points)
    position = start_points(digits, 100.0, CHAINS, 0)
    with jax.enable_x64(True):
        data = JaxData(jnp.asarray(digits.features, float), jnp.asarray(digits.targets))
        losses, gradient = at_once(jax_likelihood.losses_and_gradient, static_argnums=3)(
            position, data, 100.0, digits.model
        )
        together = at_once(jax_likelihood.point_losses, static_argnums=2)(position, data, digits.model)
        np.testing.assert_allclose(losses, together)
    for chain in range(CHAINS):
        expected = oracle.point_losses(position[chain], digits, everything)
        np.testing.assert_allclose(losses[chain], expected, rtol=1e-9, atol=1e-12)
        expected = oracle.gradient(position[chain], digits, everything, 100.0)
        np.testing.assert_allclose(gradient[chain], expected, rtol=1e-9, atol=1e-10)
