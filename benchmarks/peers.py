"""The same algorithms as other libraries offer them, on the same model, data and precision.

A peer is a function of a problem, a step size and a batch size to ``run(num_steps)``, which goes on from where it was
and returns the positions (num_steps, P) it went through. What a user would write around the library is written plainly.

sgmcmcjax would be one more, but no release of it (0.1.0 to 0.2.13) can be imported beside jax 0.10: all of them need
``jax.experimental.host_callback``, which jax has removed.
"""

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.work import compiled_sampler, settings_of, synthetic
from implementations.tasks.problem import Problem

Run = Callable[[int], np.ndarray]
#: Where the moments are compared: a step size that mixes on the regression, and mini-batches so small a share of its
#: points that drawing them with replacement, as others do, changes the variances by 2 % only.
NUM_STEPS, STEP_SIZE, BATCH_SIZE = 20_000, 2e-7, 50
#: A Python loop is slow; the chains of the methods that have one forget in 15 steps, a random walk in 120.
NUM_STEPS_IN_LOOP = 4_000


def _jax_model(problem: Problem) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """log p(theta), and log p(y | x, theta) of one point."""
    import jax
    import jax.numpy as jnp

    def log_prior(position: Any) -> Any:
        return -0.5 * jnp.sum((position / problem.prior_scale) ** 2)

    def log_likelihood(position: Any, point: tuple[Any, Any]) -> Any:
        features, target = point
        outputs = features @ position.reshape(problem.layers[0])
        if problem.likelihood == "gaussian":
            return -0.5 * ((target - outputs[0]) / problem.noise_sd) ** 2
        return jax.nn.log_softmax(outputs)[target]

    return log_prior, log_likelihood


def _scan(step: Callable[..., Any], state: Any, data: Any) -> Run:
    """A compiled loop of ``step(key, state, data)``, which returns a new state and its position."""
    import jax

    @jax.jit
    def many(state: Any, keys: Any, data: Any) -> Any:
        return jax.lax.scan(lambda state, key: step(key, state, data), state, keys)

    place = [state, jax.random.key(0)]

    def run(num_steps: int) -> np.ndarray:
        place[1], key = jax.random.split(place[1])
        place[0], positions = many(place[0], jax.random.split(key, num_steps), data)
        return np.asarray(positions)

    return run


def _full_data(problem: Problem, build: Callable[..., Any]) -> Run:
    import jax
    import jax.numpy as jnp

    log_prior, log_likelihood = _jax_model(problem)
    data = (jnp.asarray(problem.features), jnp.asarray(problem.targets))

    def algorithm(data: Any) -> Any:
        def log_density(position: Any) -> Any:
            return log_prior(position) + jnp.sum(jax.vmap(lambda *point: log_likelihood(position, point))(*data))

        return build(log_density)

    def step(key: Any, state: Any, data: Any) -> Any:
        state, _ = algorithm(data).step(key, state)
        return state, state.position

    return _scan(step, algorithm(data).init(jnp.asarray(problem.map)), data)


def blackjax_random_walk(problem: Problem, step_size: float, batch_size: int) -> Run:
    import blackjax
    from blackjax.mcmc.random_walk import normal

    # The sd of a random walk with this eta is sqrt(2 eta).
    sd = np.full(problem.num_parameters, math.sqrt(2 * step_size), np.float32)
    return _full_data(problem, lambda log_density: blackjax.additive_step_random_walk(log_density, normal(sd)))


def blackjax_mala(problem: Problem, step_size: float, batch_size: int) -> Run:
    import blackjax

    return _full_data(problem, lambda log_density: blackjax.mala(log_density, step_size))


