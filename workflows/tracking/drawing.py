"""The diagrams of runs for MLflow, drawn here or, where there are many, beside the writing."""

import multiprocessing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from reports.reliability import Diagrams

#: Diagrams from which on a process of their own pays: it takes as long to start as that many take to draw.
MANY = 100


class Drawer(Protocol):
    """Draws one diagram at a time, between ``ask`` and the end of ``wait``."""

    def ask(self, curves: Mapping[str, np.ndarray], likelihood: str, path: Path, title: str, colour: str) -> None: ...

    def wait(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def drawer_of(num_diagrams: int) -> Drawer:
    return Beside() if num_diagrams >= MANY else Here()


class Here:
    """Draws when asked."""

    def __init__(self) -> None:
        self._diagrams = Diagrams()

    def ask(self, curves: Mapping[str, np.ndarray], likelihood: str, path: Path, title: str, colour: str) -> None:
        self._diagrams.draw(curves, likelihood, path, title, colour)

    def wait(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._diagrams.__exit__()


class Beside:
    """Draws in a process of its own, which ends with this one, however that ends."""

    def __init__(self) -> None:
        # Not forked: this process may have threads.
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._is_asked = False

    def ask(self, curves: Mapping[str, np.ndarray], likelihood: str, path: Path, title: str, colour: str) -> None:
        with _its_end():
            self._ours.send((curves, likelihood, path, title, colour))
        self._is_asked = True

    def wait(self) -> None:
        if not self._is_asked:
            return
        self._is_asked = False
        with _its_end():
            failure = self._ours.recv()
        if failure:
            raise RuntimeError(failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.join()


@contextmanager
def _its_end() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError):
        raise RuntimeError("the process that draws the diagrams has ended") from None


def _serve(requests: Connection) -> None:
    with Diagrams() as diagrams:
        while True:
            try:
                request = requests.recv()
            except EOFError:
                return
            try:
                diagrams.draw(*request)
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            else:
                answer = ""
            with suppress(BrokenPipeError):
                requests.send(answer)
