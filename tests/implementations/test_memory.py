"""Rows lie in as few cache lines as they can; large pages are asked for inside an array only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implementations import backends as memory


@given(num_features=st.integers(1, 900), dtype=st.sampled_from(["float32", "float64"]))
def test_no_row_lies_in_more_cache_lines_than_it_needs(num_features, dtype):
    random = np.random.default_rng(0)
    features, targets = random.standard_normal((50, num_features), np.float32), random.integers(0, 10, 50)
    rows = memory.rows_of(features, targets, dtype)
    assert rows.dtype == dtype
    assert np.array_equal(rows[:, :num_features], features)
    assert np.array_equal(rows[:, num_features], targets)
    assert not rows[:, num_features + 1 :].any()
    num_bytes = (num_features + 1) * rows.itemsize
    starts = rows.ctypes.data + np.arange(50) * rows.strides[0]
    lines = (starts + num_bytes - 1) // 64 - starts // 64 + 1
    assert lines.max() == -(-num_bytes // 64)
    # What is left empty is less than the row, and less than half a line.
    assert rows.strides[0] - num_bytes < min(num_bytes, 32)


@given(address=st.integers(0, 2**47), num_bytes=st.integers(0, 2**33))
def test_only_whole_large_pages_inside_the_array_are_asked_for(address, num_bytes):
    calls = []

    class System:
        @staticmethod
        def madvise(start, length, advice):
            calls.append((start.value or 0, length.value, advice))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory.sys, "platform", "linux")
        patch.setattr(memory.ctypes, "CDLL", lambda name: System)
        memory.use_large_pages(address, num_bytes)
    whole = [page for page in (address, address + num_bytes) if page % memory.LARGE_PAGE == 0]
    if num_bytes >= 2 * memory.LARGE_PAGE or (len(whole) == 2 and num_bytes):
        assert len(calls) == 1
    for start, length, advice in calls:
        assert start % memory.LARGE_PAGE == length % memory.LARGE_PAGE == 0
        assert address <= start < start + length <= address + num_bytes
        # Not one page more would fit on either side.
        assert start - address < memory.LARGE_PAGE
        assert address + num_bytes - (start + length) < memory.LARGE_PAGE
        assert advice == memory.MADV_COLLAPSE