def numpyro_mala(problem: Problem, step_size: float, batch_size: int) -> Run:
    """HMC of one leapfrog step, which is MALA: half its squared step size is our eta."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions
    from numpyro.infer import HMC, init_to_value

    def model(features: Any, targets: Any) -> None:
        prior = distributions.Normal(0, problem.prior_scale).expand(problem.layers[0]).to_event(2)
        outputs = features @ numpyro.sample("weights", prior)
        if problem.likelihood == "gaussian":
            likelihood = distributions.Normal(outputs[:, 0], problem.noise_sd)
        else:
            likelihood = distributions.Categorical(logits=outputs)
        numpyro.sample("targets", likelihood, obs=targets)

    start = jnp.asarray(problem.map).reshape(problem.layers[0])
    kernel = HMC(
        model,
        init_strategy=init_to_value(values={"weights": start}),
        step_size=math.sqrt(2 * step_size),
        num_steps=1,
        trajectory_length=None,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    data = (jnp.asarray(problem.features), jnp.asarray(problem.targets))

    def step(key: Any, state: Any, data: Any) -> Any:
        state = kernel.sample(state._replace(rng_key=key), data, {})
        return state, state.z["weights"].ravel()

    # Compiled as one, or its many small operations are compiled one by one.
    state = jax.jit(lambda data: kernel.init(jax.random.key(0), num_warmup=0, model_args=data))(data)
    # numpyro's own loop, MCMC.run, is compiled again at every call beside jax 0.10: seconds, however few the steps.
    return _scan(step, state, data)


def _blackjax_sgld(problem: Problem, batch_size: int) -> tuple[Any, Any]:
    """The algorithm of weight N, and a mini-batch, with replacement as examples draw it."""
    import blackjax
    import jax
    from blackjax.sgmcmc.gradients import grad_estimator

    log_prior, log_likelihood = _jax_model(problem)
    algorithm = blackjax.sgld(grad_estimator(log_prior, log_likelihood, problem.num_points))

    def batch(key: Any, data: Any) -> Any:
        indices = jax.random.randint(key, (batch_size,), 0, problem.num_points)
        return data[0][indices], data[1][indices]

    return algorithm, batch


def blackjax_sgld_scan(problem: Problem, step_size: float, batch_size: int) -> Run:
    import jax
    import jax.numpy as jnp

    algorithm, batch = _blackjax_sgld(problem, batch_size)

    def step(key: Any, position: Any, data: Any) -> Any:
        key_batch, key_step = jax.random.split(key)
        position = algorithm.step(key_step, position, batch(key_batch, data), step_size)
        return position, position

    return _scan(step, jnp.asarray(problem.map), (jnp.asarray(problem.features), jnp.asarray(problem.targets)))


def blackjax_sgld_loop(problem: Problem, step_size: float, batch_size: int) -> Run:
    import jax
    import jax.numpy as jnp

    algorithm, batch = _blackjax_sgld(problem, batch_size)
    step = jax.jit(algorithm.step)
    data = (jnp.asarray(problem.features), jnp.asarray(problem.targets))
    place = [jnp.asarray(problem.map), jax.random.key(0)]

    def run(num_steps: int) -> np.ndarray:
        positions = []
        for _ in range(num_steps):
            place[1], key_batch, key_step = jax.random.split(place[1], 3)
            place[0] = step(key_step, place[0], batch(key_batch, data), step_size)
            positions.append(place[0])
        # Not jnp.stack, which would be compiled for every number of steps, and for long.
        return np.stack(positions)

    return run


def posteriors_sgld(problem: Problem, step_size: float, batch_size: int) -> Run:
    import torch

    with warnings.catch_warnings():
        # tensordict, which it imports, announces a change to its own users.
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        import posteriors

    features = torch.from_numpy(problem.features)
    targets = torch.from_numpy(problem.targets)
    targets = targets.long() if problem.likelihood == "categorical" else targets

    def log_posterior(parameters: Any, batch: Any) -> Any:
        rows, classes = batch
        outputs = rows @ parameters.reshape(problem.layers[0])
        if problem.likelihood == "gaussian":
            losses = 0.5 * ((classes - outputs[:, 0]) / problem.noise_sd) ** 2
        else:
            losses = torch.nn.functional.cross_entropy(outputs, classes, reduction="none")
        prior = -0.5 * ((parameters / problem.prior_scale) ** 2).sum()
        return prior - problem.num_points * losses.mean(), torch.tensor([])

    # Its noise comes from torch's global generator.
    torch.manual_seed(0)
    transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=step_size)
    place = [transform.init(torch.from_numpy(problem.map.copy()))]

    def run(num_steps: int) -> np.ndarray:
        positions = []
        for _ in range(num_steps):
            indices = torch.randint(0, problem.num_points, (batch_size,))
            place[0], _ = transform.update(place[0], (features[indices], targets[indices]))
            positions.append(place[0].params)
        return torch.stack(positions).numpy()

    return run


class Peer(NamedTuple):
    """A peer and what it is compared with."""

    build: Callable[[Problem, float, int], Run]
    method: str
    backend: str
    #: The most that our step may take of the peer's, where there is a target.
    target: float | None
    #: Is it a Python loop, whose steps take a thousand times those of a compiled one?
    is_loop: bool = False


PEERS = {
    "blackjax random-walk MH": Peer(blackjax_random_walk, "full_mh", "jax-cpu", 1.0),
    "blackjax MALA": Peer(blackjax_mala, "mala", "jax-cpu", None),
    "numpyro HMC of one step": Peer(numpyro_mala, "mala", "jax-cpu", None),
    "blackjax SGLD, in a scan": Peer(blackjax_sgld_scan, "sgld", "jax-cpu", 0.8),
    "blackjax SGLD, in a Python loop": Peer(blackjax_sgld_loop, "sgld", "jax-cpu", None, is_loop=True),
    "posteriors SGLD": Peer(posteriors_sgld, "sgld", "torch-cpu", 0.5, is_loop=True),
}


@cache
def our_chain(backend: str, method: str) -> np.ndarray:
    """The positions of our own chain on the regression, from its start: (steps, P)."""
    problem = synthetic("regression")
    # As many steps in the settings as where it is timed, or another loop would be checked: torch compiles long runs.
    settings = settings_of(problem, method, step_size=STEP_SIZE, batch_size=BATCH_SIZE, weight="data", thin=1)
    sampler, carry = compiled_sampler(backend, problem, method, settings)
    parts = []
    for _ in range(NUM_STEPS // 400):
        carry, draws, *_ = sampler.advance(carry, 400)
        parts.append(draws.positions[0])
    return np.concatenate(parts)


def deviation_of_moments(name: str) -> float:
    """How far a peer's moments are from our own, after a check that they are the same."""
    peer = PEERS[name]
    run = peer.build(synthetic("regression"), STEP_SIZE, BATCH_SIZE)
    theirs = run(NUM_STEPS_IN_LOOP if peer.is_loop else NUM_STEPS)
    return check_same_moments(our_chain(peer.backend, peer.method), theirs)


