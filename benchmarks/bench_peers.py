"""Our samplers against those of other libraries, after both have found the same moments."""

from functools import cache

import numpy as np
import pytest

from benchmarks.peers import PEERS, library_of
from benchmarks.stopwatch import Against, sized
from benchmarks.work import compiled_sampler, settings_of, steps, synthetic
from implementations.methods import METHODS

#: Where the moments are compared: a step that mixes on the regression, and mini-batches so small a part of its points
#: that drawing them with replacement, as others do, changes the variances by 2 % only.
NUM_STEPS, STEP_SIZE, BATCH_SIZE = 20_000, 2e-7, 50
#: A Python loop is slow; the chains of the methods that have one forget in 15 steps, a random walk in 120.
NUM_STEPS_IN_LOOP = 4_000

#: What the methods of several peers have in common is made once.
steps_of = cache(steps)


@cache
def our_chain(backend: str, method: str) -> np.ndarray:
    """The positions of our own chain on the regression, from its start: (steps, P)."""
    problem = synthetic("regression")
    # As many steps in the settings as where it is timed, or another loop would be checked: torch compiles long runs.
    settings = settings_of(problem, method, step_size=STEP_SIZE, batch_size=BATCH_SIZE, weight="data", thin=1)
    sampler, carry = compiled_sampler(backend, problem, method, settings)
    parts = []
    for _ in range(NUM_STEPS // 400):
        carry, draws = sampler.advance(carry, 400)
        parts.append(draws.positions[0])
    return np.concatenate(parts)


def batch_moments(positions: np.ndarray) -> np.ndarray:
    """Mean and variance of every parameter over 20 stretches of a chain, its first tenth left out: (20, 2 P)."""
    stretches = positions[len(positions) // 10 :].astype(float)
    stretches = stretches[: len(stretches) // 20 * 20].reshape(20, -1, positions.shape[-1])
    centred = stretches - stretches.mean(axis=(0, 1))
    return np.concatenate([stretches.mean(axis=1), (centred**2).mean(axis=1)], axis=1)


def assert_same_moments(one: np.ndarray, other: np.ndarray) -> float:
    """The means over the stretches differ by no more than their spread tells; the largest difference in these units."""
    first, second = batch_moments(one), batch_moments(other)
    error = np.sqrt((first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / 20)
    deviations = abs(first.mean(axis=0) - second.mean(axis=0)) / error
    largest, typical = deviations.max(), np.sqrt((deviations**2).mean())
    # The 42 deviations follow Student's t with 19 to 38 degrees of freedom, fewer the more the chains' lengths differ:
    # the largest exceeds 5 once in hundreds of times. Their root mean square is 1.05 with a spread of 0.1; it tells a
    # difference that all parameters share, such as a factor in the step, long before any one of them does.
    assert largest < 5, f"a moment differs by {largest:.1f} Monte Carlo errors"
    assert typical < 1.6, f"moments differ by {typical:.1f} Monte Carlo errors, as root mean square"
    return float(largest)


@pytest.mark.parametrize("name", PEERS)
def bench_peer(against: Against, name: str) -> None:
    pytest.importorskip(library_of(name))
    peer, method, backend, target, is_loop = PEERS[name]
    theirs = peer(synthetic("regression"), STEP_SIZE, BATCH_SIZE)(NUM_STEPS_IN_LOOP if is_loop else NUM_STEPS)
    deviation = assert_same_moments(our_chain(backend, method), theirs)

    problem = synthetic("mnist")
    run = peer(problem, 1e-7, 100)
    # About as many steps as will be timed: a loop is compiled for every number of them.
    first_units = 1_000 if METHODS[method].is_minibatch and not is_loop else 8
    against(
        steps_of(backend, problem, method, weight="data"),
        sized(lambda num_steps: lambda: run(num_steps), first_units=first_units),
        kind="peer",
        what=f"{method}, mnist, 1 chain, {backend}",
        baseline=name,
        method=method,
        backend=backend,
        chains=1,
        shape="mnist",
        target=target,
        moments_deviation=round(deviation, 2),
    )
