"""Temperature scaling (Guo, Pleiss, Sun and Weinberger 2017) as a row beside the samplers: one draw, and no chain.

Of one stochastic layer a softmax at temperature T is the softmax of the parameters divided by T, which are handed in as
the anchor (implementations.tasks.temperature). Every "step" stays there, so that its predictions are judged as those of
a chain are; R-hat and ESS, of which a constant has none, stay empty.
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.settings import STEP_SIZE, WEIGHT


class State(NamedTuple):
    position: Any  # (chains, P)


class Noise(NamedTuple):
    unused: Any  # (…,): the length of a block of steps goes by its noise


def kernel(target: Target, shapes: Shapes) -> Kernel:
    def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
        return Noise(random.log_uniforms(shape))

    def init(noise: Noise, position: Any, data: Points, values: Values) -> State:
        return State(array_namespace(position).zeros_like(position) + data.anchor.position)

    def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
        xp = array_namespace(state.position)
        nothing = xp.zeros_like(state.position[:, 0])
        return state, Info(nothing == 0, nothing, counted(nothing, 0), counted(nothing, 0))

    return Kernel(init, noise, step)


CARD = Card(
    name="temperature",
    label="Temperature scaling",
    summary="temperature scaling: the network at its mode, outputs divided by a number fitted on validation points",
    citation="Guo, Pleiss, Sun and Weinberger (2017)",
    kernel=kernel,
    exactness=Exactness.BIASED,
    condition="a single network, made more or less confident; not a posterior",
    accepts="always",
    own_settings=(STEP_SIZE.but(default=1.0), WEIGHT),
    needs=frozenset({"anchor", "validation"}),
    colour="#c0a060",
)