def batch_moments(positions: np.ndarray) -> np.ndarray:
    """Mean and variance of every parameter over 20 stretches of a chain, its first tenth left out: (20, 2 P)."""
    stretches = positions[len(positions) // 10 :].astype(float)
    stretches = stretches[: len(stretches) // 20 * 20].reshape(20, -1, positions.shape[-1])
    centred = stretches - stretches.mean(axis=(0, 1))
    return np.concatenate([stretches.mean(axis=1), (centred**2).mean(axis=1)], axis=1)


def check_same_moments(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of the means over the stretches, in units of its Monte Carlo error.

    The 42 deviations follow Student's t with 19 to 38 degrees of freedom, fewer the more the chains' lengths differ:
    the largest exceeds 5 once in hundreds of times. Their root mean square is 1.05 with a spread of 0.1; it reveals a
    difference that all parameters share, such as a factor in the step, long before any single parameter does.
    """
    first, second = batch_moments(one), batch_moments(other)
    error = np.sqrt((first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / 20)
    deviations = abs(first.mean(axis=0) - second.mean(axis=0)) / error
    largest, typical = float(deviations.max()), float(np.sqrt((deviations**2).mean()))
    if not largest < 5:
        raise ValueError(f"a moment differs by {largest:.1f} Monte Carlo errors")
    if not typical < 1.6:
        raise ValueError(f"moments differ by {typical:.1f} Monte Carlo errors, as root mean square")
    return largest
