"""Random numbers, and mini-batches: points drawn uniformly without replacement."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from implementations.kernels.contract import Data
from implementations.kernels.permutation import NUM_ROUNDS, SMALLEST_DOMAIN, domain, mix

#: The permutation, or a compiled version of it.
Mix = Callable[..., tuple[Tensor, Tensor]]


class TorchRandom:
    """The random numbers of a generator (kernels.contract.Random), which every call advances."""

    def __init__(self, generator: torch.Generator, num_points: int, dtype: torch.dtype, mix: Mix) -> None:
        self.generator, self.num_points, self.mix = generator, num_points, mix
        self.real: dict[str, Any] = {"device": generator.device, "dtype": dtype, "generator": generator}

    def normals(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, **self.real)

    def log_uniforms(self, shape: tuple[int, ...]) -> Tensor:
        # 1 - u is never 0, so its logarithm is finite.
        return torch.log1p(-torch.rand(shape, **self.real))

    def points(self, shape: tuple[int, ...], count: int, among: int | None = None) -> Tensor:
        return draw_indices(self.generator, shape, count, among or self.num_points, self.mix)

    def orders(self, shape: tuple[int, ...]) -> Tensor:
        return draw_orders(self.generator, shape, self.num_points)

    def bits(self, shape: tuple[int, ...], count: int) -> Tensor:
        return _random_bits(self.generator, (*shape, count))

    def keys(self, shape: tuple[int, ...]) -> Tensor:
        return _random_bits(self.generator, shape)


def draw_indices(
    generator: torch.Generator,
    shape: tuple[int, ...],
    count: int,
    num_points: int,
    mix: Mix = mix,
) -> Tensor:
    """``count`` distinct points of ``num_points`` for every place in ``shape``: (*shape, count)."""
    if count == 0:
        return torch.empty((*shape, 0), dtype=torch.int32, device=generator.device)
    positions = torch.arange(count, dtype=torch.int32, device=generator.device)
    return points_at(draw_orders(generator, shape, num_points), positions, num_points, mix)


def draw_orders(generator: torch.Generator, shape: tuple[int, ...], num_points: int) -> Tensor:
    """A random order of all points for every place in ``shape``: the keys of a permutation, or a shuffle of a few."""
    if num_points < SMALLEST_DOMAIN:
        return _random_bits(generator, (*shape, num_points)).argsort(dim=-1)
    return _random_bits(generator, (*shape, NUM_ROUNDS))


def _random_bits(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=generator.device, generator=generator)


def points_at(orders: Tensor, positions: Tensor, num_points: int, mix: Mix = mix) -> Tensor:
    """The points at ``positions`` (count,) of each order: (*shape, count).

    The cost does not depend on ``num_points``: a keyed permutation is evaluated at these positions only. ``mix`` may
    be a compiled version of it.
    """
    if num_points < SMALLEST_DOMAIN:
        return orders[..., positions]
    rows, columns = domain(num_points)
    shape = (*orders.shape[:-1], len(positions))
    # In full: compiled code is made for one layout, and pairs that walk on have this one.
    row, column = (half.expand(shape).contiguous() for half in (positions // columns, positions % columns))
    row, column = mix(row, column, orders, rows, columns)
    # The few images beyond the points walk on along their cycle until they are points.
    while rows * columns > num_points and (is_beyond := row * columns + column >= num_points).any():
        new_row, new_column = mix(row, column, orders, rows, columns)
        row, column = torch.where(is_beyond, new_row, row), torch.where(is_beyond, new_column, column)
    return row * columns + column


def loop(condition: Callable[[Any], Tensor], body: Callable[[Any], Any], value: Any) -> Any:
    """Repeat while the condition holds. A compiled graph cannot: methods with loops run eagerly."""
    while condition(value):
        value = body(value)
    return value


def take_points(rows: Tensor, indices: Tensor, num_features: int, num_anchored: int = 0) -> Data:
    """The points of mini-batches (…, n), out of the rows of all of them (``implementations.backends.rows_of``).

    ``num_anchored`` columns after the target are what is kept of a point at the anchor of control variates.
    """
    taken = rows[indices]
    points = Data(taken[..., :num_features], taken[..., num_features])
    if not num_anchored:
        return points
    at_anchor = taken[..., num_features + 1 : num_features + 1 + num_anchored]
    return points._replace(at_anchor=at_anchor.swapaxes(-1, -2))
