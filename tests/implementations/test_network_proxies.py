"""Control variates of networks whose layers are all stochastic: against automatic differentiation, point by point."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import jax
import numpy as np
import pytest
import torch

from implementations.backends import ModelTarget, anchor_at
from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.control_variates import network_proxies, proxies
from implementations.kernels.contract import Data, Expansion
from implementations.sampling import sample
from implementations.tasks.derivatives import hessian, loss_and_gradient
from implementations.tasks.problem import Problem, network_outputs
from tests import oracle
from tests.implementations.chains import BACKENDS, at_once
from tests.implementations.test_control_variates import make_sampler, weigh_all

both = pytest.mark.parametrize("backend", BACKENDS)
orders = pytest.mark.parametrize("order", proxies.ORDERS)
LAYERS = {"gaussian": ((2, 3), (4, 1)), "categorical": ((3, 4), (5, 3)), "bernoulli": ((3, 2), (3, 3), (4, 1))}
likelihoods = pytest.mark.parametrize("likelihood", LAYERS)
some = pytest.mark.parametrize(
    ("likelihood", "order"), [("gaussian", "second"), ("categorical", "second"), ("bernoulli", "first")]
)


@cache
def network(likelihood: str, num_points: int = 40) -> Problem:
    """A small network with two or three layers; its targets come from other weights of the same form."""
    random, layers = np.random.default_rng(3), LAYERS[likelihood]
    size = sum(rows * columns for rows, columns in layers)
    features = np.hstack([np.ones((num_points, 1)), random.normal(size=(num_points, layers[0][0] - 1))])
    true, start = random.normal(size=(2, size))
    outputs = network_outputs(1.5 * true, features, layers)
    targets = {
        "gaussian": outputs[:, 0] + 0.3 * random.normal(size=num_points),
        "categorical": (outputs + random.gumbel(size=outputs.shape)).argmax(axis=1),
        "bernoulli": (outputs[:, 0] + random.logistic(size=num_points) > 0).astype(int),
    }[likelihood]
    given = {"layers": layers, "stochastic": "all", "noise_sd": 0.3, "map": start.astype(np.float32)}
    return Problem.of(features, targets, likelihood=likelihood, **given)


def places(problem: Problem, size: float) -> tuple[np.ndarray, np.ndarray]:
    """An anchor (P,), and positions (2, P) around it."""
    random = np.random.default_rng(4)
    anchor = random.normal(size=problem.num_parameters)
    return anchor, anchor + size * random.normal(size=(2, problem.num_parameters))


def losses_of(problem: Problem):
    """The losses as a function of the position, of torch in double precision; nothing to compile."""
    data = Data(torch.as_tensor(problem.features, dtype=torch.float64), torch.as_tensor(problem.targets))
    return lambda position: torch_likelihood.point_losses(position, data, problem.model)


def taylor_rest(problem: Problem, anchor: np.ndarray, position: np.ndarray, order: str) -> np.ndarray:
    """l_j(theta) - l_j(t) less its Taylor polynomial, by automatic differentiation of every loss."""
    losses, (there, here) = (
        losses_of(problem),
        (torch.as_tensor(place, dtype=torch.float64) for place in (position, anchor)),
    )

    def slopes(place):
        return torch.func.jvp(losses, (place,), (there - here,))[1]

    rest = losses(there) - losses(here) - slopes(here)
    return np.asarray(rest if order == "first" else rest - torch.func.jvp(slopes, (here,), (there - here,))[1] / 2)


@orders
@likelihoods
def test_remainders_are_losses_less_their_taylor_polynomials(likelihood, order):
    """In double precision, in three libraries; from moves within the series to ones far beyond it."""
    problem = network(likelihood)

    def remainders(positions, anchor, features, targets):
        data = Data(features, targets)
        return network_proxies.remainders(positions, data, Expansion(anchor, (), (), anchor), problem.model, order)

    compiled = at_once(remainders)
    for size in (0.05, 1.0):
        anchor, positions = places(problem, size)
        expected = np.stack([taylor_rest(problem, anchor, position, order) for position in positions])
        assert abs(expected).max() > 1e-6
        arrays = positions, anchor, problem.features.astype(float), problem.targets
        with jax.enable_x64(True):
            found = [compiled(*arrays), remainders(*map(torch.as_tensor, arrays)), remainders(*arrays)]
        for one in found:
            np.testing.assert_allclose(np.asarray(one), expected, rtol=1e-9, atol=1e-12)


@orders
def test_single_precision_rounds_like_the_move_and_not_like_the_loss(order):
    """A move of a hundredth: a difference of losses around 1 would be off by 1e-7 however small the rest is."""
    problem = network("categorical")
    anchor, positions = (np.float32(place) for place in places(problem, 0.01))
    expected = np.stack([taylor_rest(problem, anchor, position, order) for position in positions])
    data = Data(problem.features, problem.targets)
    found = network_proxies.remainders(positions, data, Expansion(anchor, (), (), anchor), problem.model, order)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-8)


@likelihoods
def test_gradient_and_hessian_are_those_of_automatic_differentiation(likelihood):
    problem = network(likelihood)
    anchor, _ = places(problem, 1.0)
    losses, here = losses_of(problem), torch.as_tensor(anchor)

    def total(position):
        return 7.0 / problem.num_points * losses(position).sum()

    value, gradient = loss_and_gradient(problem, anchor, 7.0)
    np.testing.assert_allclose(gradient, torch.func.grad(total)(here), rtol=1e-10, atol=1e-12)
    assert value == pytest.approx(float(total(here)))
    np.testing.assert_allclose(hessian(problem, anchor, 7.0), torch.func.hessian(total)(here), rtol=1e-9, atol=1e-11)


@both
@some
def test_delta_is_unbiased_over_all_mini_batches(backend, likelihood, order):
    """All 84 mini-batches of three among nine points, against the losses, evaluated point by point."""
    few, weight = network(likelihood, 9), 4.0
    given = {"batch_size": 3, "num_batches": 1, "weight": weight, "proxy": order, "step_size": 0.5}
    sampler = make_sampler(few, "pbnn_cv", backend, **given)
    batches = np.array(list(combinations(range(9), 3)))[:, None, :]
    position, normals = np.random.default_rng(1).normal(size=(2, 1, few.num_parameters))
    here, noise = (np.repeat(part, len(batches), axis=0) for part in (position, normals))
    found = weigh_all(sampler, here, batches, noise)
    there = position[0] + np.asarray(sampler.values.factor) @ normals[0]
    losses = [oracle.point_losses(place, few, np.arange(9)) for place in (there, position[0])]
    priors = [oracle.log_prior(place, few) for place in (there, position[0])]
    exact = priors[1] - priors[0] + weight / 9 * (losses[0] - losses[1]).sum()
    assert found["delta"].mean() == pytest.approx(exact, abs=1e-6)
    np.testing.assert_allclose(found["true_delta"], exact, atol=1e-6)
    np.testing.assert_allclose(found["true_variance"], found["delta"].var(), rtol=1e-6)
    assert found["delta"].std() > 1e-3


@both
@some
def test_the_anchored_gradient_of_all_points_is_the_targets_own(backend, likelihood, order):
    """The proxies cancel where every point is in the mini-batch, and are all there is where none is."""
    problem, weight = network(likelihood), 20.0
    sampler = make_sampler(problem, "sgld_cv", backend, batch_size=40, weight=weight, proxy=order)
    anchor, form = anchor_at(problem, weight), sampler.loop.form
    is_jax = backend == "jax-cpu"
    library = jax_likelihood if is_jax else torch_likelihood
    target = ModelTarget(form.model, library, None)
    _, positions = places(problem, 0.3)
    points = sampler.all_points()
    with jax.enable_x64(True), torch.no_grad():
        run = at_once(target.anchored_gradient, static_argnums=4) if is_jax else target.anchored_gradient
        whole, none = (
            run(sampler._put(positions), data, points.anchor, sampler.values.weight, order)
            for data in (points.together, None)
        )
    for found, of_proxies, position in zip(whole, none, positions, strict=True):
        expected = loss_and_gradient(problem, position, weight)[1] + position / problem.prior_scale**2
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=1e-10)
        curved = anchor.curvature @ (position - anchor.position) if order == "second" else 0
        expected = anchor.gradient + curved + position / problem.prior_scale**2
        np.testing.assert_allclose(np.asarray(of_proxies), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@both
def test_chains_find_what_full_data_chains_find(backend):
    """Means and variances of the outputs at the data, of many chains around one mode; three quarters of the points."""
    problem, weight, chains = network("gaussian"), 4.0, 64
    anchor = anchor_at(problem, weight)
    problem = replace(problem, map=np.float32(anchor.position), curvature=anchor.gauss_newton / weight)
    shared = {"chains": chains, "num_steps": 2000, "num_warmup": 500, "thin": 10, "weight": weight}
    given = {
        "full_mh": {"step_size": 0.06},
        "pbnn_cv": {"step_size": 0.02, "batch_size": 30},
        "pbnn_cn": {"step_size": 0.02, "batch_size": 30},
    }
    start = np.tile(anchor.position, (chains, 1))
    moments = {}
    for method, settings in given.items():
        found = sample(problem, method, shared | settings, backend, start=start, is_audited=False)
        assert found.status == "ok" and found.draws.acceptance.mean() > 0.1
        assert np.median(found.draws.variance) < 0.3
        outputs = network_outputs(found.draws.positions.astype(float), problem.features, problem.layers)[..., 0]
        by_chain = np.stack([outputs.mean(axis=1), outputs.var(axis=1)])
        moments[method] = by_chain.mean(axis=1), by_chain.std(axis=1, ddof=1) / np.sqrt(chains)
    exact, error = moments.pop("full_mh")
    for found, own_error in moments.values():
        off = (found - exact) / np.hypot(error, own_error)
        # Eighty correlated numbers.
        assert np.sqrt(np.square(off).mean()) < 1.8 and abs(off).max() < 5
