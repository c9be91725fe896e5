"""Two pieces of work timed in turns, so that whatever else the machine does affects both, and little their ratio."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Processor time, not wall-clock time: everything here runs on one thread, where the two agree on an idle machine, and
#: only processor time is unaffected by other programs.
clock = time.process_time

#: Seconds of one piece: much more than the clock's resolution and a scheduler's time slice.
PIECE_SECONDS = 0.05


class Work(NamedTuple):
    """Something to time: a call, and the number of units (steps, evaluations) in it."""

    call: Callable[[], object]
    units: int


def sized(make: Callable[[int], Callable[[], object]], first_units: int = 16, seconds: float | None = None) -> Work:
    """The work of as many units as fill ``seconds``; ``make(units)`` returns a call that does them."""
    seconds = PIECE_SECONDS if seconds is None else seconds
    units = first_units
    while True:
        call = make(units)
        call()
        elapsed = min(seconds_of(call) for _ in range(2))
        if elapsed > seconds / 2:
            return Work(call, units)
        units = max(2 * units, min(100 * units, round(units * seconds / max(elapsed, 1e-6))))


def seconds_of(call: Callable[[], object]) -> float:
    started = clock()
    call()
    return clock() - started


def by_turns(works: Sequence[Work], rounds: int) -> np.ndarray:
    """Seconds (rounds, works) per unit of each work, one work after the other in every round."""
    seconds = [[seconds_of(work.call) for work in works] for _ in range(rounds)]
    return np.array(seconds) / [work.units for work in works]


def alternate(work: Work, other: Work, *yardsticks: Work, rounds: int) -> dict[str, Any]:
    """Microseconds per unit of ``work`` and ``other``, and the median of the rounds' ratios with its quartiles.

    With two ``yardsticks`` the ratio of each round is divided by theirs in the same round.
    """
    return ratios_of(by_turns([work, other, *yardsticks], rounds))


def ratios_of(seconds: np.ndarray) -> dict[str, Any]:
    """The numbers of ``alternate``, from its seconds per unit (rounds, 2 or 4)."""
    ratios = seconds[:, 0] / seconds[:, 1]
    if seconds.shape[1] == 4:
        ratios = ratios * seconds[:, 3] / seconds[:, 2]
    low, ratio, high = np.percentile(ratios, [25, 50, 75])
    micro, baseline_micro = 1e6 * np.median(seconds[:, :2], axis=0)
    numbers = {"microseconds": micro, "baseline_microseconds": baseline_micro}
    numbers |= {"ratio": ratio, "ratio_low": low, "ratio_high": high}
    return {name: float(f"{number:.4g}") for name, number in numbers.items()}
