"""Networks of anybody's own: the contract of the record in every library, and derivatives against written-out ones."""

import shutil
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from array_api_compat import array_namespace

from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.infrastructure.errors import SettingError
from implementations.kernels.contract import Data
from implementations.sampling import sample
from implementations.tasks import find_task, prepare
from implementations.tasks.derivatives import hessian, loss_and_gradient
from implementations.tasks.geometry import mean_curvature
from implementations.tasks.likelihoods.density import midpoints
from implementations.tasks.networks import Network
from implementations.tasks.problem import Problem
from implementations.tasks.references.one_layer import log_likelihood_of, slices
from implementations.tasks.task import Task, Training
from tests import oracle
from tests.implementations.networks import tiny_network_problem

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "network.py"
LAYERS = ((3, 4), (5, 2))
NUM_POINTS, WEIGHT = 30, 7.0


def _written_out(layers) -> Network:
    """The suite's own network as a record: the same numbers have to come of it."""

    def outputs(weights, features):
        xp = array_namespace(features)
        hidden = features
        for number in range(len(layers)):
            if number:
                hidden = xp.concat([xp.ones_like(hidden[..., :1]), xp.tanh(hidden)], axis=-1)
            hidden = hidden @ weights[str(number)]
        return hidden

    shapes = {str(number): shape for number, shape in enumerate(layers)}

    def initial(random):
        return {name: random.normal(size=shape) for name, shape in shapes.items()}

    inputs, num_outputs = layers[0][0] - 1, layers[-1][1]
    return Network("written_out", inputs, num_outputs, shapes, outputs, initial)


def _pair(likelihood: str) -> tuple[Problem, Problem]:
    """The same problem with layers, and with the record."""
    random = np.random.default_rng(2)
    layers = LAYERS if likelihood == "categorical" else ((3, 4), (5, 1))
    features = np.column_stack([np.ones(NUM_POINTS), random.normal(size=(NUM_POINTS, 2))])
    targets = random.integers(0, 2, NUM_POINTS) if likelihood != "density" else np.zeros(NUM_POINTS)
    position = random.normal(size=sum(rows * columns for rows, columns in layers))
    given = {"likelihood": likelihood, "stochastic": "all", "map": position}
    if likelihood == "density":
        given["grid"] = np.column_stack([np.ones(200), midpoints((-1, 1)), midpoints((0, 1))]).astype(np.float32)
    with_layers = Problem.of(features, targets, layers=layers, **given)
    return with_layers, replace(with_layers, layers=(), network=_written_out(layers))


