"""How a run is cut into pieces. Both backends and a resumed run cut it alike, so they make the same steps."""

from collections.abc import Iterator
from typing import NamedTuple

from implementations.methods import Settings

#: Chunks of the sampling phase. A chunk is one call into compiled code; between two, a run can report progress,
#: look at its chains and save itself.
NUM_CHUNKS = 50

#: Random numbers of one block, drawn together because many at once are cheap; small enough to stay in the cache.
BLOCK_NUMBERS = 2**17
LONGEST_BLOCK = 64


class Chunk(NamedTuple):
    """Steps that run in one call."""

    is_warmup: bool
    num_steps: int


def chunk_steps(settings: Settings) -> int:
    """Steps of a full chunk: a whole number of kept draws."""
    num_draws = settings.num_steps // settings.thin
    return -(-num_draws // NUM_CHUNKS) * settings.thin


def chunks(settings: Settings) -> Iterator[Chunk]:
    """The chunks of a run, warm-up first."""
    longest = chunk_steps(settings)
    for is_warmup, total in ((True, settings.num_warmup), (False, settings.num_steps)):
        for start in range(0, total, longest):
            yield Chunk(is_warmup, min(longest, total - start))


def block_steps(settings: Settings, num_parameters: int) -> int:
    """Steps whose random numbers are drawn together."""
    num_batches, batch_size = settings.batch_shape
    numbers = settings.chains * (num_parameters + batch_size * (num_batches + 1))
    return max(1, min(LONGEST_BLOCK, BLOCK_NUMBERS // numbers))
