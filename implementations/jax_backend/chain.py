"""Chains: a method's parts put together into a step, and steps into a compiled loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from implementations.backends import DeviceMissing, Draws
from implementations.jax_backend.acceptance import ACCEPTANCES
from implementations.jax_backend.likelihood import Data, log_prior, losses_and_gradient, point_losses
from implementations.jax_backend.minibatch import (
    draw_indices,
    estimate_of_all,
    estimate_of_batches,
    known_variance,
    take_points,
)
from implementations.jax_backend.proposals import langevin, langevin_log_ratio, random_walk, scale_by
from implementations.memory import rows_of, use_large_pages
from implementations.methods import METHODS, Settings, degrees_of_freedom, evaluates_all, points_of_delta
from implementations.schedule import block_steps, chunk_steps
from implementations.tasks.geometry import preconditioner_factor
from implementations.tasks.problem import Problem


class Points(NamedTuple):
    """The data in the forms that steps read; the one that a method does not read is empty."""

    together: Data  # to evaluate all of them
    rows: Array  # (N, columns): to draw mini-batches from (implementations.memory)


class State(NamedTuple):
    """What the next step needs. Full-data methods keep losses and gradient of where they are, others nothing."""

    position: Array  # (chains, P)
    losses: Array  # (chains, N) or (chains, 0)
    gradient: Array  # (chains, P) or (chains, 0)


class Noise(NamedTuple):
    """All the randomness of a step."""

    normals: Array  # (chains, P): e
    moves: Array  # (chains, P): L e
    log_uniforms: Array  # (chains,)
    indices: Array  # (chains, M, n): of the loss difference; M = 0 where it has none
    gradient_indices: Array  # (chains, n): of the proposal; n = 0 where it has none


class StepInfo(NamedTuple):
    """What a reader of the run wants to know of a step; all (chains,)."""

    log_ratio: Array
    delta: Array
    variance: Array
    log_accept: Array


class Step(NamedTuple):
    """A method on a problem, as pure functions."""

    visit: Callable[[Array, Points], State]
    consider: Callable[..., tuple[State, StepInfo]]
    move: Callable[..., tuple[State, StepInfo, Array]]


def build_step(problem: Problem, method_name: str, settings: Settings) -> Step:
    """Put a method's parts together."""
    method = METHODS[method_name]
    weight = problem.target_weight(settings.weight, settings.batch_size)
    dof = degrees_of_freedom(settings)
    accept = ACCEPTANCES[method.acceptance]
    num_features = problem.layers[0][0]

    def visit(position: Array, points: Points) -> State:
        """The state at a position, with what the method keeps of it."""
        nothing = position[:, :0]
        losses = gradient = nothing
        if method.gradient == "all":
            losses, gradient = losses_and_gradient(position, points.together, weight, problem)
        elif method.estimate == "all":
            losses = point_losses(position, points.together, problem)
        return State(position, losses if method.estimate == "all" else nothing, gradient)

    def gradient_with(points: Points, noise: Noise) -> Callable[[State], Array]:
        """The gradient of the proposal: of all points, or of this step's own mini-batch.

        The same mini-batch serves the way there and the way back, and no loss difference sees it: it is auxiliary
        randomness, and detailed balance holds for each of its values.
        """
        if method.gradient == "all":
            return lambda state: state.gradient
        batch = take_points(points.rows, noise.gradient_indices, num_features)
        return lambda state: losses_and_gradient(state.position, batch, weight, problem)[1]

    def loss_difference(state: State, arrived: State, points: Points, noise: Noise) -> tuple[Array, Array]:
        """delta, the estimate of U(theta') - U(theta), and its variance."""
        log_prior_drop = log_prior(state.position, problem) - log_prior(arrived.position, problem)
        if method.estimate == "all":
            return estimate_of_all(arrived.losses - state.losses, log_prior_drop, weight)
        chains, num_batches, batch_size = noise.indices.shape
        pair = jnp.stack([state.position, arrived.position], axis=1)
        batches = take_points(points.rows, noise.indices.reshape(chains, 1, -1), num_features)
        losses = point_losses(pair, batches, problem)
        differences = (losses[:, 1] - losses[:, 0]).reshape(noise.indices.shape)
        delta, variance = estimate_of_batches(
            differences, log_prior_drop, weight, problem.num_points, settings.variance or "points"
        )
        if settings.variance == "oracle":
            before, after = (point_losses(place.position, points.together, problem) for place in (state, arrived))
            variance = known_variance(after - before, weight, num_batches * batch_size)
        return delta, variance

    def consider(
        points: Points, factor: Array, state: State, noise: Noise, step_size: Array, is_audit: bool = False
    ) -> tuple[State, StepInfo]:
        """Propose a move and weigh it (paper: Algorithm 1, steps a to d)."""
        log_ratio = delta = variance = jnp.zeros_like(noise.log_uniforms)
        if method.proposal == "random_walk":
            arrived = visit(random_walk(state.position, noise.moves, step_size), points)
        else:
            gradient = gradient_with(points, noise)
            there = gradient(state)
            arrived = visit(langevin(state.position, there, factor, noise.moves, step_size), points)
            if method.acceptance != "always" or is_audit:
                log_ratio = langevin_log_ratio(there, gradient(arrived), factor, noise.normals, step_size)
        if method.estimate != "none":
            delta, variance = loss_difference(state, arrived, points, noise)
        return arrived, StepInfo(log_ratio, delta, variance, log_ratio + accept(delta, variance, dof))

    def move(
        points: Points, factor: Array, state: State, noise: Noise, step_size: Array
    ) -> tuple[State, StepInfo, Array]:
        """Go or stay (paper: Algorithm 1, steps e and f); a ratio that is not a number stays."""
        arrived, info = consider(points, factor, state, noise, step_size)
        is_accepted = noise.log_uniforms < info.log_accept
        state = jax.tree.map(lambda new, old: jnp.where(is_accepted[:, None], new, old), arrived, state)
        return state, info, is_accepted

    return Step(visit, consider, move)


