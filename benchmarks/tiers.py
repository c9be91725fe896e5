"""The three tiers of the gate."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import exact, statistical, timing
from benchmarks.rows import Rows


class Tier(NamedTuple):
    """How rows are measured and judged, and the exit code of a tier that fails."""

    code: int
    measure: Callable[[], Rows]
    #: What is wrong with rows, given those of the baseline.
    judge: Callable[[Rows, Rows], list[str]]


TIERS = {
    "exact": Tier(2, exact.measure, exact.judge),
    "statistical": Tier(3, statistical.measure, statistical.judge),
    "timing": Tier(4, timing.measure, timing.judge),
}
