"""Stochastic gradient Nosé-Hoover thermostat: a friction that adapts itself to the noise of the gradient."""

from typing import NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.kernels.proposals import scale_by, scale_by_transpose
from implementations.settings import BATCH_SIZE, STEP_SIZE, UNADJUSTED_STEP, WEIGHT, Setting


class State(NamedTuple):
    """Where the chain is, where it is going, and how hard it is braked."""

    position: Array  # (chains, P)
    velocity: Array  # (chains, P): whitened, z of theta' = theta + L z
    friction: Array  # (chains,): xi


class Noise(NamedTuple):
    """All the randomness of a step."""

    normals: Array  # (chains, P): e
    indices: Array  # (chains, n)


def kernel(target: Target, shapes: Shapes) -> Kernel:
    """Ding, Fang, Babbush, Chen, Skeel and Neven (2014), Algorithm 2, with C = L L^T as inverse mass.

        z' = (1 - xi) z - eta L^T g(theta) + sqrt(2 alpha eta) e
        theta' = theta + L z',   xi' = xi + |z'|^2 / P - eta

    With momentum p = z / h, h = sqrt(eta), and friction xi / h these are the authors' equations: their
    h (p · p / P - 1) is (|z'|^2 / P - eta) / h. Where xi comes to rest, |z|^2 / P is eta on average, the temperature
    that belongs to the target, whatever noise g adds. On a Gaussian the variance of theta is then 1 - xi / 2 of the
    target's: friction per step must be small, unlike that of SGHMC. From alpha = 1/2 on nothing holds the temperature:
    (1 - xi)^2 + 2 alpha = 1 has no solution.
    """

    def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
        return Noise(random.normals((*shape, target.num_parameters)), random.points(shape, shapes["batch_size"]))

    def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
        """At the target's temperature: z ~ N(0, eta), and with the friction that balances the injected noise."""
        xp = array_namespace(position)
        friction = xp.zeros_like(position[:, 0]) + values.own["friction"]
        return State(position, xp.sqrt(values.step_size) * noise.normals, friction)

    def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
        xp = array_namespace(state.position)
        step_size = values.step_size
        batch = target.take(data.rows, noise.indices)
        _, gradient = target.losses_and_gradient(state.position, batch, values.weight)
        kick = xp.sqrt(2 * values.own["friction"] * step_size) * noise.normals
        drift = step_size * scale_by_transpose(values.factor, gradient)
        velocity = (1 - state.friction)[:, None] * state.velocity - drift + kick
        friction = state.friction + xp.sum(velocity**2, axis=-1) / target.num_parameters - step_size
        nothing = xp.zeros_like(friction)
        costs = counted(nothing, 0), counted(nothing, shapes["batch_size"])
        moved = State(state.position + scale_by(values.factor, velocity), velocity, friction)
        return moved, Info(nothing == 0, nothing, *costs)

    return Kernel(init, noise, step)


CARD = Card(
    name="sgnht",
    label="SGNHT",
    summary="stochastic gradient Nosé-Hoover thermostat: momentum, and a friction that adapts to the gradient's noise",
    citation="Ding, Fang, Babbush, Chen, Skeel and Neven (2014)",
    kernel=kernel,
    exactness=Exactness.BIASED,
    condition="discretisation, and gradient noise that depends on the position",
    own_settings=(
        BATCH_SIZE,
        STEP_SIZE.but(default=UNADJUSTED_STEP),
        WEIGHT.but(default="batch"),
        Setting("friction", "α of the injected noise √(2αη), and the friction at the start", float, 0.05, 0, 0.4),
    ),
    needs=frozenset({"rows"}),
    accepts="always",
    colour="#bfa500",
)
