"""The keyed permutation is one, and its images look uniform."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implementations.kernels.permutation import LARGEST_DOMAIN, NUM_ROUNDS, SMALLEST_DOMAIN, domain, mix


def random_keys(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.integers(-(2**31), 2**31, (*shape, NUM_ROUNDS)).astype(np.int32)


def permute(positions: np.ndarray, keys: np.ndarray, rows: int, columns: int) -> np.ndarray:
    row, column = mix(positions // columns, positions % columns, keys, rows, columns)
    return row * columns + column


@settings(deadline=None, derandomize=True, max_examples=50)
@given(num_points=st.integers(SMALLEST_DOMAIN, 20_000), seed=st.integers(0, 2**32))
def test_the_permutation_maps_its_domain_one_to_one(num_points, seed):
    rows, columns = domain(num_points)
    images = permute(np.arange(rows * columns, dtype=np.int32), random_keys(np.random.default_rng(seed)), rows, columns)
    assert np.array_equal(np.sort(images), np.arange(rows * columns))


@settings(deadline=None, derandomize=True)
@given(num_points=st.integers(SMALLEST_DOMAIN, LARGEST_DOMAIN))
def test_the_domain_is_nearly_square_and_hardly_larger_than_the_points(num_points):
    rows, columns = domain(num_points)
    assert num_points <= rows * columns < num_points + columns
    assert columns <= 2 * rows + 2
    # The largest product of a round fits into a signed 32-bit integer.
    assert 0x7FFF * max(rows, columns) < 2**31


def test_more_points_than_the_arithmetic_allows_are_refused():
    with pytest.raises(ValueError, match="exceed"):
        domain(LARGEST_DOMAIN + 1)


def test_the_largest_domain_stays_in_range():
    rows, columns = domain(LARGEST_DOMAIN)
    positions = np.array([0, 1, LARGEST_DOMAIN - 1], np.int32)
    images = permute(np.broadcast_to(positions, (1000, 3)), random_keys(np.random.default_rng(0), 1000), rows, columns)
    assert images.dtype == np.int32
    assert images.min() >= 0
    assert images.max() < rows * columns
    # Every half of every position moves: no bit of the domain is left out.
    assert np.std(images[:, 0] / (rows * columns)) == pytest.approx(12**-0.5, rel=0.1)
