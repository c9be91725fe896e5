"""What a step costs as the data, the chains and the mini-batches grow."""

from functools import cache

import jax
import pytest

from benchmarks.stopwatch import Against, Work
from benchmarks.work import compiled_sampler, draw_rows, settings_of, steps, synthetic
from implementations.control_variates.proxies import num_columns

FEWEST, MANY = 10_000, (100_000, 1_000_000, 10_000_000)
METHODS = ("pbnn", "naive", "sgld", "full_mh")


@cache
def work(method: str, num_points: int = FEWEST, chains: int = 1, batch_size: int = 100) -> Work:
    if method == "rows":
        return draw_rows(synthetic("mnist", num_points), 1000)
    return steps("jax-cpu", synthetic("mnist", num_points), method, chains=chains, batch_size=batch_size)


def memory(method: str, num_points: int) -> dict[str, float]:
    """Megabytes of the data, and of everything else that a compiled chunk of steps uses."""
    problem = synthetic("mnist", num_points)
    sampler, _ = compiled_sampler("jax-cpu", problem, method, settings_of(problem, method))
    analysis = sampler.loop.compiled.memory_analysis()
    data = sum(array.nbytes for array in jax.tree.leaves(sampler.points))
    everything = analysis.argument_size_in_bytes + analysis.output_size_in_bytes + analysis.temp_size_in_bytes
    return {"data_mb": data / 1e6, "other_mb": (everything - data) / 1e6}


@pytest.mark.parametrize("method", [*METHODS, "rows"])
@pytest.mark.parametrize("num_points", MANY)
def bench_points(against: Against, num_points: int, method: str) -> None:
    """Against the same step at the fewest points; ``rows`` reads the rows of a pbnn step and does nothing else."""
    against(
        work(method, num_points),
        work(method),
        rounds=5 if method == "full_mh" else 11,
        kind="points",
        what=f"{method}, N = {num_points:,}",
        baseline=f"{method}, N = {FEWEST:,}",
        method=method,
        num_points=num_points,
        target=1.25 if (method, num_points) == ("pbnn", MANY[-1]) else None,
        **({} if method == "rows" else memory(method, num_points)),
    )


def bench_growth(against: Against) -> None:
    """With control variates, at the posterior of all data: over the growth of the bare reading of its rows.

    Softmax would do as well, but to find its mode among so many points takes minutes.
    """
    problems = [synthetic("logistic", num_points) for num_points in (MANY[-1], FEWEST)]
    rows = [draw_rows(problem, 1000, num_columns(problem.model, "second")) for problem in problems]
    against(
        *(steps("jax-cpu", problem, "pbnn_cv") for problem in problems),
        beside=(rows[0], rows[1]),
        kind="growth",
        what=f"pbnn_cv, logistic, N = {MANY[-1]:,} over N = {FEWEST:,}",
        baseline="the bare reading of its rows, likewise",
        method="pbnn_cv",
        num_points=MANY[-1],
        target=1.2,
    )


@pytest.mark.parametrize("chains", [2, 4, 8, 16, 32, 64])
def bench_chains(against: Against, chains: int) -> None:
    against(
        work("pbnn", chains=chains),
        work("pbnn"),
        kind="chains",
        what=f"pbnn, {chains} chains, a step of one",
        baseline="pbnn, 1 chain",
        method="pbnn",
        chains=chains,
    )


@pytest.mark.parametrize("batch_size", [10, 30, 300, 1000])
def bench_batch_size(against: Against, batch_size: int) -> None:
    against(
        work("pbnn", batch_size=batch_size),
        work("pbnn"),
        kind="batch_size",
        what=f"pbnn, n = {batch_size}",
        baseline="pbnn, n = 100",
        method="pbnn",
        batch_size=batch_size,
    )
