"""A run that was killed goes on where it was: the end of a chunk, in a file that is whole or absent."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from implementations.backends import Draws
from implementations.infrastructure.artefact import read_arrays, write_arrays
from implementations.sampling import Progress


def save(path: Path, progress: Progress, carry: dict[str, np.ndarray], identity: dict[str, Any]) -> None:
    """Write a checkpoint in the place of the last one."""
    arrays: dict[str, Any] = {f"carry/{name}": array for name, array in carry.items()}
    for number, draws in enumerate(progress.kept):
        arrays |= {f"draws/{number}/{name}": array for name, array in draws._asdict().items()}
    state = {name: value for name, value in vars(progress).items() if name != "kept"}
    write_arrays(path, "checkpoint", arrays | {"state": json.dumps(state)}, identity)


def load(path: Path, identity: dict[str, Any]) -> tuple[Progress, dict[str, np.ndarray]]:
    """The progress and the carry of a checkpoint of this very run, or Damaged."""
    arrays = read_arrays(path, "checkpoint", identity)[1]
    state = json.loads(str(arrays["state"]))
    carry = {name.removeprefix("carry/"): array for name, array in arrays.items() if name.startswith("carry/")}
    num_kept = sum(name.endswith("/positions") and name.startswith("draws/") for name in arrays)
    kept = [Draws(*(arrays[f"draws/{number}/{name}"] for name in Draws._fields)) for number in range(num_kept)]
    return Progress(**state, kept=kept), carry
