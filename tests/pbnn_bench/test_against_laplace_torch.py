"""The card ``laplace`` against laplace-torch, whose numbers are kept with the script that made them."""

import json

import numpy as np
import pytest

from implementations.backends import anchor_at
from implementations.methods import find_method
from implementations.tasks import at_mode
from implementations.tasks.geometry import target_precision
from implementations.tasks.problem import Problem as PlainProblem
from implementations.tasks.problem import with_bias
from pbnn_bench import Problem, sample
from tests.pbnn_bench.laplace_torch import KEPT

THEIRS = json.loads(KEPT.read_text(encoding="utf-8"))
WEIGHTS = list(THEIRS["by weight"])


@pytest.fixture(scope="module")
def problem():
    features = with_bias(np.array(THEIRS["features"]))
    return at_mode(Problem.of(features, np.array(THEIRS["targets"]), likelihood="categorical"))


def in_our_order(weights: list[list[float]], bias: list[float]) -> np.ndarray:
    """Ours is row after row of [bias; weights^T]."""
    return np.vstack([bias, np.transpose(weights)]).ravel()


def their_places(num_features: int, num_classes: int) -> np.ndarray:
    """Where each of our parameters stands in a vector of laplace-torch: the weights class by class, then the biases."""
    places = np.arange(num_classes * (num_features + 1))
    weights = places[: num_classes * num_features].reshape(num_classes, num_features)
    return in_our_order(weights.tolist(), places[num_classes * num_features :].tolist()).astype(int)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_mode_and_covariance_agree(problem, weight):
    theirs = THEIRS["by weight"][weight]
    anchor = anchor_at(problem, float(weight))
    np.testing.assert_allclose(anchor.position, in_our_order(theirs["weight"], theirs["bias"]), atol=1e-5)
    places = their_places(2, 3)
    expected = np.array(theirs["covariance"])[np.ix_(places, places)]
    precision = anchor.curvature + np.eye(len(places))
    np.testing.assert_allclose(np.linalg.inv(precision), expected, atol=1e-5)


def test_the_usual_laplace_is_that_of_weight_n(problem):
    assert find_method("laplace").settings["weight"].default == "data"
    places = their_places(2, 3)
    expected = np.array(THEIRS["by weight"]["60"]["covariance"])[np.ix_(places, places)]
    np.testing.assert_allclose(np.linalg.inv(target_precision(problem, 60)), expected, atol=1e-4)


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_predictions_agree_to_the_monte_carlo_error(problem, weight, backend):
    settings = {"weight": weight, "num_steps": 10_000, "num_warmup": 0, "thin": 1, "chains": 4}
    draws = sample(problem, "laplace", settings, backend, is_audited=False).draws.positions
    found = problem.predict(draws, with_bias(np.array(THEIRS["new"])))
    # Four standard errors of 40,000 draws, and theirs of 200,000.
    error = 4 * found.sd * np.sqrt(1 / 40_000 + 1 / THEIRS["num_samples"])
    assert (np.abs(found.mean - np.array(THEIRS["by weight"][weight]["probabilities"])) < error).all()


def test_a_plain_problem_is_the_same_problem(problem):
    plain = at_mode(PlainProblem.of(problem.features, problem.targets, likelihood="categorical"))
    np.testing.assert_array_equal(plain.map, problem.map)
