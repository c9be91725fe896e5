"""Large pages are asked for inside an array only, and change nothing but its speed."""

import ctypes
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implementations import memory


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


def large_page_bytes():
    return 1024 * int(re.search(r"AnonHugePages:\s+(\d+)", Path("/proc/self/smaps_rollup").read_text())[1])


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked for on Linux only")
def test_an_array_stays_what_it_was_and_lies_in_large_pages():
    size = 64 * memory.LARGE_PAGE
    # Not numpy's own memory, which asks for them itself.
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_void_p
    place = mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0))
    array = np.frombuffer((ctypes.c_char * size).from_address(place), np.int64)
    array[:] = np.arange(len(array))
    before = large_page_bytes()
    memory.use_large_pages(place, size)
    gained = large_page_bytes() - before
    assert np.array_equal(array, np.arange(len(array)))
    del array
    ctypes.CDLL(None).munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))
    if not gained:
        pytest.skip("the kernel has no large pages to give (older than 6.1, or switched off)")
    assert gained > size / 2
