"""One row a benchmark: what was timed against what, in the file that tables, plots and the gate read."""

from collections.abc import Callable
from typing import Any

import pytest

from implementations.backends import use_one_thread
from tests.benchmarks.timing import Work, comparison, seconds_of

# Before the first benchmark, which may be another library's on jax.
use_one_thread("jax-cpu")


@pytest.fixture
def against(benchmark: Any) -> Callable[..., dict[str, Any]]:
    """``against(work, baseline, …)``: both by turns, under pytest-benchmark; what else is given goes into the row."""

    def time_both(work: Work, baseline: Work, /, rounds: int = 11, **about: Any) -> dict[str, Any]:
        baseline_times: list[float] = []
        benchmark.pedantic(
            work.call, setup=lambda: baseline_times.append(seconds_of(baseline.call)), rounds=rounds, iterations=1
        )
        row = {**about, **comparison(work, benchmark.stats.stats.data, baseline, baseline_times)}
        benchmark.extra_info.update(row)
        return row

    return time_both
