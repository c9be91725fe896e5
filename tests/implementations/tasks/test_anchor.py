"""Control variates: the quadratic stand-ins of the losses, against the losses and automatic differentiation."""

import tracemalloc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from implementations.backends.jax import likelihood as jax_likelihood
from implementations.control_variates.anchor import Anchor, find_anchor
from implementations.kernels.contract import Data
from implementations.tasks.geometry import preconditioner_factor
from implementations.tasks.problem import Problem
from implementations.tasks.references.mode import loss_and_gradient
from tests import oracle
from tests.oracle import point_proxies, proxy_gradient, proxy_sum

#: A Gaussian, a softmax and log odds.
TASKS = ["regression", "digits", "logistic"]
WEIGHT = 150.0


def _steps(problem: Problem, weight: float, num_steps: int) -> np.ndarray:
    """Steps (num_steps, P) of the size of the posterior."""
    noise = np.random.default_rng(5).standard_normal((num_steps, problem.num_parameters))
    return noise @ preconditioner_factor(problem, weight, "full").T


def _remainders(problem: Problem, anchor: Anchor, step: np.ndarray) -> np.ndarray:
    """l_j(theta) - l_j(t) - q_j(theta) of all points."""
    everything = np.arange(problem.num_points)
    there, here = anchor.position + step, anchor.position
    losses = [oracle.point_losses(place, problem, everything) for place in (there, here)]
    return losses[0] - losses[1] - point_proxies(problem, anchor, there, everything)


@pytest.mark.parametrize("name", TASKS)
def test_the_sum_of_the_proxies_over_all_points_is_the_quadratic_form(problem, name) -> None:
    prepared = problem(name)
    anchor = find_anchor(prepared, WEIGHT)
    places = anchor.position + _steps(prepared, WEIGHT, 3)
    everything = np.arange(prepared.num_points)
    sums = [WEIGHT / prepared.num_points * point_proxies(prepared, anchor, place, everything).sum() for place in places]
    np.testing.assert_allclose(proxy_sum(anchor, places), sums, rtol=1e-9)
    assert proxy_sum(anchor, anchor.position) == 0
    assert proxy_sum(anchor, places[1]) == proxy_sum(anchor, places)[1]


@pytest.mark.parametrize("name", TASKS)
def test_a_proxy_is_the_taylor_polynomial_of_its_loss_by_automatic_differentiation(problem, name) -> None:
    prepared = problem(name)
    anchor = find_anchor(prepared, WEIGHT)
    indices = np.array([3, 100, 77, 1_199])
    step = _steps(prepared, WEIGHT, 1)[0]
    with jax.enable_x64(True):
        data = Data(jnp.asarray(prepared.features[indices], float), jnp.asarray(prepared.targets[indices]))

        def losses(position):
            return jax_likelihood.point_losses(position, data, prepared.model)

        here = jnp.asarray(anchor.position)
        slopes = jax.jvp(losses, (here,), (step,))[1]
        bends = jax.jvp(lambda place: jax.jvp(losses, (place,), (step,))[1], (here,), (step,))[1]
        expected = np.asarray(slopes + bends / 2)
    found = point_proxies(prepared, anchor, anchor.position + step, indices)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["digits", "logistic"])
def test_what_the_proxy_leaves_is_of_third_order(problem, name) -> None:
    prepared = problem(name)
    anchor = find_anchor(prepared, WEIGHT)
    step = _steps(prepared, WEIGHT, 1)[0]
    whole, half = (np.linalg.norm(_remainders(prepared, anchor, size * step)) for size in (0.04, 0.02))
    assert whole / half == pytest.approx(8, rel=0.05)
    assert whole > 1e-9, "above rounding"


@pytest.mark.parametrize("name", TASKS)
def test_the_proxys_gradient_is_that_of_its_sum_and_at_the_anchor_that_of_the_loss(problem, name) -> None:
    prepared = problem(name)
    anchor = find_anchor(prepared, WEIGHT)
    exact = loss_and_gradient(prepared, anchor.position, WEIGHT)[1]
    np.testing.assert_array_equal(proxy_gradient(anchor, anchor.position), exact)
    place = anchor.position + _steps(prepared, WEIGHT, 1)[0]
    with jax.enable_x64(True):
        step = jnp.asarray(place - anchor.position)
        expected = jax.grad(lambda step: step @ anchor.gradient + step @ anchor.curvature @ step / 2)(step)
    np.testing.assert_allclose(proxy_gradient(anchor, place), expected, rtol=1e-9, atol=1e-9)


def test_no_array_of_all_points_and_parameters_is_built(problem) -> None:
    prepared = problem("logistic")
    wide = np.tile(prepared.features, (30, 1))
    tall = replace(prepared, features=wide, targets=np.tile(prepared.targets, 30))
    assert tall.num_points == 300_000
    tracemalloc.start()
    find_anchor(tall, 300_000.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 2.4 MB of outputs, and some copies of a chunk of 65,536 points; the features in double precision are 19 MB.
    assert peak < 0.75 * 8 * wide.size
