"""Random numbers, and mini-batches: points drawn uniformly without replacement."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from implementations.backends import CACHE_LINE
from implementations.infrastructure.errors import SettingError
from implementations.kernels.contract import Data
from implementations.kernels.permutation import NUM_ROUNDS, SMALLEST_DOMAIN, domain, mix

#: What a processor's core keeps close at hand.
CACHE_BYTES = 2**20
#: Kinds of random numbers that a step may ask for.
MAX_DRAWS = 16


class JaxRandom:
    """The random numbers of a key (kernels.contract.Random): every call has a part of it for itself."""

    def __init__(self, key: Array, num_points: int, dtype: str) -> None:
        self.num_points, self.dtype = num_points, dtype
        self._parts = iter(jax.random.split(key, MAX_DRAWS))

    def _part(self) -> Array:
        part = next(self._parts, None)
        if part is None:
            raise SettingError(f"a step asks for random numbers more than {MAX_DRAWS} times; ask for several at once")
        return part

    def normals(self, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(self._part(), shape, self.dtype)

    def log_uniforms(self, shape: tuple[int, ...]) -> Array:
        # 1 - u is never 0, so its logarithm is finite.
        return jnp.log1p(-jax.random.uniform(self._part(), shape, self.dtype))

    def points(self, shape: tuple[int, ...], count: int, among: int | None = None) -> Array:
        return draw_indices(self._part(), shape, count, among or self.num_points)

    def orders(self, shape: tuple[int, ...]) -> Array:
        return draw_orders(self._part(), shape, self.num_points)

    def bits(self, shape: tuple[int, ...], count: int) -> Array:
        return _random_bits(self._part(), (*shape, count))

    def keys(self, shape: tuple[int, ...]) -> Array:
        return jax.random.split(self._part(), shape)


def draw_indices(key: Array, shape: tuple[int, ...], count: int, num_points: int) -> Array:
    """``count`` distinct points of ``num_points`` for every place in ``shape``: (*shape, count)."""
    return points_at(draw_orders(key, shape, num_points), jnp.arange(count, dtype=jnp.int32), num_points)


def draw_orders(key: Array, shape: tuple[int, ...], num_points: int) -> Array:
    """A random order of all points for every place in ``shape``: the keys of a permutation, or a shuffle of a few."""
    if num_points < SMALLEST_DOMAIN:
        return jnp.argsort(jax.random.bits(key, (*shape, num_points), jnp.uint32), axis=-1).astype(jnp.int32)
    return _random_bits(key, (*shape, NUM_ROUNDS))


def _random_bits(key: Array, shape: tuple[int, ...]) -> Array:
    return jax.random.bits(key, shape, jnp.uint32).astype(jnp.int32)


def points_at(orders: Array, positions: Array, num_points: int) -> Array:
    """The points at ``positions`` (count,) of each order: (*shape, count).

    The cost does not depend on ``num_points``: a keyed permutation is evaluated at these positions only.
    """
    if num_points < SMALLEST_DOMAIN:
        return orders[..., positions]
    rows, columns = domain(num_points)
    shape = (*orders.shape[:-1], len(positions))

    def image(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        # In a loop: of all rounds as one expression XLA makes code that takes twice as long.
        images: tuple[Array, Array] = mix(*pair, orders, rows, columns, loop=jax.lax.fori_loop)
        return images

    def index(pair: tuple[Array, Array]) -> Array:
        return pair[0] * columns + pair[1]

    def walk_on(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        is_beyond = index(pair) >= num_points
        row, column = (jnp.where(is_beyond, new, old) for new, old in zip(image(pair), pair, strict=True))
        return row, column

    row, column = (jnp.broadcast_to(half, shape) for half in jnp.divmod(positions, columns))
    pair = image((row, column))
    if rows * columns > num_points:
        # The few images beyond the points walk on along their cycle until they are points.
        pair = jax.lax.while_loop(lambda pair: jnp.any(index(pair) >= num_points), walk_on, pair)
    return index(pair)


def loop(condition: Callable[[Any], Array], body: Callable[[Any], Any], value: Any) -> Any:
    """Repeat while the condition holds: one compiled body, however often it runs."""
    return jax.lax.while_loop(condition, body, value)


def take_points(rows: Array, indices: Array, num_features: int, num_anchored: int = 0) -> Data:
    """The points of mini-batches (…, n), out of the rows of all of them (``implementations.backends.rows_of``).

    ``num_anchored`` columns after the target are what is kept of a point at the anchor of control variates.
    """
    indices = jax.lax.platform_dependent(
        rows,
        indices,
        cpu=lambda rows, indices: _after_fetching(rows, indices, num_features + num_anchored),
        default=lambda rows, indices: indices,
    )
    points = Data(_get(rows, indices, slice(num_features)), _get(rows, indices, num_features))
    if not num_anchored:
        return points
    at_anchor = _get(rows, indices, slice(num_features + 1, num_features + 1 + num_anchored))
    return points._replace(at_anchor=at_anchor.swapaxes(-1, -2))


def _get(rows: Array, indices: Array, columns: int | slice) -> Array:
    return rows.at[indices, columns].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _after_fetching(rows: Array, indices: Array, last: int) -> Array:
    """The same indices, once their rows have come from main memory into the processor's cache.

    XLA copies a row number by number, so that the processor sees only a few long rows ahead and waits for each. Their
    first and last numbers alone, which stand in the two cache lines of a row of up to 128 bytes, are read far ahead.
    """
    if rows.nbytes <= CACHE_BYTES or rows.shape[1] * rows.itemsize <= CACHE_LINE:
        return indices
    ends = jnp.maximum(_get(rows, indices, 0), _get(rows, indices, last))
    # Data are finite, so this adds 0; but XLA has to wait for it.
    return indices + jnp.isinf(ends.max()).astype(indices.dtype)
