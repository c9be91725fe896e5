"""Samplers against closed forms: the exact ones find their target, the biased ones miss it by what theory says."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from implementations.backends.jax.chain import loop_of
from implementations.kernels import metropolis
from implementations.methods import resolve
from implementations.tasks.geometry import preconditioner_factor
from implementations.tasks.references.closed_form import gaussian_posterior
from tests.implementations.chains import BACKENDS, LENGTH, LONG_CHAINS, MANY, moments, sample

both = pytest.mark.parametrize("backend", BACKENDS)
both_long = pytest.mark.parametrize("backend", LONG_CHAINS)

#: For covariances entry by entry.
QUADRUPLE = {backend: length | {"chains": 4 * length["chains"]} for backend, length in LENGTH.items()}

#: Deviations beyond this many Monte Carlo errors fail; the seeds are fixed.
NUM_ERRORS = 4


@both_long
@pytest.mark.parametrize(("method", "given"), [("full_mh", {}), ("mala", {}), ("tempered", {"batch_size": 5})])
def test_exact_methods_find_the_closed_form(problem, backend, method, given):
    """Of 21 parameters; the contract suite has the two of ``linear``."""
    found = moments(problem("regression"), method, backend, **LENGTH[backend] | {"chains": 128}, **given)
    assert abs(found.sd_ratio - 1) < NUM_ERRORS * found.sd_ratio_error
    assert found.mean_error < NUM_ERRORS * found.mean_error_error
    # The test means something only when it is sharp; all the data of more chains would cost torch as much as jax.
    assert found.sd_ratio_error < (0.01 if backend == "jax-cpu" else 0.02)


@both_long
@pytest.mark.parametrize(
    ("task", "given"),
    [
        ("linear", {"batch_size": 5, "num_batches": 5, "step_size": 0.08}),
        ("regression", {"batch_size": 5, "num_batches": 5, "step_size": 0.02}),
    ],
)
@pytest.mark.parametrize("method", ["pbnn", "pbnn_mala"])
def test_the_penalty_finds_the_target_at_a_moderate_step(problem, backend, task, given, method):
    found = moments(problem(task), method, backend, **LENGTH[backend], **given)
    assert 0.95 < found.sd_ratio < 1.05
    assert found.sd_ratio_error < 0.01


@both_long
@pytest.mark.parametrize(
    ("task", "given"),
    [
        ("linear", {"batch_size": 2, "step_size": 0.08}),
        ("regression", {"batch_size": 5, "step_size": 0.03, "weight": "batch"}),
    ],
)
def test_naive_subsampling_misses_the_target(problem, backend, task, given):
    assert moments(problem(task), "naive", backend, **LENGTH[backend], **given).sd_ratio > 1.3


class TestBrokenSamplersAreSeen:
    """The same moments tell a right sampler from one with a small mistake, in the regime of strong noise."""

    STRONG = MANY | {"batch_size": 5, "num_batches": 3, "step_size": 0.5, "weight": 20, "variance": "oracle"}

    @pytest.fixture(autouse=True)
    def compiled_afresh(self):
        """What is broken on purpose must be compiled, and must not outlive its test."""
        loop_of.cache_clear()
        yield
        loop_of.cache_clear()

    def test_the_right_one_passes(self, problem):
        found = moments(problem("linear"), "pbnn", "jax-cpu", **self.STRONG)
        assert 0.95 < found.sd_ratio < 1.05

    @pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
    def test_a_penalty_of_the_wrong_size_fails(self, problem, monkeypatch, share):
        def wrong(delta, variance, dof):
            return -delta - share * 0.5 * variance

        monkeypatch.setitem(metropolis.ACCEPTANCES, "penalty", wrong)
        found = moments(problem("linear"), "pbnn", "jax-cpu", **self.STRONG)
        assert not 0.95 < found.sd_ratio < 1.05

    @pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
    def test_a_langevin_ratio_of_the_wrong_size_fails(self, problem, monkeypatch, share):
        right = metropolis.langevin_log_ratio
        monkeypatch.setattr(metropolis, "langevin_log_ratio", lambda *arguments: share * right(*arguments))
        found = moments(problem("linear"), "mala", "jax-cpu", **MANY)
        assert not 0.95 < found.sd_ratio < 1.05


def whitened_covariance(problem, draws, weight):
    """Covariance of the draws over that of the exact posterior, and the spread of its entries over the chains."""
    exact = gaussian_posterior(problem, weight)
    root = np.linalg.cholesky(exact.covariance)
    whitened = solve_triangular(root, (draws - exact.mean).reshape(-1, draws.shape[-1]).T, lower=True).T
    whitened = whitened.reshape(draws.shape)
    by_chain = np.einsum("cdi,cdj->cij", whitened, whitened) / draws.shape[1]
    return by_chain.mean(axis=0), by_chain.std(axis=0, ddof=1) / np.sqrt(len(draws))


@both_long
@pytest.mark.parametrize("step_size", [0.1, 0.6])
def test_ula_has_the_variance_of_its_discrete_chain(problem, backend, step_size):
    """z' = (1 - eta) z + sqrt(2 eta) e in whitened coordinates, so var z = 1 / (1 - eta / 2)."""
    draws, _ = sample(problem("linear"), "ula", backend, **QUADRUPLE[backend], step_size=step_size)
    covariance, error = whitened_covariance(problem("linear"), draws, 100)
    np.testing.assert_array_less(abs(covariance - np.eye(2) / (1 - step_size / 2)), NUM_ERRORS * error)
    assert error.max() < 0.02


