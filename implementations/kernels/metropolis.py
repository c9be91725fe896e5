"""Metropolis-Hastings with exchangeable parts: a proposal, an estimate of the loss difference, an acceptance.

=============  ==================================================================================================
part           values
=============  ==================================================================================================
estimate       of the loss difference: ``all`` points, M disjoint mini-``batches`` of n, or ``none``
proposal       ``random_walk``; ``langevin`` with the gradient of ``all`` points, of one mini-``batch`` or of the
               ``proxy`` of the losses; or ``crank_nicolson`` around the Gaussian of an anchor
acceptance     ``exact``, ``naive``, ``penalty``, ``penalty_corrected`` or ``always``
=============  ==================================================================================================

A method with the setting ``proxy`` has control variates (control_variates.proxies): whatever is estimated from
mini-batches is then the remainder of the losses, beside the sum of their proxies over all points in closed form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from array_api_compat import array_namespace

from implementations.kernels import estimates
from implementations.kernels.acceptance import ACCEPTANCES
from implementations.kernels.contract import Array, Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.kernels.loss_differences import NUM_REDRAWN, Losses, balance_of, probability
from implementations.kernels.proposals import (
    crank_nicolson,
    crank_nicolson_log_ratio,
    langevin,
    langevin_log_ratio,
    random_walk,
    scale_by,
    scale_by_inverse,
)

#: Shares of accepted moves at which chains in many dimensions move farthest: Roberts, Gelman and Gilks (1997) for
#: random walks, Roberts and Rosenthal (1998) for gradients. Moves that keep a Gaussian are walks in what is left of U.
BEST_ACCEPTANCE = {"random_walk": 0.234, "crank_nicolson": 0.234, "langevin": 0.574}


class State(NamedTuple):
    """What the next step needs. Full-data methods keep losses and gradient of where they are, others nothing."""

    position: Array  # (chains, P)
    losses: Array  # (chains, N) or (chains, 0)
    gradient: Array  # (chains, P) or (chains, 0)
    whitened: Array  # (chains, P): L^-1 (theta - m), m the centre of an anchor; or (chains, 0)


class Noise(NamedTuple):
    """All the randomness of a step."""

    normals: Array  # (chains, P): e
    moves: Array  # (chains, P): L e
    log_uniforms: Array  # (chains,)
    indices: Array  # (chains, M, n): of the loss difference; M = 0 where it has none
    gradient_indices: Array  # (chains, n): of the proposal; n = 0 where it has none


class Move(NamedTuple):
    """A proposed move, weighed."""

    state: State
    log_ratio: Array
    delta: Array
    variance: Array
    log_accept: Array
    num_likelihoods: int
    num_gradients: int


@dataclass(frozen=True)
class Metropolis:
    """A choice of parts. Called with a model and the method's shapes, it is their kernel."""

    estimate: str
    proposal: str
    acceptance: str
    #: What the proposal's gradient is of: ``all`` points, one ``batch``, the ``proxy``, or ``none`` where it has none.
    #: The method may have a setting of this name.
    gradient: str = "none"

    @property
    def best_acceptance(self) -> float | None:
        """The share of accepted moves that a tuned step has; None where every move is made."""
        return None if self.acceptance == "always" else BEST_ACCEPTANCE[self.proposal]

    def __call__(self, target: Target, shapes: Shapes) -> Kernel:
        accept, dof = ACCEPTANCES[self.acceptance], estimates.degrees_of_freedom(shapes)
        num_batches = shapes["num_batches"] if self.estimate == "batches" else 0
        gradient_of = shapes.get("gradient", self.gradient)
        gradient_size = shapes["batch_size"] if gradient_of == "batch" else 0
        #: Of the control variates; None for the bare losses.
        order = shapes.get("proxy")
        losses = Losses(target, order)
        batch_size = shapes.get("batch_size", 0)
        #: Values that mini-batches of the loss difference are drawn from.
        num_drawn_from = estimates.population(target.num_points, shapes)

        def noise(random: Random, shape: tuple[int, ...], values: Values) -> Noise:
            normals = random.normals((*shape, target.num_parameters))
            return Noise(
                normals,
                scale_by(values.factor, normals),
                random.log_uniforms(shape),
                random.points(shape, num_batches * batch_size, num_drawn_from).reshape(*shape, num_batches, batch_size),
                random.points(shape, gradient_size),
            )

        def init(noise: Noise, position: Array, data: Points, values: Values) -> State:
            if self.proposal != "crank_nicolson":
                return state_at(position, position[:, :0], data, values)
            return state_at(position, scale_by_inverse(values.factor, position - data.anchor.centre), data, values)

        def state_at(position: Array, whitened: Array, data: Points, values: Values) -> State:
            nothing = position[:, :0]
            of_all = gradient = nothing
            if gradient_of == "all":
                of_all, gradient = target.losses_and_gradient(position, data.together, values.weight)
            elif self.estimate == "all":
                of_all = target.losses(position, data.together)
            return State(position, of_all if self.estimate == "all" else nothing, gradient, whitened)

        def gradient_with(noise: Noise, data: Points, values: Values) -> Callable[[State], Array]:
            """The gradient of the proposal: of all points, of this step's own mini-batch, or of the proxy.

            The same mini-batch serves the way there and the way back, and no loss difference sees it: it is auxiliary
            randomness, and detailed balance holds for each of its values.
            """
            if gradient_of == "all":
                return lambda state: state.gradient
            if gradient_of == "proxy":
                return lambda state: target.anchored_gradient(state.position, None, data.anchor, values.weight, order)
            batch = target.take(data.rows, noise.gradient_indices, order)
            if order:
                return lambda state: target.anchored_gradient(state.position, batch, data.anchor, values.weight, order)
            return lambda state: target.losses_and_gradient(state.position, batch, values.weight)[1]

        def propose(
            noise: Noise, state: State, data: Points, values: Values, has_ratio: bool
        ) -> tuple[State, Array, int]:
            """The state at the proposed position, the log ratio of proposing it back, and the gradients it took."""
            log_ratio = array_namespace(noise.log_uniforms).zeros_like(noise.log_uniforms)
            if self.proposal == "random_walk":
                return (
                    init(noise, random_walk(state.position, noise.moves, values.step_size), data, values),
                    log_ratio,
                    0,
                )
            if self.proposal == "crank_nicolson":
                offset = crank_nicolson(state.position - data.anchor.centre, noise.moves, values.step_size)
                whitened = crank_nicolson(state.whitened, noise.normals, values.step_size)
                log_ratio = crank_nicolson_log_ratio(state.whitened, whitened)
                return state_at(data.anchor.centre + offset, whitened, data, values), log_ratio, 0
            gradient = gradient_with(noise, data, values)
            there = gradient(state)
            position = langevin(state.position, there, values.factor, noise.moves, values.step_size)
            arrived = init(noise, position, data, values)
            if has_ratio:
                log_ratio = langevin_log_ratio(there, gradient(arrived), values.factor, noise.normals, values.step_size)
            # The gradient of all points is kept with the state, so only that of the proposal is new.
            count = target.num_points if gradient_of == "all" else gradient_size * (2 if has_ratio else 1)
            return arrived, log_ratio, count

        def loss_difference(
            noise: Noise, state: State, arrived: State, data: Points, values: Values
        ) -> tuple[Array, Array, int]:
            """delta, the estimate of U(theta') - U(theta), its variance, and the losses it took."""
            if self.estimate == "none":
                nothing = array_namespace(noise.log_uniforms).zeros_like(noise.log_uniforms)
                return nothing, nothing, 0
            drop = losses.known_drop(state.position, arrived.position, data)
            if self.estimate == "all":
                return *estimates.of_all(arrived.losses - state.losses, drop, values.weight), target.num_points
            indices = noise.indices.reshape(len(noise.indices), -1)
            differences = losses.differences(state.position, arrived.position, indices, data).reshape(
                noise.indices.shape
            )
            kind = shapes.get("variance", "points")
            delta, variance = estimates.of_batches(differences, drop, values.weight, num_drawn_from, kind)
            count = 2 * num_batches * batch_size
            if kind == "oracle":
                everything = losses.drawn_from(losses.differences_of_all(state.position, arrived.position, data), data)
                variance = estimates.known_variance(everything, values.weight, num_batches * batch_size)
                count += 2 * target.num_points
            return delta, variance, count

        def weigh(noise: Noise, state: State, data: Points, values: Values, has_ratio: bool) -> Move:
            """Propose a move and weigh it (paper: Algorithm 1, steps a to d)."""
            arrived, log_ratio, num_gradients = propose(noise, state, data, values, has_ratio)
            delta, variance, num_likelihoods = loss_difference(noise, state, arrived, data, values)
            log_accept = log_ratio + accept(delta, variance, dof)
            return Move(arrived, log_ratio, delta, variance, log_accept, num_likelihoods, num_gradients)

        def step(noise: Noise, state: State, data: Points, values: Values) -> tuple[State, Info]:
            """Go or stay (paper: Algorithm 1, steps e and f); a ratio that is not a number stays."""
            move = weigh(noise, state, data, values, has_ratio=self.acceptance != "always")
            is_accepted = noise.log_uniforms < move.log_accept
            counts = (counted(is_accepted, count) for count in (move.num_likelihoods, move.num_gradients))
            return choose(is_accepted, move.state, state), Info(is_accepted, move.variance, *counts)

        def audit(noise: Noise, state: State, data: Points, values: Values) -> dict[str, Array]:
            move = weigh(noise, state, data, values, has_ratio=True)
            true_delta, _, differences = losses.true_difference(
                state.position, move.state.position, data, values.weight
            )
            count, shape = estimates.points_of_delta(shapes), {}
            true_variance = array_namespace(true_delta).zeros_like(true_delta)
            if count:
                true_variance = estimates.known_variance(differences, values.weight, count)
                shape = dict(
                    zip(("skewness", "excess_kurtosis"), estimates.shape_of_delta(differences, count), strict=True)
                )
            return shape | {
                "log_ratio_proposal": move.log_ratio,
                "delta": move.delta,
                "variance": move.variance,
                "log_accept": move.log_accept,
                "log_uniform": noise.log_uniforms,
                "true_delta": true_delta,
                "true_variance": true_variance,
            }

        def balance(noise: Noise, random: Random, state: State, data: Points, values: Values) -> dict[str, Array]:
            """One move from one place: the mean acceptance of it and of its reverse, over mini-batches drawn afresh.

            The differences of all points are known, so that a mini-batch is a choice among them.
            """
            xp = array_namespace(state.position)
            arrived, log_ratio, _ = propose(noise, state, data, values, has_ratio=True)
            true_delta, drop, differences = losses.true_difference(
                state.position, arrived.position, data, values.weight
            )
            count, kind = num_batches * batch_size, shapes.get("variance", "points")

            def acceptances(sign: int) -> Array:
                indices = random.points((NUM_REDRAWN,), count, num_drawn_from)
                indices = indices.reshape(NUM_REDRAWN, num_batches, batch_size)
                drops = xp.broadcast_to(sign * drop, (NUM_REDRAWN,))
                delta, variance = estimates.of_batches(
                    sign * differences[0][indices], drops, values.weight, num_drawn_from, kind
                )
                if kind == "oracle":
                    variance = estimates.known_variance(differences, values.weight, count)
                return probability(sign * log_ratio + accept(delta, variance, dof))

            return balance_of(acceptances, log_ratio - true_delta)

        has_decisions = self.estimate == "batches" and self.acceptance != "always"
        return Kernel(init, noise, step, audit, balance if has_decisions else None)


S = TypeVar("S", bound=tuple[Array, ...])


def choose(is_accepted: Array, proposed: S, state: S) -> S:
    """Per chain the proposed state or the old one."""
    xp = array_namespace(is_accepted)

    def pick(new: Array, old: Array) -> Array:
        return xp.where(is_accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return type(state)(*map(pick, proposed, state))
