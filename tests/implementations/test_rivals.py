"""The rivals of the penalty: exact ones find their target, tests keep their promise, and biases fall as they should."""

import math
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy import stats

from implementations.backends import Inputs, ModelTarget, build_sampler
from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.jax import minibatch as jax_minibatch
from implementations.backends.jax.chain import loop_of
from implementations.control_variates import bounds
from implementations.kernels import acceptance, poisson
from implementations.kernels.loss_differences import Losses
from implementations.kernels.sequential import Seen
from implementations.methods import (
    METHODS,
    austerity,
    barker,
    confidence,
    delayed_acceptance,
    pseudo_marginal,
    resolve,
    sgnht,
)
from implementations.sampling import sample as sample_in_memory
from implementations.schedule import draw_steps, step_sizes
from implementations.tasks.geometry import preconditioner_factor
from metrics import decisions
from tests.implementations.chains import BACKENDS, LENGTH, LONG_CHAINS, MANY, at_once, moments, sample
from tests.implementations.test_targets import gradient_noise

both = pytest.mark.parametrize("backend", BACKENDS)
both_long = pytest.mark.parametrize("backend", LONG_CHAINS)
#: A function of arrays as each library runs it, given arrays of NumPy.
libraries = pytest.mark.parametrize(
    "within",
    [
        lambda function: function,
        at_once,
        lambda function: lambda *given: function(*map(torch.as_tensor, given)),
    ],
    ids=["numpy", "jax", "torch"],
)

#: Where chains share a loop that runs as long as one of them asks for data, a step costs the more the more chains.
SHARED = LENGTH | {"torch-cpu": {"chains": 256, "num_steps": 150, "num_warmup": 50, "thin": 10}}
#: Deviations beyond this many Monte Carlo errors fail; the seeds are fixed.
NUM_ERRORS = 4


@pytest.fixture
def compiled_afresh():
    """What is broken on purpose must be compiled, and must not outlive its test."""
    loop_of.cache_clear()
    yield
    loop_of.cache_clear()


def residual(problem, name, backend, number=40, spread=1.0, **given):
    """The detailed-balance residual of moves from ``number`` places around the mode, and its error."""
    settings = resolve(name, given, problem)
    sampler = build_sampler(backend, problem, METHODS[name], settings)
    normals = np.random.default_rng(0).normal(size=(number, problem.num_parameters))
    factor = preconditioner_factor(problem, settings.target_weight(problem.num_points), "full")
    found = sampler.weigh("balance", problem.map + spread * normals @ factor.T, np.ones(number, int), 0)
    return decisions.balance(**found)


@libraries
def test_tails_agree_with_scipy(within):
    z = np.linspace(-6, 6, 101)
    np.testing.assert_allclose(np.asarray(within(acceptance.normal_tail)(z)), stats.norm.sf(z), rtol=1e-5)
    student_tail = within(acceptance.student_tail)
    for dof in (9, 49, 999):
        t = np.linspace(0, 3, 31)
        found = student_tail(t, np.float64(dof))
        np.testing.assert_allclose(np.asarray(found), stats.t.sf(t, dof), rtol=1e-2)


# The Barker test


@libraries
@pytest.mark.parametrize("variance", [0.0, 0.3, 0.9, 0.999])
def test_the_barker_test_makes_up_for_gaussian_noise(within, variance):
    """The mean of A over the noise of delta is Barker's acceptance of the true difference."""
    true = np.linspace(-6, 6, 13)
    noise = np.linspace(-7, 7, 4001)
    delta = true[:, None] + np.sqrt(variance) * noise
    log_accept = within(acceptance.noisy_barker)(delta, np.full_like(delta, variance))
    share = stats.norm.pdf(noise) / stats.norm.pdf(noise).sum()
    np.testing.assert_allclose(np.exp(np.asarray(log_accept)) @ share, 1 / (1 + np.exp(true)), atol=1e-4)