def gradient_noise(problem, weight, batch_size):
    """Of a mini-batch's gradient A z - c on a linear Gaussian model, whitened around its mean: E[A~ x A~] and cov(c).

    A and c are drawn without replacement, so each is w^2 / n (1 - n / N) times its variance over single points.
    """
    features, targets = problem.features.astype(float), problem.targets.astype(float)
    exact = gaussian_posterior(problem, weight)
    factor = preconditioner_factor(problem, weight, "full")
    # The preconditioner is the exact covariance here, so that C H = I on average in whitened coordinates.
    np.testing.assert_allclose(factor @ factor.T, exact.covariance, rtol=1e-4)
    root = np.linalg.cholesky(exact.covariance)
    points = features @ root / problem.noise_sd
    precisions = np.einsum("ni,nj->nij", points, points)
    forces = points * ((targets - features @ exact.mean) / problem.noise_sd)[:, None]
    share = weight**2 / batch_size * (1 - batch_size / problem.num_points)
    count = problem.num_points - 1
    centred = precisions - precisions.mean(axis=0)
    together = forces - forces.mean(axis=0)
    multiplicative = share * np.einsum("nij,nkl->ikjl", centred, centred).reshape(4, 4) / count
    return multiplicative, share * together.T @ together / count


def fixed_point(operator, source):
    """The covariance that stays the same under cov' = operator cov + source."""
    return np.linalg.solve(np.eye(operator.shape[0]) - operator, source.ravel()).reshape(source.shape)


def sgld_covariance(problem, weight, batch_size, step_size):
    """z' = (I - eta A) z + eta c + sqrt(2 eta) e."""
    multiplicative, additive = gradient_noise(problem, weight, batch_size)
    drift = (1 - step_size) * np.eye(2)
    operator = np.kron(drift, drift) + step_size**2 * multiplicative
    return fixed_point(operator, step_size**2 * additive + 2 * step_size * np.eye(2))


def sghmc_covariance(problem, weight, batch_size, step_size, friction):
    """v' = (1 - alpha) v - eta (A z - c) + sqrt(2 alpha eta) e,  z' = z + v', as a linear map of (z, v)."""
    multiplicative, additive = gradient_noise(problem, weight, batch_size)
    one, nothing = np.eye(2), np.zeros((2, 2))
    drift = np.block([[(1 - step_size) * one, (1 - friction) * one], [-step_size * one, (1 - friction) * one]])
    # What changes v changes z as much.
    both_parts, of_position = np.block([[one], [one]]), np.block([[one, nothing]])
    noise = np.kron(both_parts, both_parts) @ multiplicative @ np.kron(of_position, of_position)
    kick = step_size**2 * additive + 2 * friction * step_size * one
    source = both_parts @ kick @ both_parts.T
    return fixed_point(np.kron(drift, drift) + step_size**2 * noise, source)[:2, :2]


@both_long
@pytest.mark.parametrize(
    ("batch_size", "step_size", "friction", "weight"),
    [(5, 0.3, 0.5, "batch"), (2, 0.005, 0.1, "data"), (20, 0.05, 0.1, 20), (5, 0.3, 1.0, "batch")],
)
def test_sghmc_has_the_variance_of_its_discrete_chain(problem, backend, batch_size, step_size, friction, weight):
    given = {"batch_size": batch_size, "step_size": step_size, "weight": weight, "friction": friction}
    number = resolve("sghmc", given, problem("linear")).target_weight(problem("linear").num_points)
    draws, _ = sample(problem("linear"), "sghmc", backend, **QUADRUPLE[backend], **given)
    covariance, error = whitened_covariance(problem("linear"), draws, number)
    expected = sghmc_covariance(problem("linear"), number, batch_size, step_size, friction)
    np.testing.assert_array_less(abs(covariance - expected), NUM_ERRORS * error)
    if friction == 1:
        np.testing.assert_allclose(expected, sgld_covariance(problem("linear"), number, batch_size, step_size))
    # A friction or a noise that is off by a tenth, or a momentum that is lost, would be seen.
    for wrong in (1.1 * step_size, step_size / 1.1):
        other = sghmc_covariance(problem("linear"), number, batch_size, wrong, friction)
        assert (abs(other - expected) > NUM_ERRORS * error).any() or friction < 0.5
    assert np.trace(expected) / 2 > 1 + 5 * error.max()


SGLD = ((5, 0.3, "batch"), (2, 0.02, "data"), (20, 0.5, 20))


@pytest.mark.parametrize(
    ("method", "backend", "batch_size", "step_size", "weight"),
    [
        *(("sgld", "jax-cpu", *given) for given in SGLD),
        *(pytest.param("sgld", "torch-cpu", *given, marks=pytest.mark.slow) for given in SGLD),
        # A Python loop, so only once, and for fewer steps.
        pytest.param("posteriors_sgld", "torch-cpu", 20, 0.5, 20, marks=pytest.mark.slow),
    ],
)
def test_sgld_has_the_variance_of_its_discrete_chain(problem, method, backend, batch_size, step_size, weight):
    given = {"batch_size": batch_size, "step_size": step_size, "weight": weight}
    number = resolve(method, given, problem("linear")).target_weight(problem("linear").num_points)
    length = {"chains": 512, "num_steps": 400} if method == "posteriors_sgld" else {}
    draws, _ = sample(problem("linear"), method, backend, **QUADRUPLE[backend] | length, **given)
    covariance, error = whitened_covariance(problem("linear"), draws, number)
    expected = sgld_covariance(problem("linear"), number, batch_size, step_size)
    np.testing.assert_array_less(abs(covariance - expected), NUM_ERRORS * error)
    # The noise of the gradient is there to be seen.
    assert np.trace(expected) / 2 - 1 / (1 - step_size / 2) > 5 * error.max()
