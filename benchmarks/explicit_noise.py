"""Steps of both backends on given random numbers, and what a step evaluates."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils._pytree import tree_map

from implementations.backends import Inputs, ModelTarget, rows_of
from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.jax import minibatch as jax_minibatch
from implementations.backends.torch import chain as torch_chain
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.backends.torch import minibatch as torch_minibatch
from implementations.kernels.contract import Data, Points, Target, Values
from implementations.kernels.metropolis import Metropolis, Noise
from implementations.methods import METHODS
from implementations.settings import Settings
from implementations.tasks.problem import Problem

NUM_STEPS = 200
CHAINS = 2
#: How jax compiles: as in a run. Tests of fewer steps ask for less.
COMPILER_OPTIONS: dict[str, bool | int] | None = None

#: Settings under which a good part of the moves is accepted and a good part is not.
LIVELY = {
    "linear": {"batch_size": 5, "num_batches": 4},
    "regression": {"batch_size": 5, "num_batches": 5},
    "digits": {"batch_size": 20, "num_batches": 4},
    "logistic": {"batch_size": 20, "num_batches": 4},
}
STEP_SIZES = {"full_mh": 0.1, "tempered": 0.1, "mala": 0.4, "pbnn_mala_cv": 0.4}


def parts_of(method: str) -> Metropolis:
    kernel = METHODS[method].kernel
    assert isinstance(kernel, Metropolis)
    return kernel


#: The methods that are a choice of parts: numpy knows their noise, and the reference their steps.
METROPOLIS = [name for name, card in METHODS.items() if isinstance(card.kernel, Metropolis)]


def make_settings(problem: Problem, method: str, **given: Any) -> Settings:
    scale = 21 / problem.num_parameters if parts_of(method).proposal == "random_walk" else 1.0
    if method == "pbnn_mala_cv":
        # It has little noise, and its moves are accepted or not as those of mala from starts in the tails.
        scale = (2 / problem.num_parameters) ** 0.5
    step_size = STEP_SIZES.get(method, 0.05) * scale
    wanted = {
        "step_size": step_size,
        "chains": CHAINS,
        "dtype": "float64",
        "weight": 20.0,
        **LIVELY[problem.task],
        **given,
    }
    card = METHODS[method]
    return card.resolve({name: value for name, value in wanted.items() if name in card.settings}, problem)


def make_noise(problem: Problem, method: str, settings: Settings, factor: np.ndarray) -> Noise:
    """Random numbers for all steps, by numpy."""
    generator = np.random.default_rng(0)
    parts, batch_size = parts_of(method), settings.batch_size or 0
    of_loss = (settings.num_batches or 0) if parts.estimate == "batches" else 0
    of_gradient = batch_size if settings.shapes.get("gradient", parts.gradient) == "batch" else 0

    def points(count: int) -> np.ndarray:
        rows = [generator.permutation(problem.num_points)[:count] for _ in range(NUM_STEPS * CHAINS)]
        return np.array(rows, np.int32).reshape(NUM_STEPS, CHAINS, count)

    normals = generator.normal(size=(NUM_STEPS, CHAINS, problem.num_parameters))
    return Noise(
        normals=normals,
        moves=normals @ factor.T if factor.ndim == 2 else normals * factor,
        log_uniforms=np.log(generator.uniform(size=(NUM_STEPS, CHAINS))),
        indices=points(of_loss * batch_size).reshape(NUM_STEPS, CHAINS, of_loss, batch_size),
        gradient_indices=points(of_gradient),
    )


@dataclass
class CountingTarget:
    """A model that counts the losses and gradients of single points that are asked of it."""

    target: Target
    losses_evaluated: int = 0
    gradients_evaluated: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def losses(self, position: Any, data: Data) -> Any:
        losses = self.target.losses(position, data)
        self.losses_evaluated += math.prod(losses.shape)
        return losses

    def remainders(self, position: Any, data: Data, anchor: Any, order: str) -> Any:
        remainders = self.target.remainders(position, data, anchor, order)
        self.losses_evaluated += math.prod(remainders.shape)
        return remainders

    def anchored_gradient(self, position: Any, data: Data | None, anchor: Any, weight: Any, order: str) -> Any:
        if data is not None:
            self.gradients_evaluated += math.prod(data.targets.shape)
        return self.target.anchored_gradient(position, data, anchor, weight, order)

    def losses_and_gradient(self, position: Any, data: Data, weight: Any) -> Any:
        losses, gradient = self.target.losses_and_gradient(position, data, weight)
        self.gradients_evaluated += math.prod(losses.shape)
        return losses, gradient


class Steps(NamedTuple):
    """What NUM_STEPS steps did."""

    positions: np.ndarray  # (steps, chains, P)
    accepted: np.ndarray  # (steps, chains)
    #: Losses and gradients that one step of one chain evaluated, as its model counted them.
    evaluated: tuple[int, int]
    #: The same as the steps themselves report it: losses and gradients (steps, chains).
    reported: tuple[np.ndarray, np.ndarray]


def _evaluated(target: CountingTarget) -> tuple[int, int]:
    return target.losses_evaluated // CHAINS, target.gradients_evaluated // CHAINS


def _inputs(problem: Problem, method: str, settings: Settings, factor: np.ndarray) -> tuple[Points, Values]:
    """Data and numbers in double precision, with all the forms of the data."""
    inputs = Inputs(problem, METHODS[method], settings)
    together = inputs.together(is_whole=True)
    real = together._replace(features=together.features.astype(float))
    rows = rows_of(problem.features, problem.targets, "float64", inputs.columns)
    values = inputs.values()._replace(factor=np.asarray(factor))
    return Points(real, rows, inputs.points().anchor), values


def run_jax(problem: Problem, method: str, settings: Settings, start: np.ndarray, factor: np.ndarray) -> Steps:
    with jax.enable_x64(True):
        target = CountingTarget(ModelTarget(problem.model, jax_likelihood, jax_minibatch))
        kernel = METHODS[method].kernel(target, settings.shapes)
        points, values = jax.tree.map(jnp.asarray, _inputs(problem, method, settings, factor))
        noise = jax.tree.map(jnp.asarray, make_noise(problem, method, settings, factor))

        def body(state: Any, noise: Any, points: Points, values: Values) -> Any:
            target.losses_evaluated = target.gradients_evaluated = 0
            state, info = kernel.step(noise, state, points, values)
            return state, (state.position, info.is_accepted, info.num_likelihoods, info.num_gradients)

        def steps(start: Any, points: Points, values: Values, noise: Any) -> Any:
            state = kernel.init(jax.tree.map(lambda array: array[0], noise), start, points, values)
            return jax.lax.scan(lambda state, noise: body(state, noise, points, values), state, noise)[1]

        kept = jax.jit(steps, compiler_options=COMPILER_OPTIONS)(jnp.asarray(start), points, values, noise)
        positions, accepted, *reported = map(np.asarray, kept)
        return Steps(positions, accepted, _evaluated(target), (reported[0], reported[1]))


@torch.no_grad()
def run_torch(problem: Problem, method: str, settings: Settings, start: np.ndarray, factor: np.ndarray) -> Steps:
    target = CountingTarget(ModelTarget(problem.model, torch_likelihood, torch_minibatch))
    kernel = METHODS[method].kernel(target, settings.shapes)
    points, values = tree_map(torch.as_tensor, _inputs(problem, method, settings, factor))
    noise = torch_chain.unbind(Noise(*map(torch.from_numpy, make_noise(problem, method, settings, factor))))
    state = kernel.init(noise[0], torch.from_numpy(start), points, values)
    kept = []
    for step_noise in noise:
        target.losses_evaluated = target.gradients_evaluated = 0
        state, info = kernel.step(step_noise, state, points, values)
        kept.append((state.position, info.is_accepted, info.num_likelihoods, info.num_gradients))
    positions, accepted, *reported = (torch.stack(parts).numpy() for parts in zip(*kept, strict=True))
    return Steps(positions, accepted, _evaluated(target), (reported[0], reported[1]))