@both_long
def test_barker_penalty_and_exact_metropolis_agree_where_the_noise_is_gaussian(problem, backend):
    """Thirty points a look of a hundred: the noise is close to Gaussian, its variance well known."""
    of_points = {"batch_size": 30, "num_batches": 1, "variance": "points", "weight": "data", "step_size": 0.1}
    runs = {
        "barker_test": SHARED[backend] | {"batch_size": 30, "step_size": 0.3},
        "pbnn": LENGTH[backend] | of_points,
        "full_mh": LENGTH[backend],
    }
    found = {name: moments(problem("linear"), name, backend, **given) for name, given in runs.items()}
    for name, one in found.items():
        assert abs(one.sd_ratio - 1) < 0.01 + NUM_ERRORS * one.sd_ratio_error, name
        assert one.mean_error < 0.05 + NUM_ERRORS * one.mean_error_error, name
    assert found["barker_test"].sd_ratio_error < 0.02


def test_a_barker_test_that_counts_its_noise_twice_is_seen(problem, monkeypatch, compiled_afresh):
    given = MANY | {"batch_size": 30, "step_size": 0.6}
    right = moments(problem("linear"), "barker_test", "jax-cpu", **given)
    assert abs(right.sd_ratio - 1) < 0.01 + NUM_ERRORS * right.sd_ratio_error
    monkeypatch.setattr(barker, "noisy_barker", lambda delta, variance: acceptance.noisy_barker(delta, 0 * variance))
    loop_of.cache_clear()
    found = moments(problem("linear"), "barker_test", "jax-cpu", **given)
    assert found.sd_ratio > 1.01 + NUM_ERRORS * found.sd_ratio_error


# Delayed acceptance


@both
def test_delayed_acceptance_keeps_detailed_balance_to_rounding(problem, backend):
    """On digits, where the quadratic leaves something for the second stage."""
    found = residual(problem("digits"), "delayed_acceptance", backend, number=8, proxy="second")
    assert found.num_moves >= 4
    assert abs(found.residual) < 1e-3


@both_long
def test_delayed_acceptance_stays_in_the_exact_posterior_where_its_second_stage_decides(logistic, backend):
    """A first-order proxy knows the slope at the mode and no curvature: the data have to say the rest."""
    run, mean, variance = run_in_posterior(logistic, "delayed_acceptance", backend, proxy="first", step_size=0.1)
    assert mean < NUM_ERRORS and variance < NUM_ERRORS
    # Of the moves that passed the first stage, which cost an evaluation of all points, the second turned some down.
    num_passed = run.progress.num_likelihoods / 500
    num_accepted = run.draws.acceptance.mean() * run.progress.num_steps * 400
    assert 0.1 * num_passed < num_accepted < 0.9 * num_passed


def test_delayed_acceptance_without_its_second_stage_is_seen(logistic, monkeypatch, compiled_afresh):
    class NoRemainder(Losses):
        def at(self, *arguments):
            return 0 * super().at(*arguments)

    monkeypatch.setattr(delayed_acceptance, "Losses", NoRemainder)
    _, _, variance = run_in_posterior(logistic, "delayed_acceptance", "jax-cpu", proxy="first", step_size=0.1)
    assert variance > 2 * NUM_ERRORS


@both
@pytest.mark.parametrize("name", ["delayed_acceptance", "mh_ss"])
def test_each_of_two_stages_decides_by_a_uniform_of_its_own(problem, name, backend):
    tall = problem("logistic", num_points=500)
    settings = resolve(name, {"proxy": "first", "step_size": 0.1}, tall)
    sampler = build_sampler(backend, tall, METHODS[name], settings)
    source = jax.random.key(0) if backend == "jax-cpu" else torch.Generator().manual_seed(0)
    kernel, start = sampler.loop.kernel, sampler._put(np.tile(tall.map, (20, 1)))

    def is_accepted(levels):
        noise = kernel.noise(sampler.loop.random(source), (20,), sampler.values)
        state = kernel.init(noise, start, sampler.points, sampler.values)
        _, info = kernel.step(noise._replace(log_uniforms=levels), state, sampler.points, sampler.values)
        return info.is_accepted

    run = jax.jit(is_accepted) if backend == "jax-cpu" else is_accepted
    surely, never = -1e4, 1e4
    for levels, expected in (((surely, surely), 1), ((never, surely), 0), ((surely, never), 0)):
        found = np.asarray(run(sampler._put(np.tile(levels, (20, 1)))), float)
        assert found.mean() == expected, levels


