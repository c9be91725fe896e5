"""What studies share, below ``results/.shared``: each problem, reference and tuning is made once, and found by all that
it follows from. A study has copies of its own, so its folder is whole by itself."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from implementations.infrastructure.artefact import VERSIONS, Record, read_arrays, read_record
from implementations.infrastructure.files import Damaged, atomic_path
from implementations.infrastructure.provenance import versions
from workflows.locks import held

#: Next to the folders of studies.
STORE = ".shared"


def provide(
    out: Path,
    results: Path,
    kind: str,
    identity: Mapping[str, Any],
    made_from: Mapping[str, str],
    make: Callable[[Path, Record], None],
) -> None:
    """Write the artefact ``out``: a copy of what ``make`` writes, or wrote for another study.

    Identity and origin have to name all that the content follows from, but for the versions of libraries, which are
    added. ``make`` gets a path and the whole identity.
    """
    whole = {**identity, "versions": versions()}
    key = json.dumps([kind, VERSIONS[kind], whole, made_from], sort_keys=True)
    folder = results.parent / STORE / kind / hashlib.sha256(key.encode()).hexdigest()
    path = folder / out.name
    # Another study that asks for the same at the same time waits for it.
    with held(folder):
        is_found = _is_whole(path, kind, whole, made_from)
        if not is_found:
            make(path, whole)
        with atomic_path(out) as copy:
            shutil.copyfile(path, copy)
    print(f"{'found in' if is_found else 'kept in'} {path}", file=sys.stderr, flush=True)


def _is_whole(path: Path, kind: str, identity: Record, made_from: Mapping[str, str]) -> bool:
    try:
        (read_arrays if path.suffix == ".npz" else read_record)(path, kind, identity, made_from=made_from)
    except FileNotFoundError:
        return False
    except Damaged as error:
        print(f"{error}; it is made again", file=sys.stderr)
        return False
    return True
