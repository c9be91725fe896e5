"""Memory that is read at random: rows in few cache lines, and in large pages where the system has them."""

import ctypes
import math
import sys

import numpy as np

#: Bytes that a processor reads from memory at once.
CACHE_LINE = 64

#: Of x86-64, and of other processors with pages of 4 KiB.
LARGE_PAGE = 2**21
#: From Linux 6.1 on: now, and not when the kernel finds time.
MADV_COLLAPSE = 25


def rows_of(features: np.ndarray, targets: np.ndarray, dtype: str, at_anchor: np.ndarray | None = None) -> np.ndarray:
    """A row per point, to read all of it at once: features, target, what is kept of it at an anchor (N, columns), and
    zeros up to where the next row begins.

    That is a multiple of half a cache line (of a smaller power of two where more than one row fits in there): no row
    then lies in more lines than it needs. As ``dtype``, class numbers are exact up to 2^24.
    """
    num_points, num_features = features.shape
    width = num_features + 1 + (0 if at_anchor is None else at_anchor.shape[1])
    unit = min(CACHE_LINE // 2 // np.dtype(dtype).itemsize, 1 << (width - 1).bit_length())
    rows = _aligned_zeros((num_points, -(-width // unit) * unit), np.dtype(dtype))
    rows[:, :num_features] = features
    rows[:, num_features] = targets
    if at_anchor is not None:
        rows[:, num_features + 1 : width] = at_anchor
    return rows


def _aligned_zeros(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Zeros that begin where a cache line does."""
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = np.zeros(num_bytes + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + num_bytes].view(dtype).reshape(shape)


def use_large_pages(address: int, num_bytes: int) -> None:
    """Move this memory into pages of 2 MiB; without any the call does nothing.

    A mini-batch reads its rows all over the data. The processor remembers where some thousand pages are: in those of
    4 KiB that is a few megabytes, and every row beyond costs a look-up of its own, longer than reading it.
    """
    start = -(-address // LARGE_PAGE) * LARGE_PAGE
    length = (address + num_bytes - start) // LARGE_PAGE * LARGE_PAGE
    if sys.platform == "linux" and length > 0:
        # Its result is of no interest: the memory is the same, only faster or not.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_COLLAPSE)
