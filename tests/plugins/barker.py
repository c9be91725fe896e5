"""A method that the suite does not have: random walk on all data with Barker's acceptance."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Info, Kernel, counted
from implementations.kernels.proposals import random_walk, scale_by
from implementations.settings import STEP_SIZE, WEIGHT, Setting


class State(NamedTuple):
    position: Any
    potential: Any


class Noise(NamedTuple):
    moves: Any
    log_uniforms: Any


def kernel(target, shapes):
    def noise(random, shape, values):
        normals = random.normals((*shape, target.num_parameters))
        return Noise(scale_by(values.factor, normals), random.log_uniforms(shape))

    def init(noise, position, data, values):
        xp = array_namespace(position)
        losses = target.losses(position, data.together)
        return State(position, values.weight * xp.mean(losses, axis=-1) - target.log_prior(position))

    def step(noise, state, data, values):
        xp = array_namespace(state.position)
        arrived = init(noise, random_walk(state.position, noise.moves, values.step_size), data, values)
        # Barker (1965): accept with probability 1 / (1 + exp(Delta)), sharpened or not.
        delta = values.own["sharpness"] * (arrived.potential - state.potential)
        is_accepted = noise.log_uniforms < -xp.log1p(xp.exp(delta))
        chosen = (
            xp.where(is_accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
            for new, old in zip(arrived, state, strict=True)
        )
        nothing = xp.zeros_like(delta)
        costs = counted(delta, target.num_points), counted(delta, 0)
        return State(*chosen), Info(is_accepted, nothing, *costs)

    return Kernel(init, noise, step)


CARD = Card(
    name="barker",
    label="Barker (toy)",
    summary="random walk on all data with Barker's acceptance",
    citation="Barker (1965)",
    kernel=kernel,
    exactness=Exactness.EXACT,
    own_settings=(
        STEP_SIZE.but(default=lambda dimension: 2 / dimension),
        WEIGHT,
        Setting("sharpness", "1 is Barker's rule", float, 1.0, is_positive=True),
    ),
    needs=frozenset({"all"}),
)