def draw_noise(
    key: Array, shape: tuple[int, ...], factor: Array, problem: Problem, method_name: str, settings: Settings
) -> Noise:
    """The noise of many steps and chains at once, every array with the leading dimensions ``shape``."""
    method = METHODS[method_name]
    key_normals, key_uniforms, key_indices, key_gradient = jax.random.split(key, 4)
    normals = jax.random.normal(key_normals, (*shape, problem.num_parameters), settings.dtype)
    # 1 - u is never 0, so its logarithm is finite.
    log_uniforms = jnp.log1p(-jax.random.uniform(key_uniforms, shape, settings.dtype))
    num_batches, batch_size = settings.batch_shape
    count = num_batches * batch_size if method.estimate == "batches" else 0
    indices = draw_indices(key_indices, shape, count, problem.num_points).reshape(
        *shape, -1 if count else 0, batch_size
    )
    count = batch_size if method.gradient == "batch" else 0
    gradient_indices = draw_indices(key_gradient, shape, count, problem.num_points)
    return Noise(normals, scale_by(factor, normals), log_uniforms, indices, gradient_indices)


class Carry(NamedTuple):
    """All that the next chunk needs."""

    state: State
    key: Array
    num_blocks: Array  # drawn so far: a block's key is the run's key and its number
    num_steps: Array  # made so far, for the step-size schedule
    finite_steps: Array  # (chains,)


