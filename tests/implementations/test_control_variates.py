"""Control variates: unbiased for any anchor, without noise where losses are quadratic, and right where they are not."""

from dataclasses import replace
from itertools import combinations

import jax
import numpy as np
import pytest
import torch

from benchmarks.known_problems import known_problem, log_odds_posterior
from implementations import backends
from implementations.backends import Inputs, anchor_at, build_sampler
from implementations.control_variates import proxies
from implementations.control_variates.anchor import find_anchor
from implementations.methods import METHODS, resolve
from implementations.sampling import sample as sample_in_memory
from implementations.tasks.problem import Problem
from tests import oracle
from tests.implementations.chains import BACKENDS, LENGTH, LONG_CHAINS, at_once, moments, sample
from tests.implementations.test_targets import NUM_ERRORS, QUADRUPLE, fixed_point, gradient_noise, whitened_covariance

both = pytest.mark.parametrize("backend", BACKENDS)
both_long = pytest.mark.parametrize("backend", LONG_CHAINS)
orders = pytest.mark.parametrize("order", proxies.ORDERS)


def slow(*values: object):
    """A variant whose parts other variants have, with long chains of its own."""
    return pytest.param(*values, marks=pytest.mark.slow)


#: By jax, one program for all moves of a model.
jax_remainders, jax_residuals = (at_once(f, static_argnums=(2, 3)) for f in (proxies.remainders, proxies.residuals))
ANCHORED = ["pbnn_cv", "pbnn_cn", "pbnn_mala_cv"]


def make_sampler(problem: Problem, name: str, backend: str, **given):
    settings = resolve(name, {"chains": 2, "dtype": "float64"} | given, problem)
    return build_sampler(backend, problem, METHODS[name], settings)


def weigh_all(sampler, positions: np.ndarray, indices: np.ndarray, normals: np.ndarray) -> dict[str, np.ndarray]:
    """The audit of one move from each position, with the same normals and these mini-batches (moves, M, n)."""
    is_jax = sampler.__class__.__name__ == "JaxSampler"
    put = sampler._put
    kernel = sampler.loop.kernel
    with jax.enable_x64(True), torch.no_grad():
        source = jax.random.key(0) if is_jax else torch.Generator().manual_seed(0)

        def draw(source, values):
            return kernel.noise(sampler.loop.random(source), (len(positions),), values)

        noise = (at_once(draw) if is_jax else draw)(source, sampler.values)
        moves = put(normals @ np.asarray(sampler.values.factor).T)
        noise = noise._replace(normals=put(normals), moves=moves, indices=put(indices))
        points = sampler.all_points()

        def weigh(noise, positions, points, values):
            return kernel.audit(noise, kernel.init(noise, positions, points, values), points, values)

        audited = (at_once(weigh) if is_jax else weigh)(noise, put(positions), points, sampler.values)
    return {name: np.asarray(array) for name, array in audited.items()}


def tiny(problem: Problem, num_points: int) -> Problem:
    few = replace(problem, features=problem.features[:num_points], targets=problem.targets[:num_points])
    return replace(few, map=np.zeros_like(problem.map))


@both
@pytest.mark.parametrize("order", [*proxies.ORDERS, proxies.AVERAGED])
@pytest.mark.parametrize("weight", [9.0, 4.0])
@pytest.mark.parametrize("task", ["linear", "two_classes", "logistic"])
def test_delta_is_unbiased_and_its_variance_is_that_of_the_remainders(problem, backend, order, weight, task):
    """Over all 84 mini-batches of three among nine points: against the losses, evaluated point by point."""
    few = tiny(known_problem(task) if task == "two_classes" else problem(task), 9)
    given = {"batch_size": 3, "num_batches": 1, "weight": weight, "proxy": order, "step_size": 0.5}
    sampler = make_sampler(few, "pbnn_cv", backend, **given)
    batches = np.array(list(combinations(range(9), 3)))[:, None, :]
    generator = np.random.default_rng(1)
    position, normals = generator.normal(size=(2, 1, few.num_parameters))
    here, noise = (np.repeat(part, len(batches), axis=0) for part in (position, normals))
    found = weigh_all(sampler, here, batches, noise)
    there = position[0] + np.asarray(sampler.values.factor) @ normals[0]
    everything = np.arange(9)
    losses = [oracle.point_losses(place, few, everything) for place in (there, position[0])]
    priors = [oracle.log_prior(place, few) for place in (there, position[0])]
    exact = priors[1] - priors[0] + weight / 9 * (losses[0] - losses[1]).sum()
    assert found["delta"].mean() == pytest.approx(exact, abs=1e-6)
    np.testing.assert_allclose(found["true_delta"], exact, atol=1e-6)
    np.testing.assert_allclose(found["true_variance"], found["delta"].var(), rtol=1e-6, atol=1e-12)
    assert found["variance"].mean() == pytest.approx(found["delta"].var(), rel=1e-6, abs=1e-12)
    if task == "linear" and order != "first":
        assert found["delta"].std() < 1e-6
    else:
        assert found["delta"].std() > 1e-3


