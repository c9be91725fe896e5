"""Chains in jax: the steps of a kernel in a compiled loop."""

from collections.abc import Callable
from copy import copy
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from implementations.backends import Costs, Draws, Form, Inputs, ModelTarget, Skipped, use_large_pages
from implementations.backends.jax import likelihood, minibatch
from implementations.backends.jax.minibatch import JaxRandom
from implementations.card import Card
from implementations.kernels.contract import Points, Values
from implementations.schedule import block_steps, chunk_steps, step_sizes
from implementations.settings import Settings
from implementations.tasks.problem import Problem

#: Streams of random numbers apart from the chains' own, which folds the numbers of blocks into the run's key.
INIT_STREAM, AUDIT_STREAM = 2**31 - 2, 2**31 - 1
#: For code that runs once and takes ten times as long to compile: less than half of that, for a tenth more in the
#: running (pbnn on digits and on 200,000 points of logistic). The same results up to rounding.
QUICK_TO_COMPILE: dict[str, bool | int] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
#: With more points than these an audit's running takes as long as its compilation.
MOST_POINTS_QUICKLY = 100_000


class Carry(NamedTuple):
    """All that the next chunk needs."""

    state: Any
    key: Array
    num_blocks: Array  # drawn so far: a block's key is the run's key and its number
    num_steps: Array  # made so far, for the step-size schedule
    finite_steps: Array  # (chains,)


#: Draws that a chunk has room for, at the least and within so many bytes: chunks of most runs have fewer, and so do
#: those of their pilots, which then run on the same compiled code.
SHARED_SLOTS, SHARED_BYTES = 128, 2**22