# SGNHT


def thermostat(problem, weight, batch_size, step_size, friction):
    """Mean friction xi and variance a of a Gaussian under SGNHT, xi taken as constant.

    With E z^2 = eta: E theta z = eta / 2, a = 1 - xi / 2, and the balance of z^2 gives
    xi^2 - 2 xi + eta xi / 2 + 2 alpha + eta V = 0, V the variance of the whitened gradient's noise.
    """
    multiplicative, additive = gradient_noise(problem, weight, batch_size)
    xi = friction
    for _ in range(100):
        variance = 1 - xi / 2
        noise = np.trace(additive + (multiplicative @ (variance * np.eye(2)).ravel()).reshape(2, 2)) / 2
        xi = friction + (xi**2 + step_size * xi / 2 + step_size * noise) / 2
    return xi, variance


def temperature_and_variance(problem, backend, **given):
    """E |z|^2 / (P eta) and the variance of the whitened position, with their errors over the chains."""
    draws, _ = sample(
        problem, "sgnht", backend, chains=256, num_steps=400, num_warmup=1600, thin=1, weight="data", **given
    )
    factor = preconditioner_factor(problem, problem.num_points, "full")
    moves = np.linalg.solve(factor, np.diff(draws, axis=1).reshape(-1, 2).T).T.reshape(len(draws), -1)
    centred = draws - draws.mean(axis=(0, 1))
    places = np.linalg.solve(factor, centred.reshape(-1, 2).T).T.reshape(len(draws), -1)
    by_chain = (moves**2).mean(axis=1) / given["step_size"], (places**2).mean(axis=1)
    return [(part.mean(), part.std(ddof=1) / np.sqrt(len(part))) for part in by_chain]


THERMOSTAT = {"batch_size": 10, "step_size": 0.01, "friction": 0.1}


@both_long
@pytest.mark.parametrize("friction", [0.1, 0.3])
def test_the_thermostat_keeps_its_temperature_and_the_variance_that_follows(problem, backend, friction):
    """At the larger friction the noise that is injected tells: the variance would be 0.92 with half of it, not 0.82."""
    given = THERMOSTAT | {"friction": friction}
    (temperature, error), (variance, variance_error) = temperature_and_variance(problem("linear"), backend, **given)
    assert abs(temperature - 1) < NUM_ERRORS * error < 0.05
    xi, expected = thermostat(problem("linear"), 100, **given)
    # The gradient's noise is there: it adds to the friction.
    assert xi > 0.12
    # What the mean friction does not tell is of the order of its variance, eta / P.
    assert abs(variance - expected) < NUM_ERRORS * variance_error + 0.02
    assert variance_error < 0.02


def test_a_thermostat_that_forgets_the_square_is_seen(problem, monkeypatch, compiled_afresh):
    class Norm:
        """The namespace of the arrays, whose sum of squares is the norm."""

        def __init__(self, xp):
            self.xp = xp

        def __getattr__(self, name):
            return getattr(self.xp, name)

        def sum(self, squares, axis):
            return self.xp.sqrt(self.xp.sum(squares, axis=axis))

    right = sgnht.array_namespace
    monkeypatch.setattr(sgnht, "array_namespace", lambda array: Norm(right(array)))
    # The norm of a small velocity is far larger than its square: the brake locks.
    with pytest.raises(AssertionError, match="became non-finite"):
        temperature_and_variance(problem("linear"), "jax-cpu", **THERMOSTAT)


# Austerity


