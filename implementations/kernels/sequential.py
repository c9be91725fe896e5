"""Decisions that ask for more data until they are sure: a random walk whose acceptance looks at growing mini-batches.

The points of a step stand in a random order, drawn as the keys of a permutation. A decision reads them n at a time,
without replacement, and a rule says after each look whether what was seen is enough. Chains share one loop but stop
asking on their own: what a decided chain has seen stays as it is, and its evaluations end there. With all N points seen
a decision is made whatever the rule says, and is then exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from array_api_compat import array_namespace, device

from implementations.kernels import estimates
from implementations.kernels.acceptance import exact
from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted, whole
from implementations.kernels.loss_differences import Losses, balance_of
from implementations.kernels.metropolis import choose
from implementations.kernels.proposals import random_walk, scale_by

#: A move is decided again, each way, in so many orders of the points, and in each at so many levels of the uniform,
#: whose bounds 1, exp(-0.5), exp(-1), … 0 show how rare an acceptance is down to exp(-8).
NUM_ORDERS, NUM_LEVELS, LEVEL_HEIGHT = 50, 16, 0.5


class State(NamedTuple):
    """Where the chain is."""

    position: Array  # (chains, P)


class Noise(NamedTuple):
    """All the randomness of a step."""

    moves: Array  # (chains, P): L e
    log_uniforms: Array  # (chains,)
    orders: Array  # (chains, …): of all points (Random.orders)


class Seen(NamedTuple):
    """What a decision knows when it looks; all (chains,)."""

    delta: Array  # estimate of U(theta') - U(theta)
    variance: Array  # of delta, from the points seen, with the finite-population factor
    count: Array  # points seen, as a real number
    num_looks: Array  # this one included
    log_uniforms: Array  # log u, which an acceptance below it rejects
    spread: Array  # variance of the w d_j seen
    span: Array  # bound on the range of w d_j; 0 for rules that ask for none


#: From what was seen to whether that is enough, and the log acceptance to compare log u with.
Rule = Callable[[Seen, int, Values], tuple[Array, Array]]
#: From positions in a chain's order (n,) to d_j (chains, n).
Look = Callable[[Array], Array]


class Decision(NamedTuple):
    """A decision under way, of all chains; arrays are (chains,) but for ``num_read``."""

    num_read: Array  # (): positions read so far by those that still ask
    mean: Array  # of the d_j seen
    squares: Array  # sum of their squared deviations from it
    count: Array
    num_looks: Array
    next_look: Array  # points to see before the next look
    is_decided: Array
    delta: Array
    variance: Array
    log_accept: Array


@dataclass(frozen=True)
class Sequential:
    """A rule, and by how much a mini-batch grows from look to look: n more points, or the factor ``growth`` if more."""

    rule: Rule
    growth: float = 1.0
    #: Log acceptance of the same rule where delta is known; the audit compares with it.
    known: Callable[[Array, Array, float], Array] = exact
    #: Does the rule need a bound on the range of the differences?
    has_span: bool = False

    def __call__(self, target: Target, shapes: Shapes) -> Kernel:
        batch_size, num_points = shapes["batch_size"], target.num_points
        order = None if shapes.get("proxy", "none") == "none" else shapes["proxy"]
        losses = Losses(target, order)

        def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
            moves = scale_by(values.factor, random.normals((*shape, target.num_parameters)))
            return Noise(moves, random.log_uniforms(shape), random.orders(shape))

        def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
            return State(position)

        def decide(look: Look, log_uniforms: Array, drop: Array, span: Array, values: Values) -> Decision:
            """Look at points until every chain is sure; ``drop`` is the part of delta that takes none."""
            xp = array_namespace(drop)
            zero, never = xp.zeros_like(drop), xp.zeros_like(drop) > 0
            steps = xp.arange(batch_size, dtype=xp.int32, device=device(drop))

            def go_on(made: Decision) -> Decision:
                positions = made.num_read + steps
                is_there = xp.astype(positions < num_points, drop.dtype)
                differences = look(xp.where(positions < num_points, positions, num_points - 1))
                # Means and squares of both parts put together (Chan, Golub and LeVeque, 1983).
                new = xp.sum(is_there)
                mean_of_new = xp.sum(differences * is_there, axis=-1) / new
                squares_of_new = xp.sum(is_there * (differences - mean_of_new[:, None]) ** 2, axis=-1)
                count, shift = made.count + new, mean_of_new - made.mean
                mean = made.mean + shift * new / count
                squares = made.squares + squares_of_new + shift**2 * made.count * new / count
                is_look = (count >= made.next_look) | (count >= num_points)
                num_looks = made.num_looks + xp.astype(is_look, drop.dtype)
                delta = drop + values.weight * mean
                more_than_one = xp.where(count > 1, count - 1, xp.ones_like(count))
                spread = values.weight**2 * squares / more_than_one
                # Not 1 - count / num_points, which rounding can leave below 0 once all points are seen.
                variance = spread / count * ((num_points - count) / num_points)
                is_enough, log_accept = self.rule(
                    Seen(delta, variance, count, num_looks, log_uniforms, spread, span), num_points, values
                )
                # One point has no variance, and a rule would take that for certainty.
                is_decided = (is_look & is_enough & (count > 1)) | (count >= num_points)
                larger = self.growth * count
                next_look = xp.where(is_look, xp.where(larger > count + new, larger, count + new), made.next_look)
                after = Decision(
                    made.num_read + batch_size, mean, squares, count, num_looks, next_look, is_decided, delta, variance,
                    log_accept,
                )  # fmt: skip
                kept = (xp.where(made.is_decided, old, fresh) for old, fresh in zip(made[1:], after[1:], strict=True))
                return Decision(after.num_read, *kept)

            first = xp.zeros((), dtype=xp.int32, device=device(drop))
            start = Decision(first, zero, zero, zero, zero, zero + batch_size, never, zero, zero, zero)
            decision: Decision = target.loop(lambda made: xp.any(~made.is_decided), go_on, start)
            return decision

        def span_of(position: Array, proposed: Array, data: Points, values: Values) -> Array:
            """|w d_j| <= w c_j M both ways, so their range is twice the largest of that."""
            if not self.has_span:
                return array_namespace(position).zeros_like(position[:, 0])
            _, largest = target.bound_totals(data, order)
            return 2 * values.weight * largest * target.move_bound(position, proposed, data, order)

        def weigh(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Decision]:
            proposed = random_walk(state.position, noise.moves, values.step_size)

            def look(positions: Array) -> Array:
                indices = target.points_at(noise.orders, positions)
                return losses.differences(state.position, proposed, indices, data)

            drop = losses.known_drop(state.position, proposed, data)
            span = span_of(state.position, proposed, data, values)
            return State(proposed), decide(look, noise.log_uniforms, drop, span, values)

        def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
            proposed, decision = weigh(noise, state, data, values)
            is_accepted = noise.log_uniforms < decision.log_accept
            costs = whole(2 * decision.count), counted(decision.count, 0)
            return choose(is_accepted, proposed, state), Info(is_accepted, decision.variance, *costs)

        def audit(noise: Noise, state: State, data: Points, values: Values) -> dict[str, Array]:
            proposed, decision = weigh(noise, state, data, values)
            true_delta, _, differences = losses.true_difference(state.position, proposed.position, data, values.weight)
            nothing = array_namespace(true_delta).zeros_like(true_delta)
            return {
                "log_ratio_proposal": nothing,
                "delta": decision.delta,
                "variance": decision.variance,
                "log_accept": decision.log_accept,
                "log_uniform": noise.log_uniforms,
                "true_delta": true_delta,
                "true_variance": estimates.known_variance(differences, values.weight, decision.count),
                "log_exact": self.known(true_delta, nothing, 0.0),
                "num_points": decision.count,
            }

        def balance(noise: Noise, random: Random, state: State, data: Points, values: Values) -> dict[str, Array]:
            """One move from one place, decided again and again both ways with orders and uniforms drawn afresh."""
            xp = array_namespace(state.position)
            proposed = random_walk(state.position, noise.moves, values.step_size)
            true_delta, drop, differences = losses.true_difference(state.position, proposed, data, values.weight)
            span = span_of(state.position, proposed, data, values)

            def acceptances(sign: int) -> Array:
                # Each order meets a uniform of every level, which counts as its level is wide.
                orders, within = random.orders((NUM_ORDERS,)), xp.exp(random.log_uniforms((NUM_ORDERS, NUM_LEVELS)))
                levels = xp.arange(NUM_LEVELS, dtype=drop.dtype, device=device(drop))
                upper, last = xp.exp(-LEVEL_HEIGHT * levels), levels == NUM_LEVELS - 1
                lower = xp.where(last, xp.zeros_like(upper), xp.exp(-LEVEL_HEIGHT * (levels + 1)))
                log_uniforms = xp.log(lower + (upper - lower) * within).reshape(-1)

                def look(positions: Array) -> Array:
                    of_orders = sign * differences[0][target.points_at(orders, positions)]
                    shape = (NUM_ORDERS, NUM_LEVELS, len(positions))
                    return xp.broadcast_to(of_orders[:, None], shape).reshape(-1, len(positions))

                drops, spans = (xp.broadcast_to(part, log_uniforms.shape) for part in (sign * drop, span))
                decision = decide(look, log_uniforms, drops, spans, values)
                is_accepted = xp.astype(log_uniforms < decision.log_accept, drop.dtype)
                return xp.sum(is_accepted.reshape(NUM_ORDERS, NUM_LEVELS) * (upper - lower), axis=-1)

            return balance_of(acceptances, -true_delta)

        return Kernel(init, noise, step, audit, balance)
