"""Two pieces of work timed by turns, so that whatever else the machine does falls on both; ratios are what counts."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Processor time, not wall-clock time: everything here runs on one thread, where the two are the same on an idle
#: machine, and only the first is left alone by other programs that want the processor.
clock = time.process_time

#: Seconds of one piece: much more than the clock's resolution and a scheduler's time slice.
PIECE_SECONDS = 0.05

#: The fixture of a benchmark: two pieces of work, and what else stands in their row.
Against = Callable[..., dict[str, Any]]


class Work(NamedTuple):
    """Something to time: a call, and how many units (steps, evaluations) it makes."""

    call: Callable[[], object]
    units: int


def sized(make: Callable[[int], Callable[[], object]], first_units: int = 16, seconds: float = PIECE_SECONDS) -> Work:
    """The work of as many units as fill ``seconds``; ``make(units)`` is a call that makes them."""
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
    """Seconds (rounds, works) of a unit of each: one after the other, again and again."""
    seconds = [[seconds_of(work.call) for work in works] for _ in range(rounds)]
    return np.array(seconds) / [work.units for work in works]


def alternate(work: Work, baseline: Work, rounds: int) -> dict[str, Any]:
    """Both by turns, ``rounds`` times."""
    times, baseline_times = [], []
    for _ in range(rounds):
        baseline_times.append(seconds_of(baseline.call))
        times.append(seconds_of(work.call))
    return comparison(work, times, baseline, baseline_times)


def comparison(
    work: Work, times: list[float], baseline: Work, baseline_times: list[float], expected: np.ndarray | float = 1.0
) -> dict[str, Any]:
    """Microseconds per unit of both, and the median of the rounds' ratios with its quartiles.

    ``expected`` are ratios, one a round, that these are to be divided by.
    """
    mine, other = np.array(times) / work.units, np.array(baseline_times) / baseline.units
    low, ratio, high = np.percentile(mine / other / expected, [25, 50, 75])
    numbers = {
        "microseconds": 1e6 * np.median(mine),
        "baseline_microseconds": 1e6 * np.median(other),
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
    }
    return {name: float(f"{number:.4g}") for name, number in numbers.items()}
