"""The closed form, against integration and least squares; and what the paper claims about its calibration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from implementations.tasks import prepare
from implementations.tasks.references.closed_form import gaussian_posterior


@pytest.mark.parametrize("weight", [3.0, 100.0])
def test_the_closed_form_is_the_integral_of_the_density(problem, weight) -> None:
    prepared = replace(problem("linear"), prior_scale=0.8)
    posterior = gaussian_posterior(prepared, weight)

    def density(slope: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """exp(-U_w) by the definition of U_w, scaled to 1 at the mean."""
        outputs = intercept[..., None] + slope[..., None] * prepared.features[:, 1].astype(float)
        losses = -stats.norm.logpdf(prepared.targets.astype(float), outputs, 0.5).sum(axis=-1)
        priors = -stats.norm.logpdf(intercept, 0, 0.8) - stats.norm.logpdf(slope, 0, 0.8)
        target = priors + weight / 100 * losses
        return np.exp(target.min() - target)

    # Simpson's rule over eight sd on each side is exact to many digits for a smooth peak.
    sd = np.sqrt(posterior.covariance.diagonal())
    intercepts, slopes = (
        np.linspace(mean - 8 * width, mean + 8 * width, 161) for mean, width in zip(posterior.mean, sd, strict=True)
    )
    grid = np.stack(np.meshgrid(intercepts, slopes, indexing="ij"))
    weights = density(grid[1], grid[0])

    def expectation(values: np.ndarray) -> float:
        inner = integrate.simpson(values * weights, x=slopes, axis=1)
        return integrate.simpson(inner, x=intercepts) / integrate.simpson(
            integrate.simpson(weights, x=slopes, axis=1), x=intercepts
        )

    mean = np.array([expectation(grid[0]), expectation(grid[1])])
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-6)
    centred = grid - mean[:, None, None]
    covariance = [[expectation(one * other) for other in centred] for one in centred]
    np.testing.assert_allclose(posterior.covariance, covariance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weight", [5.0, 2000.0])
def test_the_posterior_mean_solves_the_stacked_least_squares(problem, weight) -> None:
    prepared = problem("regression")
    root = np.sqrt(weight / 2000) / 0.05
    design = np.concatenate([root * prepared.features.astype(float), np.eye(21)])
    observed = np.concatenate([root * prepared.targets.astype(float), np.zeros(21)])
    expected = np.linalg.lstsq(design, observed)[0]
    np.testing.assert_allclose(gaussian_posterior(prepared, weight).mean, expected, rtol=1e-6, atol=1e-8)


# Each trains a network.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))])
def test_full_data_are_overconfident_and_a_weight_between_5_and_20_calibrates(seed) -> None:
    prepared = prepare("regression", seed, progress=False)
    features, targets = prepared.test_features.astype(float), prepared.test_targets.astype(float)
    levels = np.arange(1, 20) / 20
    weights = (1, 2, 5, 10, 20, 50, 200, 2000)
    errors, gaps = [], []
    for weight in weights:
        posterior = gaussian_posterior(prepared, weight)
        variance = np.einsum("ni,ij,nj->n", features, posterior.covariance, features) + 0.05**2
        quantiles = stats.norm.cdf((targets - features @ posterior.mean) / np.sqrt(variance))
        coverage = (2 * np.abs(quantiles - 0.5) < levels[:, None]).mean(axis=1)
        errors.append(np.abs(coverage - levels).mean())
        gaps.append((levels - coverage).mean())
    assert 5 <= weights[int(np.argmin(errors))] <= 20
    # Measured: 0.06 to 0.12; the Monte Carlo error of a coverage of 2000 points is 0.011 at most.
    assert gaps[-1] > 0.04 and errors[-1] > 2 * min(errors)
