"""The smoke study, made afresh by Snakemake: draws, metrics and rows of its summary."""

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from records.columns import COLUMNS
from records.layout import read_json, run_folder
from tests.golden import Entry
from tests.golden.draws import digests

ROOT = Path(__file__).parents[2]
#: What identifies a run, beside its settings.
KEY = ("task", "stochastic", "prior", "prior_scale", "num_epochs", "fresh_points", "method", "backend", "seed")
#: Times, memory and the machine differ from call to call.
VARYING = ("ess_per_second", "peak_memory_mb", "has_compilation_cache", "num_cpus", "git_is_dirty")
TIMES = ("_s", "_us")
#: Recorded columns and metrics that the suite no longer has, on purpose.
DROPPED: tuple[str, ...] = ()


def run_study(results: Path) -> Path:
    """Run it in a folder of its own, so that nothing of an earlier call is reused except compiled code."""
    cache = ROOT / "results" / ".cache"
    cache.mkdir(parents=True, exist_ok=True)
    results.mkdir()
    (results / ".cache").symlink_to(cache)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(results.parent), "--configfile", str(ROOT / "workflows" / "studies" / "smoke.yaml")]
    left_out = ("XLA_FLAGS", "MLFLOW_TRACKING_URI", "STUDY")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"the smoke study failed:\n{done.stdout[-3000:]}")
    return results / "smoke"


def read_runs(study: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any], Path]]:
    """Of every run its row of the summary and its metrics, both in plain values, and its folder.

    The row has the settings that the study gave to the run under ``settings``.
    """
    with (study / "summary.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            folder = run_folder(study, row["run"])
            given = (read_json(folder / "run.json") or {})["settings"]
            typed = {name: _typed(name, text) for name, text in row.items() if text != ""}
            yield typed | {"settings": given}, read_json(folder / "metrics.json") or {}, folder


def read_draws(folder: Path) -> dict[str, np.ndarray]:
    """All arrays that a run left behind: draws, audits, and curves."""
    arrays: dict[str, np.ndarray] = {}
    for name in ("draws.npz", "curves.npz"):
        if (folder / name).exists():
            with np.load(folder / name) as file:
                arrays |= {key: file[key] for key in file}
    return arrays


def entries() -> Iterator[Entry]:
    """Everything of a run that does not depend on the moment it was made."""
    with tempfile.TemporaryDirectory() as scratch:
        for row, metrics, folder in read_runs(run_study(Path(scratch) / "results")):
            key = {name: row[name] for name in (*KEY, "settings") if name in row}
            # Other texts are for readers, and may be reworded.
            words = {name: row[name] for name in ("status", "reference_kind", "weight") if name in row}
            columns = _numbers({name: value for name, value in row.items() if name not in key})
            of_metrics = {f"metric {name}": value for name, value in _numbers(metrics).items()}
            of_arrays = {f"array {name}": digest for name, digest in digests(read_draws(folder)).items()}
            yield key, words | columns | of_metrics | of_arrays


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """The numbers and flags that are the same at every call."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (bool, int, float)) and name not in VARYING and not name.endswith(TIMES)
    }


def _typed(name: str, text: str) -> Any:
    kind = COLUMNS[name].kind
    return {"text": str, "count": int, "number": float, "flag": "True".__eq__}[kind](text)
