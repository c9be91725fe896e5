"""How a run is cut into pieces, and its step sizes. Both backends and a resumed run cut it alike."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from implementations.kernels.contract import Array, Values
from implementations.settings import Settings

#: Chunks of each phase of a long run. A chunk is one call into compiled code; between two, a run can report progress,
#: look at its chains and save itself.
NUM_CHUNKS = 50
#: A few blocks at the least, or the calls would cost more than the steps.
SHORTEST_CHUNK = 256

#: Random numbers of one block, drawn together because many at once are cheap; small enough to stay in the cache.
BLOCK_NUMBERS = 2**17
LONGEST_BLOCK = 64


class Chunk(NamedTuple):
    """Steps that run in one call."""

    is_warmup: bool
    num_steps: int


def chunk_steps(settings: Settings) -> int:
    """Steps of a full chunk of the sampling phase: a whole number of kept draws."""
    num_draws = settings.num_steps // settings.thin
    shortest = min(num_draws, -(-SHORTEST_CHUNK // settings.thin))
    return max(shortest, -(-num_draws // NUM_CHUNKS)) * settings.thin


def chunks(settings: Settings) -> Iterator[Chunk]:
    """The chunks of a run, warm-up first."""
    of_warmup = max(SHORTEST_CHUNK, -(-settings.num_warmup // NUM_CHUNKS))
    phases = ((True, settings.num_warmup, of_warmup), (False, settings.num_steps, chunk_steps(settings)))
    for is_warmup, total, longest in phases:
        for start in range(0, total, longest):
            yield Chunk(is_warmup, min(longest, total - start))


def block_steps(shapes: list[tuple[int, ...]]) -> int:
    """Steps whose random numbers are drawn together; ``shapes`` are those of one step's noise."""
    numbers = sum(map(math.prod, shapes))
    return max(1, min(LONGEST_BLOCK, BLOCK_NUMBERS // numbers))


def step_sizes(values: Values, numbers: Array) -> Array:
    """eta_t at the step numbers t (k,), counted from 0: constant, falling, or in cycles of K steps.

    eta (1 + t / decay_start)^-decay      (Welling and Teh, 2011)
    eta (1 + cos(pi (t mod K) / K)) / 2   (Zhang, Li, Zhang, Chen and Wilson, 2020)
    """
    xp = array_namespace(values.step_size)
    if "decay" not in values.own and "cycle" not in values.own:
        return xp.broadcast_to(values.step_size, numbers.shape)
    # As real numbers of the run's own kind, whatever a library would make of whole ones.
    numbers = xp.astype(numbers, values.step_size.dtype)
    if "cycle" in values.own:
        cycle = values.own["cycle"]
        return values.step_size * (1 + xp.cos(math.pi * xp.remainder(numbers, cycle) / cycle)) / 2
    return values.step_size * (1 + numbers / values.own["decay_start"]) ** -values.own["decay"]


def cycle_steps(settings: Settings) -> int | None:
    """K, steps of a cycle: the whole run has ``num_cycles`` of them; None where the step size has none."""
    num_cycles = dict(settings.own).get("num_cycles")
    return None if num_cycles is None else -(-(settings.num_warmup + settings.num_steps) // num_cycles)


def draw_steps(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Steps (k,) made at each draw of a run, and which draws stay: in cycles, those after the explored part."""
    steps = settings.num_warmup + settings.thin * np.arange(1, settings.num_steps // settings.thin + 1)
    cycle = cycle_steps(settings)
    if cycle is None:
        return steps, np.ones(len(steps), bool)
    return steps, (steps - 1) % cycle >= dict(settings.own)["explored"] * cycle
