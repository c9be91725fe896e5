"""The decision audit of noise whose consequences are known in closed form."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from metrics.decisions import audit

NUM_STEPS = 40_000
SD = 1.3
#: Four standard errors of a share or of a mean acceptance.
TOLERANCE = 4 * 0.5 / np.sqrt(NUM_STEPS)


def steps(true_delta=0.0, noise=None, penalty=SD**2 / 2, variance=SD**2, seed=0, count=NUM_STEPS):
    """Audited steps with a symmetric proposal and Gaussian noise of sd SD, unless told otherwise."""
    rng = np.random.default_rng(seed)
    delta = true_delta + (SD * rng.normal(size=count) if noise is None else SD * noise)
    return {
        "log_ratio_proposal": np.zeros(count),
        "delta": delta,
        "variance": np.broadcast_to(variance, count),
        "log_accept": -delta - penalty,
        "true_delta": np.full(count, true_delta),
        "true_variance": np.full(count, SD**2),
        "log_uniform": np.log(rng.random(count)),
    }


def test_the_penalty_costs_the_known_acceptance():
    """With Delta = 0: E min(1, exp(-delta - sd^2/2)) = 2 Phi(-sd/2), and without penalty 1/2 + exp(sd^2/2) Phi(-sd)."""
    found = audit(**steps())
    penalised = 2 * stats.norm.cdf(-SD / 2)
    unpenalised = 0.5 + np.exp(SD**2 / 2) * stats.norm.cdf(-SD)
    assert found.acceptance == pytest.approx(penalised, abs=TOLERANCE)
    assert found.exact_acceptance == 1
    assert found.lost_to_penalty == pytest.approx(unpenalised - penalised, abs=TOLERANCE)
    # The exact rule accepts all, so every rejection is wrong and no acceptance is.
    assert found.wrong_accepts.rate == 0
    assert found.wrong_rejects.rate == pytest.approx(1 - penalised, abs=TOLERANCE)


@pytest.mark.parametrize("true_delta", [0.5, 2.0])
def test_the_naive_rule_errs_at_the_rate_of_the_integral(true_delta):
    """Both decide with one u, so they differ where u lies between their acceptances: E (A_noisy - A_exact)^+-."""

    def difference(sign):
        def integrand(noise):
            noisy = np.exp(min(0, -true_delta - SD * noise))
            return stats.norm.pdf(noise) * max(0, sign * (noisy - np.exp(-true_delta)))

        return integrate.quad(integrand, -8, 8, points=[0, -true_delta / SD])[0]

    found = audit(**steps(true_delta, penalty=0))
    for rate, sign in ((found.wrong_accepts, 1), (found.wrong_rejects, -1)):
        assert rate.rate == pytest.approx(difference(sign), abs=TOLERANCE)
        assert rate.low < difference(sign) < rate.high
    assert found.lost_to_penalty == 0
    assert found.exact_acceptance == pytest.approx(np.exp(-true_delta))


def test_the_proposal_ratio_counts_in_both_rules():
    shifted = steps() | {"log_ratio_proposal": np.full(NUM_STEPS, -1.0)}
    found = audit(**(shifted | {"log_accept": shifted["log_accept"] - 1}))
    assert found.exact_acceptance == pytest.approx(np.exp(-1))
    expected = integrate.quad(lambda z: stats.norm.pdf(z) * np.exp(min(0, -1 - SD * z)), -8, 8, points=[-1 / SD])[0]
    assert found.lost_to_penalty + found.acceptance == pytest.approx(expected, abs=TOLERANCE)


def test_an_unbiased_variance_has_the_mean_ratio_one_and_the_quantiles_of_its_chi_squared_law():
    law = stats.chi2(4, scale=1 / 4)
    found = audit(**steps(variance=SD**2 * law.rvs(NUM_STEPS, random_state=1))).variance_ratio
    assert found.mean == pytest.approx(1, abs=4 * law.std() / np.sqrt(NUM_STEPS))
    for value, level in ((found.low, 0.05), (found.median, 0.5), (found.high, 0.95)):
        assert law.cdf(value) == pytest.approx(level, abs=TOLERANCE)


def test_gaussian_noise_is_found_normal():
    found = audit(**steps()).noise
    assert found.mean == pytest.approx(0, abs=4 / np.sqrt(NUM_STEPS))
    assert found.sd == pytest.approx(1, abs=4 / np.sqrt(2 * NUM_STEPS))
    assert found.skewness == pytest.approx(0, abs=4 * np.sqrt(6 / NUM_STEPS))
    assert found.excess_kurtosis == pytest.approx(0, abs=4 * np.sqrt(24 / NUM_STEPS))
    assert found.normality_distance < 2 / np.sqrt(NUM_STEPS)
    assert found.normality_p_value > 0.01


@pytest.mark.parametrize("count", [2_000, NUM_STEPS])
def test_the_distance_from_normality_is_that_of_the_law_however_many_steps_are_audited(count):
    law = stats.expon(loc=-1)
    noise = law.rvs(count, random_state=2)
    found = audit(**steps(noise=noise, count=count)).noise
    grid = np.linspace(-4, 8, 100_001)
    expected = np.abs(law.cdf(grid) - stats.norm.cdf(grid)).max()
    assert found.normality_distance == pytest.approx(expected, abs=2 / np.sqrt(count))
    assert found.normality_p_value < 1e-6
    # Skewness 2 and excess kurtosis 6, within what samples of this law scatter.
    assert found.skewness == pytest.approx(2, abs=0.5)
    assert found.excess_kurtosis == pytest.approx(6, abs=3)


def test_a_run_without_noise_makes_no_wrong_decision_and_has_no_noise_to_describe():
    clean = steps(0.4, noise=np.zeros(NUM_STEPS), penalty=0, variance=0) | {"true_variance": np.zeros(NUM_STEPS)}
    found = audit(**clean)
    assert (found.wrong_accepts.rate, found.wrong_rejects.rate, found.lost_to_penalty) == (0, 0, 0)
    assert (found.num_noisy, found.variance_ratio, found.noise) == (0, None, None)
    # Wilson's upper end for no event in n: z^2 / (n + z^2).
    z = stats.norm.ppf(0.975) ** 2
    assert found.wrong_accepts.high == pytest.approx(z / (NUM_STEPS + z))


def test_infinite_differences_are_decisions_but_no_sample_of_the_noise():
    audited = {name: array.copy() for name, array in steps(count=100).items()}
    expected = audit(**{name: array[2:] for name, array in audited.items()})
    audited["delta"][:2] = audited["true_delta"][:2] = np.inf
    audited["log_accept"][:2] = -np.inf
    found = audit(**audited)
    assert found.num_audited == 100 and found.num_noisy == 98
    assert found.noise == expected.noise
    json.dumps(asdict(found), allow_nan=False)


def test_too_few_steps_give_rates_with_wide_intervals_and_no_shape():
    found = audit(**steps(count=3))
    assert found.noise is None
    assert found.wrong_rejects.high - found.wrong_rejects.low > 0.4


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_rates_stay_in_bounds_and_ignore_the_order_of_steps(seed):
    audited = steps(0.3, seed=seed, count=60)
    order = np.random.default_rng(seed).permutation(60)
    found = audit(**audited)
    for rate in (found.wrong_accepts, found.wrong_rejects):
        assert 0 <= rate.low <= rate.rate <= rate.high <= 1
    assert found.lost_to_penalty >= 0
    shuffled = audit(**{name: array[order] for name, array in audited.items()})
    assert shuffled.wrong_accepts == found.wrong_accepts
    assert asdict(shuffled.noise) == pytest.approx(asdict(found.noise))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"true_delta": np.zeros(2)}, r"true_delta of shape \(2,\): expected \(num_audited,\) like delta \(9,\)"),
        ({"variance": np.full(9, np.nan)}, "variance: 9 of 9 values are NaN"),
        ({"true_variance": np.full(9, -1.0)}, "true_variance: the least value -1.0 is negative"),
    ],
)
def test_arrays_that_make_no_audit_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        audit(**(steps(count=9) | change))


def test_an_audit_of_no_step_is_refused():
    with pytest.raises(ValueError, match="not empty"):
        audit(**{name: array[:0] for name, array in steps(count=9).items()})
