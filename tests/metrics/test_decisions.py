"""The decision audit of noise whose consequences are known in closed form."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy import integrate, stats

from implementations.kernels.acceptance import penalty
from implementations.tuning.noise_budget import balance_residual
from metrics.decisions import audit, averaged_acceptance, balance

NUM_STEPS = 40_000
SD = 1.3
#: Four standard errors of a share or of a mean acceptance.
TOLERANCE = 4 * 0.5 / np.sqrt(NUM_STEPS)


def steps(true_delta=0.0, noise=None, penalty=SD**2 / 2, variance=SD**2, seed=0, count=NUM_STEPS):
    """Audited steps with a symmetric proposal and Gaussian noise of sd SD, unless stated otherwise."""
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


def test_an_unbiased_variance_has_the_mean_ratio_one_and_the_quantiles_of_its_chi_squared_law():
    law = stats.chi2(4, scale=1 / 4)
    found = audit(**steps(variance=SD**2 * law.rvs(NUM_STEPS, random_state=1))).variance_ratio
    assert found.mean == pytest.approx(1, abs=4 * law.std() / np.sqrt(NUM_STEPS))
    for value, level in ((found.low, 0.05), (found.median, 0.5), (found.high, 0.95)):
        assert law.cdf(value) == pytest.approx(level, abs=TOLERANCE)


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


def test_the_shape_of_moves_is_their_root_mean_square():
    """Skewness of both signs, which a pooled number would lose."""
    audited = steps(count=100) | {
        "skewness": np.tile([0.3, -0.3], 50),
        "excess_kurtosis": np.tile([0.0, 0.2], 50),
    }
    found = audit(**audited).shape
    assert found.skewness == pytest.approx(0.3)
    assert found.excess_kurtosis == pytest.approx(0.2 / np.sqrt(2))
    assert audit(**steps(count=100)).shape is None


def test_the_spread_of_the_variance_is_told_from_the_noise_of_its_estimate():
    rng = np.random.default_rng(6)
    true = rng.gamma(4.0, 0.25, NUM_STEPS)
    estimate = true * rng.chisquare(8, NUM_STEPS) / 8
    found = audit(**steps() | {"variance": estimate, "true_variance": true}).spread
    # Gamma(4) has a relative sd of 1/2, and so has chi-squared with 8 degrees of freedom.
    assert found.variance == pytest.approx(0.5, abs=0.02)
    assert found.noise == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("size", "num_moves"), [(5.7, 4000), (10.0, 0)])
def test_moves_are_chosen_by_their_size_and_not_by_what_was_seen_of_them(size, num_moves):
    """Of 50 decisions with a uniform of its own level each: an estimate of 0 would be dropped, and bias the others."""
    exact = np.full(max(num_moves, 100), -size)
    random, edges = np.random.default_rng(0), np.append(np.exp(-0.5 * np.arange(16)), 0)
    widths = -np.diff(edges)
    seen = edges[1:] + widths * random.random((len(exact), 50, 16)) < np.exp(-size)
    each = (seen * widths).sum(axis=-1)
    there, variance = each.mean(axis=1), each.var(axis=1, ddof=1) / 50
    found = balance(there, variance, np.ones_like(there), np.zeros_like(there), exact)
    assert (found.num_moves if found else 0) == num_moves
    assert found is None or abs(found.residual) < 4 * found.error < 0.02


@pytest.mark.parametrize(("variance", "dof"), [(0.3, 4), (1.6, 4), (1.6, 1), (0.7, 19)])
def test_the_balance_of_gaussian_noise_is_that_of_simulated_moves(variance, dof):
    random, count = np.random.default_rng(0), 400_000

    def accepted(difference):
        noise = np.sqrt(variance) * random.standard_normal(count)
        estimated = variance * random.chisquare(dof, count) / dof
        return np.minimum(1, np.exp(-difference - noise - estimated / 2))

    there, back = accepted(1.0), accepted(-1.0)
    found = balance(
        *(np.full(2, value) for way in (there, back) for value in (way.mean(), way.var() / count)), np.full(2, -1.0)
    )
    error = np.hypot(there.std() / there.mean(), back.std() / back.mean()) / np.sqrt(count)
    assert balance_residual(penalty, variance, dof) == pytest.approx(found.residual, abs=4 * error + 3e-4)


@pytest.mark.parametrize("difference", [-3.0, 0.0, 0.4, 5.0])
@pytest.mark.parametrize("variance", [0.09, 1.69, 25.0])
def test_the_averaged_acceptance_is_the_integral_over_the_noise(difference, variance):
    """The paper's own way: numerical quadrature of A against the normal density of delta."""
    sd = np.sqrt(variance)
    expected, _ = integrate.quad(
        lambda delta: min(1.0, np.exp(-delta - variance / 2)) * stats.norm.pdf(delta, difference, sd),
        difference - 12 * sd,
        difference + 12 * sd,
        points=[-variance / 2],
        epsabs=1e-12,
        limit=200,
    )
    found = averaged_acceptance(np.array([difference]), np.array([variance]))
    assert found == pytest.approx([expected], rel=1e-7)


def test_an_audit_has_the_acceptance_that_normal_noise_of_known_variance_would_leave():
    found = audit(**steps(true_delta=0.7))
    assert found.averaged_acceptance == pytest.approx(found.acceptance, abs=TOLERANCE)
    shifted = steps(true_delta=0.7) | {"log_ratio_proposal": np.full(NUM_STEPS, 0.7)}
    assert audit(**shifted).averaged_acceptance == pytest.approx(2 * stats.norm.cdf(-SD / 2))
    infinite = {name: np.full(NUM_STEPS, np.inf) for name in ("delta", "true_delta", "true_variance")}
    assert audit(**steps() | infinite | {"log_accept": np.full(NUM_STEPS, -np.inf)}).averaged_acceptance == 0
