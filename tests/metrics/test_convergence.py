"""Convergence of chains whose effective sample size is known, its price, and tails of importance weights."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from arviz_stats.base import array_stats

from metrics.convergence import (
    Efficiency,
    bulk_ess,
    convergence,
    efficiency,
    pareto_k,
    r_hat,
    split_chains,
    tail_ess,
)

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


def test_efficiency_of_a_case_worked_by_hand():
    found = efficiency(
        ess=400, seconds=8, num_likelihoods=2_000_000, num_gradients=500_000, num_steps=1000, num_points=5000
    )
    assert found == Efficiency(50.0, 200.0, 800.0, data_fraction=0.5)


def test_an_undefined_ess_has_an_undefined_efficiency_but_a_data_fraction():
    assert efficiency(None, 1.0, 10, 10, 10, 10) == Efficiency(None, None, None, 0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": 0.0}, "seconds = 0.0"),
        ({"seconds": float("nan")}, "seconds = nan"),
        ({"num_steps": 0}, "num_steps = 0"),
    ],
)
def test_a_run_that_took_no_time_or_no_step_is_refused(change, message):
    arguments = {"ess": 1.0, "seconds": 1.0, "num_likelihoods": 1, "num_gradients": 1, "num_steps": 1, "num_points": 1}
    with pytest.raises(ValueError, match=message):
        efficiency(**(arguments | change))


@pytest.mark.parametrize("count", [30, 224, 300, 1000])
@pytest.mark.parametrize("sd", [1e-6, 0.2, 3.0])
def test_it_is_that_of_arviz(count, sd):
    log_weights = sd * np.random.default_rng(count).standard_normal(count)
    # It takes log likelihoods, which weigh as their inverse.
    assert pareto_k(log_weights) == pytest.approx(float(array_stats.psislw(-log_weights)[1]), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_it_is_the_shape_of_a_pareto_tail(shape):
    """Weights U^-k have a tail of that shape exactly; 950 of 100,000 tell it to some 5 per cent."""
    uniform = np.random.default_rng(0).random(100_000)
    assert pareto_k(-shape * np.log(uniform)) == pytest.approx(shape, abs=0.15)


def test_equal_weights_and_few_have_no_tail():
    assert pareto_k(np.zeros(1000)) == math.inf
    assert pareto_k(np.arange(24.0)) == math.inf
