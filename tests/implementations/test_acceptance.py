"""The acceptance rules, against scipy and against the integrals they are made for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.special import hyp0f1
from scipy.stats import chi2, norm

from implementations.kernels import acceptance, proposals


def log_accept(backend, kind, delta, variance, dof):
    """A rule of a backend on numpy arrays, in single precision."""
    to_array = torch.as_tensor if backend == "torch" else jnp.asarray
    found = acceptance.ACCEPTANCES[kind](*(to_array(np.float32(array)) for array in (delta, variance)), dof)
    return np.asarray(found, float)


both = pytest.mark.parametrize("backend", ["jax", "torch"])


@both
@pytest.mark.parametrize("dof", [1, 2, 4, 9, 24, 49, 99])
def test_the_correction_is_the_logarithm_of_the_hypergeometric_function_up_to_its_first_zero(backend, dof):
    variance = np.linspace(0, 12, 241)
    function = hyp0f1(dof / 2, -dof * variance / 4)
    is_before_zero = np.logical_and.accumulate(function > 0)
    found = log_accept(backend, "penalty_corrected", np.zeros_like(variance), variance, dof)
    assert np.array_equal(np.isfinite(found), is_before_zero)
    assert np.all(found[~is_before_zero] == -np.inf)
    # Next to a zero the logarithm magnifies rounding.
    is_away = is_before_zero & (function > 1e-4)
    np.testing.assert_allclose(found[is_away], np.log(function[is_away]), rtol=1e-3, atol=2e-5)


@both
def test_the_correction_begins_with_the_published_series(backend):
    """sigma^2 / 2 + sigma^4 / (4 (nu + 2)) + sigma^6 / (3 (nu + 2) (nu + 4)), also for many degrees of freedom."""
    variance = np.array([0.0, 0.01, 0.1, 0.3])
    for dof in (4, 100, 999):
        series = variance / 2 + variance**2 / (4 * (dof + 2)) + variance**3 / (3 * (dof + 2) * (dof + 4))
        found = -log_accept(backend, "penalty_corrected", np.zeros(4), variance, dof)
        np.testing.assert_allclose(found, series, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dof", [4, 9])
@pytest.mark.parametrize("variance", [0.5, 1.0])
def test_the_signed_function_averages_to_the_penalty_over_estimated_variances(dof, variance):
    """E 0F1(; nu/2; -nu s^2/4) = exp(-sigma^2 / 2) for s^2 = sigma^2 chi^2_nu / nu; the plain penalty is too weak."""
    levels = (np.arange(200_000) + 0.5) / 200_000
    estimates = variance * chi2.ppf(levels, dof) / dof
    assert np.mean(hyp0f1(dof / 2, -dof * estimates / 4)) == pytest.approx(np.exp(-variance / 2), rel=1e-4)
    assert np.mean(np.exp(-estimates / 2)) > 1.005 * np.exp(-variance / 2)


@both
def test_a_chain_with_gaussian_noise_of_estimated_variance_needs_the_correction(backend):
    """Target N(0, 1), exact Delta plus the mean of five Gaussian values of variance 0.7, estimated from the same five.

    The correction makes acceptance right on average, not its minimum with 1: a fifth of the bias is left, and at a
    variance of 2, where estimates pass the function's first zero, nearly all.
    """

    def sd_with(kind):
        generator = np.random.default_rng(0)
        position = generator.normal(size=300_000)
        for _ in range(40):
            proposed = position + generator.normal(size=len(position))
            values = (proposed**2 - position**2) / 2 + np.sqrt(5 * 0.7) * generator.normal(size=(5, len(position)))
            ratio = log_accept(backend, kind, values.mean(axis=0), values.var(axis=0, ddof=1) / 5, 4)
            position = np.where(np.log(generator.uniform(size=len(position))) < ratio, proposed, position)
        return position.std()

    # The Monte Carlo error is 1 / sqrt(2 × 300,000) = 0.0013.
    assert sd_with("penalty") > 1.006
    assert sd_with("penalty_corrected") == pytest.approx(1, abs=0.004)


@both
def test_the_simple_rules_are_their_formulas(backend):
    delta, variance = np.array([-1.0, 0.5]), np.array([0.5, 2.0])
    for kind, expected in [
        ("exact", -delta),
        ("naive", -delta),
        ("penalty", -delta - variance / 2),
        ("always", [np.inf, np.inf]),
    ]:
        np.testing.assert_allclose(log_accept(backend, kind, delta, variance, 4), expected)
    known = log_accept(backend, "penalty_corrected", delta, variance, np.inf)
    np.testing.assert_allclose(known, -delta - variance / 2)


def flow(backend, start, end, gradient_of, potential, factor, step_size, noise_variance, broken=1.0):
    """pi(start) q(end | start) E[A]: Langevin proposal, Gaussian noise on Delta integrated out by quadrature."""
    drift = factor @ factor.T @ gradient_of(start)
    normals = np.linalg.solve(factor, end - start + step_size * drift) / np.sqrt(2 * step_size)
    moved, log_ratio = move_and_ratio(backend, start, gradient_of(start), gradient_of(end), factor, normals, step_size)
    np.testing.assert_allclose(moved, end, atol=1e-10)
    nodes = np.linspace(-12, 12, 20_001)
    delta = potential(end) - potential(start) + np.sqrt(noise_variance) * nodes
    accept = np.exp(np.minimum(0, broken * log_ratio + acceptance.penalty(delta, noise_variance, np.inf)))
    mean = np.sum(accept * norm.pdf(nodes)) * (nodes[1] - nodes[0])
    return np.exp(-potential(start) - normals @ normals / 2) * mean


def move_and_ratio(backend, start, gradient, back, factor, normals, step_size):
    with jax.enable_x64(True):
        to_array = torch.as_tensor if backend == "torch" else jnp.asarray
        start, gradient, back, factor, normals, step_size = map(
            to_array, (start, gradient, back, factor, normals, np.float64(step_size))
        )
        moved = proposals.langevin(start, gradient, factor, factor @ normals, step_size)
        return np.asarray(moved), float(proposals.langevin_log_ratio(gradient, back, factor, normals, step_size))


@both
def test_penalised_mala_is_in_detailed_balance(backend):
    """For each mini-batch of the gradient, the flows there and back are the same; with another batch on the way
    back, or half the ratio, they are not."""
    generator = np.random.default_rng(1)

    def potential(place):
        return np.sum(place**4) / 8 + np.sum(place**2) / 2

    def gradient_with(shift):
        """A mini-batch gradient: the true one plus an error that depends on the batch and on the place."""
        return lambda place: place**3 / 2 + place + shift * (1 + 0.3 * place)

    factor = np.linalg.cholesky(np.array([[1.0, 0.3], [0.3, 0.5]]))
    worst_broken = 0.0
    for _ in range(20):
        start, end = generator.normal(size=(2, 2))
        gradient = gradient_with(generator.normal(size=2))
        there = flow(backend, start, end, gradient, potential, factor, 0.2, 0.7)
        back = flow(backend, end, start, gradient, potential, factor, 0.2, 0.7)
        assert there == pytest.approx(back, rel=1e-6)
        there = flow(backend, start, end, gradient, potential, factor, 0.2, 0.7, broken=0.5)
        back = flow(backend, end, start, gradient, potential, factor, 0.2, 0.7, broken=0.5)
        worst_broken = max(worst_broken, abs(np.log(there / back)))
    assert worst_broken > 0.1
