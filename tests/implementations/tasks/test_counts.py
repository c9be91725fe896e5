"""Poisson regression: the known parameters come back, and samplers and gold standard agree with quadrature."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from implementations.sampling import sample
from implementations.tasks import at_mode, prepare
from implementations.tasks.data import counts
from implementations.tasks.problem import Problem
from implementations.tasks.references import importance

PRIOR_SCALE, WEIGHT = 1.0, 30.0


@pytest.fixture(scope="module")
def tiny() -> Problem:
    """An intercept and a slope on sixty counts."""
    random = np.random.default_rng(8)
    features = np.column_stack([np.ones(60), random.normal(size=60)])
    targets = random.poisson(np.exp(0.4 + 0.7 * features[:, 1]))
    part = features, targets
    return at_mode(Problem.of(*part, likelihood="poisson", test=part, prior_scale=PRIOR_SCALE))


@pytest.fixture(scope="module")
def moments(tiny) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the parameters of the target of WEIGHT, on a grid; the law is scipy's."""
    axis = np.linspace(-2.5, 2.5, 201)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    rates = np.exp(grid @ tiny.features.T.astype(float))
    log_law = stats.poisson(rates).logpmf(tiny.targets).sum(axis=1) * WEIGHT / tiny.num_points
    log_law += stats.norm(0, PRIOR_SCALE).logpdf(grid).sum(axis=1)
    mass = np.exp(log_law - log_law.max())
    mass /= mass.sum()
    mean = mass @ grid
    return mean, np.sqrt(mass @ (grid - mean) ** 2)


def test_the_known_parameters_come_back() -> None:
    found = prepare("counts", 0, num_points=20_000, data_dir=Path(), progress=False)
    errors = np.sqrt(np.linalg.inv(20_000 * found.curvature).diagonal())
    assert np.abs((found.map - counts.PARAMETERS) / errors).max() < 4
    assert errors.max() < 0.02
    assert found.targets.dtype == np.int32


def test_the_gold_standard_has_the_moments_of_the_grid(tiny, moments) -> None:
    """By importance sampling: the target is close to the Gaussian at its mode."""
    run = importance.sample(tiny, WEIGHT, seed=0)
    assert run is not None
    weights = np.exp(run.log_weights - run.log_weights.max()).ravel()
    draws, mass = run.draws.reshape(-1, 2), weights / weights.sum()
    mean = mass @ draws
    np.testing.assert_allclose(mean, moments[0], atol=0.03 * moments[1].min())
    np.testing.assert_allclose(np.sqrt(mass @ (draws - mean) ** 2), moments[1], rtol=0.04)


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
def test_control_variates_recover_the_posterior_from_ten_counts_at_a_time(tiny, moments, backend) -> None:
    length = {"num_steps": 1500, "num_warmup": 100, "thin": 5, "chains": 64}
    settings = {"weight": WEIGHT, "batch_size": 10, "num_batches": 2} | length
    found = sample(tiny, "pbnn_cn", settings, backend, 0, is_audited=False)
    assert found.status == "ok"
    # Single chains are independent, so their spread is the error of their mean.
    by_chain = found.draws.positions.mean(axis=1)
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    assert (error < 0.05 * moments[1]).all()
    assert (np.abs(by_chain.mean(axis=0) - moments[0]) < 4 * error + 0.01 * moments[1]).all()
    np.testing.assert_allclose(found.draws.positions.std(axis=(0, 1)), moments[1], rtol=0.08)
