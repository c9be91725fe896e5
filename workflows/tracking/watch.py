"""A limit for a store that keeps the line open and gets nothing done."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Watch:
    """Calls ``give_up``, in a thread of its own, when nothing was noted for some seconds; from the first note on.

    Limits of single reads do not help where a server sends a byte now and then, and a driver written in C does not heed
    a signal: whoever gives up has to end the process.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.seconds, self.give_up = seconds, give_up
        self.noted_at = 0.0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def note(self) -> None:
        """Something was done."""
        self.noted_at = time.monotonic()
        if not self.thread.is_alive():
            self.thread.start()

    def _watch(self) -> None:
        while (left := self.noted_at + self.seconds - time.monotonic()) > 0:
            if self.is_over.wait(left):
                return
        self.give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.is_over.set()
