"""The density without targets: normaliser and derivatives against scipy and autodiff, the task against the truth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy import integrate, special

from implementations.backends import ModelTarget
from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.jax import minibatch as jax_minibatch
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.backends.torch import minibatch as torch_minibatch
from implementations.kernels.contract import Data, Expansion
from implementations.tasks.data import density
from implementations.tasks.derivatives import hessian, loss_and_gradient
from implementations.tasks.geometry import mean_curvature
from implementations.tasks.likelihoods import normaliser
from implementations.tasks.likelihoods.density import NUM_CELLS, midpoints
from implementations.tasks.problem import Problem, network_outputs
from tests.implementations.chains import at_once

NUM_POINTS = 25
BACKENDS = {
    "jax": (jax_likelihood, jax_minibatch, jnp.asarray),
    "torch": (torch_likelihood, torch_minibatch, torch.as_tensor),
}


@pytest.fixture(scope="module")
def last(problem) -> Problem:
    return problem("density")


@pytest.fixture(scope="module")
def network() -> Problem:
    """Two layers at a random place, small enough for automatic differentiation."""
    random = np.random.default_rng(3)
    inputs = random.uniform(-2, 2, (NUM_POINTS, 1))
    features, grid = (np.column_stack([np.ones(len(x)), x]).astype(np.float32) for x in (inputs, midpoints((-2, 2))))
    given = {"layers": ((2, 4), (5, 1)), "map": random.normal(size=13), "grid": grid}
    return Problem.of(features, np.zeros(NUM_POINTS), likelihood="density", stochastic="all", **given)


def _data(problem: Problem, library: str, like=np.float64) -> Data:
    convert = BACKENDS[library][2]
    return Data(convert(problem.features.astype(like)), convert(problem.targets.astype(like)))


def _losses(problem: Problem, position: np.ndarray) -> np.ndarray:
    """By scipy alone."""
    places = (problem.features.astype(float), problem.grid.astype(float))
    points, grid = (network_outputs(position, rows, problem.layers)[:, 0] for rows in places)
    return special.logsumexp(grid) - np.log(len(grid)) - points


@pytest.mark.parametrize("part", ["last", "network"])
def test_value_gradient_and_curvature_are_those_of_automatic_differentiation(part, request) -> None:
    problem = request.getfixturevalue(part)
    position, weight = problem.map.astype(float), 7.0
    scale = weight / problem.num_points
    value, gradient = loss_and_gradient(problem, position, weight)
    assert value == pytest.approx(scale * _losses(problem, position).sum(), rel=1e-10)
    second = hessian(problem, position, weight)
    for library, (likelihood, _, convert) in BACKENDS.items():
        with jax.enable_x64(True):
            data = _data(problem, library)

            def loss(place, data=data, likelihood=likelihood):
                return scale * likelihood.point_losses(place, data, problem.model).sum()

            if library == "jax":
                by_library = at_once(jax.grad(loss))(position), at_once(jax.hessian(loss))(position)
            else:
                place = convert(position)
                by_library = torch.func.grad(loss)(place), torch.autograd.functional.hessian(loss, place)
            np.testing.assert_allclose(by_library[0], gradient, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(by_library[1], second, rtol=1e-7, atol=1e-9)
    if part == "last":
        # One layer: Gauss-Newton is the whole of it.
        np.testing.assert_allclose(weight * mean_curvature(problem, position), second, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", ["first", "second"])
@pytest.mark.parametrize("library", BACKENDS)
@pytest.mark.parametrize("part", ["last", "network"])
def test_control_variates_leave_what_a_taylor_polynomial_leaves(library, part, order, request) -> None:
    problem, (likelihood, minibatch, convert) = request.getfixturevalue(part), BACKENDS[library]
    here = problem.map.astype(float)
    place = here + 0.3 * np.random.default_rng(1).normal(size=len(here))

    def expected(position):
        """By automatic differentiation along the line from the anchor."""

        def along(size):
            return jax_likelihood.point_losses(here + size * (position - here), _data(problem, "jax"), problem.model)

        def slope(size):
            return jax.jvp(along, (size,), (1.0,))[1]

        left = along(1.0) - along(0.0) - slope(0.0)
        return left if order == "first" else left - jax.jvp(slope, (0.0,), (1.0,))[1] / 2

    def total(position):
        # The proxies of an anchor whose gradient and curvature are 0 are none; the prior has an sd of 1.
        return 7.0 * expected(position).mean() + jnp.square(position).sum() / 2

    target = ModelTarget(problem.model, likelihood, minibatch)

    def both(position, data, anchor):
        gradient = target.anchored_gradient(position, data, anchor, 7.0, order)
        return target.remainders(position, data, anchor, order), gradient

    with jax.enable_x64(True):
        anchor = Expansion(*map(convert, (here, 0 * here, np.zeros((len(here), len(here))), here)))
        evaluate = at_once(both) if library == "jax" else both
        left, gradient = evaluate(convert(place[None]), _data(problem, library), anchor)
        np.testing.assert_allclose(left[0], at_once(expected)(place), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(gradient[0], at_once(jax.grad(total))(place), rtol=1e-6, atol=1e-8)


def test_the_normaliser_is_the_integral(last) -> None:
    """Midpoints of 200 cells against adaptive quadrature: less than 1e-5 off at the mode."""
    body, position = last.body, last.map.astype(float)

    def density_at(x: float) -> float:
        hidden = np.tanh(body[0][0] + x * body[0][1]).astype(float)
        return float(np.exp(position[0] + hidden @ position[1:]))

    start, end = density.SUPPORT
    exact, _ = integrate.quad(density_at, start, end, epsabs=1e-10, limit=200)
    on_grid = network_outputs(position, last.grid.astype(float), last.layers)[:, 0]
    assert float(normaliser.log_mean(on_grid)) == pytest.approx(np.log(exact / (end - start)), abs=1e-5)
    assert len(on_grid) == NUM_CELLS


def test_the_truth_is_a_density_and_the_network_comes_close_to_it(last) -> None:
    assert last.truth.mean() == pytest.approx(1, abs=1e-5)
    found = np.exp(last.outputs(last.map.astype(float), last.grid.astype(float)))[:, 0]
    assert found.mean() == pytest.approx(1, abs=1e-12)
    # Of 2,000 points a histogram of as many degrees of freedom would be off by some 0.03.
    assert np.abs(found - last.truth).mean() / 2 < 0.06
    share = np.mean(last.inputs < 0)
    cells = last.grid_inputs[:, 0] < 0
    assert share == pytest.approx(last.truth[cells].sum() / NUM_CELLS, abs=4 * np.sqrt(0.25 / last.num_points))
