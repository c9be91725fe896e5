"""Losses, their derivatives and predictions, against automatic differentiation in both libraries and scipy's laws."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy import special, stats

from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.kernels.contract import Data
from implementations.tasks.data import regression
from implementations.tasks.geometry import mean_curvature
from implementations.tasks.likelihoods import LIKELIHOODS, find_likelihood
from implementations.tasks.problem import Problem
from implementations.tasks.references.mode import loss_and_gradient
from implementations.tasks.training import _point_losses
from tests import oracle
from tests.implementations.chains import at_once

NUM_POINTS = 30
NUM_OUTPUTS = {"gaussian": 1, "categorical": 3, "bernoulli": 1, "poisson": 1, "density": 1}


def _problem(name: str, scale: float = 1.0) -> Problem:
    """One layer on random features; ``map`` is a random place."""
    random = np.random.default_rng(0)
    num_outputs = NUM_OUTPUTS[name]
    features = np.column_stack([np.ones(NUM_POINTS), scale * random.normal(size=(NUM_POINTS, 3))]).astype(np.float32)
    num_classes = {"categorical": 3, "bernoulli": 2, "poisson": 9}.get(name)
    targets = random.integers(0, num_classes, NUM_POINTS) if num_classes else random.normal(size=NUM_POINTS)
    position = random.normal(size=4 * num_outputs).astype(np.float32)
    given = {}
    if name == "density":
        targets = np.zeros(NUM_POINTS)
        given["grid"] = np.column_stack([np.ones(20), random.normal(size=(20, 3))]).astype(np.float32)
    return Problem.of(features, targets, likelihood=name, test=(features, targets), noise_sd=0.7, map=position, **given)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradient_and_curvature_are_those_of_automatic_differentiation_in_jax(name) -> None:
    problem = _problem(name)
    with jax.enable_x64(True):
        data = Data(jnp.asarray(problem.features, float), jnp.asarray(problem.targets))
        position = jnp.asarray(problem.map, float)

        def loss(position):
            return jax_likelihood.point_losses(position, data, problem.model).sum()

        value, gradient, hessian = map(
            np.asarray, at_once(lambda where: (loss(where), jax.grad(loss)(where), jax.hessian(loss)(where)))(position)
        )
    found = loss_and_gradient(problem, problem.map.astype(float), NUM_POINTS)
    np.testing.assert_allclose(found[0], value, rtol=1e-12)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-10, atol=1e-12)
    curvature = mean_curvature(problem, problem.map)
    np.testing.assert_allclose(NUM_POINTS * curvature, hessian, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradient_and_curvature_are_those_of_automatic_differentiation_in_torch(name) -> None:
    problem = _problem(name)
    data = Data(torch.from_numpy(problem.features).double(), torch.from_numpy(problem.targets))
    position = torch.from_numpy(problem.map).double()

    def loss(position):
        return torch_likelihood.point_losses(position, data, problem.model).sum()

    found = loss_and_gradient(problem, problem.map.astype(float), NUM_POINTS)
    np.testing.assert_allclose(found[0], loss(position), rtol=1e-12)
    np.testing.assert_allclose(found[1], torch.func.grad(loss)(position), rtol=1e-10, atol=1e-12)
    hessian = torch.autograd.functional.hessian(loss, position)
    curvature = mean_curvature(problem, problem.map)
    np.testing.assert_allclose(NUM_POINTS * curvature, hessian, rtol=1e-10, atol=1e-12)
    losses, gradient = torch_likelihood.losses_and_gradient(position, data, 10.0, problem.model)
    everything = np.arange(NUM_POINTS)
    np.testing.assert_allclose(losses, oracle.point_losses(problem.map.astype(float), problem, everything))
    np.testing.assert_allclose(gradient, oracle.gradient(position.numpy(), problem, everything, 10.0))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_product_with_the_curvature_is_one_with_its_root_and_its_roots_transpose(name) -> None:
    likelihood, random = find_likelihood(name), np.random.default_rng(1)
    outputs, vectors = random.normal(size=(2, NUM_POINTS, NUM_OUTPUTS[name]))
    roots = likelihood.curvature_root(outputs, 0.7)
    expected = np.einsum("nik,njk,nj->ni", roots, roots, vectors)
    np.testing.assert_allclose(likelihood.curvature_product(outputs, vectors, 0.7), expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_loss_is_minus_the_log_of_the_law_but_for_a_constant(name) -> None:
    problem = _problem(name)
    outputs = problem.features.astype(float) @ problem.map.reshape(4, -1)
    log_law = {
        "gaussian": lambda: stats.norm(0, 0.7).logpdf(problem.targets - outputs[:, 0]) - stats.norm(0, 0.7).logpdf(0),
        "categorical": lambda: special.log_softmax(outputs, axis=1)[np.arange(NUM_POINTS), problem.targets],
        "bernoulli": lambda: stats.bernoulli(special.expit(outputs[:, 0])).logpmf(problem.targets),
        "poisson": lambda: (
            stats.poisson(np.exp(outputs[:, 0])).logpmf(problem.targets) + special.gammaln(problem.targets + 1)
        ),
        "density": lambda: outputs[:, 0] - special.logsumexp(problem.grid.astype(float) @ problem.map) + np.log(20),
    }[name]()
    losses = oracle.point_losses(problem.map.astype(float), problem, np.arange(NUM_POINTS))
    np.testing.assert_allclose(losses, -log_law, rtol=1e-9, atol=1e-12)


def test_extreme_log_odds_neither_overflow_nor_lose_digits() -> None:
    problem = _problem("bernoulli", scale=300.0)
    outputs = problem.features.astype(float) @ problem.map
    assert np.abs(outputs).max() > 800, "exp(f) overflows"
    expected = -special.log_expit((2 * problem.targets - 1) * outputs)
    with jax.enable_x64(True):
        data = Data(jnp.asarray(problem.features, float), jnp.asarray(problem.targets))
        losses = np.asarray(jax_likelihood.point_losses(jnp.asarray(problem.map, float), data, problem.model))
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    data = Data(torch.from_numpy(problem.features).double(), torch.from_numpy(problem.targets))
    np.testing.assert_allclose(
        torch_likelihood.point_losses(torch.from_numpy(problem.map).double(), data, problem.model), expected, rtol=1e-12
    )
    loss, residuals = find_likelihood("bernoulli").loss_and_residuals(outputs[:, None], problem.targets, 1.0)
    assert loss == pytest.approx(expected.sum(), rel=1e-12)
    np.testing.assert_allclose(residuals[:, 0], special.expit(outputs) - problem.targets, rtol=1e-12)
    assert np.isfinite(mean_curvature(problem, problem.map)).all()


def test_a_network_trains_on_the_losses_of_the_samplers() -> None:
    # That of a density trains on its normaliser too, which test_density.py sees.
    for name in LIKELIHOODS.keys() - {"density"}:
        problem = _problem(name)
        task = replace(regression.TASK, likelihood=name, noise_sd=problem.noise_sd)
        outputs = torch.from_numpy(problem.features @ problem.map.reshape(4, -1))
        targets = torch.from_numpy(problem.targets)
        found = _point_losses(task, outputs, targets.long() if name == "categorical" else targets)
        expected = oracle.point_losses(problem.map.astype(float), problem, np.arange(NUM_POINTS))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
