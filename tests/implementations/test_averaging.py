"""Averaged control variates: their slopes against automatic differentiation, their Gaussian against the posterior."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.known_problems import known_problem, log_odds_posterior
from implementations import backends
from implementations.backends import Inputs, Skipped, anchor_at
from implementations.control_variates import averaging
from implementations.control_variates.anchor import at_anchor
from implementations.methods import METHODS, resolve
from implementations.sampling import sample
from implementations.tasks.likelihoods import find_likelihood
from tests.implementations.chains import at_once
from tests.implementations.test_control_variates import two_class_moments
from tests.implementations.test_targets import NUM_ERRORS


@pytest.mark.parametrize("task", ["digits", "logistic", "counts", "linear"])
def test_a_mean_slope_is_half_the_third_derivative_of_the_loss(problem, task):
    prepared = problem(task)
    anchor, count = anchor_at(prepared, 200.0), 20
    moves = np.random.default_rng(4).normal(size=(3, prepared.num_outputs, count))
    likelihood = find_likelihood(prepared.likelihood)
    found = likelihood.mean_slope(at_anchor(prepared, anchor)[:count].T, moves)

    def loss(outputs, target):
        if prepared.likelihood == "categorical":
            return jax.nn.logsumexp(outputs) - outputs[target]
        if prepared.likelihood == "bernoulli":
            return jnp.logaddexp(0, outputs[0]) - target * outputs[0]
        if prepared.likelihood == "poisson":
            return jnp.exp(outputs[0]) - target * outputs[0]
        return (outputs[0] - target) ** 2 / (2 * prepared.noise_sd**2)

    derivatives = at_once(jax.jacfwd(jax.jacfwd(jax.grad(loss))))
    with jax.enable_x64(True):
        for point in range(count):
            here, target = jnp.asarray(anchor.outputs[point]), prepared.targets[point]
            third = derivatives(here, target)
            expected = np.einsum("kij,di,dj->k", third, moves[..., point], moves[..., point]) / len(moves) / 2
            np.testing.assert_allclose(found[:, point], expected, rtol=1e-6, atol=1e-9)


def test_the_gaussian_is_around_the_mean_and_not_the_mode():
    """At w = 60 the posterior of two classes is skewed; its mean is known from sums over a grid."""
    two_classes = known_problem("two_classes")
    mean, covariance = log_odds_posterior(two_classes, 60.0)
    anchor = anchor_at(two_classes, 60.0)
    found = averaging.averages(two_classes, anchor)
    sds = np.sqrt(covariance.diagonal())
    from_mode, from_centre = (
        np.linalg.norm((place[1::2] - place[0::2] - mean) / sds) for place in (anchor.position, found.centre)
    )
    assert from_mode > 0.1
    assert from_centre < 0.3 * from_mode


@pytest.mark.parametrize("factor", [-1.0, 0.0, 3.0])
def test_any_slopes_are_right_and_cost_noise_alone(monkeypatch, factor):
    """Wrong slopes with the sum that belongs to them: the same posterior."""
    _with(monkeypatch, slopes=factor, gradient=factor)
    shift, covariance, errors, _ = _moments()
    np.testing.assert_array_less(abs(shift), NUM_ERRORS * errors[0] + 0.02)
    np.testing.assert_array_less(abs(covariance.diagonal() - 1), NUM_ERRORS * errors[1] + 0.02)


@pytest.mark.parametrize("broken", [{"slopes": 0.0}, {"slopes": -1.0}, {"gradient": -1.0}, {"gradient": 0.0}])
def test_a_sum_that_does_not_belong_to_the_slopes_is_seen(monkeypatch, broken):
    _with(monkeypatch, **broken)
    shift, covariance, errors, _ = _moments()
    is_off = abs(covariance.diagonal() - 1) > NUM_ERRORS * errors[1] + 0.02
    assert is_off.any() or (abs(shift) > NUM_ERRORS * errors[0] + 0.02).any()


def _with(monkeypatch, slopes: float = 1.0, gradient: float = 1.0) -> None:
    def other(problem, anchor):
        found = averaging.averages(problem, anchor)
        return replace(found, slopes=np.float32(slopes) * found.slopes, gradient=gradient * found.gradient)

    monkeypatch.setattr(backends, "averaged_at", other)


def _moments():
    # So few data that the slopes matter.
    given = {"step_size": 0.2, "batch_size": 60, "weight": 60.0}
    return two_class_moments("pbnn_cn", "jax-cpu", proxy="averaged", **given)


@pytest.mark.parametrize(("task", "given"), [("density", {}), ("regression", {"stochastic": "all"})])
def test_where_there_is_nothing_to_average_a_row_says_so(problem, task, given):
    prepared = problem(task, **given)
    settings = resolve("pbnn_cn", {"proxy": "averaged", "weight": 20.0}, prepared)
    with pytest.raises(Skipped, match="proxy = averaged is not applicable"):
        Inputs(prepared, METHODS["pbnn_cn"], settings)
    assert sample(prepared, "pbnn_cn", settings).status == "skipped"
