"""Where things lie in ``results/<study>``, the folder of a study's results."""

import json
from pathlib import Path
from typing import Any

from implementations.infrastructure.artefact import parsing, reading
from implementations.infrastructure.files import Damaged


def plain(value: object) -> str:
    """A setting's value as it stands in a path: ``0.001``, ``1e-05``, ``1e20``, ``10``, ``data``."""
    return repr(value).removesuffix(".0").replace("e+", "e") if isinstance(value, float) else str(value)


def run_folder(results: Path, run: str) -> Path:
    """The folder of a run: run.json, draws.npz, metrics.json, curves.npz and log.txt."""
    return results / "runs" / run


def mark_path(results: Path, batch: str, name: str) -> Path:
    """A mark that Snakemake goes by: all runs of a batch are ``sampled``, or ``evaluated``."""
    return results / "batches" / batch / f"{name}.json"


def problem_path(results: Path, variant: str, seed: int) -> Path:
    return results / "problems" / variant / f"seed{seed}" / "problem.npz"


def reference_path(results: Path, variant: str, weight: float, seed: int) -> Path:
    return results / "references" / variant / f"weight{plain(float(weight))}" / f"seed{seed}" / "reference.npz"


def fetched_path(results: Path, task: str) -> Path:
    """What became of the download of a task's data."""
    return results / "data" / task / "fetched.json"


def timing_path(results: Path, backend: str) -> Path:
    return results / "timings" / f"{backend}.json"


def tuning_path(results: Path, variant: str, label: str, backend: str) -> Path:
    """Of a setting, for all its seeds. Without ``=``: Snakemake takes the wildcards of a job on a node apart there."""
    return results / "tunings" / variant / label.replace("=", "-") / backend / "tuned.json"


def read_json(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file, None where there is no file; Damaged where it is not that of an object."""
    try:
        with reading(path, moves=False) as file, parsing():
            content = json.load(file)
            if not isinstance(content, dict):
                raise Damaged(f"not an object but {type(content).__name__}")
            return content
    except FileNotFoundError:
        return None
