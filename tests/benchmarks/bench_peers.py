"""Our samplers against those of other libraries, after both have found the same moments."""

import numpy as np
import pytest

from tests.benchmarks.peers import PEERS
from tests.benchmarks.timing import sized
from tests.benchmarks.work import compiled_sampler, settings_of, steps, synthetic

#: Where the moments are compared: a step that mixes on the regression, and mini-batches so small a part of its points
#: that drawing them with replacement, as others do, makes no difference.
NUM_STEPS, STEP_SIZE, BATCH_SIZE = 20_000, 2e-7, 50
#: A Python loop is slow; the chains of the methods that have one mix in ten steps.
NUM_STEPS_IN_LOOP = 4_000


def batch_moments(positions):
    """Mean and mean square of every parameter over 20 stretches of a chain, in units of the prior's sd: (20, 2 P)."""
    stretches = positions[len(positions) // 10 :].astype(float)
    stretches = stretches[: len(stretches) // 20 * 20].reshape(20, -1, positions.shape[-1])
    centred = stretches - stretches.mean(axis=(0, 1))
    return np.concatenate([stretches.mean(axis=1), (centred**2).mean(axis=1)], axis=1)


def assert_same_moments(one, other):
    """The means over the stretches differ by no more than their spread tells."""
    first, second = batch_moments(one), batch_moments(other)
    error = np.sqrt((first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / 20)
    deviations = abs(first.mean(axis=0) - second.mean(axis=0)) / error
    # The largest of 42 deviations of Student's t with some 38 degrees of freedom exceeds 5 once in two thousand times.
    assert deviations.max() < 5, f"moments differ by {deviations.max():.1f} Monte Carlo errors"


@pytest.mark.parametrize("name", PEERS)
def bench_peer(against, name):
    peer, method, backend, target, is_loop = PEERS[name]
    small = synthetic("regression")
    settings = settings_of(
        small, method, step_size=STEP_SIZE, batch_size=BATCH_SIZE, weight="data", thin=1, num_steps=NUM_STEPS
    )
    theirs = peer(small, STEP_SIZE, BATCH_SIZE)(NUM_STEPS_IN_LOOP if is_loop else NUM_STEPS)
    sampler, carry = compiled_sampler(backend, small, method, settings)
    parts = []
    for _ in range(NUM_STEPS // 400):
        carry, draws = sampler.advance(carry, 400)
        parts.append(draws.positions[0])
    assert_same_moments(np.concatenate(parts), theirs)

    problem = synthetic("mnist")
    run = peer(problem, 1e-7, 100)
    against(
        steps(backend, problem, method, weight="data"),
        sized(lambda num_steps: lambda: run(num_steps), first_units=4),
        kind="peer",
        what=f"{method}, mnist, 1 chain, {backend}",
        baseline=name,
        method=method,
        backend=backend,
        chains=1,
        shape="mnist",
        target=target,
    )
