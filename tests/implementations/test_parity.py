"""Fed the same random numbers, jax, torch and the NumPy reference make the same decisions and reach the same state."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from implementations import numpy_reference
from implementations.jax_backend import chain as jax_chain
from implementations.jax_backend import likelihood as jax_likelihood
from implementations.jax_backend import minibatch as jax_minibatch
from implementations.jax_backend.likelihood import Data as JaxData
from implementations.memory import rows_of
from implementations.methods import METHODS, Settings, evaluations_per_step, resolve, setting_names
from implementations.tasks.geometry import preconditioner_factor, start_points
from implementations.tasks.problem import Problem
from implementations.torch_backend import chain as torch_chain
from implementations.torch_backend.likelihood import Data as TorchData
from tests.implementations.chains import counted

NUM_STEPS = 200
CHAINS = 2

#: Settings under which a good part of the moves is accepted and a good part is not.
LIVELY = {
    "linear": {"batch_size": 5, "num_batches": 4},
    "regression": {"batch_size": 5, "num_batches": 5},
    "digits": {"batch_size": 20, "num_batches": 4},
}
STEP_SIZES = {"full_mh": 0.1, "tempered": 0.1, "mala": 0.4, "sgld": 0.05, "ula": 0.05}


def make_settings(problem: Problem, method: str, **given: Any) -> Settings:
    scale = 1.0 if METHODS[method].proposal == "langevin" else 21 / problem.num_parameters
    step_size = STEP_SIZES.get(method, 0.05) * scale
    wanted = {
        "step_size": step_size,
        "chains": CHAINS,
        "dtype": "float64",
        "weight": 20.0,
        **LIVELY[problem.task],
        **given,
    }
    applicable = {name: value for name, value in wanted.items() if name in setting_names(METHODS[method])}
    return resolve(
        method, applicable, task=problem.task, num_points=problem.num_points, num_parameters=problem.num_parameters
    )


def make_noise(problem: Problem, method: str, settings: Settings) -> dict[str, np.ndarray]:
    """Random numbers for all steps, by numpy."""
    generator = np.random.default_rng(0)
    num_batches, batch_size = settings.batch_shape
    of_loss = num_batches if METHODS[method].estimate == "batches" else 0
    of_gradient = batch_size if METHODS[method].gradient == "batch" else 0

    def points(count: int) -> np.ndarray:
        rows = [generator.permutation(problem.num_points)[:count] for _ in range(NUM_STEPS * CHAINS)]
        return np.array(rows, np.int32).reshape(NUM_STEPS, CHAINS, count)

    return {
        "normals": generator.normal(size=(NUM_STEPS, CHAINS, problem.num_parameters)),
        "log_uniforms": np.log(generator.uniform(size=(NUM_STEPS, CHAINS))),
        "indices": points(of_loss * batch_size).reshape(NUM_STEPS, CHAINS, of_loss, batch_size),
        "gradient_indices": points(of_gradient),
    }


def run_reference(problem: Problem, method: str, settings: Settings, start: np.ndarray, factor: np.ndarray) -> Any:
    noise = make_noise(problem, method, settings)
    trail, accepted = np.zeros((NUM_STEPS, *start.shape)), np.zeros((NUM_STEPS, CHAINS), bool)
    dense = factor if factor.ndim == 2 else factor * np.eye(problem.num_parameters)
    for chain in range(CHAINS):
        position = start[chain]
        for number in range(NUM_STEPS):
            step_noise = numpy_reference.Noise(
                noise["normals"][number, chain],
                noise["log_uniforms"][number, chain],
                noise["indices"][number, chain],
                noise["gradient_indices"][number, chain],
            )
            outcome = numpy_reference.step(position, step_noise, settings.step_size, dense, problem, method, settings)
            position = outcome.position
            trail[number, chain], accepted[number, chain] = position, outcome.is_accepted
    return trail, accepted


def run_jax(problem: Problem, method: str, settings: Settings, start: np.ndarray, factor: np.ndarray) -> Any:
    with jax.enable_x64(True):
        noise = make_noise(problem, method, settings)
        moves = noise["normals"] @ factor.T if factor.ndim == 2 else noise["normals"] * factor
        noise = jax_chain.Noise(moves=moves, **noise)
        step = jax_chain.build_step(problem, method, settings)
        together = JaxData(jnp.asarray(problem.features, float), jnp.asarray(problem.targets))
        rows = jnp.asarray(rows_of(problem.features, problem.targets, "float64"))
        points = jax_chain.Points(together, rows)

        def body(state: Any, noise: Any) -> Any:
            state, _, is_accepted = step.move(points, jnp.asarray(factor), state, noise, settings.step_size)
            return state, (state.position, is_accepted)

        scan = jax.jit(lambda state: jax.lax.scan(body, state, jax.tree.map(jnp.asarray, noise)))
        _, (trail, accepted) = scan(step.visit(jnp.asarray(start), points))
        return np.asarray(trail), np.asarray(accepted)


@torch.no_grad()
def run_torch(problem: Problem, method: str, settings: Settings, start: np.ndarray, factor: np.ndarray) -> Any:
    noise = {name: torch.from_numpy(array) for name, array in make_noise(problem, method, settings).items()}
    scale = torch.from_numpy(np.asarray(factor))
    moves = noise["normals"] @ scale.T if scale.ndim == 2 else noise["normals"] * scale
    step = torch_chain.build_step(problem, method, settings)
    together = TorchData(
        torch.from_numpy(problem.features.astype(float)),
        torch.from_numpy(problem.targets).to(torch.int64 if problem.likelihood == "categorical" else torch.float64),
    )
    rows = torch.from_numpy(rows_of(problem.features, problem.targets, "float64"))
    points = torch_chain.Points(together, rows)
    state = step.visit(torch.from_numpy(start), points)
    trail, accepted = [], []
    for step_noise in torch_chain.unbind(torch_chain.Noise(moves=moves, **noise)):
        state, _, is_accepted = step.move(
            points, scale, state, step_noise, torch.tensor(settings.step_size, dtype=torch.float64)
        )
        trail.append(state.position.numpy())
        accepted.append(is_accepted.numpy())
    return np.array(trail), np.array(accepted)


def assert_parity(problem: Problem, method: str, settings: Settings) -> None:
    weight = problem.target_weight(settings.weight, settings.batch_size)
    factor = preconditioner_factor(problem, weight, settings.preconditioner)
    start = start_points(problem, weight, CHAINS, 0).astype(float)
    trail, accepted = run_reference(problem, method, settings, start, factor)
    if METHODS[method].acceptance == "always":
        assert accepted.all()
    else:
        # Only a chain that does both can tell a wrong decision from a right one.
        assert 0.05 < accepted.mean() < 0.97
    for run in (run_jax, run_torch):
        other_trail, other_accepted = run(problem, method, settings, start, factor)
        np.testing.assert_array_equal(other_accepted, accepted, err_msg=run.__name__)
        np.testing.assert_allclose(other_trail, trail, rtol=1e-8, atol=1e-8, err_msg=run.__name__)


@pytest.mark.parametrize("task", ["linear", "regression", "digits"])
@pytest.mark.parametrize("method", METHODS)
def test_both_backends_make_the_references_decisions(problem, task, method):
    assert_parity(problem(task), method, make_settings(problem(task), method))


@pytest.mark.parametrize("task", ["regression", "digits"])
@pytest.mark.parametrize("method", ["pbnn", "pbnn_mala"])
def test_rows_that_are_fetched_ahead_are_the_references(problem, task, method, monkeypatch):
    monkeypatch.setattr(jax_minibatch, "CACHE_BYTES", 0)
    assert_parity(problem(task), method, make_settings(problem(task), method))


@pytest.mark.parametrize(("run", "chain"), [(run_jax, jax_chain), (run_torch, torch_chain)], ids=["jax", "torch"])
@pytest.mark.parametrize("variance", [None, "oracle"])
@pytest.mark.parametrize("method", METHODS)
def test_a_step_evaluates_what_is_counted_as_its_cost(problem, method, variance, run, chain):
    linear = problem("linear")
    settings = make_settings(linear, method, **({"variance": variance} if variance else {}))
    start = start_points(linear, 20.0, CHAINS, 0).astype(float)
    with counted(chain) as counts:
        run(linear, method, settings, start, preconditioner_factor(linear, 20.0, settings.preconditioner))
    likelihoods, gradients = evaluations_per_step(METHODS[method], settings, linear.num_points)
    assert counts["gradients"] == CHAINS * gradients
    # A full gradient brings the losses with it.
    has_both = METHODS[method].estimate == METHODS[method].gradient == "all"
    assert counts["losses"] == CHAINS * (0 if has_both else likelihoods)


@pytest.mark.parametrize("variance", ["batches", "single", "points", "oracle"])
@pytest.mark.parametrize("method", ["pbnn", "pbnn_corrected"])
def test_every_variance_estimator_is_the_references(problem, method, variance):
    assert_parity(problem("linear"), method, make_settings(problem("linear"), method, variance=variance))


@pytest.mark.parametrize(("preconditioner", "step_size"), [("none", 1e-5), ("diagonal", 0.05)])
@pytest.mark.parametrize("method", ["pbnn_mala", "mala"])
def test_every_preconditioner_is_the_references(problem, method, preconditioner, step_size):
    settings = make_settings(problem("regression"), method, preconditioner=preconditioner, step_size=step_size)
    assert_parity(problem("regression"), method, settings)


@pytest.mark.parametrize("prior", ["gaussian", "laplace"])
@pytest.mark.parametrize(("method", "step_size"), [("full_mh", 1e-4), ("pbnn", 1e-4), ("pbnn_mala", 1e-6)])
def test_all_layers_stochastic_and_both_priors_are_the_references(problem, method, step_size, prior):
    whole = problem("regression", stochastic="all", prior=prior)
    settings = make_settings(whole, method, step_size=step_size, weight=1.0, preconditioner="diagonal")
    assert_parity(whole, method, settings)


@pytest.mark.parametrize("tile", [97, 150])
def test_many_points_in_tiles_are_the_references_losses_and_gradient(problem, monkeypatch, tile):
    """1,200 points in twelve tiles and a rest, and in eight without one."""
    monkeypatch.setattr(jax_likelihood, "TILE", tile)
    digits = problem("digits")
    everything = np.arange(digits.num_points)
    position = start_points(digits, 100.0, CHAINS, 0)
    with jax.enable_x64(True):
        data = JaxData(jnp.asarray(digits.features, float), jnp.asarray(digits.targets))
        losses, gradient = jax_likelihood.losses_and_gradient(jnp.asarray(position), data, 100.0, digits)
        np.testing.assert_allclose(losses, jax_likelihood.point_losses(jnp.asarray(position), data, digits))
    for chain in range(CHAINS):
        expected = numpy_reference.point_losses(position[chain], digits, everything)
        np.testing.assert_allclose(losses[chain], expected, rtol=1e-9, atol=1e-12)
        expected = numpy_reference.gradient(position[chain], digits, everything, 100.0)
        np.testing.assert_allclose(gradient[chain], expected, rtol=1e-9, atol=1e-10)
