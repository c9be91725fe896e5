"""Mini-batches: points drawn uniformly without replacement, and the loss difference they estimate."""

from collections.abc import Callable

import torch
from torch import Tensor

from implementations.permutation import NUM_ROUNDS, SMALLEST_DOMAIN, domain, mix
from implementations.torch_backend.likelihood import Data


def draw_indices(
    generator: torch.Generator,
    shape: tuple[int, ...],
    count: int,
    num_points: int,
    mix: Callable[..., tuple[Tensor, Tensor]] = mix,
) -> Tensor:
    """``count`` distinct points of ``num_points`` for every place in ``shape``: (*shape, count).

    The cost does not depend on ``num_points``: a keyed permutation is evaluated at 0 … count-1 only. ``mix`` may be
    a compiled version of it.
    """
    if count == 0:
        return torch.empty((*shape, 0), dtype=torch.int32, device=generator.device)
    if num_points < SMALLEST_DOMAIN:
        return _random_bits(generator, (*shape, num_points)).argsort(dim=-1)[..., :count]
    rows, columns = domain(num_points)
    keys = _random_bits(generator, (*shape, NUM_ROUNDS))
    positions = torch.arange(count, dtype=torch.int32, device=generator.device)
    # In full: compiled code is made for one layout, and pairs that walk on have this one.
    row, column = (half.expand(*shape, count).contiguous() for half in (positions // columns, positions % columns))
    row, column = mix(row, column, keys, rows, columns)
    # The few images beyond the points walk on along their cycle until they are points.
    while rows * columns > num_points and (is_beyond := row * columns + column >= num_points).any():
        new_row, new_column = mix(row, column, keys, rows, columns)
        row, column = torch.where(is_beyond, new_row, row), torch.where(is_beyond, new_column, column)
    return row * columns + column


def _random_bits(generator: torch.Generator, shape: tuple[int, ...]) -> Tensor:
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=generator.device, generator=generator)


def take_points(rows: Tensor, indices: Tensor, num_features: int) -> Data:
    """The points of mini-batches (…, n), out of the rows of all of them (``implementations.memory.rows_of``)."""
    taken = rows[indices]
    return Data(taken[..., :num_features], taken[..., num_features])


def estimate_of_all(differences: Tensor, log_prior_drop: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """Delta from the differences d_j = l_j(theta') - l_j(theta) of all points (chains, N); its variance is 0.

    Delta = log p(theta) - log p(theta') + (w / N) sum_j d_j   (paper: *MH usual acceptance*)
    """
    delta = log_prior_drop + weight * differences.mean(dim=-1)
    return delta, torch.zeros_like(delta)


def estimate_of_batches(
    differences: Tensor, log_prior_drop: Tensor, weight: float, num_points: int, variance: str
) -> tuple[Tensor, Tensor]:
    """delta and its variance from the differences d_j in M mini-batches of n (chains, M, n).

    delta_i = log p(theta) - log p(theta') + (w / n) sum_{j in B_i} d_j   (paper: *mini-batch loss difference*)

    - ``batches``: the mean of the delta_i; sum (delta_i - delta)^2 / (M (M - 1))   (paper: *chi-squared*)
    - ``single``: delta_1; sum (delta_i - mean)^2 / (M - 1)   (paper: *mini-batch loss difference variance*)
    - ``points``: the mean of the delta_i; w^2 / (n M) var(d_j) (1 - n M / N)
    - ``oracle``: as ``points``; ``known_variance`` takes the variance's place
    """
    num_batches, batch_size = differences.shape[-2:]
    deltas = log_prior_drop[:, None] + weight * differences.mean(dim=-1)
    if variance == "single":
        return deltas[:, 0], deltas.var(dim=-1, correction=1)
    if variance == "batches":
        return deltas.mean(dim=-1), deltas.var(dim=-1, correction=1) / num_batches
    count = num_batches * batch_size
    if count == 1:
        # One point, which only ``naive`` takes, tells nothing of its spread.
        return deltas[:, 0], torch.zeros_like(deltas[:, 0])
    spread = differences.var(dim=(-2, -1), correction=1)
    return deltas.mean(dim=-1), weight**2 * spread / count * (1 - count / num_points)


def known_variance(differences: Tensor, weight: float, count: int) -> Tensor:
    """Variance of delta over all draws of ``count`` points without replacement, from all differences (chains, N)."""
    num_points = differences.shape[-1]
    return weight**2 * differences.var(dim=-1, correction=1) / count * (1 - count / num_points)
