"""Gold standard for one stochastic layer: Hamiltonian Monte Carlo on all data, by blackjax.

It shares no code with the samplers it judges. Coordinates are whitened around the mode of the target, so that the
target is close to N(0, I). The integrator turns that Gaussian part exactly and leaves only the remainder to finite
steps (Shahbaba, Lan, Johnson and Neal 2014, *Split Hamiltonian Monte Carlo*). A quarter turn of an exact Gaussian is
an independent draw, and here two or three steps make one that is nearly so.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.mcmc.integrators import IntegratorState
from jax import Array

from implementations.tasks.geometry import START_SPREAD, mean_curvature, preconditioner_factor
from implementations.tasks.problem import Problem, split_parameters
from implementations.tasks.references.mode import find_mode

QUARTER_TURN = np.pi / 2
#: Steps a quarter turn at the most, so that a target this sampler does not suit ends in a bad R-hat and not in a hang.
MAX_STEPS = 200
TARGET_ACCEPTANCE = 0.85
#: Points a slice of the data: its outputs for all chains stay in the processor's cache, which makes a gradient of
#: 55,000 points three times cheaper.
SLICE = 1000

#: jax's own, not the suite's: this module shares no code with the samplers it judges.
ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}

#: Features (slices, inputs + 1, SLICE) and targets (slices, SLICE).
Points = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Chains:
    """draws (chains, draws, P) and their log likelihood w/N sum_j log p(y_j | x_j), up to a constant; float64.

    The loss of a point is computed in single precision, as its features are, and summed in double: the sum is off by
    some 1e-4 at the most, far below what an acceptance depends on, and costs half.
    """

    draws: np.ndarray
    log_likelihood: np.ndarray
    num_divergences: int
    acceptance: float
    num_steps: int


@lru_cache(maxsize=1)
def gaussian_at_mode(problem: Problem, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """The mode (P,) of the target and a factor (P, P) of the inverse of its curvature there.

    The last one is kept: where importance sampling has given up, the chains begin from the same.
    """
    assert problem.is_linear, "several layers have no known mode"
    mode = find_mode(problem, weight)
    return mode, preconditioner_factor(replace(problem, curvature=mean_curvature(problem, mode)), weight, "full")


def sample(problem: Problem, weight: float, *, seed: int, chains: int, num_warmup: int, num_draws: int) -> Chains:
    """Draws from the target of weight w, from starts that are wider than it."""
    mode, factor = gaussian_at_mode(problem, weight)
    with jax.enable_x64(True):
        # All that differs between seeds and weights is an argument, so that one compiled program serves them all. Of
        # points that are a constant in it the compiler would make several copies.
        @jax.jit
        def run(key: Array, points: Points, mode: Array, factor: Array, weight: Array) -> tuple[Array, ...]:
            log_likelihood = log_likelihood_of(problem, weight, points)

            def log_density(whitened: Array) -> Array:
                parameters = mode + factor @ whitened
                return log_likelihood(parameters) + log_prior(problem, parameters)

            return _sampler(log_density, problem.num_parameters, chains, num_warmup, num_draws)(key)

        whitened, log_densities, is_divergent, acceptance, num_steps = run(
            jax.random.key(seed), slices(problem, np.float32), mode, factor, np.float64(weight)
        )
        draws = mode + np.asarray(whitened) @ factor.T
        priors = np.asarray(jax.vmap(jax.vmap(lambda parameters: log_prior(problem, parameters)))(draws))
        # The scan puts the draws first; everything else in the suite has the chains first.
        return Chains(
            draws=draws.swapaxes(0, 1),
            log_likelihood=(np.asarray(log_densities) - priors).T,
            num_divergences=int(is_divergent.sum()),
            acceptance=float(acceptance.mean()),
            num_steps=int(num_steps.max()),
        )


def _sampler(
    log_density: Callable[[Array], Array], num_parameters: int, chains: int, num_warmup: int, num_draws: int
) -> Callable[[Array], tuple[Array, ...]]:
    """From a key to the positions, log densities, divergences, acceptances and numbers of steps of every draw."""
    kernel = blackjax.hmc.build_kernel(integrator=split_integrator)
    start_adaptation, adapt, final_step_size = dual_averaging_adaptation(TARGET_ACCEPTANCE)

    def move(carry: tuple[Any, Any], inputs: tuple[Array, Array]) -> tuple[Any, Any]:
        (states, adaptation), (key, is_warmup) = carry, inputs
        step_size = jnp.where(is_warmup, jnp.exp(adaptation.log_step_size), final_step_size(adaptation))
        # Whole steps make up the quarter turn.
        num_steps = jnp.clip(jnp.ceil(QUARTER_TURN / step_size), 1, MAX_STEPS).astype(int)
        unit_mass = jnp.ones(num_parameters)
        states, info = jax.vmap(
            lambda key, state: kernel(key, state, log_density, QUARTER_TURN / num_steps, unit_mass, num_steps)
        )(jax.random.split(key, chains), states)
        adapted = adapt(adaptation, info.acceptance_rate.mean())
        adaptation = jax.tree.map(partial(jnp.where, is_warmup), adapted, adaptation)
        kept = (states.position, states.logdensity, info.is_divergent, info.acceptance_rate, num_steps)
        return (states, adaptation), kept

    def run(key: Array) -> tuple[Array, ...]:
        key_start, key_moves = jax.random.split(key)
        start = START_SPREAD * jax.random.normal(key_start, (chains, num_parameters))
        states = jax.vmap(lambda position: blackjax.hmc.init(position, log_density))(start)
        # One scan for warm-up and draws, because the kernel is what takes seconds to compile.
        total = num_warmup + num_draws
        inputs = (jax.random.split(key_moves, total), jnp.arange(total) < num_warmup)
        kept = jax.lax.scan(move, (states, start_adaptation(QUARTER_TURN / 4)), inputs)[1]
        return jax.tree.map(lambda values: values[num_warmup:], kept)

    return run


def split_integrator(
    log_density: Callable[[Array], Array], kinetic_energy: Callable[..., Array]
) -> Callable[..., IntegratorState]:
    """One step of split Hamiltonian Monte Carlo for a target close to N(0, I) and unit mass.

    Half a kick by the remainder, grad(log density + |z|^2 / 2); a turn of (z, p) by the step size, which is the exact
    flow of the Gaussian part; half a kick. It keeps volumes, runs backwards like leapfrog, and conserves the energy
    exactly when the target is N(0, I).
    """
    value_and_gradient = jax.value_and_grad(log_density)

    def one_step(state: IntegratorState, step_size: Array) -> IntegratorState:
        position, momentum, _, gradient = state
        momentum = momentum + step_size / 2 * (gradient + position)
        cosine, sine = jnp.cos(step_size), jnp.sin(step_size)
        position, momentum = cosine * position + sine * momentum, cosine * momentum - sine * position
        value, gradient = value_and_gradient(position)
        return IntegratorState(position, momentum + step_size / 2 * (gradient + position), value, gradient)

    return one_step


def log_prior(problem: Problem, parameters: Array) -> Array:
    """log p(theta), up to a constant."""
    if problem.prior == "laplace":
        return -jnp.abs(parameters).sum() / problem.prior_scale
    return -jnp.square(parameters).sum() / (2 * problem.prior_scale**2)


def slices(problem: Problem, dtype: type[np.floating[Any]] = np.float64) -> Points:
    """Slices of features (slices, inputs + 1, SLICE) and targets (slices, SLICE)."""
    # Rows of zeros fill the last slice: their loss does not depend on the parameters.
    num_slices = -(-problem.num_points // SLICE)
    features = np.zeros((num_slices, problem.features.shape[1], SLICE), dtype)
    targets = np.zeros((num_slices, SLICE), problem.targets.dtype)
    for number in range(num_slices):
        part = slice(number * SLICE, (number + 1) * SLICE)
        rows = problem.features[part]
        features[number, :, : len(rows)] = rows.T
        targets[number, : len(rows)] = problem.targets[part]
    return jnp.asarray(features), jnp.asarray(targets)


def inputs_of_last(problem: Problem, hidden_layers: list[Array], features: Array) -> Array:
    """[1, h] before the last layer (units + 1, points), of features (inputs + 1, points)."""
    hidden, activation = features, ACTIVATIONS[problem.activation]
    for matrix in hidden_layers:
        # The 1 is that of the data, and so 0 where zeros fill a slice.
        hidden = jnp.concatenate([features[:1], activation(matrix.T @ hidden)])
    return hidden


def outputs_of(problem: Problem, parameters: Array, features: Array) -> Array:
    """f (outputs, points) at features (inputs + 1, points)."""
    if problem.network:
        # 0 where zeros fill a slice, whatever the network makes of them.
        outputs: Array = problem.network(parameters, features.T).T * features[:1]
        return outputs
    *hidden_layers, last = split_parameters(parameters, problem.layers)
    return last.T @ inputs_of_last(problem, hidden_layers, features)


def log_likelihood_of(problem: Problem, weight: float | Array, points: Points) -> Callable[[Array], Array]:
    """theta -> -(w/N) sum_j l_j(theta), up to a constant; value and gradient come out of one pass over the data.

    Losses have the precision of the points' features, sums that of the parameters.
    """
    scale = weight / problem.num_points

    def losses(parameters: Array, features: Array, targets: Array) -> Array:
        # Outputs by points: the long axis last is the faster layout.
        outputs = outputs_of(problem, parameters.astype(features.dtype), features)
        if problem.likelihood == "gaussian":
            return jnp.square(outputs[0] - targets) / (2 * problem.noise_sd**2)
        if problem.likelihood == "bernoulli":
            # log(1 + e^f): three times as fast as jax's own, which looks for infinities too.
            softplus = jnp.maximum(outputs[0], 0) + jnp.log1p(jnp.exp(-jnp.abs(outputs[0])))
            return softplus - targets * outputs[0]
        if problem.likelihood == "poisson":
            return jnp.exp(outputs[0]) - targets * outputs[0]
        if problem.likelihood == "density":
            return -outputs[0]
        chosen = jnp.take_along_axis(outputs, targets[None], axis=0)[0]
        return jax.nn.logsumexp(outputs, axis=0) - chosen

    def slice_loss(parameters: Array, features: Array, targets: Array) -> Array:
        return scale * losses(parameters, features, targets).sum(dtype=parameters.dtype)

    def value_and_gradient(parameters: Array) -> tuple[Array, Array]:
        def add(total: tuple[Array, Array], part: Points) -> tuple[Any, Any]:
            return jax.tree.map(jnp.subtract, total, jax.value_and_grad(slice_loss)(parameters, *part)), None

        start = jnp.zeros(()), jnp.zeros_like(parameters)
        if problem.likelihood == "density":
            start = jax.tree.map(jnp.negative, jax.value_and_grad(normaliser)(parameters))
        return jax.lax.scan(add, start, points)[0]

    def normaliser(parameters: Array) -> Array:
        """w times the logarithm of the mean of exp(f) on the grid of a density, which all points share."""
        outputs = outputs_of(problem, parameters, jnp.asarray(problem.grid.T, parameters.dtype))[0]
        return weight * (jax.nn.logsumexp(outputs) - jnp.log(len(outputs)))

    @jax.custom_vjp
    def log_likelihood(parameters: Array) -> Array:
        return value_and_gradient(parameters)[0]

    # Left to itself, autodiff keeps every slice's outputs for a second pass, which costs what slicing gains.
    log_likelihood.defvjp(value_and_gradient, lambda gradient, cotangent: (cotangent * gradient,))
    return log_likelihood