@both
@pytest.mark.parametrize("method", ANCHORED)
@pytest.mark.parametrize("task", ["linear", "regression"])
def test_a_quadratic_leaves_no_noise_of_a_gaussian_loss(problem, backend, method, task, compiled_soon):
    given = {"num_steps": 200, "num_warmup": 50, "batch_size": 10, "num_batches": 3, "variance": "batches"}
    found = sample_in_memory(problem(task), method, given, backend)
    assert found.draws.variance.max() < 1e-8
    assert found.audit["true_variance"].max() < 1e-8
    first = sample_in_memory(problem(task), method, given | {"proxy": "first"}, backend, is_audited=False)
    assert first.draws.variance.mean() > 1e-3


@orders
@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli", "gaussian"])
@pytest.mark.parametrize("size", [1e-4, 0.1, 1.0, 5.0])
def test_remainders_are_losses_less_proxies_to_all_their_digits(problem, order, likelihood, size):
    """In single precision, against the plain formula in extended precision."""
    task = {"categorical": "digits", "bernoulli": "logistic", "gaussian": "regression"}[likelihood]
    model = problem(task).model
    generator, count = np.random.default_rng(2), 200
    classes = {"gaussian": 0, "bernoulli": 2}.get(likelihood, model.num_outputs)
    shares = generator.dirichlet(np.full(max(classes, 1), 0.3), size=count).T[: max(classes, 0)].astype(np.float32)
    moves = (size * generator.normal(size=(model.num_outputs, count))).astype(np.float32)
    long = np.longdouble
    if likelihood == "gaussian":
        expected = np.square(moves[0].astype(long) / model.noise_sd) / 2 * (order == "first")
    else:
        exact = shares.astype(long) / shares.astype(long).sum(axis=0)
        u = np.vstack([0 * moves, moves]).astype(long) if likelihood == "bernoulli" else moves.astype(long)
        mean = (exact * u).sum(axis=0)
        expected = np.log((exact * np.exp(u - mean)).sum(axis=0))
        if order == "second":
            expected = expected - (exact * (u - mean) ** 2).sum(axis=0) / 2
    for found in (
        jax_remainders(moves, shares, model, order),
        proxies.remainders(torch.from_numpy(moves), torch.from_numpy(shares), model, order),
        proxies.remainders(moves, shares, model, order),
    ):
        found = np.asarray(found, float)
        # Small moves round by their squares, which a difference of two losses around 1 would not; others like exp.
        np.testing.assert_allclose(
            found, expected.astype(float), rtol=3e-5, atol=2e-7 * (size**2 if size != 0.1 else 1)
        )


@pytest.mark.parametrize("order", [*proxies.ORDERS, proxies.AVERAGED])
@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli", "gaussian"])
def test_residuals_are_the_derivatives_of_remainders(problem, order, likelihood):
    task = {"categorical": "digits", "bernoulli": "logistic", "gaussian": "regression"}[likelihood]
    model = problem(task).model
    generator = np.random.default_rng(3)
    num_kept = proxies.num_columns(model, "second")
    shares = generator.dirichlet(np.ones(max(num_kept, 1)), size=50).T[:num_kept]
    if proxies.num_columns(model, order) > num_kept:
        shares = np.concatenate([shares, generator.normal(size=(model.num_outputs, 50))])
    slopes = at_once(jax.grad(lambda *given: proxies.remainders(*given).sum()), static_argnums=(2, 3))
    with jax.enable_x64(True):
        for size in (0.1, 3.0):
            moves = size * generator.normal(size=(model.num_outputs, 50))
            expected = slopes(moves, shares, model, order)
            found = jax_residuals(moves, shares, model, order)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


LINEAR = {"batch_size": 10, "num_batches": 2}


