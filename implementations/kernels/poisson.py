"""Exact decisions on a Poisson number of points, where bounds on the change of every loss are known.

With |Delta_j| <= c_j M for what point j adds to U(theta') - U(theta), C = sum_j c_j, and Poisson counts s_j with means

    r_j = chi c_j C M^2 + phi_j,   r_j' = chi c_j C M^2 + phi_j',   phi_j - phi_j' = Delta_j

as auxiliary variables, the ratio of the target and the counts' law at both ends is

    exp(-sum_j Delta_j) prod_j Poisson(s_j; r_j') / Poisson(s_j; r_j) = prod_j (r_j' / r_j)^s_j

since exp(sum_j (r_j - r_j')) cancels exp(-sum_j Delta_j). Counts are drawn by thinning: candidates come at the rate
that c_j M would have were every c_j the largest one, and each stays with probability r_j over that rate. A point whose
own bound would have turned a candidate down is not counted as evaluated, as a table of the c_j would not have drawn it.
Moves whose chi C^2 M^2 + C M exceeds N read all points instead; M is the same both ways, so that is exact as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from array_api_compat import array_namespace, device

from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted, whole
from implementations.kernels.loss_differences import NUM_REDRAWN, Losses, balance_of, probability
from implementations.kernels.metropolis import choose
from implementations.kernels.permutation import domain
from implementations.kernels.proposals import random_walk, scale_by

#: Keys of one stream of uniforms.
NUM_KEYS = 2
#: Streams of uniforms: gaps between candidates, the two halves of a point's number, and the thinning.
NUM_STREAMS = 4


class State(NamedTuple):
    """Where the chain is."""

    position: Array  # (chains, P)


class Noise(NamedTuple):
    """All the randomness of a step."""

    moves: Array  # (chains, P): L e
    log_uniforms: Array  # (chains, 2): one per stage
    bits: Array  # (chains, NUM_STREAMS * NUM_KEYS): keys of the candidates


class Move(NamedTuple):
    """What a decision needs to know of a move; (chains,) each."""

    drop: Array  # the part of U(theta') - U(theta) that takes no points
    bound: Array  # M
    is_read: Array  # is there anything left to decide?


class Count(NamedTuple):
    """Points counted so far; (chains,) but for ``num_read``."""

    num_read: Array  # (): counters used
    arrival: Array  # time of the last candidate
    log_ratio: Array  # sum of log(r_j' / r_j)
    num_points: Array  # evaluated
    is_done: Array


#: From point numbers (chains, n) to Delta_j and c_j (chains, n), both times w / N.
Evaluate = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Poisson:
    """Counts that are ``balanced``, phi = (c M + Delta) / 2 (TunaMH); or ``least``, phi = c M + min(0, Delta), after a
    first stage that decides on the known part of the loss alone (MH with scalable subsampling)."""

    counts: str

    def __call__(self, target: Target, shapes: Shapes) -> Kernel:
        num_points, batch_size = target.num_points, shapes["batch_size"]
        order = None if shapes.get("proxy", "none") == "none" else shapes["proxy"]
        losses, is_delayed = Losses(target, order), self.counts == "least"
        rows, columns = domain(num_points)

        def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
            moves = scale_by(values.factor, random.normals((*shape, target.num_parameters)))
            return Noise(moves, random.log_uniforms((*shape, 2)), random.bits(shape, NUM_STREAMS * NUM_KEYS))

        def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
            return State(position)

        def means(delta: Array, bound: Array) -> tuple[Array, Array]:
            """phi and phi' of Delta_j and c_j M."""
            if self.counts == "balanced":
                return (bound + delta) / 2, (bound - delta) / 2
            xp = array_namespace(delta)
            zero = xp.zeros_like(delta)
            return bound + xp.where(delta < 0, delta, zero), bound + xp.where(delta < 0, zero, -delta)

        def count(evaluate: Evaluate, bits: Array, move: Move, data: Points, values: Values) -> Count:
            xp = array_namespace(move.drop)
            scale = values.weight / num_points
            total, largest = (scale * part for part in target.bound_totals(data, order))
            bound = move.bound[:, None]
            extra = values.own.get("chi", 0.0) * total * bound**2
            is_whole = (extra + bound) * total >= num_points
            # Of candidates, of which there are as many as if every c_j were the largest.
            rate = (extra + bound) * largest
            steps = xp.arange(batch_size, dtype=xp.int32, device=device(move.drop))
            zero = xp.zeros_like(move.drop)

            def go_on(made: Count) -> Count:
                counters = made.num_read + steps
                gaps, row, column, thinning = (
                    uniforms(bits[:, NUM_KEYS * stream : NUM_KEYS * (stream + 1)], counters, zero.dtype)
                    for stream in range(NUM_STREAMS)
                )
                arrivals = made.arrival[:, None] + xp.cumulative_sum(-xp.log1p(-gaps), axis=-1)
                # A candidate beyond the last point is none.
                candidates = xp.astype(xp.floor(row * rows), xp.int32) * columns + xp.astype(
                    xp.floor(column * columns), xp.int32
                )
                is_there = xp.where(
                    is_whole, counters < num_points, (arrivals <= rows * columns * rate) & (candidates < num_points)
                )
                numbers = xp.where(is_whole, counters, candidates)
                delta, bounds = evaluate(xp.where(is_there, numbers, xp.zeros_like(numbers)))
                of_extra, (phi, phi_back) = bounds * extra, means(delta, bounds * bound)
                is_kept = is_there & (thinning * rate < of_extra + phi)
                is_evaluated = is_there & (is_whole | (thinning * rate < bounds * (extra + bound)))
                log_ratios = xp.log((of_extra + phi_back) / xp.where(is_kept, of_extra + phi, 1))
                added = xp.where(is_whole, xp.where(is_there, -delta, 0), xp.where(is_kept, log_ratios, 0))
                is_done = xp.where(
                    is_whole[:, 0],
                    made.num_read + batch_size >= num_points,
                    arrivals[:, -1] > rows * columns * rate[:, 0],
                )
                after = Count(
                    made.num_read + batch_size,
                    arrivals[:, -1],
                    made.log_ratio + xp.sum(added, axis=-1),
                    made.num_points + xp.sum(xp.astype(is_evaluated, zero.dtype), axis=-1),
                    is_done,
                )
                kept = (xp.where(made.is_done, old, new) for old, new in zip(made[1:], after[1:], strict=True))
                return Count(after.num_read, *kept)

            first = xp.zeros((), dtype=xp.int32, device=device(move.drop))
            found: Count = target.loop(
                lambda made: xp.any(~made.is_done), go_on, Count(first, zero, zero, zero, ~move.is_read)
            )
            return found

        def weigh(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Move, Count]:
            proposed = random_walk(state.position, noise.moves, values.step_size)
            drop = losses.known_drop(state.position, proposed, data)
            is_read = (noise.log_uniforms[:, 0] < -drop) | (not is_delayed)
            move = Move(drop, target.move_bound(state.position, proposed, data, order), is_read)
            scale = values.weight / num_points

            def evaluate(indices: Array) -> tuple[Array, Array]:
                points = target.take(data.rows, indices[:, None], order)
                differences = losses.differences_of(state.position, proposed, points, data)
                return scale * differences, scale * target.point_bounds(points, order)[:, 0]

            return State(proposed), move, count(evaluate, noise.bits, move, data, values)

        def log_acceptance(drop: Array, log_ratio: Array) -> Array:
            if not is_delayed:
                return log_ratio - drop
            xp = array_namespace(drop)
            return xp.log(probability(-drop)) + xp.log(probability(log_ratio))

        def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
            proposed, move, found = weigh(noise, state, data, values)
            second = found.log_ratio if is_delayed else found.log_ratio - move.drop
            is_accepted = move.is_read & (noise.log_uniforms[:, 1] < second)
            nothing = array_namespace(move.drop).zeros_like(move.drop)
            costs = whole(2 * found.num_points), counted(nothing, 0)
            return choose(is_accepted, proposed, state), Info(is_accepted, nothing, *costs)

        def audit(noise: Noise, state: State, data: Points, values: Values) -> dict[str, Array]:
            """Both stages as one decision; its noise is not that of an estimate, so there is no variance."""
            xp = array_namespace(state.position)
            everything = noise._replace(log_uniforms=xp.full_like(noise.log_uniforms, -xp.inf))
            proposed, move, found = weigh(everything, state, data, values)
            nothing = xp.zeros_like(move.drop)
            true_delta, _, _ = losses.true_difference(state.position, proposed.position, data, values.weight)
            return {
                "log_ratio_proposal": nothing,
                "delta": move.drop - found.log_ratio,
                "variance": nothing,
                "log_accept": log_acceptance(move.drop, found.log_ratio),
                "log_uniform": noise.log_uniforms[:, 1],
                "true_delta": true_delta,
                "true_variance": nothing,
                "num_points": found.num_points,
            }

        def balance(noise: Noise, random: Random, state: State, data: Points, values: Values) -> dict[str, Array]:
            """One move from one place, its points counted again and again both ways."""
            xp = array_namespace(state.position)
            proposed = random_walk(state.position, noise.moves, values.step_size)
            true_delta, drop, differences = losses.true_difference(state.position, proposed, data, values.weight)
            bound = target.move_bound(state.position, proposed, data, order)
            bounds, scale = target.point_bounds(data.together, order), values.weight / num_points

            def acceptances(sign: int) -> Array:
                drops, bound_of_all = (xp.broadcast_to(part, (NUM_REDRAWN,)) for part in (sign * drop, bound))
                move = Move(drops, bound_of_all, drops == drops)
                found = count(
                    lambda indices: (sign * scale * differences[0][indices], scale * bounds[indices]),
                    random.bits((NUM_REDRAWN,), NUM_STREAMS * NUM_KEYS),
                    move,
                    data,
                    values,
                )
                return probability(log_acceptance(drops, found.log_ratio))

            return balance_of(acceptances, -true_delta)

        return Kernel(init, noise, step, audit, balance)


def uniforms(keys: Array, counters: Array, dtype: Array) -> Array:
    """Uniform numbers in [0, 1) of 24 bits, (…, n), for keys (…, NUM_KEYS) and counters (n,).

    A step that does not know how many it will need draws a few 32-bit keys beforehand and hashes counters with them.
    The arithmetic is operators on 32-bit integers, which run over alike in numpy, jax and torch.
    """
    mixed = _scrambled(_scrambled(counters + keys[..., 0, None]) ^ keys[..., 1, None])
    return array_namespace(counters).astype((mixed >> 8) & 0xFFFFFF, dtype) * 2.0**-24


def _scrambled(value: Array) -> Array:
    """A permutation of the 32-bit integers with hardly any bias (Wellons' triple32)."""
    for shift, factor in ((17, -312814405), (11, -1404298415), (15, 830770091)):  # 0xed5ad4bb, 0xac4c1b51, 0x31848bab
        value = (value ^ ((value >> shift) & ((1 << (32 - shift)) - 1))) * factor
    return value ^ ((value >> 14) & 0x3FFFF)
