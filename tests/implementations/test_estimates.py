"""The estimates of the loss difference and its variance, against numpy: decisions alone hardly tell N from N - 1."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy import stats

from implementations.kernels import estimates

CHAINS, NUM_BATCHES, BATCH_SIZE, NUM_POINTS, WEIGHT = 3, 4, 5, 50, 7.0
both = pytest.mark.parametrize("to_array", [jnp.asarray, torch.as_tensor], ids=["jax", "torch"])


@pytest.fixture
def numbers():
    generator = np.random.default_rng(0)
    drop = generator.normal(size=CHAINS).astype(np.float32)
    return generator.normal(size=(CHAINS, NUM_POINTS)).astype(np.float32), drop


@both
def test_a_difference_of_all_points_has_no_variance(to_array, numbers):
    differences, drop = numbers
    delta, variance = estimates.of_all(*map(to_array, numbers), WEIGHT)
    np.testing.assert_allclose(delta, drop + WEIGHT * differences.mean(axis=1), rtol=1e-5)
    assert not np.any(np.asarray(variance))


@both
@pytest.mark.parametrize("kind", ["batches", "single", "points"])
def test_mini_batches_have_the_variance_of_their_formula(to_array, numbers, kind):
    count = NUM_BATCHES * BATCH_SIZE
    differences = numbers[0][:, :count].reshape(CHAINS, NUM_BATCHES, BATCH_SIZE)
    deltas = numbers[1][:, None] + WEIGHT / BATCH_SIZE * differences.sum(axis=2)
    spread = np.sum((deltas - deltas.mean(axis=1, keepdims=True)) ** 2, axis=1) / (NUM_BATCHES - 1)
    of_points = differences.reshape(CHAINS, count).var(axis=1, ddof=1)
    expected = {
        "batches": (deltas.mean(axis=1), spread / NUM_BATCHES),
        "single": (deltas[:, 0], spread),
        "points": (deltas.mean(axis=1), WEIGHT**2 * of_points / count * (1 - count / NUM_POINTS)),
    }
    found = estimates.of_batches(to_array(differences), to_array(numbers[1]), WEIGHT, NUM_POINTS, kind)
    for ours, theirs in zip(found, expected[kind], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@both
def test_the_known_variance_is_that_over_all_draws(to_array, numbers):
    """Drawn without replacement: the spread of the means of many draws is the known one."""
    generator, count = np.random.default_rng(1), 5
    found = np.asarray(estimates.known_variance(to_array(numbers[0]), WEIGHT, count))
    expected = WEIGHT**2 / count * numbers[0].var(axis=1, ddof=1) * (1 - count / NUM_POINTS)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    draws = generator.permuted(np.broadcast_to(numbers[0][0], (40_000, NUM_POINTS)), axis=1)[:, :count]
    # The Monte Carlo error of a variance from so many draws is sqrt(2 / 40,000) = 0.7 per cent.
    assert (WEIGHT * draws.mean(axis=1)).var() == pytest.approx(found[0], rel=0.03)


@both
def test_the_shape_of_a_difference_is_that_over_all_draws(to_array):
    """Exponential differences, drawn without replacement, against the moments of many means."""
    generator, count, num_draws = np.random.default_rng(3), 8, 200_000
    differences = generator.exponential(size=(2, NUM_POINTS)).astype(np.float32)
    skewness, kurtosis = (np.asarray(part) for part in estimates.shape_of_delta(to_array(differences), count))
    order = generator.permuted(np.broadcast_to(differences[0], (num_draws, NUM_POINTS)), axis=1)
    means = order[:, :count].mean(axis=1)
    # Errors of sqrt(6 / S) and sqrt(24 / S), and terms of order 1 / N that the formulas leave out.
    assert skewness[0] == pytest.approx(stats.skew(means), abs=4 * np.sqrt(6 / num_draws) + 0.02)
    assert kurtosis[0] == pytest.approx(stats.kurtosis(order[:, 0]) / count, abs=0.05)
    nothing = estimates.shape_of_delta(to_array(np.ones((1, NUM_POINTS), np.float32)), count)
    assert float(nothing[0][0]) == 0
