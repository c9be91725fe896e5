"""Deviations from a reference, against closed forms, and that Monte Carlo error is not called bias."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.fidelity import (
    agreement,
    mean_error,
    point_error,
    sd_ratio,
    sliced_w2_to_draws,
    sliced_w2_to_gaussian,
    squared_bias,
    total_variation,
)

SETTINGS = settings(max_examples=25)
#: So many evenly spaced quantiles that they stand for the law itself.
QUANTILES = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)


def covariance_of(num_parameters, seed=0):
    root = np.random.default_rng(seed).normal(size=(num_parameters, num_parameters))
    return root @ root.T + 0.1 * np.eye(num_parameters)


# Predictive moments


def test_the_mean_error_is_in_units_of_the_reference_sd():
    reference_sd = np.array([1.0, 2.0, 3.0])
    found = mean_error(0.5 * reference_sd, reference_sd, np.zeros(3), reference_sd, ess=100)
    assert found.value == pytest.approx(0.5)
    assert found.monte_carlo_error == pytest.approx(0.1)
    assert found.is_resolved


def claims_of_unbiased_samplers(statistic, ess=100, reference_ess=400, num_repeats=2000):
    """Share of exact samplers of N(0, 1) that are called biased, against the draws of another such sampler."""
    rng = np.random.default_rng(7)
    draws = rng.normal(size=(num_repeats, 1, ess))
    reference = rng.normal(size=(num_repeats, 1, reference_ess))
    verdicts = [
        statistic(ours.mean(axis=1), ours.std(axis=1), theirs.mean(axis=1), theirs.std(axis=1), ess, reference_ess)
        for ours, theirs in zip(draws, reference, strict=True)
    ]
    return np.mean([verdict.is_resolved for verdict in verdicts])


def test_an_exact_sampler_is_called_biased_in_one_case_of_twenty():
    error = 4 * math.sqrt(0.05 * 0.95 / 2000)
    assert claims_of_unbiased_samplers(mean_error) == pytest.approx(0.0455, abs=error)

    def of_sd(mean, sd, reference_mean, reference_sd, ess, reference_ess):
        return sd_ratio(sd, reference_sd, ess, reference_ess)

    # The ratio of two sample sds is a little skewed, hence the wider margin.
    assert claims_of_unbiased_samplers(of_sd) == pytest.approx(0.0455, abs=error + 0.01)


# Classes


def test_total_variation_and_agreement_of_a_case_worked_by_hand():
    ours = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]])
    theirs = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    found = total_variation(ours, np.full((2, 3), 0.1), theirs, np.full((2, 3), 0.2), ess=100, reference_ess=400)
    assert found.value == pytest.approx((0.2 + 0.2) / 2)
    # Each difference has the sd sqrt(0.1^2 / 100 + 0.2^2 / 400) = sqrt(2) / 100, and there are three to a point.
    assert found.monte_carlo_error == pytest.approx(1.5 * math.sqrt(2 / math.pi) * math.sqrt(2) / 100)
    assert found.is_resolved
    assert agreement(ours, theirs) == 0.5


# Sliced Wasserstein distance


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.7, 1.0), (0.0, 1.5), (-2.0, 0.3)])
def test_the_distance_of_two_normals_is_the_closed_form(shift, scale):
    """W2^2 = (difference of means)^2 + (difference of sds)^2, here in units of the reference's sd, 3."""
    draws = 5 + 3 * (shift + scale * QUANTILES[:, None])
    found = sliced_w2_to_gaussian(draws, np.array([5.0]), np.array([[9.0]]), ess=len(draws))
    assert found.value == pytest.approx(math.hypot(shift, scale - 1), abs=0.01)
    reference = 5 + 3 * QUANTILES[:, None]
    found = sliced_w2_to_draws(draws, reference, ess=len(draws), reference_ess=len(draws))
    assert found.value == pytest.approx(math.hypot(shift, scale - 1), abs=0.01)


@pytest.mark.parametrize("num_parameters", [2, 10])
def test_every_direction_counts_alike_however_narrow(num_parameters):
    rng = np.random.default_rng(8)
    covariance, mean = covariance_of(num_parameters), np.arange(num_parameters, dtype=float)
    covariance[0] *= 1e-3
    covariance[:, 0] *= 1e-3
    draws = rng.multivariate_normal(mean, 1.5**2 * covariance, size=20_000)
    found = sliced_w2_to_gaussian(draws.reshape(4, 5_000, -1), mean, covariance, ess=20_000)
    assert found.value == pytest.approx(0.5, abs=0.02)
    assert found.is_resolved
    # A shift of one parameter by its sd has the whitened length of at least 1, spread over all directions.
    shifted = mean + np.eye(num_parameters)[0] * math.sqrt(covariance[0, 0])
    length = math.sqrt((shifted - mean) @ np.linalg.solve(covariance, shifted - mean))
    found = sliced_w2_to_gaussian(rng.multivariate_normal(shifted, covariance, size=20_000), mean, covariance, 20_000)
    # 128 directions: the mean of their squared components is known to sqrt(2 / 128).
    assert found.value**2 == pytest.approx(length**2 / num_parameters, rel=4 * math.sqrt(2 / 128))


