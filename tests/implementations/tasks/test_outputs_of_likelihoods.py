"""What samplers and control variates take of a likelihood, against automatic differentiation in both libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from implementations.backends.jax.likelihood import FUNCTIONS as JAX
from implementations.infrastructure.errors import SettingError
from implementations.tasks.likelihoods import LIKELIHOODS, find_likelihood
from tests.implementations.chains import at_once

NUM_POINTS, NOISE_SD = 12, 0.7
NUM_OUTPUTS = {"categorical": 4}
TARGETS = {
    "gaussian": lambda random: random.normal(size=NUM_POINTS),
    "categorical": lambda random: random.integers(0, 4, NUM_POINTS),
    "bernoulli": lambda random: random.integers(0, 2, NUM_POINTS),
    "poisson": lambda random: random.poisson(2.0, NUM_POINTS),
    "density": lambda random: np.zeros(NUM_POINTS),
}
all_of_them = pytest.mark.parametrize("name", LIKELIHOODS)


def _given(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Outputs at an anchor, two moves away from it, and targets."""
    random = np.random.default_rng(5)
    start, u, v = random.normal(size=(3, NUM_OUTPUTS.get(name, 1), NUM_POINTS))
    return start, u, v, TARGETS[name](random)


@all_of_them
def test_slope_curvature_and_remainders_are_those_of_the_loss_in_jax(name) -> None:
    likelihood = find_likelihood(name)
    with jax.enable_x64(True):
        start, u, v, targets = map(jnp.asarray, _given(name))

        def losses(outputs):
            return likelihood.losses(outputs, targets, NOISE_SD, JAX)

        kept, slope = likelihood.at_anchor(start, targets, NOISE_SD)
        gradient = jax.grad(lambda outputs: losses(outputs).sum())
        expected, product = at_once(lambda start, v: jax.jvp(gradient, (start,), (v,)))(start, v)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)
        bend = likelihood.curvature_form(kept, u, v, NOISE_SD)
        np.testing.assert_allclose(bend, (u * product).sum(axis=0), rtol=1e-10, atol=1e-12)
        plane = losses(start) + (slope * u).sum(axis=0)
        parabola = plane + likelihood.curvature_form(kept, u, u, NOISE_SD) / 2
        for order, taylor in (("first", plane), ("second", parabola)):
            left = likelihood.remainders(u, kept, NOISE_SD, order)
            np.testing.assert_allclose(left, losses(start + u) - taylor, rtol=1e-9, atol=1e-12)
            slopes = jax.grad(lambda moves, order=order: likelihood.remainders(moves, kept, NOISE_SD, order).sum())
            by_output = at_once(slopes)(u)
            found = likelihood.remainder_residuals(u, kept, NOISE_SD, order)
            np.testing.assert_allclose(found, by_output, rtol=1e-9, atol=1e-12)


@all_of_them
def test_numpy_and_the_samplers_have_the_same_loss_and_what_is_kept_are_the_predictions(name) -> None:
    likelihood = find_likelihood(name)
    start, _, _, targets = _given(name)
    loss, residuals = likelihood.loss_and_residuals(start.T, targets, NOISE_SD)
    with jax.enable_x64(True):
        found = float(likelihood.losses(jnp.asarray(start), jnp.asarray(targets), NOISE_SD, JAX).sum())
    assert loss == pytest.approx(found, rel=1e-12)
    kept, slope = likelihood.at_anchor(start, targets, NOISE_SD)
    np.testing.assert_allclose(slope.T, residuals, rtol=1e-10, atol=1e-14)
    if likelihood.num_kept(len(start)):
        np.testing.assert_allclose(kept.T, likelihood.predictions(start.T.copy()), rtol=1e-10)
        assert len(kept) == likelihood.num_kept(len(start))


@all_of_them
def test_no_derivative_exceeds_its_bound_and_the_curvature_comes_close(name) -> None:
    likelihood = find_likelihood(name)
    bounds = likelihood.derivative_bounds(NOISE_SD)
    num_outputs, random = NUM_OUTPUTS.get(name, 1), np.random.default_rng(6)
    outputs = random.normal(size=(4000, num_outputs)) * (2 if num_outputs > 1 else 0.5)
    units = random.normal(size=outputs.shape)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    curved = np.sum(units * likelihood.curvature_product(outputs, units, NOISE_SD), axis=1)
    step = 1e-5
    ahead = likelihood.curvature_product(outputs + step * units, units, NOISE_SD)
    third = np.abs(np.sum(units * ahead, axis=1) - curved) / step
    if name == "density":
        # Its own term is a plane; what it shares with the others is not a function of its outputs.
        assert bounds == (None, None, None) and not curved.any() and not third.any()
        return
    if bounds[1] is None:
        # A rate grows for ever.
        assert np.sum(likelihood.curvature_product(outputs + 20, units, NOISE_SD) * units, axis=1).max() > 1e6
        return
    assert 0.8 * bounds[1] < curved.max() <= bounds[1] * (1 + 1e-12)
    assert bounds[2] is not None and third.max() <= bounds[2] + 1e-3


@pytest.mark.parametrize(
    ("name", "targets", "message"),
    [
        ("gaussian", np.array([0.0, np.nan]), "1 of 2 targets are not finite"),
        ("categorical", np.array([0, 3]), "from 0 to 3: expected class numbers, whole from 0 to 2"),
        ("bernoulli", np.array([0, 2]), "from 0 to 2: expected class numbers, whole from 0 to 1"),
        ("bernoulli", np.array([0.0, 1.0]), "of type float64 from 0.0 to 1.0: expected class numbers"),
        ("density", np.array([0.0, 0.5]), "a density has no targets: give zeros"),
        ("poisson", np.array([3, -1]), "from -1 to 3: expected counts, whole numbers from 0"),
    ],
)
def test_targets_that_cannot_be_right_are_named(name, targets, message) -> None:
    with pytest.raises(SettingError, match=message):
        find_likelihood(name).check_targets(targets, 3 if name == "categorical" else 1)
