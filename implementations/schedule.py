"""How a run is cut into pieces. Both backends and a resumed run cut it alike, so they make the same steps."""

from collections.abc import Iterator
from typing import NamedTuple

from implementations.methods import Method, Settings

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


def block_steps(method: Method, settings: Settings, num_parameters: int) -> int:
    """Steps whose random numbers are drawn together."""
    num_batches, batch_size = settings.batch_shape
    of_loss = num_batches if method.estimate == "batches" else 0
    of_gradient = 1 if method.gradient == "batch" else 0
    numbers = settings.chains * (num_parameters + batch_size * (of_loss + of_gradient))
    return max(1, min(LONGEST_BLOCK, BLOCK_NUMBERS // numbers))
