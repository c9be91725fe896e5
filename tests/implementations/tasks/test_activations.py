"""Networks of either activation and of several layers: all that is computed of them, against torch's own layers."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.control_variates import network_proxies
from implementations.kernels.contract import Data, Expansion
from implementations.tasks.activations import ACTIVATIONS
from implementations.tasks.data import regression
from implementations.tasks.derivatives import hessian, loss_and_gradient
from implementations.tasks.geometry import mean_curvature
from implementations.tasks.problem import Problem, body_features
from implementations.tasks.training import train_network
from tests import oracle

MODULES = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
LAYERS = ((3, 4), (5, 3), (4, 1))
NUM_POINTS, NOISE_SD, WEIGHT = 25, 0.4, 7.0
both = pytest.mark.parametrize("activation", ACTIVATIONS)


@cache
def network(activation: str) -> Problem:
    """Three layers, at a random place."""
    random = np.random.default_rng(11)
    features = np.column_stack([np.ones(NUM_POINTS), random.normal(size=(NUM_POINTS, 2))])
    targets, size = random.normal(size=NUM_POINTS), sum(rows * columns for rows, columns in LAYERS)
    given = {"layers": LAYERS, "stochastic": "all", "noise_sd": NOISE_SD, "activation": activation}
    return Problem.of(features, targets, map=random.normal(size=size), **given)


def modules(activation: str, parameters: np.ndarray) -> torch.nn.Sequential:
    """The same network out of torch's modules."""
    stack, start = [], 0
    for rows, columns in LAYERS:
        layer = torch.nn.Linear(rows - 1, columns).double()
        matrix = torch.from_numpy(parameters[start : start + rows * columns].reshape(rows, columns))
        start += rows * columns
        with torch.no_grad():
            layer.bias.copy_(matrix[0])
            layer.weight.copy_(matrix[1:].T)
        stack += [layer, MODULES[activation]()]
    return torch.nn.Sequential(*stack[:-1])


def losses_of(problem: Problem):
    """The losses of torch's backend, in double precision."""
    data = Data(torch.from_numpy(problem.features).double(), torch.from_numpy(problem.targets).double())
    return lambda position: torch_likelihood.point_losses(position, data, problem.model)


@both
def test_outputs_are_those_of_torchs_modules_in_every_library(activation) -> None:
    problem = network(activation)
    inputs = torch.from_numpy(problem.features[:, 1:]).double()
    outputs = modules(activation, problem.map)(inputs).detach().numpy()[:, 0]
    expected = 0.5 * ((problem.targets - outputs) / NOISE_SD) ** 2
    np.testing.assert_allclose(problem.outputs(problem.map, problem.features)[:, 0], outputs, rtol=1e-6)
    np.testing.assert_allclose(losses_of(problem)(torch.from_numpy(problem.map)), expected, rtol=1e-6)
    everything = np.arange(NUM_POINTS)
    np.testing.assert_allclose(oracle.point_losses(problem.map, problem, everything), expected, rtol=1e-6)
    with jax.enable_x64(True):
        data = Data(jnp.asarray(problem.features, float), jnp.asarray(problem.targets, float))
        found = np.asarray(jax_likelihood.point_losses(jnp.asarray(problem.map), data, problem.model))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@both
def test_gradient_hessian_and_curvature_are_those_of_automatic_differentiation(activation) -> None:
    problem = network(activation)
    losses, here = losses_of(problem), torch.from_numpy(problem.map)

    def total(position):
        return WEIGHT / NUM_POINTS * losses(position).sum()

    gradient = torch.func.grad(total)(here)
    np.testing.assert_allclose(loss_and_gradient(problem, problem.map, WEIGHT)[1], gradient, rtol=1e-9, atol=1e-11)
    everything = np.arange(NUM_POINTS)
    of_prior = problem.map / problem.prior_scale**2
    reference = oracle.gradient(problem.map, problem, everything, WEIGHT) - of_prior
    np.testing.assert_allclose(reference, gradient, rtol=1e-9, atol=1e-11)
    with jax.enable_x64(True):
        data = Data(jnp.asarray(problem.features, float), jnp.asarray(problem.targets, float))
        found = jax_likelihood.losses_and_gradient(jnp.asarray(problem.map)[None], data, WEIGHT, problem.model)[1]
        np.testing.assert_allclose(found[0] - of_prior, gradient, rtol=1e-9, atol=1e-11)
    expected = torch.func.hessian(total)(here)
    np.testing.assert_allclose(hessian(problem, problem.map, WEIGHT), expected, rtol=1e-9, atol=1e-10)

    def outputs(position):
        return torch_likelihood.network_outputs(
            position, torch.from_numpy(problem.features).double(), LAYERS, activation
        )[0]

    jacobian = torch.func.jacrev(outputs)(here)
    gauss_newton = jacobian.T @ jacobian / NUM_POINTS / NOISE_SD**2
    np.testing.assert_allclose(mean_curvature(problem, problem.map), gauss_newton, rtol=1e-9, atol=1e-10)


@both
@pytest.mark.parametrize("order", ["first", "second"])
@pytest.mark.parametrize("size", [0.02, 1.0])
def test_control_variates_leave_the_loss_less_its_taylor_polynomial(activation, order, size) -> None:
    """A large move takes units of relu across their kink."""
    problem = network(activation)
    losses, here = losses_of(problem), torch.from_numpy(problem.map)
    step = size * torch.from_numpy(np.random.default_rng(12).normal(size=len(here)))

    def slopes(place):
        return torch.func.jvp(losses, (place,), (step,))[1]

    expected = losses(here + step) - losses(here) - slopes(here)
    if order == "second":
        expected = expected - torch.func.jvp(slopes, (here,), (step,))[1] / 2
    data = Data(torch.from_numpy(problem.features).double(), torch.from_numpy(problem.targets).double())
    found = network_proxies.remainders((here + step)[None], data, Expansion(here, (), (), here), problem.model, order)[
        0
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_a_relu_task_of_three_layers_is_trained_and_cut_as_it_says() -> None:
    training = replace(regression.TASK.training, num_epochs=60, weight_sd=1.0)
    layers = ((2, 16), (17, 8), (9, 1))
    task = replace(regression.TASK.resize(200), name="own", layers=layers, activation="relu", training=training)
    points = task.load(0, Path()).train
    weights = train_network(task, points, 0, prior="gaussian", prior_scale=1.0, progress=False)
    features = body_features(weights[:2], points.inputs, "relu")
    assert features.min() >= 0 and (features[:, 1:] == 0).any()
    spread = np.std(points.targets)
    assert np.sqrt(np.mean((features @ weights[2][:, 0] - points.targets) ** 2)) < 0.6 * spread
