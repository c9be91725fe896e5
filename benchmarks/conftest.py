"""One row a benchmark: what was timed against what, in the file that tables, plots and the gate read."""

from typing import Any

import numpy as np
import pytest

from benchmarks.stopwatch import Against, Work, comparison, seconds_of
from implementations.backends import use_one_thread

# Before the first benchmark, which may be another library's on jax.
use_one_thread("jax-cpu")


@pytest.fixture
def against(benchmark: Any) -> Against:
    """``against(work, baseline, …)``: both by turns, under pytest-benchmark; what else is given goes into the row.

    With ``beside``, a pair of other works, the ratio is over theirs, in the same rounds.
    """

    def time_both(
        work: Work, baseline: Work, /, rounds: int = 11, beside: tuple[Work, Work] | None = None, **about: Any
    ) -> dict[str, Any]:
        baseline_times: list[float] = []
        expected: list[float] = []

        def before() -> None:
            baseline_times.append(seconds_of(baseline.call))
            if beside:
                mine, other = (seconds_of(one.call) / one.units for one in beside)
                expected.append(mine / other)

        benchmark.pedantic(work.call, setup=before, rounds=rounds, iterations=1)
        ratios = np.array(expected) if beside else 1.0
        row = {**about, **comparison(work, benchmark.stats.stats.data, baseline, baseline_times, ratios)}
        benchmark.extra_info.update(row)
        return row

    return time_both
