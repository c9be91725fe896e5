"""Where things lie in ``results/<study>``, the folder of a study's results."""

import json
from pathlib import Path
from typing import Any

from implementations.finished import check_archive
from implementations.infrastructure.files import Damaged, check_seal, sha256_of

#: Files that every report has, beside its pictures and tables.
REPORT = ("report.html", "claims.json", "figures.json")


def plain(value: object) -> str:
    """A setting's value as it stands in a path: ``0.001``, ``1e-05``, ``1e20``, ``10``, ``data``."""
    return repr(value).removesuffix(".0").replace("e+", "e") if isinstance(value, float) else str(value)


def run_folder(results: Path, run: str) -> Path:
    """The folder of a run: run.json, draws.npz, metrics.json, curves.npz and log.txt."""
    return results / "runs" / run


def problem_path(results: Path, variant: str, seed: int) -> Path:
    return results / "problems" / variant / f"seed{seed}" / "problem.npz"


def reference_path(results: Path, variant: str, weight: float, seed: int) -> Path:
    return results / "references" / variant / f"weight{plain(float(weight))}" / f"seed{seed}" / "reference.npz"


def tuning_path(results: Path, variant: str, label: str, backend: str) -> Path:
    """Of a setting, for all its seeds. Without ``=``: Snakemake takes the wildcards of a job on a node apart there."""
    return results / "tunings" / variant / label.replace("=", "-") / backend / "tuned.json"


def read_json(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file, None where there is no file; Damaged where it is not that of an object."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise Damaged(f"{path} is damaged: not an object but {type(content).__name__}")
    return content


def read_outcome(path: Path) -> dict[str, Any] | None:
    """The same of a file that says under ``failure`` why there is no result: metrics, downloads, tracking."""
    content = read_json(path)
    if content is not None and "failure" not in content:
        raise Damaged(f"{path} is damaged: it does not say whether it failed")
    check_seal(path, content or {})
    return content


def read_metrics(folder: Path) -> dict[str, Any] | None:
    """The metrics.json of a run, with the curves.npz beside it that it was written with; Damaged where one is not."""
    metrics, curves = read_outcome(folder / "metrics.json"), folder / "curves.npz"
    if metrics is None:
        return None
    if "curves_sha256" not in metrics or not curves.exists():
        check_archive(curves)
    elif sha256_of(curves) != metrics["curves_sha256"]:
        raise Damaged(f"{curves} is damaged: its SHA-256 is not the one in metrics.json")
    return metrics
