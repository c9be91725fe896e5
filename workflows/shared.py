"""Problems and references that studies share, below ``results/.shared``: each is made once and found by what it follows
from. A study has copies of its own, so its folder is whole by itself."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import implementations
import metrics
from implementations.infrastructure.files import Damaged, atomic_path, sha256_of, write_json
from implementations.infrastructure.provenance import versions
from records import reference
from records.checksums import check_list, list_of, listed
from workflows.locks import held

#: Beside the folders of studies.
STORE = ".shared"
IMPLEMENTATIONS, METRICS = Path(str(implementations.__file__)).parent, Path(str(metrics.__file__)).parent
#: The code that prepares problems and finds references: all of it, rather than too little.
CODE = (
    IMPLEMENTATIONS / "tasks",
    IMPLEMENTATIONS / "kernels" / "proposals.py",
    IMPLEMENTATIONS / "backends" / "torch" / "likelihood.py",
    METRICS,
    Path(reference.__file__),
)


def provide(out: Path, results: Path, origin: Mapping[str, Any], make: Callable[[Path], None]) -> None:
    """Write ``out``: a copy of what ``make`` writes, or wrote for another study, from ``origin``.

    ``origin`` has to name all that the content follows from, but for versions and code, which are added. A file that is
    not what it was when it was written is made again.
    """
    origin = {**origin, "versions": versions(), "code": code_of(*CODE)}
    digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()
    folder = results.parent / STORE / out.stem / digest
    path = folder / out.name
    # Whoever asks for the same at the same time waits for it.
    with held(folder):
        is_found = _is_whole(path)
        if not is_found:
            with listed(list_of(path), lambda: [path]):
                make(path)
                # For a person who asks what this is.
                write_json(folder / "origin.json", origin)
        with atomic_path(out) as copy:
            shutil.copyfile(path, copy)
    print(f"{'found in' if is_found else 'kept in'} {path}", file=sys.stderr, flush=True)


def _is_whole(path: Path) -> bool:
    try:
        check_list(list_of(path), path.name)
    except FileNotFoundError:
        return False
    except Damaged as error:
        print(f"{error}; it is made again", file=sys.stderr)
        return False
    return True


@cache
def code_of(*places: Path) -> str:
    """A checksum of these files of code, and of all in and below these folders."""
    digest = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(place.parent).as_posix()} {sha256_of(path)}\n".encode())
    return digest.hexdigest()
