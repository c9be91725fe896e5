"""Curvature, preconditioners and start points."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from implementations.infrastructure.errors import SettingError
from implementations.tasks import geometry
from implementations.tasks.geometry import mean_curvature, preconditioner_factor, start_points
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior


def _shrunk(problem: Problem, num_points: int = 40) -> Problem:
    """The first few points, so that torch's Hessian is quick."""
    return replace(problem, features=problem.features[:num_points], targets=problem.targets[:num_points])


def _torch_outputs(problem: Problem, parameters: torch.Tensor) -> torch.Tensor:
    hidden, start = torch.from_numpy(problem.features).double(), 0
    for number, (rows, columns) in enumerate(problem.layers):
        matrix = parameters[start : start + rows * columns].reshape(rows, columns)
        start += rows * columns
        hidden = hidden @ matrix
        if number < len(problem.layers) - 1:
            hidden = torch.cat([torch.ones(len(hidden), 1, dtype=torch.float64), torch.tanh(hidden)], dim=1)
    return hidden


def _torch_loss(problem: Problem, outputs: torch.Tensor) -> torch.Tensor:
    if problem.likelihood == "gaussian":
        return ((outputs[:, 0] - torch.from_numpy(problem.targets)) ** 2).mean() / (2 * problem.noise_sd**2)
    if problem.likelihood == "bernoulli":
        targets = torch.from_numpy(problem.targets).double()
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets)
    return torch.nn.functional.cross_entropy(outputs, torch.from_numpy(problem.targets).long())


@pytest.mark.parametrize("name", ["linear", "regression", "digits", "logistic"])
def test_the_curvature_of_one_layer_is_the_hessian_of_the_mean_loss(problem, name) -> None:
    small = _shrunk(problem(name))
    parameters = torch.from_numpy(small.map).double()
    expected = hessian(lambda theta: _torch_loss(small, _torch_outputs(small, theta)), parameters).numpy()
    np.testing.assert_allclose(mean_curvature(small, small.map), expected, rtol=1e-9, atol=1e-9 * expected.max())


@pytest.mark.parametrize("name", ["regression", "digits", "late or not"])
def test_the_curvature_of_two_layers_is_the_gauss_newton_matrix(problem, name) -> None:
    small = _shrunk(problem("digits" if name == "digits" else "regression", stochastic="all"))
    if name == "late or not":
        small = replace(small, likelihood="bernoulli", targets=(small.targets > 0).astype(np.int32))
    parameters = torch.from_numpy(small.map).double()
    outputs = _torch_outputs(small, parameters)
    outer = jacobian(lambda theta: _torch_outputs(small, theta).ravel(), parameters, vectorize=True)
    inner = hessian(lambda values: _torch_loss(small, values.reshape(outputs.shape)), outputs.ravel())
    gauss_newton = (outer.T @ inner @ outer).numpy()
    curvature = mean_curvature(small, small.map)
    np.testing.assert_allclose(curvature, gauss_newton, rtol=1e-8, atol=1e-9 * gauss_newton.max())


def test_the_curvature_of_many_points_is_that_of_their_chunks_together(problem, monkeypatch) -> None:
    prepared = problem("logistic")
    whole = mean_curvature(prepared, prepared.map)
    monkeypatch.setattr("implementations.tasks.problem.CHUNK", 997)
    np.testing.assert_allclose(mean_curvature(prepared, prepared.map), whole, rtol=1e-12, atol=1e-15)


def test_above_the_limit_the_diagonal_of_the_same_matrix_is_kept(problem, monkeypatch) -> None:
    small = _shrunk(problem("digits", stochastic="all"), num_points=1100)
    full = mean_curvature(small, small.map)
    monkeypatch.setattr(geometry, "MAX_FULL_CURVATURE", small.num_parameters - 1)
    np.testing.assert_allclose(mean_curvature(small, small.map), full.diagonal(), rtol=1e-9)


@pytest.mark.parametrize("weight", [5.0, 2000.0])
def test_the_full_preconditioner_whitens_the_exact_posterior(problem, weight) -> None:
    factor = preconditioner_factor(problem("regression"), weight, "full")
    assert np.array_equal(factor, np.tril(factor))
    whitener = np.linalg.inv(factor)
    covariance = gaussian_posterior(problem("regression"), weight).covariance
    np.testing.assert_allclose(whitener @ covariance @ whitener.T, np.eye(21), atol=1e-6)


def test_the_diagonal_preconditioner_inverts_the_diagonal_of_the_precision(problem) -> None:
    factor = preconditioner_factor(problem("regression"), 5.0, "diagonal")
    precision = np.linalg.inv(gaussian_posterior(problem("regression"), 5.0).covariance)
    np.testing.assert_allclose(factor**2 * precision.diagonal(), 1, rtol=1e-6)


def test_a_full_preconditioner_of_a_stored_diagonal_is_refused(problem) -> None:
    diagonal = replace(problem("regression"), curvature=problem("regression").curvature.diagonal())
    with pytest.raises(SettingError, match=r"'full' needs the whole curvature.*'regression'.*has 21: use 'diagonal'"):
        preconditioner_factor(diagonal, 5.0, "full")
    np.testing.assert_array_equal(
        preconditioner_factor(diagonal, 5.0, "diagonal"), preconditioner_factor(problem("regression"), 5.0, "diagonal")
    )


@pytest.mark.parametrize("weight", [5.0, 2000.0])
def test_start_points_are_twice_as_wide_as_the_posterior_around_the_map(problem, weight) -> None:
    prepared, chains = problem("regression"), 20_000
    posterior = gaussian_posterior(prepared, weight)
    points = start_points(prepared, weight, chains, seed=3)
    whitened = np.linalg.solve(np.linalg.cholesky(posterior.covariance), (points - prepared.map).T)
    # Five Monte Carlo errors of a mean and of an sd.
    assert np.abs(whitened.mean(axis=1)).max() < 5 * 2 / np.sqrt(chains)
    np.testing.assert_allclose(whitened.std(axis=1), 2, rtol=5 / np.sqrt(2 * chains))
