"""Gold standard for several stochastic layers: the no-U-turn sampler on all data, by blackjax.

Units of a hidden layer can be exchanged, and tanh turned over with the weights after it: the posterior has as many
equal modes as there are ways to do so, and parameters of two chains cannot be compared. Predictions can, and are what
it is judged by. Half of the chains begin around the trained weights, where samplers begin too, and half at draws of the
prior: where all agree, the answer does not depend on that. Where they do not, it is kept and said.

With a Gaussian likelihood and prior the last layer is Gaussian given the others. Chains then move in the others alone,
with the last layer integrated out, and it is drawn from its own Gaussian afterwards: the directions that the data pin
down most, along which trajectories would have to take small steps, are gone.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

from implementations.tasks.geometry import start_points
from implementations.tasks.gold_standard import (
    Chains,
    Points,
    inputs_of_last,
    log_likelihood_of,
    log_prior,
    slices,
)
from implementations.tasks.problem import Problem, split_parameters

#: Leapfrog steps of a trajectory at the most, 2^k - 1: a longer one would be nearer to an independent draw, and dearer.
MAX_DOUBLINGS = 6
TARGET_ACCEPTANCE = 0.8
#: A mass matrix of more parameters than these is diagonal: the warm-up's draws could not tell a full one.
MAX_FULL_MASS = 100


def sample(problem: Problem, weight: float, *, seed: int, chains: int, num_warmup: int, num_draws: int) -> Chains:
    """Draws from the target of weight w, in double precision; step size and mass of each chain by its own warm-up."""
    with jax.enable_x64(True):
        # Of anybody's own network nothing is known of a last layer.
        is_conjugate = problem.likelihood == problem.prior == "gaussian" and problem.network is None
        num_sampled = problem.num_parameters - (math.prod(problem.layers[-1]) if is_conjugate else 0)

        @jax.jit
        def run(key: Array, starts: Array, points: Points) -> tuple[Array, ...]:
            log_likelihood = log_likelihood_of(problem, weight, points)

            def log_density(parameters: Array) -> Array:
                if is_conjugate:
                    return (
                        log_prior(problem, parameters) + LastLayer.of(problem, weight, parameters, points).log_evidence
                    )
                return log_prior(problem, parameters) + log_likelihood(parameters)

            chain = _chain(log_density, num_sampled, num_warmup, num_draws)
            key_chains, key_last = jax.random.split(key)
            # One after the other: side by side, each draw would take as long as its longest trajectory.
            draws, *seen = jax.lax.map(lambda one: chain(*one), (jax.random.split(key_chains, chains), starts))
            flat = draws.reshape(-1, num_sampled)
            if is_conjugate:
                normals = jax.random.normal(key_last, (len(flat), problem.layers[-1][0]))
                last = jax.lax.map(
                    lambda one: LastLayer.of(problem, weight, one[0], points).draw(one[1]), (flat, normals)
                )
                flat = jnp.concatenate([flat, last], axis=1)
            found = flat.reshape(chains, num_draws, -1), jax.lax.map(log_likelihood, flat).reshape(chains, num_draws)
            return *found, *seen

        starts = jnp.asarray(starts_of(problem, weight, chains, seed)[:, :num_sampled])
        draws, log_likelihood, is_divergent, acceptance, num_steps = run(jax.random.key(seed), starts, slices(problem))
        return Chains(
            draws=np.asarray(draws),
            log_likelihood=np.asarray(log_likelihood),
            num_divergences=int(is_divergent.sum()),
            acceptance=float(acceptance.mean()),
            num_steps=round(float(num_steps.mean())),
        )


class LastLayer(NamedTuple):
    """The last layer given the others, where it is conjugate: N(m, A^-1), with h_j its inputs [1, h] at point j.

    A = I / s^2 + w / (N sigma^2) sum_j h_j h_j^T,   b = w / (N sigma^2) sum_j y_j h_j,   m = A^-1 b
    log of the likelihood integrated over it = b^T m / 2 - log |A| / 2, up to a constant
    """

    factor: Array  # R of A = R R^T, lower triangular
    whitened: Array  # R^-1 b

    @classmethod
    def of(cls, problem: Problem, weight: float, parameters: Array, points: Points) -> Self:
        """Given the parameters of all layers before it."""
        hidden_layers = split_parameters(parameters, problem.layers[:-1])
        features, targets = points
        hidden = jax.vmap(lambda part: inputs_of_last(problem, hidden_layers, part))(features)
        scale = weight / (problem.num_points * problem.noise_sd**2)
        precision = scale * jnp.einsum("spn,sqn->pq", hidden, hidden)
        precision += jnp.eye(len(precision)) / problem.prior_scale**2
        factor = jnp.linalg.cholesky(precision)
        moment = scale * jnp.einsum("spn,sn->p", hidden, targets)
        return cls(factor, solve_triangular(factor, moment, lower=True))

    @property
    def log_evidence(self) -> Array:
        return self.whitened @ self.whitened / 2 - jnp.log(jnp.diagonal(self.factor)).sum()

    def draw(self, normals: Array) -> Array:
        """m + R^-T e."""
        return solve_triangular(self.factor, self.whitened + normals, trans="T", lower=True)


def starts_of(problem: Problem, weight: float, chains: int, seed: int) -> np.ndarray:
    """Where chains begin (chains, P): the first half around the trained weights, the others at draws of the prior."""
    around = start_points(problem, weight, chains, seed)
    random = np.random.default_rng([seed, 1])
    draw = random.laplace if problem.prior == "laplace" else random.normal
    return np.concatenate([around[: chains // 2], draw(scale=problem.prior_scale, size=around.shape)[chains // 2 :]])


def _chain(
    log_density: Callable[[Array], Array], num_parameters: int, num_warmup: int, num_draws: int
) -> Callable[[Array, Array], tuple[Array, ...]]:
    """From a key and a start to the positions, divergences, acceptances and leapfrog steps of its draws."""
    warmup = blackjax.window_adaptation(
        blackjax.nuts,
        log_density,
        is_mass_matrix_diagonal=num_parameters > MAX_FULL_MASS,
        target_acceptance_rate=TARGET_ACCEPTANCE,
        # Its positions are not wanted, and would fill the memory.
        adaptation_info_fn=lambda *_: None,
        max_num_doublings=MAX_DOUBLINGS,
    )
    kernel = blackjax.nuts.build_kernel()

    def run(key: Array, start: Array) -> tuple[Array, ...]:
        key_warmup, key_draws = jax.random.split(key)
        (state, tuned), _ = warmup.run(key_warmup, start, num_warmup)

        def draw(state: Any, key: Array) -> tuple[Any, tuple[Array, ...]]:
            state, info = kernel(key, state, log_density, **tuned)
            return state, (state.position, info.is_divergent, info.acceptance_rate, info.num_integration_steps)

        found: tuple[Array, ...] = jax.lax.scan(draw, state, jax.random.split(key_draws, num_draws))[1]
        return found

    return run
