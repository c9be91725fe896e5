"""A keyed pseudo-random permutation of 0 … N-1, evaluated only where it is needed.

A mini-batch without replacement is the image of the positions 0 … n-1 under a random permutation. Shuffling all N
points costs O(N) a step; a permutation that can be evaluated point by point costs O(n). This is a Feistel network
(Luby and Rackoff, 1988) on pairs (row, column) with modular addition, so its domain is any rows × columns and
not only a power of two (Black and Rogaway, 2002).

The arithmetic is plain operators on 32-bit integers, so the same functions serve numpy, jax and torch; no type stands
for the arrays of all three.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

#: Mixes both halves four times each. Two of each would already be a pseudo-random permutation for an ideal round
#: function (Luby and Rackoff); the rest is margin for a cheap one.
NUM_ROUNDS = 8

#: Below this the halves have so few values that pairs are measurably not uniform (a chi-squared test over six
#: million draws sees it at 65 points, not from 67 on): shuffle instead, which is cheap there.
SMALLEST_DOMAIN = 96

#: A round multiplies a 15-bit hash with the size of a half, in signed 32-bit integers.
LARGEST_DOMAIN = 2**30


@cache
def domain(num_points: int) -> tuple[int, int]:
    """Rows and columns, both near the square root, whose product exceeds ``num_points`` by as little as possible.

    Near, because a small half mixes badly; as little as possible, because what is beyond is drawn again.
    """
    if num_points > LARGEST_DOMAIN:
        raise ValueError(f"{num_points} points exceed the {LARGEST_DOMAIN} that mini-batches are drawn from")
    root = math.isqrt(num_points - 1) + 1
    columns = min(range(root, root + root // 3 + 1), key=lambda size: (-num_points) % size)
    return -(-num_points // columns), columns


def in_python(first: int, last: int, body: Callable[[int, Any], Any], value: Any) -> Any:
    """A loop in the manner of ``jax.lax.fori_loop``."""
    for number in range(first, last):
        value = body(number, value)
    return value


def mix(row: Any, column: Any, keys: Any, rows: int, columns: int, loop: Callable[..., Any] = in_python) -> Any:
    """The images of the pairs (row, column), both (…, n), under the permutations of ``keys`` (…, NUM_ROUNDS)."""

    def two_rounds(number: Any, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        row, column = pair
        row = _add(row, _hash(column, keys[..., 2 * number, None], rows), rows)
        column = _add(column, _hash(row, keys[..., 2 * number + 1, None], columns), columns)
        return row, column

    return loop(0, NUM_ROUNDS // 2, two_rounds, (row, column))


def _add(left: Any, right: Any, size: int) -> Any:
    """(left + right) mod size for numbers below size, without a division."""
    difference = left + right - size
    return difference + ((difference >> 31) & size)


def _hash(value: Any, key: Any, size: int) -> Any:
    """A number below ``size``: MurmurHash3's finaliser of the keyed value, scaled from its 15 best bits."""
    mixed = (value ^ key) * -2048144789  # 0x85EBCA6B as a signed integer
    mixed = (mixed ^ ((mixed >> 13) & 0x7FFFF)) * -1028477387  # 0xC2B2AE35
    return (((mixed >> 16) & 0x7FFF) * size) >> 15
