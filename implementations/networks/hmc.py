"""Hamiltonian Monte Carlo for whole networks: identity mass in whitened coordinates, one step size for all chains.

Half of the chains start at draws of the prior, the other half at modes that independent searches find. That the two
halves agree in function space is evidence against trapping, which chains from one kind of start cannot give.

Chains take turns inside one compiled loop: at a few hundred units and some thousand rows the products of one chain
fill the processor, and a leading dimension of chains would only make them slower (implementations.networks.network).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from implementations.networks.network import Network, columns_of

#: Mean acceptance that the warm-up steers the step to.
TARGET_ACCEPTANCE = 0.8
#: Lengths of trajectories vary by this share, steps by a tenth, so that no period of the target is met.
JITTER = 0.3
#: Draws of the prior lie far out and roll down first: iterations of this, at the least and the most, and leapfrogs in
#: each. Every chain has a step of its own there, or one chain that is farther out than the others would stay.
LEAST_DESCENT, MOST_DESCENT, DESCENT_STEPS = 30, 400, 20
#: A chain has arrived when its potential is within so many sqrt(P) of the others': at rest its sd is sqrt(P / 2).
ARRIVED = 5.0
LEAST_STEP, MOST_STEP = 1e-6, 0.3
#: Searches for modes: full-batch Adam whose rate falls along a cosine.
SEARCH_STEPS, SEARCH_RATE = 3000, 0.02
SEARCH_SPREAD = 0.5


@dataclass
class State:
    """Where the chains are; all that going on to the same draws needs."""

    positions: np.ndarray  # (chains, P)
    #: Of every chain in the descent, then the same for all.
    log_step: np.ndarray  # (chains,)
    #: Of the warm-up's later iterations, whose mean the draws use.
    log_steps: list[float] = field(default_factory=list)
    #: Iterations of the descent, once it has ended.
    num_descent: int | None = None
    iteration: int = 0
    num_gradients: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Block:
    """Draws of every chain since the last block."""

    outputs: np.ndarray  # (chains, draws, test points[, outputs])
    positions: np.ndarray  # (chains, draws, P)
    potentials: np.ndarray  # (chains, draws)
    acceptance: np.ndarray  # (chains, draws)


class HMC:
    """The chains of a network's posterior of weight ``weight`` on the rows of a split."""

    def __init__(
        self,
        network: Network,
        inputs: np.ndarray,
        targets: np.ndarray,
        test_inputs: np.ndarray,
        weight: float | None,
        seed: int,
        *,
        num_chains: int = 8,
        num_warmup: int = 120,
        trajectory: float = 1.5,
    ) -> None:
        import jax
        import jax.numpy as jnp

        self.network, self.weight, self.seed = network, weight, seed
        self.num_chains, self.num_warmup, self.trajectory = num_chains, num_warmup, trajectory
        columns, classes_or_numbers = jnp.asarray(columns_of(inputs)), jnp.asarray(targets)
        self._potential: Callable[[Any], Any] = lambda z: network.potential(z, columns, classes_or_numbers, weight)
        test_columns = jnp.asarray(columns_of(test_inputs))

        def outputs(position: Any) -> Any:
            found = network.outputs(position, test_columns)
            return found[0] if len(found) == 1 else found.T

        self._outputs = jax.jit(lambda positions: jax.lax.map(outputs, positions))
        self._move = jax.jit(self._trajectories)

    def start(self) -> State:
        """Draws of the prior and modes, half of each."""
        start = time.process_time()
        num_modes = self.num_chains // 2
        generator = np.random.default_rng([self.seed, 0])
        draws = generator.standard_normal((self.num_chains - num_modes, self.network.num_parameters), np.float32)
        modes = find_modes(self._potential, self.network.num_parameters, self.seed, num_modes)
        cost = num_modes * SEARCH_STEPS
        seconds = time.process_time() - start
        steps = np.full(self.num_chains, np.log(0.02))
        return State(np.concatenate([draws, modes]), steps, num_gradients=cost, cpu_seconds=seconds)

    def advance(self, state: State, num_draws: int) -> Block:
        """Finish the warm-up, then draw; ``state`` moves on."""
        import jax.numpy as jnp

        kept: list[tuple[np.ndarray, ...]] = []
        start = time.process_time()
        positions = jnp.asarray(state.positions)
        while len(kept) < num_draws:
            steps, num_steps = self._schedule(state)
            noise = np.random.default_rng([self.seed, 1, state.iteration])
            momenta = noise.standard_normal(positions.shape, np.float32)
            uniforms = noise.random(self.num_chains, np.float32)
            positions, potentials, acceptance = self._move(positions, momenta, uniforms, jnp.float32(steps), num_steps)
            state.num_gradients += self.num_chains * (num_steps + 1)
            if self._is_warm(state):
                kept.append(tuple(map(np.asarray, (self._outputs(positions), positions, potentials, acceptance))))
            else:
                self._adapt(state, np.asarray(acceptance), np.asarray(potentials))
            state.iteration += 1
        state.positions = np.asarray(positions)
        state.cpu_seconds += time.process_time() - start
        return Block(*(np.stack(parts, axis=1) for parts in zip(*kept, strict=True)))

    def _is_warm(self, state: State) -> bool:
        return state.num_descent is not None and state.iteration >= state.num_descent + self.num_warmup

    def step_size(self, state: State) -> float:
        return float(np.exp(np.mean(state.log_steps) if state.log_steps else np.median(state.log_step)))

    def _schedule(self, state: State) -> tuple[np.ndarray, int]:
        """The step of every chain, and the number of leapfrogs, of an iteration."""
        jitter = np.random.default_rng([self.seed, 2, state.iteration]).uniform(-1, 1, 2)
        if state.num_descent is None:
            return np.exp(state.log_step) * (1 + 0.1 * jitter[1]), DESCENT_STEPS
        step = self.step_size(state) if self._is_warm(state) else float(np.exp(state.log_step[0]))
        # Short while the step is still off: a long trajectory of a wrong step is wasted.
        is_early = state.iteration < state.num_descent + self.num_warmup / 3
        length = self.trajectory * (0.3 if is_early else 1.0) * (1 + JITTER * jitter[0])
        return np.full(self.num_chains, step * (1 + 0.1 * jitter[1])), max(1, round(length / step))

    def _adapt(self, state: State, acceptance: np.ndarray, potentials: np.ndarray) -> None:
        """Robbins-Monro on the logarithm of the step; dual averaging collapses where chains start far out."""
        if state.num_descent is None:
            state.log_step = np.clip(
                state.log_step + 0.7 * (acceptance - TARGET_ACCEPTANCE), np.log(LEAST_STEP), np.log(MOST_STEP)
            )
            behind = potentials - np.median(potentials)
            has_arrived = behind.max() <= ARRIVED * np.sqrt(self.network.num_parameters)
            if state.iteration + 1 >= (LEAST_DESCENT if has_arrived else MOST_DESCENT):
                state.num_descent = state.iteration + 1
                state.log_step[:] = np.median(state.log_step)
            return
        number = state.iteration - state.num_descent
        moved = state.log_step[0] + 0.6 / np.sqrt(1 + number / 10) * float(acceptance.mean() - TARGET_ACCEPTANCE)
        state.log_step[:] = np.clip(moved, np.log(LEAST_STEP), np.log(MOST_STEP))
        if number >= 0.6 * self.num_warmup:
            state.log_steps.append(float(state.log_step[0]))

    def _trajectories(self, positions: Any, momenta: Any, uniforms: Any, steps: Any, num_steps: Any) -> Any:
        import jax
        import jax.numpy as jnp

        value_and_gradient = jax.value_and_grad(self._potential)

        def one(chain: Any) -> Any:
            start, momentum, uniform, step = chain
            value, gradient = value_and_gradient(start)

            def leapfrog(_: Any, carry: Any) -> Any:
                position, momentum, gradient, _ = carry
                momentum = momentum - 0.5 * step * gradient
                position = position + step * momentum
                value, gradient = value_and_gradient(position)
                return position, momentum - 0.5 * step * gradient, gradient, value

            end, last, _, end_value = jax.lax.fori_loop(0, num_steps, leapfrog, (start, momentum, gradient, value))
            change = end_value - value + 0.5 * (jnp.vdot(last, last) - jnp.vdot(momentum, momentum))
            acceptance = jnp.where(jnp.isnan(change), 0.0, jnp.minimum(1.0, jnp.exp(-change)))
            is_accepted = uniform < acceptance
            return jnp.where(is_accepted, end, start), jnp.where(is_accepted, end_value, value), acceptance

        return jax.lax.map(one, (positions, momenta, uniforms, steps))


def find_modes(potential: Callable[[Any], Any], num_parameters: int, seed: int, count: int) -> np.ndarray:
    """Where full-batch Adam ends from ``count`` independent starts (count, P)."""
    import jax
    import jax.numpy as jnp
    import optax

    optimiser = optax.adam(optax.cosine_decay_schedule(SEARCH_RATE, SEARCH_STEPS))
    gradient = jax.grad(potential)

    def search(start: Any) -> Any:
        def update(_: Any, carry: Any) -> Any:
            position, state = carry
            change, state = optimiser.update(gradient(position), state)
            return position + change, state

        return jax.lax.fori_loop(0, SEARCH_STEPS, update, (start, optimiser.init(start)))[0]

    starts = SEARCH_SPREAD * np.random.default_rng([seed, 3]).standard_normal((count, num_parameters), np.float32)
    return np.asarray(jax.jit(lambda all_starts: jax.lax.map(search, all_starts))(jnp.asarray(starts)))
