"""Convergence of chains whose effective sample size is known, and of chains that have none."""

from dataclasses import asdict

import numpy as np
import pytest
from arviz_stats.base import array_stats

from metrics.convergence import bulk_ess, convergence, r_hat, split_chains, tail_ess

SHAPE = (4, 2000, 12)


def autoregressive(correlation, shape=SHAPE, seed=0):
    """Stationary chains x_t = correlation x_{t-1} + noise of variance 1; their ESS is S (1 - c) / (1 + c)."""
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    noise = rng.normal(size=shape) * np.sqrt(1 - correlation**2)
    noise[:, 0] = rng.normal(size=(shape[0], shape[2]))
    return lfilter([1], [1, -correlation], noise, axis=1)


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.5, 0.9])
def test_ess_of_autoregressive_chains_is_the_known_one(correlation):
    found = convergence(autoregressive(correlation))
    expected = SHAPE[0] * SHAPE[1] * (1 - correlation) / (1 + correlation)
    # The median of twelve estimates, each within some ten per cent at this length.
    assert found.median_bulk_ess == pytest.approx(expected, rel=0.1)
    assert 0.6 * expected < found.min_bulk_ess < found.median_bulk_ess
    # Indicators of the tails are less correlated than the chain, if it is correlated at all.
    assert found.median_tail_ess > 0.8 * min(expected, SHAPE[0] * SHAPE[1])
    assert found.min_tail_ess <= found.median_tail_ess
    assert 0.99 < found.r_hat < 1.02
    assert found.reason is None


@pytest.mark.parametrize("shape", [(2, 4, 6), (3, 11, 6), (4, 250, 6)])
@pytest.mark.parametrize("correlation", [-0.9, 0.5, 0.99])
def test_every_number_is_that_of_arviz(shape, correlation):
    """With chains apart in place and in scale, ties, indicators, and lengths at which Geyer's sequence has no end."""
    traces = autoregressive(correlation, shape)
    traces[0, :, 1] += 1
    traces[1, :, 2] *= 4
    traces[:, :, 3] = np.round(traces[:, :, 3])
    traces[:, :, 4] = np.arange(shape[1]) % 3 == 0
    # arviz drops the middle one of an odd number of draws.
    even = np.moveaxis(traces[:, : shape[1] // 2 * 2], 2, 0)
    halves = split_chains(traces)
    # Where half chains of two draws stand still, arviz divides by 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(r_hat(halves), array_stats.rhat(even), rtol=1e-13)
    np.testing.assert_allclose(bulk_ess(halves), array_stats.ess(even), rtol=1e-12)
    tail = array_stats.ess(even, method="tail", prob=(0.05, 0.95))
    np.testing.assert_allclose(tail_ess(halves), tail, rtol=1e-12)
    found = convergence(traces)
    assert found.r_hat in (None, r_hat(halves).max()) and found.min_bulk_ess == bulk_ess(halves).min()
    assert found.median_tail_ess == pytest.approx(np.median(tail))


@pytest.mark.parametrize(
    "change", [lambda x: x + np.arange(4)[:, None, None], lambda x: x * [[[1]], [[1]], [[1]], [[5]]]]
)
def test_chains_that_differ_in_place_or_in_scale_are_found_out(change):
    assert convergence(change(autoregressive(0.0))).r_hat > 1.05


def test_constant_chains_have_no_diagnostics_and_say_so():
    found = convergence(np.ones((4, 100, 3)))
    assert found.r_hat is None and found.min_bulk_ess is None and found.median_tail_ess is None
    assert found.reason == "constant chains: no quantity ever changes"


@pytest.mark.parametrize("num_draws_at_a_value", [100, 50])
def test_chains_stuck_each_at_its_own_value_have_no_finite_r_hat(num_draws_at_a_value):
    values = np.arange(400 // num_draws_at_a_value)
    found = convergence(values.repeat(num_draws_at_a_value).reshape(4, 100, 1))
    assert found.r_hat is None
    assert "R-hat is infinite" in found.reason
    assert found.min_bulk_ess < 10


@pytest.mark.parametrize("is_apart", [False, True])
def test_rounding_is_no_change(is_apart):
    """Single precision: of a log likelihood of -300, the last digit is 3e-5."""
    places = np.array([-300.0, -301.0])[:, None, None] if is_apart else np.full((2, 1, 1), -300.0)
    traces = places + np.random.default_rng(0).normal(size=(2, 100, 1)) * 5e-6
    found = convergence(traces)
    assert found.r_hat is None
    assert ("R-hat is infinite" if is_apart else "constant chains") in found.reason


def test_a_quantity_that_never_changes_is_left_out_and_counted():
    traces = autoregressive(0.0)
    with_constant = np.concatenate([traces, np.ones((*SHAPE[:2], 1))], axis=2)
    found, expected = asdict(convergence(with_constant)), asdict(convergence(traces))
    assert found.pop("reason") == "1 of 13 quantities never change and are left out"
    expected.pop("reason")
    assert found == expected


@pytest.mark.parametrize(
    ("traces", "reason"),
    [
        (np.zeros((4, 1, 2)), "1 draws per chain: at least 4 are needed"),
        (np.full((4, 100, 2), np.nan), "2 of 2 quantities are not finite"),
        (np.full((4, 100, 1), np.inf), "1 of 1 quantities are not finite"),
    ],
)
def test_too_few_or_infinite_draws_are_reported_as_undefined(traces, reason):
    found = convergence(traces)
    assert found.reason == reason
    assert {value for name, value in asdict(found).items() if name != "reason"} == {None}


def test_one_chain_has_an_ess_but_no_r_hat():
    found = convergence(autoregressive(0.0)[:1])
    assert found.r_hat is None and found.reason == "one chain: R-hat needs two"
    assert found.median_bulk_ess == pytest.approx(SHAPE[1], rel=0.2)
