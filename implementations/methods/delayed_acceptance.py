"""Delayed acceptance: a quadratic stand-in for the losses turns most bad moves down, all the data judge the rest."""

from typing import NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted, whole
from implementations.kernels.loss_differences import Losses, balance_of, probability
from implementations.kernels.metropolis import choose
from implementations.kernels.proposals import random_walk, scale_by
from implementations.methods.control_variates import PROXY
from implementations.settings import STEP_SIZE, WEIGHT, random_walk_step


class State(NamedTuple):
    """Where the chain is, and what the quadratic leaves of its loss."""

    position: Array  # (chains, P)
    remainder: Array  # (chains,): (w / N) sum_j (l_j - q_j)


class Noise(NamedTuple):
    """All the randomness of a step: one uniform per stage."""

    moves: Array  # (chains, P): L e
    log_uniforms: Array  # (chains, 2)


def kernel(target: Target, shapes: Shapes) -> Kernel:
    """Christen and Fox (2005) with a random walk, the proxies' sum Q over all points as the first stage's loss.

        log A_1 = -(Q(theta') - Q(theta)) - prior's part,   log A_2 = -(R(theta') - R(theta)),   R = U - Q

    Both stages keep detailed balance, the first for exp(-Q) p and the second for what exp(-R) makes of it: together
    A_1 A_2 / (A_1' A_2') = exp(-Delta). R is evaluated only if some chain has passed the first stage, and it is counted
    for those that have.
    """
    losses = Losses(target, shapes["proxy"])

    def remainder(position: Array, data: Points, values: Values) -> Array:
        return values.weight * array_namespace(position).mean(losses.at(position, data.together, data), axis=-1)

    def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
        moves = scale_by(values.factor, random.normals((*shape, target.num_parameters)))
        return Noise(moves, random.log_uniforms((*shape, 2)))

    def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
        return State(position, remainder(position, data, values))

    def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
        xp = array_namespace(state.position)
        proposed = random_walk(state.position, noise.moves, values.step_size)
        has_passed = noise.log_uniforms[:, 0] < -losses.known_drop(state.position, proposed, data)

        def evaluate(found: tuple[Array, Array]) -> tuple[Array, Array]:
            return xp.zeros_like(found[0]), remainder(proposed, data, values)

        # A loop of one round or none.
        _, at_proposed = target.loop(lambda found: xp.any(found[0]), evaluate, (has_passed, state.remainder))
        is_accepted = has_passed & (noise.log_uniforms[:, 1] < state.remainder - at_proposed)
        nothing = xp.zeros_like(state.remainder)
        costs = whole(target.num_points * xp.astype(has_passed, nothing.dtype)), counted(nothing, 0)
        return choose(is_accepted, State(proposed, at_proposed), state), Info(is_accepted, nothing, *costs)

    def balance(noise: Noise, random: Random, state: State, data: Points, values: Values) -> dict[str, Array]:
        """Both ways of one move; given the move, nothing is left to chance."""
        xp = array_namespace(state.position)
        proposed = random_walk(state.position, noise.moves, values.step_size)
        drop = losses.known_drop(state.position, proposed, data)
        change = remainder(proposed, data, values) - state.remainder

        def acceptances(sign: int) -> Array:
            return xp.broadcast_to(probability(-sign * drop) * probability(-sign * change), (2,))

        return balance_of(acceptances, -Losses(target, None).true_difference(
            state.position, proposed, data, values.weight
        )[0])  # fmt: skip

    return Kernel(init, noise, step, balance=balance)


CARD = Card(
    name="delayed_acceptance",
    label="delayed acceptance",
    summary="random walk whose moves first have to pass a quadratic around the mode, then a test on all data",
    citation="Christen and Fox (2005); Banterle, Grazian, Lee and Robert (2019)",
    kernel=kernel,
    exactness=Exactness.EXACT,
    own_settings=(STEP_SIZE.but(default=random_walk_step), WEIGHT, PROXY),
    needs=frozenset({"all", "anchor"}),
    is_compiled=False,
    colour="#3f4b8c",
)
