"""Modes, against other optimisers and the conditions that define a minimum."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.linear_model import Lasso, LogisticRegression

from implementations.tasks.problem import Problem
from implementations.tasks.references.mode import find_mode, loss_and_gradient


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


def test_rounding_in_a_tall_sum_does_not_cost_pass_after_pass(problem, monkeypatch) -> None:
    prepared = replace(problem("logistic"), map=np.zeros(8, np.float32))
    passes = []

    def noisy(*arguments):
        """Every value is a little above the one before: of a converged search none falls."""
        loss, gradient = loss_and_gradient(*arguments)
        passes.append(loss)
        return loss * (1 + 2e-16 * len(passes)), gradient

    monkeypatch.setattr("implementations.tasks.references.mode.loss_and_gradient", noisy)
    monkeypatch.setattr("implementations.tasks.references.mode.CHUNK", 9_999)
    mode = find_mode(prepared, 10_000)
    assert len(passes) < 12
    np.testing.assert_allclose(mode, problem("logistic").map, atol=1e-6)


def test_a_search_among_many_points_says_how_far_it_is(problem, monkeypatch, capsys) -> None:
    prepared = replace(problem("logistic"), map=np.zeros(8, np.float32))
    find_mode(prepared, 10_000, progress=True)
    assert capsys.readouterr().err == "", "ten thousand points take no time"
    monkeypatch.setattr("implementations.tasks.references.mode.SHOW_FROM", 10_000)
    find_mode(prepared, 10_000)
    assert capsys.readouterr().err == ""
    find_mode(prepared, 10_000, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("mode of logistic, 10,000 points: step 1, U falls by ") and 4 < len(lines) < 10


def test_the_stored_map_is_the_mode_given_all_data(problem) -> None:
    prepared = problem("digits")
    np.testing.assert_allclose(prepared.map, find_mode(prepared, 1200), rtol=1e-5, atol=1e-5)


def test_a_laplace_mode_is_lasso_where_lasso_converges(problem) -> None:
    prepared = problem("linear", prior="laplace", prior_scale=0.05)
    for weight in (10.0, 100.0):
        # scikit-learn minimises |y - X theta|^2 / (2 N) + alpha |theta|.
        other = Lasso(alpha=0.5**2 / weight / 0.05, fit_intercept=False, tol=1e-12)
        other.fit(prepared.features.astype(float), prepared.targets.astype(float))
        np.testing.assert_allclose(find_mode(prepared, weight), other.coef_, atol=1e-6)
    # The prior is strong enough at w = 10 for an exact zero, and Lasso agrees.
    assert np.abs(find_mode(prepared, 10.0)).min() < 1e-9


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