class Loop:
    """The functions of a form, compiled when they are first needed."""

    def __init__(self, form: Form, num_slots: int) -> None:
        """``num_slots`` are the draws that a chunk has room for."""
        self.form, self.num_slots = form, num_slots
        self.kernel = form.card.kernel(ModelTarget(form.model, likelihood, minibatch), form.shapes)
        self.random = partial(JaxRandom, num_points=form.model.num_points, dtype=form.dtype)
        self.init: Callable[..., Any] = jax.jit(self._init)
        options = QUICK_TO_COMPILE if form.model.num_points <= MOST_POINTS_QUICKLY else None
        self.weigh: Callable[..., Any] = jax.jit(self._weigh, static_argnums=0, compiler_options=options)
        self.compiled: Any = None
        self._block_steps: int | None = None

    def block_steps(self, values: Values) -> int:
        """Steps whose random numbers are drawn together, which follow from the form."""
        if self._block_steps is None:
            shape = (1, self.form.chains)
            one = jax.eval_shape(lambda key: self.kernel.noise(self.random(key), shape, values), jax.random.key(0))
            self._block_steps = block_steps([leaf.shape for leaf in jax.tree.leaves(one)])
        return self._block_steps

    def _init(self, key: Array, positions: Array, points: Points, values: Values) -> Any:
        noise = self.kernel.noise(self.random(jax.random.fold_in(key, INIT_STREAM)), positions.shape[:1], values)
        return self.kernel.init(noise, positions, points, values)

    def chunk(
        self, points: Points, values: Values, carry: Carry, num_steps: Array, thin: Array
    ) -> tuple[Carry, tuple[Array, ...], Array]:
        """Blocks of steps: the noise of a block is drawn at once, its steps run one after the other.

        Returns what was kept of each stride of ``thin`` steps, and the evaluations as 32-bit halves of whole numbers
        (2, kinds, chains).
        """
        num_slots, share = self.num_slots, 1 / thin.astype(self.form.dtype)
        chains, num_parameters = carry.state.position.shape
        block = self.block_steps(values)

        def one_step(number: Array, loop: tuple[Any, ...], noise: Any, sizes: Array, first: Array) -> tuple[Any, ...]:
            carry, (high, low), positions, acceptance, variance = loop
            state, info = self.kernel.step(
                jax.tree.map(lambda array: array[number], noise),
                carry.state,
                points,
                values._replace(step_size=sizes[number]),
            )
            is_finite = jnp.isfinite(state.position).all(axis=-1)
            evaluations = jnp.stack([info.num_likelihoods, info.num_gradients]).astype(jnp.uint32)
            low = low + evaluations
            # What ran over is less than what was added.
            high = high + (low < evaluations).astype(jnp.uint32)
            # Every step writes into the slot of its stride; the last of them stays. Warm-up may run past the slots of
            # draws, and what does goes into one more.
            slot = jnp.minimum((first + number) // thin, num_slots)
            return (
                Carry(state, carry.key, carry.num_blocks, carry.num_steps + 1, carry.finite_steps + is_finite),
                (high, low),
                positions.at[slot].set(state.position, mode="promise_in_bounds"),
                acceptance.at[slot].add(info.is_accepted * share, mode="promise_in_bounds"),
                variance.at[slot].add(info.variance * share, mode="promise_in_bounds"),
            )

        def one_block(loop: tuple[Any, ...]) -> tuple[Any, ...]:
            done, carry, *kept = loop
            random = self.random(jax.random.fold_in(carry.key, carry.num_blocks))
            noise = self.kernel.noise(random, (block, chains), values)
            sizes = step_sizes(values, carry.num_steps + jnp.arange(block))
            length = jnp.minimum(block, num_steps - done)
            carry, *kept = jax.lax.fori_loop(
                0, length, lambda number, loop: one_step(number, loop, noise, sizes, done), (carry, *kept)
            )
            return done + length, carry._replace(num_blocks=carry.num_blocks + 1), *kept

        none = jnp.zeros((2, chains), jnp.uint32)
        positions = jnp.zeros((num_slots + 1, chains, num_parameters), self.form.dtype)
        means = jnp.zeros((num_slots + 1, chains), self.form.dtype)
        _, carry, evaluations, *kept = jax.lax.while_loop(
            lambda loop: loop[0] < num_steps,
            one_block,
            (jnp.int32(0), carry, (none, none), positions, means, means),
        )
        return carry, tuple(array[:num_slots] for array in kept), jnp.stack(evaluations)

    def _weigh(
        self, how: str, key: Array, positions: Array, numbers: Array, points: Points, values: Values
    ) -> dict[str, Array]:
        """One fresh move from each position, weighed by the kernel's ``audit`` or ``balance``."""

        def one(move: tuple[Array, Array, Array]) -> dict[str, Array]:
            key, position, number = move
            (step_size,) = step_sizes(values, number[None])
            here, random = values._replace(step_size=step_size), self.random(key)
            noise = self.kernel.noise(random, (1,), here)
            state = self.kernel.init(noise, position[None], points, here)
            if how == "audit":
                return self.kernel.audit(noise, state, points, here)  # type: ignore[misc]
            return self.kernel.balance(noise, random, state, points, here)  # type: ignore[misc]

        keys = jax.random.split(jax.random.fold_in(key, AUDIT_STREAM), len(positions))
        arrays: dict[str, Array] = jax.lax.map(one, (keys, positions, numbers))
        return {name: array[:, 0] for name, array in arrays.items()}


#: Compiled loops are kept, so that runs of the same form compile once.
loop_of = lru_cache(maxsize=64)(Loop)


class JaxSampler:
    """Chains of one method on one problem, on ``cpu`` or ``gpu`` (implementations.backends.Sampler). Raises Skipped."""

    def __init__(self, problem: Problem, card: Card, settings: Settings, device: str) -> None:
        try:
            self.device = jax.devices(device)[0]
        except RuntimeError as error:
            # What jax says when a platform is not there, or there and does not start.
            raise Skipped("no CUDA device") from error
        self.inputs, self.settings = Inputs(problem, card, settings), settings
        num_draws = chunk_steps(settings) // settings.thin
        affordable = SHARED_BYTES // (settings.chains * problem.num_parameters * np.dtype(settings.dtype).itemsize)
        self.loop = loop_of(self.inputs.form(self.device), max(num_draws, min(SHARED_SLOTS, affordable)))
        with self._precision():
            self.points: Points = jax.tree.map(self._put, self.inputs.points())
            self.values: Values = jax.tree.map(self._put, self.inputs.values())
            self.block_steps = self.loop.block_steps(self.values)
        if device == "cpu":
            use_large_pages(self.points.rows.unsafe_buffer_pointer(), self.points.rows.nbytes)

    def _precision(self) -> Any:
        return jax.enable_x64(self.settings.dtype == "float64")

    def _put(self, array: np.ndarray | np.generic) -> Array:
        kinds = {"i": np.int32, "b": np.bool_}
        return jax.device_put(
            np.asarray(array, kinds.get(np.asarray(array).dtype.kind, self.settings.dtype)), self.device
        )

    def all_points(self) -> Points:
        """The data with all points together, also for a method that does not read them."""
        return self.points._replace(together=jax.tree.map(self._put, self.inputs.together()))

    def start(self, positions: np.ndarray, seed: int) -> Carry:
        with self._precision(), jax.default_device(self.device):
            key = jax.random.key(seed)
            state = self.loop.init(key, self._put(positions), self.points, self.values)
            zeros = jnp.zeros(len(positions), jnp.int32)
            return Carry(state, key, jnp.int32(0), jnp.int32(0), zeros)

    def compile(self, carry: Carry) -> bool:
        if self.loop.compiled is not None:
            return False
        with self._precision():
            arguments = self.points, self.values, carry, np.int32(0), np.int32(1)
            self.loop.compiled = jax.jit(self.loop.chunk, donate_argnums=2).lower(*arguments).compile()
        return True

    def at_step_size(self, step_size: float) -> Self:
        other = copy(self)
        with self._precision():
            other.values = self.values._replace(step_size=self._put(np.float64(step_size)))
        return other

    def advance(self, carry: Carry, num_steps: int, is_warmup: bool = False) -> tuple[Carry, Draws, Costs]:
        self.compile(carry)
        with self._precision():
            values = self.values._replace(is_warmup=self._put(np.bool_(is_warmup)))
            carry, kept, evaluations = self.loop.compiled(
                self.points, values, carry, np.int32(num_steps), np.int32(self.settings.thin)
            )
            jax.block_until_ready((carry, kept))
        num_draws = num_steps // self.settings.thin
        high, low = np.asarray(evaluations).astype(np.int64)
        # A copy: what stays must not hold on to the room that is left.
        draws = Draws(*(np.asarray(array)[:num_draws].copy().swapaxes(0, 1) for array in kept))
        return carry, draws, Costs(*(high * 2**32 + low))

    def finite_steps(self, carry: Carry) -> np.ndarray:
        return np.asarray(carry.finite_steps)

    def weigh(self, how: str, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        if getattr(self.loop.kernel, how) is None:
            return {}
        with self._precision(), jax.default_device(self.device):
            moves = self._put(positions), self._put(steps)
            arrays = self.loop.weigh(how, jax.random.key(seed), *moves, self.all_points(), self.values)
        return {name: np.asarray(array) for name, array in arrays.items()}

    def to_arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        plain = carry._replace(key=jax.random.key_data(carry.key))
        return {
            jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(plain)
        }

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Carry:
        with self._precision():
            like = self.start(np.zeros((self.settings.chains, self.inputs.problem.num_parameters)), 0)
            plain = jax.tree_util.tree_map_with_path(
                lambda path, _: jax.device_put(arrays[jax.tree_util.keystr(path)], self.device),
                like._replace(key=jax.random.key_data(like.key)),
            )
            return plain._replace(key=jax.random.wrap_key_data(plain.key))


build_sampler = JaxSampler
