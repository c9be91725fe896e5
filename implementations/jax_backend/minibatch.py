"""Mini-batches: points drawn uniformly without replacement, and the loss difference they estimate."""

import jax
import jax.numpy as jnp
from jax import Array

from implementations.jax_backend.likelihood import Data
from implementations.memory import CACHE_LINE
from implementations.permutation import NUM_ROUNDS, SMALLEST_DOMAIN, domain, mix

#: What a processor's core keeps close at hand.
CACHE_BYTES = 2**20


def draw_indices(key: Array, shape: tuple[int, ...], count: int, num_points: int) -> Array:
    """``count`` distinct points of ``num_points`` for every place in ``shape``: (*shape, count).

    The cost does not depend on ``num_points``: a keyed permutation is evaluated at 0 … count-1 only.
    """
    if num_points < SMALLEST_DOMAIN:
        return jnp.argsort(jax.random.bits(key, (*shape, num_points), jnp.uint32), axis=-1)[..., :count].astype(
            jnp.int32
        )
    rows, columns = domain(num_points)
    keys = jax.random.bits(key, (*shape, NUM_ROUNDS), jnp.uint32).astype(jnp.int32)

    def image(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        # In a loop: of all rounds as one expression XLA makes code that takes twice as long.
        images: tuple[Array, Array] = mix(*pair, keys, rows, columns, loop=jax.lax.fori_loop)
        return images

    def index(pair: tuple[Array, Array]) -> Array:
        return pair[0] * columns + pair[1]

    def walk_on(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        is_beyond = index(pair) >= num_points
        row, column = (jnp.where(is_beyond, new, old) for new, old in zip(image(pair), pair, strict=True))
        return row, column

    row, column = (
        jnp.broadcast_to(half, (*shape, count)) for half in jnp.divmod(jnp.arange(count, dtype=jnp.int32), columns)
    )
    pair = image((row, column))
    if rows * columns > num_points:
        # The few images beyond the points walk on along their cycle until they are points.
        pair = jax.lax.while_loop(lambda pair: jnp.any(index(pair) >= num_points), walk_on, pair)
    return index(pair)


def take_points(rows: Array, indices: Array, num_features: int) -> Data:
    """The points of mini-batches (…, n), out of the rows of all of them (``implementations.memory.rows_of``)."""
    indices = jax.lax.platform_dependent(
        rows,
        indices,
        cpu=lambda rows, indices: _after_fetching(rows, indices, num_features),
        default=lambda rows, indices: indices,
    )
    return Data(_get(rows, indices, slice(num_features)), _get(rows, indices, num_features))


def _get(rows: Array, indices: Array, columns: int | slice) -> Array:
    return rows.at[indices, columns].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _after_fetching(rows: Array, indices: Array, num_features: int) -> Array:
    """The same indices, once their rows have come from main memory into the processor's cache.

    XLA copies a row number by number, so that the processor sees only a few long rows ahead and waits for each. Their
    first and last numbers alone, which stand in the two cache lines of a row of up to 128 bytes, are read far ahead.
    """
    if rows.nbytes <= CACHE_BYTES or rows.shape[1] * rows.itemsize <= CACHE_LINE:
        return indices
    ends = jnp.maximum(_get(rows, indices, 0), _get(rows, indices, num_features))
    # Data are finite, so this adds 0; but XLA has to wait for it.
    return indices + jnp.isinf(ends.max()).astype(indices.dtype)


def estimate_of_all(differences: Array, log_prior_drop: Array, weight: float) -> tuple[Array, Array]:
    """Delta from the differences d_j = l_j(theta') - l_j(theta) of all points (chains, N); its variance is 0.

    Delta = log p(theta) - log p(theta') + (w / N) sum_j d_j   (paper: *MH usual acceptance*)
    """
    delta = log_prior_drop + weight * differences.mean(axis=-1)
    return delta, jnp.zeros_like(delta)


def estimate_of_batches(
    differences: Array, log_prior_drop: Array, weight: float, num_points: int, variance: str
) -> tuple[Array, Array]:
    """delta and its variance from the differences d_j in M mini-batches of n (chains, M, n).

    delta_i = log p(theta) - log p(theta') + (w / n) sum_{j in B_i} d_j   (paper: *mini-batch loss difference*)

    - ``batches``: the mean of the delta_i; sum (delta_i - delta)^2 / (M (M - 1))   (paper: *chi-squared*)
    - ``single``: delta_1; sum (delta_i - mean)^2 / (M - 1)   (paper: *mini-batch loss difference variance*)
    - ``points``: the mean of the delta_i; w^2 / (n M) var(d_j) (1 - n M / N)
    - ``oracle``: as ``points``; ``known_variance`` takes the variance's place
    """
    num_batches, batch_size = differences.shape[-2:]
    deltas = log_prior_drop[:, None] + weight * differences.mean(axis=-1)
    if variance == "single":
        return deltas[:, 0], deltas.var(axis=-1, ddof=1)
    if variance == "batches":
        return deltas.mean(axis=-1), deltas.var(axis=-1, ddof=1) / num_batches
    count = num_batches * batch_size
    if count == 1:
        # One point, which only ``naive`` takes, tells nothing of its spread.
        return deltas[:, 0], jnp.zeros_like(deltas[:, 0])
    spread = differences.var(axis=(-2, -1), ddof=1)
    return deltas.mean(axis=-1), weight**2 * spread / count * (1 - count / num_points)


def known_variance(differences: Array, weight: float, count: int) -> Array:
    """Variance of delta over all draws of ``count`` points without replacement, from all differences (chains, N)."""
    num_points = differences.shape[-1]
    return weight**2 * differences.var(axis=-1, ddof=1) / count * (1 - count / num_points)
