"""A run that was killed goes on where it was: the end of a chunk, in a file that is whole or absent."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from implementations.backends import Draws
from implementations.infrastructure.files import read_npz, write_npz
from implementations.sampling import Progress

#: Raised when what a checkpoint holds changes, so that an older one is refused and not misread.
FORMAT = 5


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
