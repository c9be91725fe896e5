"""A step of every method against the bare likelihoods and gradients inside it."""

import pytest

from benchmarks.explicit_noise import METROPOLIS
from benchmarks.stopwatch import Against
from benchmarks.work import bare_work, steps, synthetic

#: Targets for these; the others are shown for comparison.
TARGETS = {
    ("mnist", "jax-cpu", 1, "pbnn"): 1.4,
    ("mnist", "torch-cpu", 4, "pbnn"): 1.8,
    ("mnist", "jax-cpu", 1, "pbnn_cv"): 1.6,
}


@pytest.mark.parametrize("method", METROPOLIS)
@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
@pytest.mark.parametrize("shape", ["regression", "mnist"])
def bench_step(against: Against, shape: str, backend: str, chains: int, method: str) -> None:
    problem = synthetic(shape)
    against(
        steps(backend, problem, method, chains=chains),
        bare_work(backend, problem, method, chains=chains),
        kind="step",
        what=f"{method}, {shape}, {chains} chain{'s' * (chains > 1)}, {backend}",
        baseline="its bare likelihoods and gradients",
        method=method,
        backend=backend,
        chains=chains,
        shape=shape,
        target=TARGETS.get((shape, backend, chains, method)),
    )


def bench_pbnn_against_full_data(against: Against) -> None:
    """Five mini-batches of five against all 2,000 points of the regression, a step of one of four chains."""
    problem = synthetic("regression")
    against(
        steps("jax-cpu", problem, "pbnn", chains=4),
        steps("jax-cpu", problem, "full_mh", chains=4),
        kind="step",
        what="pbnn, regression, 4 chains, jax-cpu",
        baseline="full_mh, regression, 4 chains, jax-cpu",
        method="pbnn",
        backend="jax-cpu",
        chains=4,
        shape="regression",
        target=0.6,
    )
