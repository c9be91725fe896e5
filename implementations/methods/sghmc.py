"""Stochastic gradient Hamiltonian Monte Carlo: a chain with momentum, friction and mini-batch gradients."""

from typing import NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.kernels.proposals import scale_by, scale_by_transpose
from implementations.settings import BATCH_SIZE, STEP_SIZE, UNADJUSTED_STEP, WEIGHT, Setting


class State(NamedTuple):
    """Where the chain is, and where it is going."""

    position: Array  # (chains, P)
    velocity: Array  # (chains, P): what the last step added


class Noise(NamedTuple):
    """All the randomness of a step."""

    moves: Array  # (chains, P): L e
    indices: Array  # (chains, n)


def kernel(target: Target, shapes: Shapes) -> Kernel:
    """Chen, Fox and Guestrin (2014), equation 15, with the preconditioner C = L L^T as inverse mass.

        v' = (1 - alpha) v - eta C g(theta) + sqrt(2 alpha eta) L e,   theta' = theta + v'

    g is the gradient of U_w from a fresh mini-batch. In units of time h = sqrt(eta) the friction is alpha / h;
    alpha = 1 is SGLD with the same eta. The noise of g, which the authors take off the injected noise where it is
    known, stays.
    """

    def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
        moves = scale_by(values.factor, random.normals((*shape, target.num_parameters)))
        return Noise(moves, random.points(shape, shapes["batch_size"]))

    def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
        """At rest on average: v ~ N(0, eta C)."""
        return State(position, array_namespace(position).sqrt(values.step_size) * noise.moves)

    def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
        xp = array_namespace(state.position)
        friction, step_size = values.own["friction"], values.step_size
        batch = target.take(data.rows, noise.indices)
        _, gradient = target.losses_and_gradient(state.position, batch, values.weight)
        drift = scale_by(values.factor, scale_by_transpose(values.factor, gradient))
        kick = xp.sqrt(2 * friction * step_size) * noise.moves
        velocity = (1 - friction) * state.velocity - step_size * drift + kick
        nothing = xp.zeros_like(velocity[:, 0])
        costs = counted(nothing, 0), counted(nothing, shapes["batch_size"])
        return State(state.position + velocity, velocity), Info(nothing == 0, nothing, *costs)

    return Kernel(init, noise, step)


CARD = Card(
    name="sghmc",
    label="SGHMC",
    summary="stochastic gradient Hamiltonian Monte Carlo: momentum with friction, every move accepted",
    citation="Chen, Fox and Guestrin (2014)",
    kernel=kernel,
    exactness=Exactness.BIASED,
    condition="discretisation and gradient noise",
    own_settings=(
        BATCH_SIZE,
        STEP_SIZE.but(default=UNADJUSTED_STEP),
        WEIGHT.but(default="batch"),
        Setting("friction", "α, the share of its velocity that a chain loses per step; 1 is SGLD", float, 0.2, 0, 1),
    ),
    needs=frozenset({"rows"}),
    accepts="always",
    colour="#f0e442",
)