def looked_at(within, rule, setting, level, distance, num_looks=1.0, count=50.0, span=0.7, spread=2.0, num_points=1000):
    """Is a difference so far from -log u enough, for a rule that has seen ``count`` of the points?"""
    variance = spread / count * (1 - count / num_points)
    numbers = (0.3 + distance, variance, count, num_looks, -0.3, spread, span)

    def decide(*seen):
        # Levels are arrays of the library, as a run has them.
        values = SimpleNamespace(own={setting: seen[-1]})
        return rule(Seen(*seen[:-1]), num_points, values)[0]

    return bool(within(decide)(*(np.array([number]) for number in (*numbers, level)))[0])


@libraries
@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("side", [-1, 1])
def test_austerity_decides_by_a_one_sided_t_test_of_points_without_replacement(within, level, side):
    error = math.sqrt(2.0 / 50 * (1 - 50 / 1000))
    edge = side * error * stats.t.isf(level, 49)
    assert not looked_at(within, austerity.enough, "epsilon", level, 0.98 * edge)
    assert looked_at(within, austerity.enough, "epsilon", level, 1.02 * edge)


@both
@pytest.mark.parametrize("num_points", [1700, 49])
def test_once_all_points_are_seen_no_variance_is_left_and_none_is_below_zero(problem, backend, num_points):
    """Whatever the number of points: in single precision, compiled, 1 - N / N can be -1e-7."""
    tall = problem("logistic", num_points=num_points)
    given = {"batch_size": 7, "epsilon": 1e-12, "dtype": "float32"}
    sampler = build_sampler(backend, tall, METHODS["austerity"], resolve("austerity", given, tall))
    found = sampler.weigh("audit", np.tile(tall.map, (8, 1)), np.ones(8, int), 0)
    assert (found["variance"] >= 0).all()
    assert (found["variance"][found["num_points"] == num_points] == 0).all()
    assert (found["num_points"] == num_points).any()


# Bounds, and what is exact by them


@pytest.fixture(scope="module")
def logistic(problem):
    """A logistic regression whose decisions rarely need all points, and draws of its posterior by HMC."""
    from implementations.tasks.references.one_layer import sample as gold_standard

    tall = problem("logistic", num_points=500)
    return tall, gold_standard(tall, 500.0, seed=0, chains=8, num_warmup=100, num_draws=250).draws.reshape(-1, 8)


@pytest.mark.parametrize("task", ["logistic", "digits", "linear"])
@pytest.mark.parametrize("order", [None, "first", "second"])
def test_no_loss_changes_by_more_than_its_bound(problem, task, order):
    made = problem(task, **({"num_points": 500} if task == "logistic" else {}))
    card = METHODS["mh_ss"]
    inputs = Inputs(made, card, resolve("mh_ss", {"proxy": order or "first"}, made))
    target = ModelTarget(made.model, jax_likelihood, jax_minibatch)
    if bounds.slope(made.model, order) is None:
        assert (task, order) == ("linear", None)
        return
    random, factor = np.random.default_rng(0), preconditioner_factor(made, made.num_points, "full")
    data = inputs.points()._replace(together=inputs.together(is_whole=True))
    start, end = (made.map + 2 * random.normal(size=(50, made.num_parameters)) @ factor.T for _ in range(2))
    found = abs(np.asarray(Losses(target, order).differences_of_all(start, end, data)))
    allowed = np.outer(target.move_bound(start, end, data, order), target.point_bounds(data.together, order))
    assert (found <= allowed * (1 + 1e-4) + 1e-5).all()
    # A bound that is far too large would cost points for nothing.
    assert task == "digits" or order == "second" or (found / allowed).max() > 0.3
    total, largest = target.bound_totals(data, order)
    each = np.asarray(target.point_bounds(data.together, order))
    np.testing.assert_allclose([total, largest], [each.sum(), each.max()], rtol=1e-4)


