"""The gold standard of a network, against draws of the prior that are weighed by the likelihood."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from implementations.tasks.derivatives import loss_and_gradient
from implementations.tasks.problem import Problem, network_outputs
from implementations.tasks.references import all_layers
from implementations.tasks.references.all_layers import LastLayer, Measure, exchange, ladder, sample, starts_of
from implementations.tasks.references.one_layer import log_likelihood_of, slices
from tests.implementations.networks import tiny_network_problem

WEIGHT = 3.0


def log_likelihoods(problem: Problem, draws: np.ndarray) -> np.ndarray:
    outputs = network_outputs(draws, problem.features.astype(float), problem.layers)[..., 0]
    if problem.likelihood == "bernoulli":
        losses = np.logaddexp(0, outputs) - problem.targets * outputs
    else:
        losses = np.square(outputs - problem.targets) / (2 * 0.3**2)
    return -WEIGHT * losses.mean(axis=-1)


@pytest.mark.parametrize(("likelihood", "lowest"), [("gaussian", 10.0), ("gaussian", 0.3), ("bernoulli", 10.0)])
def test_predictions_are_those_of_the_prior_weighed_by_the_likelihood(likelihood, lowest, monkeypatch):
    """With the last layer integrated out, the same over a ladder of weights, and with all layers in the chain."""
    monkeypatch.setattr(all_layers, "LOWEST_WEIGHT", lowest)
    problem = tiny_network_problem(likelihood=likelihood)
    draws = np.random.default_rng(1).standard_normal((200_000, 7))
    logs = log_likelihoods(problem, draws)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    outputs = network_outputs(draws, problem.test_features.astype(float), problem.layers)[..., 0]
    mean = weights @ outputs
    sd = np.sqrt(weights @ np.square(outputs - mean))
    kish = 1 / np.square(weights).sum()
    assert kish > 5_000
    found = sample(problem, WEIGHT, seed=1, chains=4, num_warmup=200, num_draws=400)
    values = network_outputs(found.draws, problem.test_features.astype(float), problem.layers)[..., 0]
    # A draw is worth a third of an independent one here, at the least.
    error = np.sqrt(1 / kish + 3 / 1600)
    assert np.abs((values.mean(axis=(0, 1)) - mean) / sd).max() < 4 * error
    # Tails heavier than normal: an sd is known half as well as 1 / sqrt(2 S) says.
    np.testing.assert_allclose(values.std(axis=(0, 1)), sd, rtol=4 * 2 * error / np.sqrt(2))
    assert found.num_divergences == 0 and 0.6 < found.acceptance < 0.99
    # Log likelihoods belong to their draws, up to one constant.
    np.testing.assert_allclose(np.ptp(found.log_likelihood - log_likelihoods(problem, found.draws)), 0, atol=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_likelihood_of_a_network_is_that_of_numpy_also_where_zeros_fill_a_slice(activation):
    """1,200 points make one slice and a fifth."""
    problem = replace(tiny_network_problem(1200, "bernoulli"), activation=activation)
    places = problem.map + np.random.default_rng(0).standard_normal((2, 7))
    with jax.enable_x64(True):
        of = jax.jit(jax.value_and_grad(log_likelihood_of(problem, 50.0, slices(problem))))
        values, gradients = zip(*(of(jnp.asarray(place)) for place in places), strict=True)
    losses, expected = zip(*(loss_and_gradient(problem, place, 50.0) for place in places), strict=True)
    np.testing.assert_allclose(float(values[1] - values[0]), losses[0] - losses[1], rtol=1e-9)
    np.testing.assert_allclose(-np.array(gradients), expected, rtol=1e-9, atol=1e-9)


def test_half_of_the_chains_begin_around_the_trained_weights_and_half_at_the_prior():
    problem = tiny_network_problem()
    starts = starts_of(problem, 30.0, 400, 0)
    around, far = starts[:200], starts[200:]
    spread = 2 * np.sqrt(np.linalg.inv(np.eye(7) + 30 * problem.curvature).diagonal())
    np.testing.assert_allclose(around.mean(axis=0), problem.map, atol=(4 * spread / np.sqrt(200)).max())
    np.testing.assert_allclose(around.std(axis=0), spread, rtol=4 / np.sqrt(400))
    np.testing.assert_allclose(far.mean(axis=0), 0, atol=4 / np.sqrt(200))
    np.testing.assert_allclose(far.std(axis=0), 1, rtol=4 / np.sqrt(400))


def test_nodes_stand_for_all_points():
    """A hundred of them give the likelihood with the last layer integrated out; ten do not."""
    problem = tiny_network_problem(1200)
    parameters = jnp.asarray([0.5, -2.0, 4.0, 7.0])
    with jax.enable_x64(True):
        whole = Measure.of(problem)
        evidence, near, far = (
            float(LastLayer.of(problem, 1200.0, parameters, points).log_evidence)
            for points in (whole, whole.at_nodes(), whole.at_nodes(10))
        )
    assert whole.at_nodes().features.shape == (2, 100)
    # The likelihood by hand: y is Gaussian with covariance h h^T / s^2 + noise, up to what does not depend on h.
    hidden = np.tanh(problem.features.astype(float) @ np.asarray(parameters).reshape(2, 2))
    hidden = np.column_stack([np.ones(1200), hidden])
    covariance = np.eye(1200) + hidden @ hidden.T / 0.3**2
    targets = problem.targets.astype(float)
    by_hand = targets @ (targets - np.linalg.solve(covariance, targets)) / (2 * 0.3**2)
    by_hand -= np.linalg.slogdet(covariance)[1] / 2
    np.testing.assert_allclose(evidence, by_hand, rtol=1e-8)
    np.testing.assert_allclose(near, evidence, atol=1e-4)
    assert abs(far - evidence) > 1


def test_an_exchange_keeps_the_target_of_every_rung():
    """Independent draws of N(0, 1 / w) at each rung stay such; both parities move them."""
    weights = jnp.asarray([1.0, 2.0, 6.0])
    positions = jax.random.normal(jax.random.key(0), (40_000, 3, 1)) / jnp.sqrt(weights)[:, None]
    for parity in (0, 1):
        found = exchange(
            jax.random.key(1), positions, lambda place, weight: -weight / 2 * place @ place, weights, parity
        )
        moved = np.asarray((found != positions).mean(axis=(0, 2)))
        assert moved[parity] == moved[parity + 1] > 0.3 and moved[2 - 2 * parity] == 0
        np.testing.assert_allclose(np.asarray(found.std(axis=0))[:, 0] * np.sqrt(weights), 1, rtol=4 / np.sqrt(80_000))
        positions = found


def test_a_ladder_ends_at_its_weight_and_is_one_rung_where_chains_go_anywhere():
    assert ladder(10.0, 61).tolist() == [10.0] and ladder(3.0, 61).tolist() == [3.0]
    rungs = ladder(2000.0, 61)
    assert (rungs[0], rungs[-1]) == pytest.approx((10.0, 2000.0))
    assert len(rungs) == 24 and np.diff(np.log(rungs)).max() * np.sqrt(61) <= 1.8