@both_long
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("pbnn_cv", {}),
        slow("pbnn_cv", {"proxy": "first", "step_size": 0.2}),
        ("pbnn_cn", {"step_size": 0.2}),
        ("pbnn_cn", {"proxy": "first", "step_size": 0.05}),
        ("pbnn_mala_cv", {"step_size": 0.5}),
        ("pbnn_mala_cv", {"step_size": 0.5, "gradient": "proxy"}),
        ("laplace", {}),
        slow("laplace", {"step_size": 0.2}),
        slow("pbnn_cn", {"step_size": 0.2, "preconditioner": "diagonal"}),
        slow("pbnn_cn", {"step_size": 0.2, "weight": 20.0}),
        ("pbnn_cn", {"step_size": 0.2, "proxy": "averaged"}),
    ],
)
def test_the_closed_form_is_found(problem, backend, method, given):
    """Quadratic losses: the second order has no noise, and the first order has some."""
    settings = {name: value for name, value in (LINEAR | given).items() if name in METHODS[method].settings}
    found = moments(problem("linear"), method, backend, **LENGTH[backend], **settings)
    allowed = 0.02 if given.get("proxy") == "first" else 0.0
    assert abs(found.sd_ratio - 1) < NUM_ERRORS * found.sd_ratio_error + allowed
    assert found.mean_error < NUM_ERRORS * found.mean_error_error + allowed
    assert found.sd_ratio_error < 0.015


def two_class_moments(method: str, backend: str, **given) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Mean and covariance of the log odds' intercept and slope, whitened by the exact ones, the errors of the
    covariance's entries, and the mean of the variance of delta."""
    two_classes = known_problem("two_classes")
    settings = resolve(method, LENGTH[backend] | given, two_classes)
    mean, covariance = log_odds_posterior(two_classes, settings.target_weight(two_classes.num_points))
    found = sample_in_memory(two_classes, method, settings, backend, is_audited=False)
    assert found.status == "ok"
    draws = found.draws.positions.astype(float)
    odds = (draws[..., 1::2] - draws[..., 0::2] - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    by_chain = np.einsum("cdi,cdj->cij", odds, odds) / odds.shape[1]
    shifts = odds.mean(axis=1)
    errors = np.stack([shifts.std(axis=0, ddof=1), by_chain.std(axis=0, ddof=1).diagonal()]) / np.sqrt(len(odds))
    return shifts.mean(axis=0), by_chain.mean(axis=0), errors, float(found.draws.variance.mean())


@both_long
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("pbnn_cv", {"step_size": 0.4}),
        ("pbnn_cn", {"step_size": 0.1}),
        ("pbnn_mala_cv", {"step_size": 0.2}),
        ("pbnn_mala_cv", {"step_size": 0.2, "gradient": "proxy"}),
        slow("pbnn_cn", {"step_size": 0.1, "weight": 60.0, "batch_size": 60}),
        slow("pbnn_cn", {"step_size": 0.1, "selection": "leverage"}),
        slow("pbnn_cv", {"step_size": 0.4, "selection": "leverage"}),
        slow("pbnn_cn", {"step_size": 0.4, "proxy": "averaged"}),
        ("pbnn_cn", {"step_size": 0.4, "proxy": "averaged", "selection": "leverage"}),
        slow("pbnn_mala_cv", {"step_size": 0.2, "proxy": "averaged"}),
    ],
)
def test_the_posterior_of_a_softmax_is_found_from_a_part_of_the_data(backend, method, given):
    """200 points, 40 of them per step, against sums over a grid; bare losses have many times the noise."""
    shift, covariance, errors, variance = two_class_moments(method, backend, **{"batch_size": 40} | given)
    assert 0 < variance < 0.3
    np.testing.assert_array_less(abs(shift), NUM_ERRORS * errors[0] + 0.02)
    np.testing.assert_array_less(abs(covariance.diagonal() - 1), NUM_ERRORS * errors[1] + 0.02)
    assert errors.max() < 0.06


@both
def test_laplace_draws_are_those_of_the_gaussian_and_not_of_the_posterior(backend):
    """At w = 15 the posterior of the log odds is skewed: the mode is off its mean, and every draw is independent."""
    two_classes = known_problem("two_classes")
    given = LENGTH[backend] | {"weight": 15.0, "num_warmup": 10, "thin": 1}
    found = sample_in_memory(two_classes, "laplace", given, backend)
    draws = found.draws.positions.reshape(-1, 4).astype(float)
    anchor = anchor_at(two_classes, 15.0)
    precision = anchor.curvature + np.eye(4) / two_classes.prior_scale**2
    whitened = (draws - anchor.position) @ np.linalg.cholesky(precision)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=4 / np.sqrt(len(draws)))
    np.testing.assert_allclose(whitened.T @ whitened / len(draws), np.eye(4), atol=6 / np.sqrt(len(draws)))
    chain = found.draws.positions[0, :, 0]
    assert abs(np.corrcoef(chain[1:], chain[:-1])[0, 1]) < 4 / np.sqrt(len(chain))
    assert found.progress.num_likelihoods == found.progress.num_gradients == 0
    shift, covariance, errors, _ = two_class_moments("laplace", backend, weight=15.0)
    assert (abs(shift) > 5 * errors[0]).any() or (abs(covariance.diagonal() - 1) > 5 * errors[1]).any()
    # The audit tells how far the Gaussian is from the target: an exact rule would reject some of its draws.
    accepted = np.exp(np.minimum(found.audit["log_ratio_proposal"] - found.audit["true_delta"], 0)).mean()
    assert 0.3 < accepted < 0.99


