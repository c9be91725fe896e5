"""A run that was killed goes on where it was: the end of a chunk, in a file that is whole or absent."""

import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from implementations.backends import Draws
from implementations.files import read_npz, write_npz
from implementations.schedule import Chunk


def _no_time() -> dict[str, float]:
    return {"compile": 0.0, "warmup": 0.0, "sampling": 0.0}


@dataclass
class Progress:
    """What a run has done so far; its chains' carry is apart, in the backend's own form."""

    num_chunks: int = 0
    num_steps: int = 0
    num_sampling_steps: int = 0
    seconds: dict[str, float] = field(default_factory=_no_time)
    cpu_seconds: dict[str, float] = field(default_factory=_no_time)
    kept: list[Draws] = field(default_factory=list)

    def add(self, chunk: Chunk, draws: Draws) -> None:
        """Count a chunk, and keep its draws unless it was warm-up."""
        self.num_chunks += 1
        self.num_steps += chunk.num_steps
        if not chunk.is_warmup:
            self.num_sampling_steps += chunk.num_steps
            self.kept.append(draws)

    def draws(self, chains: int, num_parameters: int) -> Draws:
        """The kept draws in order, up to the last that is finite in every chain."""
        nothing = np.zeros((chains, 0), np.float32)
        kept = self.kept or [Draws(np.zeros((chains, 0, num_parameters), np.float32), nothing, nothing)]
        draws = Draws(*(np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True)))
        is_finite = np.isfinite(draws.positions).all(axis=(0, 2))
        length = len(is_finite) if is_finite.all() else int(is_finite.argmin())
        return Draws(*(array[:, :length] for array in draws))


class Refused(Exception):
    """A checkpoint that this run must not go on from, and why."""


def save(path: Path, progress: Progress, carry: dict[str, np.ndarray], identity: dict[str, Any]) -> None:
    """Write a checkpoint in the place of the last one."""
    arrays: dict[str, Any] = {f"carry/{name}": array for name, array in carry.items()}
    for number, draws in enumerate(progress.kept):
        arrays |= {f"draws/{number}/{name}": array for name, array in draws._asdict().items()}
    state = {name: value for name, value in vars(progress).items() if name != "kept"}
    write_npz(path, arrays | {"state": json.dumps(state), "identity": json.dumps(identity)})


def load(path: Path, identity: dict[str, Any]) -> tuple[Progress, dict[str, np.ndarray]]:
    """The progress and the carry of a checkpoint of this very run. Raises Refused."""
    try:
        arrays = read_npz(path)
        state, saved = json.loads(str(arrays["state"])), json.loads(str(arrays["identity"]))
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise Refused(f"the file is damaged ({error})") from error
    difference = _first_difference(saved, json.loads(json.dumps(identity)))
    if difference:
        raise Refused(f"it belongs to another run: {difference}")
    carry = {name.removeprefix("carry/"): array for name, array in arrays.items() if name.startswith("carry/")}
    num_kept = sum(name.endswith("/positions") and name.startswith("draws/") for name in arrays)
    kept = [Draws(*(arrays[f"draws/{number}/{name}"] for name in Draws._fields)) for number in range(num_kept)]
    return Progress(**state, kept=kept), carry


def _first_difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """``step_size is 0.1 there and 0.2 here``, or nothing where they are the same."""
    for name in sorted(there.keys() | here.keys()):
        left, right = there.get(name), here.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            if difference := _first_difference(left, right):
                return difference
        elif left != right:
            return f"{name} is {left!r} there and {right!r} here"
    return ""