def test_lazy_uniforms_are_uniform_independent_and_the_same_in_every_library():
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, (200, 4), dtype=np.int32)
    counters = np.arange(1000, dtype=np.int32)
    with np.errstate(over="ignore"):
        first, second = (poisson.uniforms(keys[:, 2 * part : 2 * part + 2], counters, np.float64) for part in range(2))
    for pair in ((first, second), (first[:, 1:], first[:, :-1]), (first[1:], first[:-1])):
        cells = (20 * pair[0]).astype(int) * 20 + (20 * pair[1]).astype(int)
        assert stats.chisquare(np.bincount(cells.ravel(), minlength=400)).pvalue > 1e-4
    np.testing.assert_array_equal(poisson.uniforms(jnp.asarray(keys[:, :2]), jnp.asarray(counters), jnp.float32), first)
    found = poisson.uniforms(torch.tensor(keys[:, :2]), torch.tensor(counters), torch.float64)
    np.testing.assert_array_equal(found, first)


def run_in_posterior(logistic, method, backend, is_audited=None, **given):
    """Chains that begin in the gold standard; how far their last means and variances are from its, in their errors."""
    tall, draws = logistic
    length = {"chains": 400, "num_steps": 120, "num_warmup": 0, "thin": 40}
    if backend == "torch-cpu":
        length |= {"num_steps": 40, "thin": 20}
    start = draws[:: len(draws) // 400][:400]
    is_audited = method in ("tunamh", "mh_ss") if is_audited is None else is_audited
    run = sample_in_memory(tall, method, length | given, backend, start=start, is_audited=is_audited)
    assert run.status == "ok"
    whitened = (run.draws.positions[:, -1] - draws.mean(axis=0)) / draws.std(axis=0)
    error = np.sqrt(1 / 400 + 1 / len(draws))
    mean, variance = abs(whitened.mean(axis=0)).max(), abs((whitened**2).mean(axis=0) - 1).max()
    return run, mean / error, variance / (np.sqrt(2) * error)


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    ("method", "given"),
    [("tunamh", {"chi": 0.05, "step_size": 0.02}), ("mh_ss", {"proxy": "first"}), ("mh_ss", {"proxy": "second"})],
)
def test_methods_with_bounds_stay_in_the_exact_posterior(logistic, backend, method, given):
    """Chains that begin in the gold standard keep its moments."""
    run, mean, variance = run_in_posterior(logistic, method, backend, **given)
    assert mean < NUM_ERRORS and variance < NUM_ERRORS
    assert run.draws.acceptance.mean() > 0.15
    # Decisions on fewer points than all, but for those that would need more.
    points = run.audit["num_points"]
    assert points.mean() < 500 and points.min() < 100
    kept = decisions.balance(**{key[8:]: run.audit[key] for key in run.audit if key.startswith("balance_")})
    assert abs(kept.residual) < NUM_ERRORS * kept.error < 0.1


def test_a_bound_that_is_too_small_is_seen(problem, monkeypatch, compiled_afresh):
    tall, right = problem("logistic", num_points=500), bounds.move_bound
    monkeypatch.setattr(bounds, "move_bound", lambda *arguments: 0.1 * right(*arguments))
    found = residual(tall, "mh_ss", "jax-cpu", number=30, proxy="first")
    assert found.residual > 5 * found.error


# The confidence sampler


@libraries
@pytest.mark.parametrize(("count", "num_looks"), [(50, 1), (200, 3), (800, 5)])
def test_the_confidence_sampler_decides_at_its_bound(within, count, num_looks):
    """Bardenet and Maillard (2015), theorem 3: both sides, with log(5 / delta_k), delta_k = delta / (2 k^2)."""
    rho = 1 - (count - 1) / 1000 if count <= 500 else (1 - count / 1000) * (1 + 1 / count)
    log_level = math.log(5 * 2 * num_looks**2 / 0.1)
    width = math.sqrt(2.0) * math.sqrt(2 * rho * log_level / count)
    width += (7 / 3 + 3 / math.sqrt(2)) * 0.7 * log_level / count
    given = {"num_looks": float(num_looks), "count": float(count)}
    for side in (-1, 1):
        assert not looked_at(within, confidence.enough, "delta", 0.1, 0.999 * side * width, **given)
        assert looked_at(within, confidence.enough, "delta", 0.1, 1.001 * side * width, **given)


