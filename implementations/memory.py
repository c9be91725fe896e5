"""Memory that is read at random: in large pages, where the system has them."""

import ctypes
import sys

#: Of x86-64, and of other processors with pages of 4 KiB.
LARGE_PAGE = 2**21
#: From Linux 6.1 on: now, and not when the kernel finds time.
MADV_COLLAPSE = 25


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
