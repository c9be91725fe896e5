"""Features of a network that is not the suite's: made once for each content, and kept in the data folder.

The key is a checksum of all that they follow from: the file that the task's ``features`` stands in, the files it reads,
the seed, the data, and the versions of the libraries.
"""

import hashlib
import inspect
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from implementations.infrastructure.artefact import read_arrays, write_arrays
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged
from implementations.infrastructure.provenance import versions
from implementations.tasks.task import Data, Task

PARTS = ("train", "validation", "test")


def to_numpy(array: Any) -> np.ndarray:
    """An array of any library; a torch tensor may be on a device, want its gradient, or be in half precision."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        # numpy has no bfloat16.
        array = array.float() if array.is_floating_point() and array.itemsize < 4 else array
    return np.asarray(array)


def with_features(task: Task, data: Data, seed: int, folder: Path, progress: bool = True) -> Data:
    """The data with features (n, h) float32 in place of inputs; what was made before is read from ``folder``."""
    key = _key(task, data, seed)
    path = folder / f"{task.name}-{key}.npz" if key else None
    identity = {"task": task.name, "key": key}
    found = _kept(path, identity) if path else None
    if found is None:
        if progress:
            print(f"features of {task.name}, seed {seed}", file=sys.stderr, flush=True)
        found = _made(task, data, seed)
        if path:
            write_arrays(path, "features", found, identity)
    return Data(*(replace(getattr(data, part), inputs=found[part]) for part in PARTS))


def _made(task: Task, data: Data, seed: int) -> dict[str, np.ndarray]:
    assert task.features is not None
    body = task.features(data.train, seed)
    return {part: _checked(task, part, body(getattr(data, part).inputs), getattr(data, part).targets) for part in PARTS}


def _checked(task: Task, part: str, features: Any, targets: np.ndarray) -> np.ndarray:
    """A matrix of finite numbers with a row for each target and a column for each input of the layer but its bias."""
    try:
        found = to_numpy(features).astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SettingError(f"{task.name}: the {part} features are not numbers: {error}") from None
    expected = (len(targets), task.layers[0][0] - 1)
    if found.shape != expected:
        raise SettingError(
            f"{task.name}: the {part} features have shape {found.shape}; expected {expected}, from {len(targets)} "
            f"targets and layers = {task.layers}"
        )
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        raise SettingError(f"{task.name}: the {part} features are not finite in row {row}, column {column}")
    return found


def _key(task: Task, data: Data, seed: int) -> str | None:
    """None where the code is in no file, as in a notebook: then there is nothing to know it by."""
    source = inspect.getsourcefile(inspect.unwrap(task.features)) if inspect.isfunction(task.features) else None
    if source is None or not Path(source).is_file():
        return None
    digest = hashlib.sha256(repr((seed, sorted(versions().items()))).encode())
    for file in (Path(source), *task.files):
        if not file.is_file():
            raise SettingError(f"{task.name}: no file {file}, which its features are made from")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    for part in PARTS:
        points = getattr(data, part)
        for array in (points.inputs, points.targets):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _kept(path: Path, identity: dict[str, Any]) -> dict[str, np.ndarray] | None:
    """What is in the file, None where it is missing or damaged."""
    try:
        return read_arrays(path, "features", identity)[1]
    except FileNotFoundError:
        return None
    except Damaged as error:
        print(f"{error}; it is made again", file=sys.stderr, flush=True)
        return None
