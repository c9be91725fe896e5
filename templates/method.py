"""A template of a method: copy it, give it a name, and change the step. It runs as it is:

    pbnn-bench sample --task linear --method my_method.py:CARD --out out

The same lines run in jax and torch: arithmetic is operators, functions come from ``array_namespace`` of the arrays.
What it does now: a random walk, one mini-batch per step, and the penalty of Ceperley and Dewing (1999):

    accept with probability min(1, exp(-delta - variance / 2))
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.kernels.proposals import random_walk, scale_by
from implementations.settings import BATCH_SIZE, STEP_SIZE, WEIGHT, Setting, noisy_step


class State(NamedTuple):
    """What the next step needs, chains first: arrays only, one of them called ``position``."""

    position: Any  # (chains, P)


class Noise(NamedTuple):
    """All the randomness of a step. It is drawn for many steps at once, outside of the compiled loop."""

    moves: Any  # (…, P)
    log_uniforms: Any  # (…,)
    points: Any  # (…, n): which points are in the mini-batch


def kernel(target: Target, shapes: Shapes) -> Kernel:
    """``shapes`` are the settings that are whole numbers or choices; real numbers come with ``values``."""
    batch_size, num_points = shapes["batch_size"], target.num_points

    def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
        normals = random.normals((*shape, target.num_parameters))
        points = random.points(shape, batch_size)
        return Noise(scale_by(values.factor, normals), random.log_uniforms(shape), points)

    def init(noise: Noise, position: Any, data: Points, values: Values) -> State:
        return State(position)

    def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
        xp = array_namespace(state.position)
        proposed = random_walk(state.position, noise.moves, values.step_size)
        # The same points at both ends of the move: their noise is nearly the same, and cancels.
        batch = target.take(data.rows, noise.points)
        differences = target.losses(proposed, batch) - target.losses(state.position, batch)
        delta = target.log_prior(state.position) - target.log_prior(proposed)
        delta = delta + values.weight * xp.mean(differences, axis=-1)
        # Of a mean over n of N points, drawn without replacement.
        share = (1 - batch_size / num_points) / (batch_size - 1)
        variance = values.weight**2 * share * xp.var(differences, axis=-1)
        is_accepted = noise.log_uniforms < -delta - values.own["penalty"] * variance
        position = xp.where(is_accepted[:, None], proposed, state.position)
        # Costs are what the step evaluated for each chain: here n losses at both ends, and no gradient.
        return State(position), Info(is_accepted, variance, counted(delta, 2 * batch_size), counted(delta, 0))

    return Kernel(init, noise, step)


CARD = Card(
    name="my_method",  # in studies, paths and tables
    label="my method",  # in figures and text
    summary="random walk with one mini-batch per step and a penalty for its noise",
    citation="Ceperley and Dewing (1999)",
    kernel=kernel,
    exactness=Exactness.CONDITIONAL,  # or EXACT, or BIASED; with the condition, or what biases it
    condition="for Gaussian noise of known variance",
    own_settings=(
        BATCH_SIZE.but(default=50),
        STEP_SIZE.but(default=noisy_step),
        WEIGHT,
        Setting("penalty", "times the variance; the penalty method has 0.5", float, 0.5, minimum=0),
    ),
    aims_at=0.25,  # the share of accepted moves that ``step_size: auto`` tunes for
    needs=frozenset({"rows"}),  # "all" for all points in every step, "anchor" for the mode and its curvature
    colour="#8c564b",
)
