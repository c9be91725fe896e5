"""Block pseudo-marginal: the points of the estimate belong to the state, and few of them are renewed in a step."""

from typing import NamedTuple

from array_api_compat import array_namespace, device

from implementations.card import Card, Exactness
from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.kernels.loss_differences import NUM_REDRAWN, Losses, balance_of, probability
from implementations.kernels.metropolis import choose
from implementations.kernels.proposals import random_walk, scale_by
from implementations.methods.control_variates import OPTIONAL_PROXY
from implementations.settings import BATCH_SIZE, STEP_SIZE, WEIGHT, Setting, noisy_step

#: Share of its variance that is taken off a log likelihood: the mean of exp(noise) is exp(variance / 2).
CORRECTION = 0.5


class State(NamedTuple):
    """Where the chain is, the points that estimate its loss, and that estimate."""

    position: Array  # (chains, P)
    indices: Array  # (chains, G, n): u, as blocks of points
    loss: Array  # (chains,): w mean(l_j - q_j) over these points
    variance: Array  # (chains,): estimated, of loss


class Noise(NamedTuple):
    """All the randomness of a step."""

    moves: Array  # (chains, P): L e
    log_uniforms: Array  # (chains, 2): of the decision, and of the block that is renewed
    block: Array  # (chains, n): its new points
    orders: Array  # (chains, G, …): of all points, from which the first state takes its blocks