@both_long
def test_the_confidence_sampler_stays_in_the_exact_posterior(logistic, backend):
    """Without a proxy, so that few points would not do: it asks for as many as it takes."""
    run, mean, variance = run_in_posterior(logistic, "confidence", backend, proxy="none", delta=0.05)
    assert mean < NUM_ERRORS and variance < NUM_ERRORS
    assert run.draws.acceptance.mean() > 0.15


def test_a_confidence_sampler_that_takes_the_error_of_the_mean_for_the_spread_is_seen(
    logistic, monkeypatch, compiled_afresh
):
    """And forgets the range: it is sure at its first look."""

    def too_sure(seen, num_points, values):
        return confidence.enough(seen._replace(spread=seen.spread / seen.count, span=0 * seen.span), num_points, values)

    card = METHODS["confidence"]
    monkeypatch.setitem(METHODS, "confidence", replace(card, kernel=replace(card.kernel, rule=too_sure)))
    _, _, variance = run_in_posterior(logistic, "confidence", "jax-cpu", proxy="none", delta=0.05)
    assert variance > 2 * NUM_ERRORS


# Pseudo-marginal


@both_long
def test_pseudo_marginal_finds_the_target_where_its_estimate_is_good(problem, backend):
    """Fifty points of a hundred, and a target whose loss has a noise of variance 0.2."""
    given = LENGTH[backend] | {"batch_size": 10, "num_batches": 5, "step_size": 0.3, "weight": 5}
    found = moments(problem("linear"), "pseudo_marginal", backend, **given)
    assert abs(found.sd_ratio - 1) < 0.01 + NUM_ERRORS * found.sd_ratio_error
    assert found.mean_error < 0.02 + NUM_ERRORS * found.mean_error_error


def test_a_pseudo_marginal_without_its_correction_is_seen(problem, monkeypatch, compiled_afresh):
    monkeypatch.setattr(pseudo_marginal, "CORRECTION", 0.0)
    given = MANY | {"batch_size": 10, "num_batches": 5, "step_size": 0.3, "weight": 5, "num_steps": 2000}
    found = moments(problem("linear"), "pseudo_marginal", "jax-cpu", **given)
    assert found.sd_ratio > 1.01 + NUM_ERRORS * found.sd_ratio_error


# Cycles


@both_long
@pytest.mark.parametrize(("method", "step_size"), [("sgld", 0.3), ("sghmc", 0.1), ("sgld_cv", 0.7)])
def test_draws_of_a_cyclic_method_are_those_of_small_steps(problem, method, backend, step_size):
    """A large first step would bias it; late in a cycle the bias is that of the small steps there."""
    given = MANY | {"num_steps": 1700, "weight": "data", "batch_size": 20, "step_size": step_size}
    plain = moments(problem("linear"), method, backend, **given)
    late = moments(problem("linear"), f"c{method}", backend, **given, num_cycles=2, explored=0.7)
    assert plain.sd_ratio > 1.2
    assert abs(late.sd_ratio - 1) < 0.5 * (plain.sd_ratio - 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cycle_begins_at_the_full_step_and_keeps_its_late_draws(problem, backend):
    given = {"chains": 2, "num_steps": 60, "num_warmup": 20, "thin": 5, "num_cycles": 2, "explored": 0.5}
    settings = resolve("csghmc", given, problem("linear"))
    sampler = build_sampler(backend, problem("linear"), METHODS["csghmc"], settings)
    numbers = np.arange(80)
    sizes = np.asarray(step_sizes(sampler.values, sampler._put(numbers)))
    expected = [settings.step_size / 2 * (1 + math.cos(math.pi * (number % 40) / 40)) for number in numbers]
    np.testing.assert_allclose(sizes, expected, rtol=1e-5, atol=1e-9)
    # After 20 + 5, 10, … 60 steps, of which 25 to 40 and 65 to 80 end in the second half of a cycle.
    steps, is_late = draw_steps(settings)
    assert steps[is_late].tolist() == [25, 30, 35, 40, 65, 70, 75, 80]
    assert sample_in_memory(problem("linear"), "csghmc", given, backend).draws.positions.shape == (2, 8, 2)
