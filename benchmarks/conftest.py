"""How pytest collects the benchmarks: one test per comparison."""

import pytest

from benchmarks import stopwatch
from benchmarks.bench import benchmarks
from implementations.backends import use_one_thread

# Before the first benchmark, which may be another library's on jax.
use_one_thread("jax-cpu")
#: Seconds of a piece with --quick.
QUICK_SECONDS = 1e-5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run one benchmark of every kind; the numbers mean nothing")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_quick = metafunc.config.getoption("quick")
    if is_quick:
        stopwatch.PIECE_SECONDS = QUICK_SECONDS
    found = list(benchmarks(is_quick))
    metafunc.parametrize("one", found, ids=[one.name for one in found])