@given(st.integers(1, 12), st.integers(2, 12), st.integers(0, 100))
@SETTINGS
def test_samples_of_unequal_size_are_matched_as_if_repeated_to_a_common_size(num_ours, num_theirs, seed):
    rng = np.random.default_rng(seed)
    ours, theirs = rng.normal(size=num_ours), rng.normal(1, 2, size=num_theirs)
    pairs = np.sort(np.repeat(ours, num_theirs)) - np.sort(np.repeat(theirs, num_ours))
    expected = math.sqrt(np.mean(pairs**2)) / np.std(theirs, ddof=1)
    found = sliced_w2_to_draws(ours[:, None], theirs[:, None], ess=num_ours, reference_ess=num_theirs)
    assert found.value == pytest.approx(expected, rel=1e-9)
    shuffled = sliced_w2_to_draws(rng.permutation(ours)[:, None], theirs[:, None], num_ours, num_theirs)
    assert shuffled.value == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("num_draws", [50, 1000])
def test_an_exact_sampler_is_as_far_from_its_law_as_chance_says(num_draws):
    rng = np.random.default_rng(9)
    covariance = covariance_of(30)
    found = [
        sliced_w2_to_gaussian(
            rng.multivariate_normal(np.zeros(30), covariance, num_draws), np.zeros(30), covariance, num_draws
        )
        for _ in range(20)
    ]
    rms = math.sqrt(np.mean([deviation.value**2 for deviation in found]))
    # Squares of one sampler vary by less than a third; the formula is up to 5 % low in the square.
    assert rms**2 == pytest.approx(found[0].monte_carlo_error ** 2, rel=0.05 + 4 * 0.3 / math.sqrt(20))
    assert not any(deviation.is_resolved for deviation in found)
    reference = rng.multivariate_normal(np.zeros(30), covariance, 4 * num_draws)
    draws = rng.multivariate_normal(np.zeros(30), covariance, num_draws)
    assert not sliced_w2_to_draws(draws, reference, num_draws, 4 * num_draws).is_resolved


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_error(*np.ones((3, 2)), np.zeros(2), ess=10), "reference's sd is 0 everywhere"),
        (lambda: sd_ratio(np.ones(2), np.ones(3), ess=10), r"shapes \[\(2,\), \(3,\)\]"),
        (lambda: sd_ratio(np.array([np.nan]), np.ones(1), ess=10), "expected finite values"),
        (lambda: agreement(np.ones((0, 2)), np.ones((0, 2))), "not empty"),
        (lambda: sliced_w2_to_gaussian(np.ones((9, 3)), np.zeros(2), np.eye(2), 9), "the reference's 2 parameters"),
        (lambda: sliced_w2_to_gaussian(np.full((9, 1), np.nan), np.zeros(1), np.eye(1), 9), "expected finite"),
        (lambda: sliced_w2_to_gaussian(np.ones((9, 2)), np.zeros(2), np.ones((2, 2)), 9), "not positive definite"),
        (lambda: sliced_w2_to_draws(np.ones((9, 5)), np.ones((5, 5)), 9, 5), "5 reference draws of 5 parameters"),
        (lambda: sliced_w2_to_draws(np.ones((9, 2)), np.ones((5, 2)), 9, 5), "not positive definite"),
    ],
)
def test_degenerate_input_is_refused_with_its_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_the_squared_bias_is_free_of_monte_carlo_error(bias):
    """Four short chains and a reference with an error of its own: the plain error is too large, the square is right."""
    rng = np.random.default_rng(8)
    sd, error, reference_error, num_repeats = 2.0, 0.5, 0.4, 4000
    shape = (4, 6, 1)
    squares, plain = [], []
    for _ in range(num_repeats):
        reference = reference_error * rng.normal(size=shape[1:])
        chains = bias * sd + error * rng.normal(size=shape)
        arguments = reference, np.full(shape[1:], sd), np.full(shape[1:], reference_error)
        squares.append(squared_bias(chains, *arguments))
        plain.append(mean_error(chains.mean(axis=0), *[np.full(shape[1:], sd)], *arguments[:2], ess=100).value ** 2)
    standard_error = np.std(squares) / math.sqrt(num_repeats)
    assert np.mean(squares) == pytest.approx(bias**2, abs=4 * standard_error)
    assert np.mean(plain) > bias**2 + 10 * standard_error
    assert squared_bias(np.zeros((1, 2, 1)), np.zeros((2, 1)), np.ones((2, 1)), np.zeros((2, 1))) is None


def test_an_error_where_the_reference_is_sure_is_told_point_by_point():
    sure, unsure = 0.01, 1.0
    reference_sd = np.array([[sure, unsure]])
    found = point_error(np.array([[2 * sure, 0.0]]), np.zeros((1, 2)), reference_sd, ess=400)
    assert found.value == pytest.approx(np.sqrt(2)) and found.is_resolved
    assert found.monte_carlo_error == pytest.approx(1 / 20)
    pooled = mean_error(np.array([[2 * sure, 0.0]]), reference_sd, np.zeros((1, 2)), reference_sd, ess=400)
    assert not pooled.is_resolved
    without_spread = point_error(np.array([[5.0, 0.0]]), np.zeros((1, 2)), np.array([[0.0, 1.0]]), ess=400)
    assert without_spread.value == 0, "what has no spread has no unit"
