"""A step of every method against the bare likelihoods and gradients inside it."""

import pytest

from implementations.methods import METHODS
from tests.benchmarks.work import bare_work, steps, synthetic

#: Promised for these; the others are told for comparison.
TARGETS = {("mnist", "jax-cpu", 1, "pbnn"): 1.4, ("mnist", "torch-cpu", 4, "pbnn"): 1.8}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
@pytest.mark.parametrize("shape", ["regression", "mnist"])
def bench_step(against, shape, backend, chains, method):
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


def bench_pbnn_against_full_data(against):
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