class JaxSampler:
    """Chains of one method on one problem, compiled for one device (implementations.backends.Sampler)."""

    def __init__(self, problem: Problem, method: str, settings: Settings, device: jax.Device) -> None:
        self.problem, self.method, self.settings, self.device = problem, method, settings, device
        self.step = build_step(problem, method, settings)
        self.block_steps = block_steps(METHODS[method], settings, problem.num_parameters)
        weight = problem.target_weight(settings.weight, settings.batch_size)
        with self._precision():
            self.points = Points(
                self._together(problem.num_points if evaluates_all(METHODS[method], settings) else 0),
                self._rows(problem.num_points if METHODS[method].draws_points else 0),
            )
            self.factor = self._put(preconditioner_factor(problem, weight, settings.preconditioner))
        self._advance: Callable[..., Any] = jax.jit(self._chunk, donate_argnums=2)

    def _precision(self) -> Any:
        return jax.enable_x64(self.settings.dtype == "float64")

    def _put(self, array: np.ndarray) -> Array:
        is_integer = np.issubdtype(array.dtype, np.integer)
        return jax.device_put(np.asarray(array, np.int32 if is_integer else self.settings.dtype), self.device)

    def _together(self, num_points: int) -> Data:
        return Data(self._put(self.problem.features[:num_points]), self._put(self.problem.targets[:num_points]))

    def _rows(self, num_points: int) -> Array:
        features, targets = self.problem.features[:num_points], self.problem.targets[:num_points]
        rows = self._put(rows_of(features, targets, self.settings.dtype))
        if self.device.platform == "cpu":
            use_large_pages(rows.unsafe_buffer_pointer(), rows.nbytes)
        return rows

    def _chunk(self, points: Points, factor: Array, carry: Carry, num_steps: Array) -> tuple[Carry, tuple[Array, ...]]:
        """Blocks of steps: the noise of a block is drawn at once, its steps run one after the other."""
        settings, thin = self.settings, self.settings.thin
        chains, num_parameters = carry.state.position.shape
        num_draws = chunk_steps(settings) // thin

        def one_step(number: Array, loop: tuple[Any, ...], noise: Noise, first: Array) -> tuple[Any, ...]:
            carry, positions, acceptance, variance = loop
            noise = jax.tree.map(lambda array: array[number], noise)
            state, info, is_accepted = self.step.move(
                points, factor, carry.state, noise, decayed_step(settings, carry.num_steps)
            )
            is_finite = jnp.isfinite(state.position).all(axis=-1)
            # Every step writes into the slot of its stride; the last of them stays. Warm-up may run past the slots of
            # draws, and what does goes into one more.
            slot = jnp.minimum((first + number) // thin, num_draws)
            return (
                Carry(state, carry.key, carry.num_blocks, carry.num_steps + 1, carry.finite_steps + is_finite),
                positions.at[slot].set(state.position, mode="promise_in_bounds"),
                acceptance.at[slot].add(is_accepted / thin, mode="promise_in_bounds"),
                variance.at[slot].add(info.variance / thin, mode="promise_in_bounds"),
            )

        def one_block(loop: tuple[Any, ...]) -> tuple[Any, ...]:
            done, loop = loop
            carry = loop[0]
            key = jax.random.fold_in(carry.key, carry.num_blocks)
            noise = draw_noise(key, (self.block_steps, chains), factor, self.problem, self.method, settings)
            length = jnp.minimum(self.block_steps, num_steps - done)
            carry, *kept = jax.lax.fori_loop(0, length, lambda number, loop: one_step(number, loop, noise, done), loop)
            return done + length, (carry._replace(num_blocks=carry.num_blocks + 1), *kept)

        positions = jnp.zeros((num_draws + 1, chains, num_parameters), settings.dtype)
        means = jnp.zeros((num_draws + 1, chains), settings.dtype)
        _, (carry, *kept) = jax.lax.while_loop(
            lambda loop: loop[0] < num_steps, one_block, (jnp.int32(0), (carry, positions, means, means))
        )
        return carry, tuple(array[:num_draws] for array in kept)

    def start(self, positions: np.ndarray, seed: int) -> Carry:
        with self._precision(), jax.default_device(self.device):
            state = jax.jit(self.step.visit)(self._put(positions), self.points)
            zeros = jnp.zeros(len(positions), jnp.int32)
            return Carry(state, jax.random.key(seed), jnp.int32(0), jnp.int32(0), zeros)

    def compile(self, carry: Carry) -> None:
        with self._precision():
            self._advance = (
                jax.jit(self._chunk, donate_argnums=2).lower(self.points, self.factor, carry, np.int32(0)).compile()
            )

    def advance(self, carry: Carry, num_steps: int) -> tuple[Carry, Draws]:
        with self._precision():
            carry, kept = self._advance(self.points, self.factor, carry, np.int32(num_steps))
            jax.block_until_ready((carry, kept))
        num_draws = num_steps // self.settings.thin
        return carry, Draws(*(np.asarray(array)[:num_draws].swapaxes(0, 1) for array in kept))

    def finite_steps(self, carry: Carry) -> np.ndarray:
        return np.asarray(carry.finite_steps)

    def audit(self, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        weight = self.problem.target_weight(self.settings.weight, self.settings.batch_size)
        count = points_of_delta(self.settings)

        def one(points: Points, factor: Array, key: Array, position: Array, step: Array) -> dict[str, Array]:
            noise = draw_noise(key, (1,), factor, self.problem, self.method, self.settings)
            state = self.step.visit(position[None], points)
            step_size = decayed_step(self.settings, step)
            arrived, info = self.step.consider(points, factor, state, noise, step_size, is_audit=True)
            before, after = (point_losses(place.position, points.together, self.problem) for place in (state, arrived))
            drop = log_prior(state.position, self.problem) - log_prior(arrived.position, self.problem)
            true_delta, _ = estimate_of_all(after - before, drop, weight)
            true_variance = known_variance(after - before, weight, count) if count else jnp.zeros_like(true_delta)
            return {
                "log_ratio_proposal": info.log_ratio,
                "delta": info.delta,
                "variance": info.variance,
                "log_accept": info.log_accept,
                "log_uniform": noise.log_uniforms,
                "true_delta": true_delta,
                "true_variance": true_variance,
            }

        @jax.jit
        def every(points: Points, factor: Array, *moves: Array) -> dict[str, Array]:
            return jax.lax.map(lambda move: one(points, factor, *move), moves)

        with self._precision(), jax.default_device(self.device):
            # Apart from the chain's own stream, which folds block numbers into the bare key.
            keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2**31 - 1), len(positions))
            points = self.points._replace(together=self._together(self.problem.num_points))
            arrays = every(points, self.factor, keys, self._put(positions), self._put(steps))
        return {name: np.asarray(array)[:, 0] for name, array in arrays.items()}

    def to_arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        plain = carry._replace(key=jax.random.key_data(carry.key))
        return {
            jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(plain)
        }

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Carry:
        with self._precision():
            like = self.start(np.zeros((self.settings.chains, self.problem.num_parameters)), 0)
            plain = jax.tree_util.tree_map_with_path(
                lambda path, _: jax.device_put(arrays[jax.tree_util.keystr(path)], self.device),
                like._replace(key=jax.random.key_data(like.key)),
            )
            return plain._replace(key=jax.random.wrap_key_data(plain.key))


def decayed_step(settings: Settings, num_steps: Array) -> Array:
    """eta_t = eta (1 + t / decay_start)^-decay: constant for decay 0, else Welling and Teh's schedule."""
    decay = (1 + num_steps / (settings.decay_start or 1)) ** -(settings.decay or 0)
    return jnp.asarray(settings.step_size * decay, settings.dtype)


def build_sampler(problem: Problem, method: str, settings: Settings, device: str) -> JaxSampler:
    """The sampler on ``cpu`` or ``gpu``. Raises DeviceMissing."""
    try:
        place = jax.devices(device)[0]
    except RuntimeError as error:
        # What jax says when a platform is not there, or there and does not start.
        raise DeviceMissing("no CUDA device") from error
    return JaxSampler(problem, method, settings, place)
