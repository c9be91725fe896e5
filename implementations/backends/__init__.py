"""The backends: a library, the device its arrays live on, and what a sampler built from them can do.

Importing this module imports no library: a job pays for its own backend only.
"""

import importlib
import os
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.inputs import Skipped
from implementations.settings import Settings
from implementations.tasks.problem import Problem

BACKENDS: dict[str, tuple[str, str]] = {
    "jax-cpu": ("jax", "cpu"),
    "jax-gpu": ("jax", "gpu"),
    "torch-cpu": ("torch", "cpu"),
    "torch-gpu": ("torch", "gpu"),
}


class Draws(NamedTuple):
    """What a chunk of steps leaves behind, on the host; the means are over the steps since the draw before."""

    positions: np.ndarray  # (chains, draws, P)
    acceptance: np.ndarray  # (chains, draws): mean of the accepted moves
    variance: np.ndarray  # (chains, draws): mean of the estimated variance of the loss difference


class Costs(NamedTuple):
    """Evaluations of single points that a chunk of steps made: whole numbers (chains,)."""

    num_likelihoods: np.ndarray
    num_gradients: np.ndarray


class Sampler(Protocol):
    """Chains of one method on one problem. A carry is all that the next chunk needs, and private to the backend."""

    def start(self, positions: np.ndarray, seed: int) -> Any:
        """The carry of chains that begin at ``positions`` (chains, P)."""

    def compile(self, carry: Any) -> bool:
        """Compile the loop, so that no later call does; the carry is left as it is.

        False where nothing had to be compiled, because another run in this process had, or steps run as they are.
        """

    def at_step_size(self, step_size: float) -> Self:
        """The same sampler with another step size, on the same data and compiled code."""

    def advance(self, carry: Any, num_steps: int, is_warmup: bool = False) -> tuple[Any, Draws, Costs]:
        """Run a chunk and wait for the device; whole strides of ``thin`` steps leave a draw."""

    def finite_steps(self, carry: Any) -> np.ndarray:
        """Steps (chains,) after which each chain's position was finite: all of them, or up to where it diverged."""

    def balance(self, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """One fresh move from each position, weighed by many mini-batches both ways (metrics.decisions.balance)."""

    def audit(self, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """One fresh move from each position (k, P), reached after so many steps (k,), weighed by the method and by
        all the data (metrics.decisions); nothing where the method cannot be audited."""

    def to_arrays(self, carry: Any) -> dict[str, np.ndarray]:
        """A carry as plain arrays, for a checkpoint."""

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Any:
        """The carry that ``to_arrays`` took apart."""


def find_backend(name: str) -> tuple[str, str]:
    """Library and device of a backend. Raises SettingError."""
    if name not in BACKENDS:
        raise SettingError(unknown("backend", name, BACKENDS))
    return BACKENDS[name]


def build_sampler(backend: str, problem: Problem, card: Card, settings: Settings) -> Sampler:
    """The sampler of a method on a problem. Raises Skipped."""
    library, device = find_backend(backend)
    if library not in card.libraries:
        raise Skipped(f"{card.name} runs in {' and '.join(card.libraries)} only")
    sampler: Sampler = import_library(backend).build_sampler(problem, card, settings, device)
    return sampler


def import_library(backend: str) -> ModuleType:
    """The module of a backend's chains, and with it its library, which takes seconds the first time."""
    return importlib.import_module(f"implementations.backends.{find_backend(backend)[0]}.chain")


def use_one_thread(backend: str) -> None:
    """Keep a sampler on one thread, so that its wall-clock time can be compared; call it before the library is used."""
    library, device = find_backend(backend)
    if library == "torch":
        importlib.import_module("torch").set_num_threads(1)
        return
    # The size of XLA's own pool of threads, which no flag sets: with more, it cuts small loops into pieces, and handing
    # those over takes longer than the work (a step of sgld twice as long).
    os.environ["PJRT_NPROC"] = "1"
    flags = ["--xla_cpu_multi_thread_eigen=false"]
    if device == "cpu":
        # Half the time to compile, and steps that take a few per cent longer at the most.
        flags.append("--xla_backend_optimization_level=2")
    given = os.environ.get("XLA_FLAGS", "").split()
    # The last one counts, so what the user has set stays.
    os.environ["XLA_FLAGS"] = " ".join([*(flag for flag in flags if flag not in given), *given])
