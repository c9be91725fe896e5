"""Problems that many tests share, prepared once."""

from collections.abc import Callable
from functools import cache

import pytest

from implementations.tasks import prepare
from implementations.tasks.problem import Problem


@pytest.fixture(scope="session")
def problem() -> Callable[..., Problem]:
    """``problem("regression", stochastic="all")``: the prepared problem of seed 0."""
    return cache(lambda task, **options: prepare(task, 0, progress=False, **options))
