"""The memory of a run in a process that had more before."""

import numpy as np
import pytest

from implementations.infrastructure import peak_memory
from implementations.infrastructure.peak_memory import PeakMemory

#: Numbers that take 200 MiB.
LARGE = 200 * 2**20 // 8


def used() -> None:
    np.ones(LARGE)


@pytest.mark.skipif(not peak_memory.CLEAR.exists(), reason="this system keeps one high-water mark a process")
def test_the_peak_is_that_since_the_beginning_and_what_was_there_before_is_told():
    used()
    before = PeakMemory()
    memory = PeakMemory()
    assert memory.is_of_run
    assert memory.mb < before.mb + 100
    assert 0 < memory.before_mb <= memory.mb + 1
    used()
    memory.note()
    assert memory.mb > memory.before_mb + 190
    # The next one does not inherit it.
    assert PeakMemory().mb < memory.mb - 150


def test_where_the_mark_cannot_be_reset_it_is_said_to_be_that_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(peak_memory, "CLEAR", tmp_path / "nowhere" / "clear_refs")
    monkeypatch.setattr(peak_memory, "STATUS", tmp_path / "nowhere" / "status")
    monkeypatch.setattr(PeakMemory, "_is_first", True)
    first, second = PeakMemory(), PeakMemory()
    assert (first.is_of_run, second.is_of_run) == (True, False)
    assert 0 < first.mb <= second.mb