def kernel(target: Target, shapes: Shapes) -> Kernel:
    """Quiroz, Kohn, Villani and Tran (2019), with the block refresh of Tran, Kohn, Quiroz and Villani (2016).

        log L(theta, u) = -(w / N) sum_j q_j(theta) - w mean_u(l_j - q_j) - s^2(theta, u) / 2

    on the pairs (theta, u) is the target, and a step proposes a random walk of theta together with one new block of u.
    For Gaussian noise of variance s^2 the mean of L over u is the likelihood itself, else it is a perturbed one. The G
    blocks of n points are independent and each without replacement: s^2 = w^2 var(l_j - q_j) / (n G) (1 - n / N).
    """
    batch_size, num_blocks = shapes["batch_size"], shapes["num_batches"]
    order = None if shapes["proxy"] == "none" else shapes["proxy"]
    losses = Losses(target, order)

    def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
        moves = scale_by(values.factor, random.normals((*shape, target.num_parameters)))
        return Noise(
            moves,
            random.log_uniforms((*shape, 2)),
            random.points(shape, batch_size),
            random.orders((*shape, num_blocks)),
        )

    def estimate(values_of_points: Array, weight: Array) -> tuple[Array, Array]:
        """Mean and variance of the loss from values (chains, G, n) of its points."""
        xp = array_namespace(values_of_points)
        spread = xp.var(values_of_points, axis=(-2, -1), correction=1)
        share = (1 - batch_size / target.num_points) / (batch_size * num_blocks)
        return weight * xp.mean(values_of_points, axis=(-2, -1)), weight**2 * spread * share

    def state_at(position: Array, indices: Array, data: Points, values: Values) -> State:
        points = target.take(data.rows, indices.reshape(len(indices), -1), order)
        return State(
            position, indices, *estimate(losses.at(position, points, data).reshape(indices.shape), values.weight)
        )

    def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
        xp = array_namespace(noise.orders)
        first = xp.arange(batch_size, dtype=xp.int32, device=device(position))
        return state_at(position, target.points_at(noise.orders, first), data, values)

    def renewed(indices: Array, block: Array, log_uniforms: Array) -> Array:
        """u with one block, chosen uniformly, replaced."""
        xp = array_namespace(indices)
        # exp(log u) is in (0, 1]: numbers from 1 on.
        chosen = xp.ceil(xp.exp(log_uniforms) * num_blocks)[:, None, None]
        numbers = xp.arange(1, num_blocks + 1, dtype=log_uniforms.dtype, device=device(indices))[:, None]
        return xp.where(numbers == chosen, block[:, None, :], indices)

    def weigh(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Array]:
        proposed = random_walk(state.position, noise.moves, values.step_size)
        arrived = state_at(proposed, renewed(state.indices, noise.block, noise.log_uniforms[:, 1]), data, values)
        delta = losses.known_drop(state.position, proposed, data) + arrived.loss - state.loss
        return arrived, -delta - CORRECTION * (arrived.variance - state.variance)

    def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
        arrived, log_accept = weigh(noise, state, data, values)
        is_accepted = noise.log_uniforms[:, 0] < log_accept
        # The estimate at theta is kept with the state, so that only the proposal's is new.
        costs = counted(log_accept, batch_size * num_blocks), counted(log_accept, 0)
        return choose(is_accepted, arrived, state), Info(is_accepted, state.variance, *costs)

    def audit(noise: Noise, state: State, data: Points, values: Values) -> dict[str, Array]:
        """A move whose u is drawn afresh, as it would be at the chain's first step."""
        arrived, log_accept = weigh(noise, state, data, values)
        true_delta, drop, _ = losses.true_difference(state.position, arrived.position, data, values.weight)
        nothing = array_namespace(drop).zeros_like(drop)
        return {
            "log_ratio_proposal": nothing,
            "delta": drop + arrived.loss - state.loss,
            "variance": arrived.variance,
            "log_accept": log_accept,
            "log_uniform": noise.log_uniforms[:, 0],
            "true_delta": true_delta,
            # Of the difference of two estimates that share most of their points: not that of either.
            "true_variance": nothing,
        }

    def balance(noise: Noise, random: Random, state: State, data: Points, values: Values) -> dict[str, Array]:
        """One move from one place, over draws of u as the chain has them at theta: weighted by L(theta, u).

        The pairs keep detailed balance whatever L is, so what is left is how far the mean of L over u is from the
        likelihood, at one end and at the other.
        """
        xp = array_namespace(state.position)
        proposed = random_walk(state.position, noise.moves, values.step_size)
        true_delta, drop, _ = losses.true_difference(state.position, proposed, data, values.weight)
        of_all = {1: losses.at(state.position, data.together, data), -1: losses.at(proposed, data.together, data)}

        def acceptances(sign: int) -> Array:
            indices = random.points((NUM_REDRAWN, num_blocks), batch_size)
            block = random.points((NUM_REDRAWN,), batch_size)
            after = renewed(indices, block, random.log_uniforms((NUM_REDRAWN,)))
            (loss, variance), (loss_there, variance_there) = (
                estimate(of_all[end][0][chosen], values.weight) for end, chosen in ((sign, indices), (-sign, after))
            )
            log_accept = loss - loss_there - sign * drop - CORRECTION * (variance_there - variance)
            # Relative to the likelihood at theta itself, so that nothing runs over.
            weights = xp.exp(values.weight * xp.mean(of_all[sign]) - loss - CORRECTION * variance)
            return probability(log_accept) * weights / xp.mean(weights)

        return balance_of(acceptances, -true_delta)

    return Kernel(init, noise, step, audit, balance)


CARD = Card(
    name="pseudo_marginal",
    label="pseudo-marginal",
    summary="block pseudo-marginal: mini-batches are part of the state, half the variance corrects their estimate",
    citation="Quiroz, Kohn, Villani and Tran (2019)",
    kernel=kernel,
    exactness=Exactness.CONDITIONAL,
    condition="for Gaussian noise of known variance; otherwise it samples a perturbed target",
    own_settings=(
        BATCH_SIZE,
        Setting("num_batches", "G, the blocks of points, one of which is renewed per step", int, 5, minimum=1),
        STEP_SIZE.but(default=noisy_step),
        WEIGHT,
        OPTIONAL_PROXY,
    ),
    needs=frozenset({"rows", "anchor"}),
    accepts="pseudo-marginal",
    colour="#c51b7d",
)
