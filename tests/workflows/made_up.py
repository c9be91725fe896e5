"""A study's result files with numbers made up, in a moment and through the real summary."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from implementations.infrastructure.provenance import PACKAGES
from implementations.run_files import write_run
from metrics.calibration import class_reliability, coverage_reliability
from records.artefacts import write_metrics
from workflows.runs import Run
from workflows.steps import summary
from workflows.study import load_study

STUDY: dict[str, Any] = {
    "study": "made_up",
    "description": "two tasks, three methods, three seeds",
    "seeds": [0, 1, 2],
    "backends": ["jax-cpu"],
    "chains": 2,
    "defaults": {"num_steps": 600, "num_warmup": 100, "thin": 2},
    "tasks": [
        {
            "task": "linear",
            "defaults": {"preconditioner": "none"},
            "methods": {
                "full_mh": {"step_size": 0.005},
                "pbnn": [{"batch_size": 2, "num_batches": 5}, {"batch_size": 2, "num_batches": 5, "num_steps": 500}],
            },
        },
        {"task": "digits", "methods": {"sgld": {"batch_size": 50}}},
    ],
}


class MadeUp:
    """The folder ``results/<study>`` below a folder, and the study's file beside it."""

    def __init__(self, folder: Path, study: dict[str, Any] = STUDY) -> None:
        self.folder = folder
        self.results = folder / "results" / study["study"]
        self.results.mkdir(parents=True)
        self.write(study)

    def write(self, study: dict[str, Any]) -> None:
        """Take ``study`` for the study, with files for the runs that have none, and its summary."""
        (self.folder / "study.yaml").write_text(json.dumps(study))
        loaded = load_study(self.folder / "study.yaml")
        loaded.write(self.results)
        self.runs = {run.path: run for run in loaded.runs}
        for run in self.runs.values():
            if not (self.results / "runs" / run.path).exists():
                self.make(run.path)
        self.summarise()

    def summarise(self) -> None:
        summary.main(["--results", str(self.results)])

    def make(self, path: str, variant: int = 0, **record: Any) -> None:
        """The files of a run; ``variant`` gives other numbers, ``record`` goes into its run.json as it is."""
        run = self.runs[path]
        number = list(self.runs).index(path)
        rng = np.random.default_rng([number, variant])
        folder = self.results / "runs" / path
        num_draws = run.settings.num_steps // run.settings.thin
        is_ok = record.get("status", "ok") == "ok"
        acceptance = rng.uniform(size=(2, num_draws)).astype(np.float32)
        traces = {"acceptance": acceptance, "variance": 3 * acceptance**2}
        arrays = {"draws": np.zeros((2, num_draws, 2)), **traces}
        made = write_run(folder, {"run": path}, self._record(run, number, rng) | record, arrays)
        if is_ok:
            write_metrics(self.results, path, _metrics(run, rng), _curves(run, rng), {"run": made["sha256"]})

    def _record(self, run: Run, number: int, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "settings": run.settings.as_dict(),
            "status": "ok",
            "reason": None,
            "acceptance_rate": rng.uniform(0.1, 0.9),
            "num_draws": 300,
            "wall_clock_s": rng.uniform(1, 20),
            "likelihood_evaluations": int(rng.integers(1000, 10**9)),
            "target_weight": 100.0,
            "num_points": 100,
            "problem_sha256": f"{number:064x}"[::-1],
            "started_at": f"2025-03-01T10:{number % 60:02}:00.250000+00:00",
            "ended_at": f"2025-03-01T11:{number % 60:02}:30.500000+00:00",
            "versions": {"python": "3.11.7"} | dict.fromkeys(PACKAGES, "1.2.3"),
            "git_commit": "0123456789abcdef0123456789abcdef01234567",
            "git_is_dirty": False,
        }


def _metrics(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    metrics = {name: rng.uniform(0, 0.2) for name in ("ece", "nll", "sd_ratio", "mean_error", "audit_noise_mean")}
    return metrics | {
        "r_hat": 1.0,
        "reference_kind": "closed_form",
        "reference_usable": True,
        "sd_ratio_resolved": True,
    }


def _curves(run: Run, rng: np.random.Generator) -> dict[str, np.ndarray]:
    if run.variant.task == "digits":
        probabilities = rng.dirichlet(np.full(10, 0.1), size=300)
        curve = class_reliability(probabilities, rng.integers(10, size=300))
    else:
        curve = coverage_reliability(rng.uniform(size=300))
    return {f"test_{part}": array for part, array in vars(curve).items()}
