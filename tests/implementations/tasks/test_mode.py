"""Modes, against other optimisers and the conditions that define a minimum."""

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.linear_model import LogisticRegression

from implementations.tasks.problem import Problem
from implementations.tasks.references.mode import find_mode


def _loss_gradient(problem: Problem, parameters: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
    """(w/N) sum_j l_j and its gradient, by torch."""
    theta = torch.tensor(parameters, dtype=torch.float64, requires_grad=True)
    outputs = torch.from_numpy(problem.features).double() @ theta.reshape(problem.layers[0])
    targets = torch.from_numpy(problem.targets)
    if problem.likelihood == "gaussian":
        loss = ((outputs[:, 0] - targets) ** 2).sum() / (2 * problem.noise_sd**2)
    else:
        loss = torch.nn.functional.cross_entropy(outputs, targets.long(), reduction="sum")
    loss = weight / problem.num_points * loss
    loss.backward()
    assert theta.grad is not None
    return loss.item(), theta.grad.numpy()


@pytest.mark.parametrize("weight", [10.0, 1200.0])
def test_the_softmax_mode_is_the_one_of_logistic_regression(problem, weight) -> None:
    prepared = problem("digits")
    # scikit-learn minimises C sum_j l_j + |theta|^2 / 2.
    other = LogisticRegression(C=weight / 1200, fit_intercept=False, solver="newton-cholesky", tol=1e-8)
    other.fit(prepared.features.astype(float), prepared.targets)
    np.testing.assert_allclose(find_mode(prepared, weight).reshape(21, 10), other.coef_.T, atol=1e-5)


@pytest.mark.parametrize("weight", [10.0, 10_000.0])
@pytest.mark.parametrize("chunk", [2**16, 997])
def test_the_mode_of_log_odds_is_the_one_of_logistic_regression(problem, weight, chunk, monkeypatch) -> None:
    monkeypatch.setattr("implementations.tasks.problem.CHUNK", chunk)
    monkeypatch.setattr("implementations.tasks.references.mode.CHUNK", chunk)
    prepared = problem("logistic")
    other = LogisticRegression(C=weight / 10_000, fit_intercept=False, solver="newton-cholesky", tol=1e-8)
    other.fit(prepared.features.astype(float), prepared.targets)
    np.testing.assert_allclose(find_mode(prepared, weight), other.coef_[0], atol=1e-6)


@pytest.mark.parametrize(("name", "weight"), [("regression", 5.0), ("regression", 2000.0), ("digits", 1200.0)])
def test_a_laplace_mode_meets_the_conditions_of_a_minimum(problem, name, weight) -> None:
    prepared = problem(name, prior="laplace")
    mode = find_mode(prepared, weight)
    gradient = _loss_gradient(prepared, mode, weight)[1]
    is_zero = np.abs(mode) < 1e-6
    # 0 in the subdifferential: -gradient = sign(theta) / b where theta != 0, and |gradient| <= 1 / b where it is 0.
    np.testing.assert_allclose(gradient[~is_zero], -np.sign(mode[~is_zero]), atol=1e-3)
    assert (np.abs(gradient[is_zero]) < 1 + 1e-3).all()
    assert is_zero.any(), "an L1 penalty sets some of these parameters to zero"


def test_no_other_optimiser_finds_less_than_a_laplace_mode(problem) -> None:
    prepared, weight = problem("digits", prior="laplace"), 100.0

    def split(halves: np.ndarray) -> tuple[float, np.ndarray]:
        """U_w of theta = u - v with u, v >= 0, which is smooth."""
        positive, negative = halves.reshape(2, -1)
        loss, gradient = _loss_gradient(prepared, positive - negative, weight)
        return loss + halves.sum(), np.concatenate([1 + gradient, 1 - gradient])

    mode = find_mode(prepared, weight)
    ours = _loss_gradient(prepared, mode, weight)[0] + np.abs(mode).sum()
    other = optimize.minimize(split, np.full(420, 0.1), jac=True, method="L-BFGS-B", bounds=optimize.Bounds(0, np.inf))
    assert ours <= other.fun + 1e-6
    assert ours == pytest.approx(other.fun, abs=0.05), "L-BFGS-B stops close by"
