"""The gold standard, against the closed form, against integration on a grid and against importance sampling."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.integrators import IntegratorState
from scipy import optimize, special, stats

from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior
from implementations.tasks.references.mode import loss_and_gradient
from implementations.tasks.references.one_layer import Chains, log_likelihood_of, sample, slices, split_integrator

CHAINS, NUM_DRAWS = 4, 750


def _sample(problem: Problem, weight: float) -> Chains:
    return sample(problem, weight, seed=1, chains=CHAINS, num_warmup=100, num_draws=NUM_DRAWS)


def _assert_moments(run: Chains, mean: np.ndarray, covariance: np.ndarray, efficiency: float) -> None:
    """Whitened by the right answer, draws have mean 0 and covariance I within five Monte Carlo errors.

    ``efficiency`` is the effective sample size, of values and of squares, over the number of draws.
    """
    size = efficiency * CHAINS * NUM_DRAWS
    draws = run.draws.reshape(CHAINS * NUM_DRAWS, -1) - mean
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), draws.T)
    assert np.abs(whitened.mean(axis=1)).max() < 5 / np.sqrt(size)
    np.testing.assert_allclose(np.cov(whitened), np.eye(len(mean)), atol=5 * np.sqrt(2 / size))
    assert run.num_divergences == 0


@pytest.mark.parametrize("weight", [10.0, 2000.0])
def test_it_is_the_closed_form_where_there_is_one(problem, weight) -> None:
    run = _sample(problem("regression"), weight)
    exact = gaussian_posterior(problem("regression"), weight)
    # A quarter turn of an exact Gaussian is an independent draw.
    _assert_moments(run, exact.mean, exact.covariance, efficiency=0.9)
    assert run.num_steps == 1 and run.acceptance > 0.999


def test_it_is_the_integral_under_a_laplace_prior(problem) -> None:
    # A sharp prior and little weight: the kinks at zero matter.
    prepared, weight = replace(problem("linear"), prior="laplace", prior_scale=0.3), 10.0
    grid = np.stack(np.meshgrid(np.linspace(-2.5, 2.5, 801), np.linspace(-2.5, 2.5, 801), indexing="ij"))
    features, targets = prepared.features.astype(float), prepared.targets.astype(float)
    # sum_j (y_j - f_j)^2 from its sufficient statistics; the grid would need 64 million residuals.
    gram, moment = features.T @ features, features.T @ targets
    squares = np.einsum("iab,ij,jab->ab", grid, gram, grid) - 2 * np.einsum("i,iab->ab", moment, grid)
    density = np.exp(-weight / 100 * squares / (2 * 0.5**2) - np.abs(grid).sum(axis=0) / 0.3)
    density /= density.sum()
    mean = np.einsum("iab,ab->i", grid, density)
    centred = grid - mean[:, None, None]
    covariance = np.einsum("iab,jab,ab->ij", centred, centred, density)
    _assert_moments(_sample(prepared, weight), mean, covariance, efficiency=0.5)


@pytest.fixture(scope="module")
def tiny_softmax() -> Problem:
    """Three classes on a line, 60 points: skewed enough for the Laplace approximation to be visibly wrong."""
    random = np.random.default_rng(0)
    inputs = random.uniform(-2, 2, 60)
    logits = np.stack([2 * inputs, -0.5 * inputs + 1, -inputs], axis=1)
    classes = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    features = np.stack([np.ones(60), inputs], axis=1).astype(np.float32)
    return Problem.of(
        features, classes, task="tiny", likelihood="categorical", test=(features, classes), prior_scale=2.0
    )


@pytest.mark.parametrize("weight", [4.0, 60.0])
def test_it_is_the_answer_of_importance_sampling_for_a_softmax(tiny_softmax, weight) -> None:
    features = tiny_softmax.features.astype(float)

    def log_density(parameters: np.ndarray) -> np.ndarray:
        outputs = np.einsum("nf,sfc->snc", features, parameters.reshape(-1, 2, 3))
        log_probabilities = special.log_softmax(outputs, axis=2)[:, np.arange(60), tiny_softmax.targets]
        return weight / 60 * log_probabilities.sum(axis=1) + stats.norm.logpdf(parameters, 0, 2).sum(axis=-1)

    start = optimize.minimize(lambda theta: -log_density(theta)[0], np.zeros(6), method="BFGS")
    # Tails heavier than the target's, and wide enough to cover it.
    proposal = stats.multivariate_t(start.x, 1.5 * start.hess_inv, df=6, seed=0)
    points = proposal.rvs(40_000)
    weights = special.softmax(log_density(points) - proposal.logpdf(points))
    assert 1 / np.square(weights).sum() > 10_000, "effective size: its own error is small against the chains'"
    mean = weights @ points
    covariance = (points - mean).T @ (weights[:, None] * (points - mean))
    run = _sample(tiny_softmax, weight)
    _assert_moments(run, mean, covariance, efficiency=0.4)
    assert np.abs((mean - start.x) / np.sqrt(covariance.diagonal())).max() > 0.1, "not a Gaussian in disguise"
    losses = [loss_and_gradient(tiny_softmax, draw, weight)[0] for draw in run.draws[1, :5]]
    np.testing.assert_allclose(np.diff(run.log_likelihood[1, :5]), -np.diff(losses), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "prior"), [("regression", "gaussian"), ("digits", "laplace"), ("logistic", "gaussian")]
)
def test_the_sliced_likelihood_and_its_gradient_are_those_of_all_points(problem, name, prior) -> None:
    # 2000 and 1200 points: the last slice is full in one and padded in the other.
    prepared = problem(name, prior=prior)
    points = prepared.map + 0.3 * np.random.default_rng(0).standard_normal((2, prepared.num_parameters))
    with jax.enable_x64(True):
        values, gradients = jax.vmap(jax.value_and_grad(log_likelihood_of(prepared, 30.0, slices(prepared))))(
            jnp.asarray(points)
        )
        values, gradients = np.asarray(values), np.asarray(gradients)
    expected = [loss_and_gradient(prepared, point, 30.0) for point in points]
    # The constant differs; the difference of two values does not.
    assert values[0] - values[1] == pytest.approx(expected[1][0] - expected[0][0], rel=1e-9)
    np.testing.assert_allclose(gradients, [-gradient for _, gradient in expected], rtol=1e-7, atol=1e-9)


def _energy(position: np.ndarray, momentum: np.ndarray, log_density) -> float:
    return float(np.sum(momentum**2) / 2 - log_density(position))


def test_the_integrator_turns_a_standard_normal_exactly() -> None:
    with jax.enable_x64(True):
        position, momentum = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
        step = split_integrator(lambda z: -jnp.sum(z**2) / 2, jnp.sum)
        after = step(IntegratorState(position, momentum, 0.0, -position), np.pi / 2)
        np.testing.assert_allclose(after.position, momentum, atol=1e-12)
        np.testing.assert_allclose(after.momentum, -position, atol=1e-12)


def test_the_integrator_runs_backwards_keeps_volume_and_is_of_second_order() -> None:
    def log_density(z):
        return -jnp.sum(z**2) / 2 - jnp.sum(z**4) / 10 + jnp.prod(z) / 3

    def move(phase, step_size):
        position, momentum = jnp.split(phase, 2)
        value, gradient = jax.value_and_grad(log_density)(position)
        after = split_integrator(log_density, jnp.sum)(IntegratorState(position, momentum, value, gradient), step_size)
        return jnp.concatenate([after.position, after.momentum])

    with jax.enable_x64(True):
        start = jnp.array([0.7, -0.4, 0.3, 1.1])
        there = move(start, 0.4)
        back = move(there * jnp.array([1, 1, -1, -1]), 0.4)
        np.testing.assert_allclose(back * jnp.array([1, 1, -1, -1]), start, atol=1e-12)
        assert np.linalg.det(np.asarray(jax.jacfwd(move)(start, 0.4))) == pytest.approx(1)
        # The error of a step of half the size is eight times smaller.
        energies = [_energy(*np.split(np.asarray(move(start, size)), 2), log_density) for size in (1e-12, 0.04, 0.02)]
        assert (energies[1] - energies[0]) / (energies[2] - energies[0]) == pytest.approx(8, rel=0.1)