@pytest.mark.parametrize("likelihood", ["categorical", "poisson", "density"])
def test_derivatives_by_automatic_differentiation_are_those_written_out_for_layers(likelihood) -> None:
    layers, own = _pair(likelihood)
    position = layers.map.astype(float)
    assert (own.num_parameters, own.num_outputs) == (layers.num_parameters, layers.num_outputs)
    assert not own.is_linear and not layers.is_linear
    for one, other in zip(*(loss_and_gradient(each, position, WEIGHT) for each in (own, layers)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    for of in (lambda each: hessian(each, position, WEIGHT), lambda each: mean_curvature(each, position)):
        np.testing.assert_allclose(of(own), of(layers), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("likelihood", ["categorical", "density"])
def test_losses_and_gradients_are_those_of_layers_in_every_library(likelihood) -> None:
    layers, own = _pair(likelihood)
    positions = layers.map + 0.1 * np.random.default_rng(0).normal(size=(2, len(layers.map)))
    everything = np.arange(NUM_POINTS)
    compiled = jax.jit(jax_likelihood.losses_and_gradient, static_argnums=3)
    for convert, evaluate in ((jnp.asarray, compiled), (torch.as_tensor, torch_likelihood.losses_and_gradient)):
        with jax.enable_x64(True):
            data = Data(convert(own.features.astype(float)), convert(own.targets))
            losses, gradient = evaluate(convert(positions), data, WEIGHT, own.model)
        for number, position in enumerate(positions):
            expected = oracle.point_losses(position, layers, everything)
            np.testing.assert_allclose(losses[number], expected, rtol=1e-9)
            expected = oracle.gradient(position, layers, everything, WEIGHT)
            np.testing.assert_allclose(gradient[number], expected, rtol=1e-7, atol=1e-10)
    with jax.enable_x64(True):
        values = [
            jax.jit(jax.value_and_grad(log_likelihood_of(each, WEIGHT, slices(each))))(jnp.asarray(positions[0]))
            for each in (layers, own)
        ]
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
def test_chains_are_those_of_layers_but_for_rounding(backend) -> None:
    """Gradient, mini-batches and acceptance: the same noise leads to the same decisions."""
    layers = tiny_network_problem()
    own = replace(layers, layers=(), network=_written_out(layers.layers))
    settings = {"num_steps": 200, "num_warmup": 0, "chains": 2, "dtype": "float64", "batch_size": 10, "num_batches": 2}
    draws = [sample(each, "pbnn_mala", settings, backend, is_audited=False).draws.positions for each in (layers, own)]
    np.testing.assert_allclose(draws[0], draws[1], rtol=1e-6, atol=1e-8)
    assert np.ptp(draws[0]) > 0.1


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    """The worked example, in a folder that has nothing to do with the suite and with a shorter training."""
    path = tmp_path_factory.mktemp("mine") / "my_network.py"
    shutil.copy(EXAMPLE, path)
    path.write_text(path.read_text().replace("num_epochs=1000", "num_epochs=150"))
    return path


@pytest.mark.slow
def test_the_worked_example_is_trained_kept_on_file_and_sampled(copied, tmp_path) -> None:
    problem = prepare(f"{copied}:TASK", 0, stochastic="all", progress=False)
    assert problem.num_parameters == 2 * 10 + 10 * 10 + 10 + 1
    errors = problem.outputs(problem.map, problem.test_features)[:, 0] - problem.test_targets
    # Most of the sines, whose sd is 0.7, though not yet down to the noise of 0.05.
    assert errors.std() < 0.35
    problem.save(tmp_path / "problem.npz")
    again = Problem.load(tmp_path / "problem.npz")
    assert again.identity() == problem.identity()
    settings = {"num_steps": 200, "num_warmup": 50, "batch_size": 20, "num_batches": 5}
    run = sample(again, "pbnn", settings, "torch-cpu", is_audited=False)
    assert run.status == "ok" and np.isfinite(run.draws.positions).all()
    copied.write_text(copied.read_text() + "\n# changed\n")
    with pytest.raises(SettingError, match=r"my_network.py:TASK has changed since .*; prepare the problem again"):
        Problem.load(tmp_path / "problem.npz")


def _task(network: Network | None, **given) -> Task:
    usual = {"layers": (), "likelihood": "gaussian", "training": Training(0.01, 10)}
    return Task("mine", "a task", 10, load=find_task("regression").load, network=network, **usual | given)


def test_mistakes_in_a_record_are_named() -> None:
    good = _written_out(((2, 3), (4, 1)))
    assert _task(good).num_parameters("all") == 10
    flat = replace(good, outputs=lambda weights, features: features @ weights["0"])
    with pytest.raises(SettingError, match=r"'written_out': outputs of shape \(3, 3\) for parameters \(10,\)"):
        _task(flat)
    mixed = replace(good, outputs=lambda weights, features: (features @ weights["0"][..., :1]).mean(0, keepdims=True))
    with pytest.raises(SettingError, match=r"outputs of shape"):
        _task(mixed)
    with pytest.raises(SettingError, match=r"initial '1' is missing; expected shape \(4, 1\)"):
        _task(replace(good, initial=lambda random: {"0": random.normal(size=(2, 3))}))
    with pytest.raises(SettingError, match="a task has layers; or layers="):
        _task(good, layers=((2, 1),))
    with pytest.raises(SettingError, match="a task has layers; or layers="):
        _task(good, training=None)
    with pytest.raises(SettingError, match="2 outputs: a gaussian likelihood has one"):
        _task(_written_out(LAYERS))
    with pytest.raises(SettingError, match="has a network of its own, without a last layer: say stochastic = 'all'"):
        _task(good).check_stochastic("last")
    problem = replace(tiny_network_problem(), layers=(), network=_written_out(((2, 2), (3, 1))))
    with pytest.raises(SettingError, match="'written_out' belongs to no task that a file could name"):
        problem.save(Path("never.npz"))
