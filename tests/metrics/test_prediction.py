"""Scores of predictions, against scipy, quadrature and hand-worked cases."""

import numpy as np
import pytest
from scipy import integrate, stats

from metrics.prediction import accuracy, brier, gaussian_mixture_crps, mean_absolute, negative_log_likelihood, rmse


def test_accuracy_and_brier_of_a_case_worked_by_hand():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    targets = np.array([0, 2, 1, 1])
    assert accuracy(probabilities, targets) == 0.5
    # 0.09 + 0.04 + 0.01;  0.01 + 0.36 + 0.49;  1 + 1;  0.25 + 0.25
    assert brier(probabilities, targets) == pytest.approx((0.14 + 0.86 + 2.0 + 0.5) / 4)


def test_rmse_and_negative_log_likelihood_are_plain_means():
    assert rmse(np.array([1.0, 2.0]), np.array([1.0, 5.0], np.float32)) == pytest.approx(np.sqrt(4.5))
    assert negative_log_likelihood(np.array([-1.0, -3.0])) == 2.0


def crps(centres, targets, sd):
    return gaussian_mixture_crps(mean_absolute(targets - centres, sd).mean(axis=0), centres, sd)


@pytest.mark.parametrize("target", [-3.0, 0.2, 4.0])
def test_the_crps_of_one_normal_is_the_closed_form(target):
    """Gneiting and Raftery (2007): s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))."""
    centre, sd = 0.5, 0.8
    z = (target - centre) / sd
    expected = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    found = crps(np.array([[centre]]), np.array([target]), sd)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("num_draws", "spread"), [(2, 1.0), (50, 1.0), (100, 0.1), (1000, 1.0)])
def test_the_crps_of_a_mixture_is_the_integral_of_the_squared_error_of_its_distribution(num_draws, spread):
    """Wide mixtures of few draws by pairs, the others by an integral."""
    rng = np.random.default_rng(num_draws)
    centres, target, sd = spread * rng.standard_t(3, num_draws), 0.7, 0.3

    def squared_error(x):
        return (stats.norm.cdf((x - centres) / sd).mean() - (x >= target)) ** 2

    low, high = centres.min() - 10 * sd, centres.max() + 10 * sd
    expected = sum(
        integrate.quad(squared_error, *limits, limit=500, epsabs=1e-7)[0] for limits in ((low, target), (target, high))
    )
    found = crps(centres[:, None], np.array([target]), sd)
    # Up to 128 draws all are used; beyond, group means stand for them.
    np.testing.assert_allclose(found, expected, rtol=1e-6 if num_draws <= 128 else 1e-3)


def test_the_crps_is_least_on_average_for_the_law_the_targets_come_from():
    rng = np.random.default_rng(3)
    targets = rng.normal(size=20_000)
    scores = {sd: crps(np.zeros((1, 20_000)), targets, sd).mean() for sd in (0.7, 1.0, 1.4)}
    # E|Y - y| - E|Y - Y'| / 2 with all of them standard normal; the score's sd is below 0.6.
    assert scores[1.0] == pytest.approx(1 / np.sqrt(np.pi), abs=4 * 0.6 / np.sqrt(20_000))
    assert min(scores, key=scores.get) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy(np.zeros((0, 3)), np.zeros(0, int)), "not empty"),
        (lambda: brier(np.array([[0.5, np.nan]]), np.array([0])), "not finite"),
        (lambda: brier(np.array([[0.5, 0.6]]), np.array([0])), "does not sum to 1"),
        (lambda: accuracy(np.array([[0.5, 0.5]]), np.array([2])), "expected integers from 0 to 1"),
        (lambda: negative_log_likelihood(np.array([0.0, -np.inf])), "1 of 2 values are not finite"),
        (lambda: negative_log_likelihood(np.array([])), "0 of 0"),
        (lambda: rmse(np.zeros(2), np.zeros((2, 1))), "expected the same"),
        (lambda: rmse(np.array([np.nan]), np.zeros(1)), "not finite"),
    ],
)
def test_degenerate_input_is_refused_with_its_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