@both_long
@pytest.mark.parametrize(("batch_size", "step_size", "weight"), [(2, 0.02, "data"), (5, 0.3, 20)])
def test_sgld_with_control_variates_has_the_variance_of_its_discrete_chain(
    problem, backend, batch_size, step_size, weight
):
    """At the mode its gradient has no noise: z' = (I - eta A) z + sqrt(2 eta) e; of second order it is that of ula."""
    given = {"batch_size": batch_size, "step_size": step_size, "weight": weight}
    number = resolve("sgld_cv", given, problem("linear")).target_weight(problem("linear").num_points)
    multiplicative, _ = gradient_noise(problem("linear"), number, batch_size)
    drift = (1 - step_size) * np.eye(2)
    operator = np.kron(drift, drift) + step_size**2 * multiplicative
    expected = fixed_point(operator, 2 * step_size * np.eye(2))
    draws, _ = sample(problem("linear"), "sgld_cv", backend, **QUADRUPLE[backend], **given)
    covariance, error = whitened_covariance(problem("linear"), draws, number)
    np.testing.assert_array_less(abs(covariance - expected), NUM_ERRORS * error)
    draws, _ = sample(problem("linear"), "sgld_cv", backend, **QUADRUPLE[backend], **given, proxy="second")
    covariance, error = whitened_covariance(problem("linear"), draws, number)
    np.testing.assert_array_less(abs(covariance - np.eye(2) / (1 - step_size / 2)), NUM_ERRORS * error)


class TestBrokenControlVariatesAreSeen:
    """The same moments tell the right sum of the proxies from a wrong one."""

    @pytest.fixture(autouse=True)
    def compiled_afresh(self):
        from implementations.backends.jax.chain import loop_of

        loop_of.cache_clear()
        yield
        loop_of.cache_clear()

    @pytest.mark.parametrize("share", [0.0, -1.0, 0.5])
    def test_a_sum_of_the_wrong_size_or_sign_fails(self, monkeypatch, share):
        from implementations.kernels import loss_differences

        right = loss_differences.proxy_difference
        monkeypatch.setattr(loss_differences, "proxy_difference", lambda *arguments: share * right(*arguments))
        shift, covariance, errors, _ = two_class_moments("pbnn_cv", "jax-cpu", batch_size=40, step_size=0.1)
        is_off = abs(covariance.diagonal() - 1) > NUM_ERRORS * errors[1] + 0.02
        assert is_off.any() or (abs(shift) > NUM_ERRORS * errors[0] + 0.02).any()


class TestAWrongAnchor:
    """Far from the mode control variates are noisy and still right, the Gaussian is wrong, and a warning says so."""

    @pytest.fixture
    def far(self, monkeypatch):
        """Anchors some standard deviations off."""
        backends.anchor_at.cache_clear()

        def find(problem, weight, progress):
            mode = find_anchor(problem, weight)
            precision = mode.curvature + np.eye(len(mode.position)) / problem.prior_scale**2
            return find_anchor(problem, weight, mode.position + 3 / np.sqrt(precision.diagonal()))

        monkeypatch.setattr(backends, "find_anchor", find)
        yield
        backends.anchor_at.cache_clear()

    @pytest.mark.parametrize("method", ["pbnn_cv", "pbnn_cn"])
    def test_it_is_warned_of_and_costs_noise_but_no_bias(self, far, method):
        with pytest.warns(UserWarning, match="standard deviations from the mode"):
            shift, covariance, errors, variance = two_class_moments(
                method, "jax-cpu", batch_size=100, step_size=0.05, num_steps=3000
            )
        backends.anchor_at.cache_clear()
        np.testing.assert_array_less(abs(shift), NUM_ERRORS * errors[0] + 0.03)
        np.testing.assert_array_less(abs(covariance.diagonal() - 1), NUM_ERRORS * errors[1] + 0.05)
        assert variance > 0


def test_an_anchor_is_found_once_per_weight(problem, monkeypatch):
    found = []
    monkeypatch.setattr(
        backends, "find_anchor", lambda *arguments, **_: found.append(arguments) or find_anchor(*arguments)
    )
    backends.anchor_at.cache_clear()
    linear = problem("linear")
    for method in ("pbnn_cv", "pbnn_cn", "laplace"):
        for weight in ("data", 7.0):
            Inputs(linear, METHODS[method], resolve(method, {"weight": weight}, linear))
    assert [arguments[1] for arguments in found] == [100.0, 7.0]
    backends.anchor_at.cache_clear()
