"""A small study of the linear task, its steps called in this process as their rules call them."""

from pathlib import Path
from typing import Any

from implementations.methods import resolve
from implementations.settings import Size
from records.layout import mark_path
from records.summary import read_rows
from workflows.preflight import inspect
from workflows.runs import Run, Variant
from workflows.steps import summary
from workflows.steps.__main__ import main
from workflows.study import Study

GIVEN = {"num_steps": 100, "num_warmup": 0, "thin": 2, "chains": 2, "preconditioner": "none", "step_size": 0.005}
#: What differs between two runs of the same chains: when, how fast, and what follows from that.
PASSING = {
    *("started_at", "ended_at", "wall_clock_s", "cpu_s", "warmup_s", "compile_s", "has_compilation_cache"),
    *("warmup_cpu_s", "tuning_cpu_s", "anchor_cpu_s", "compile_cpu_s", "audit_cpu_s", "tuning_s"),
    *("peak_memory_mb", "memory_before_mb", "ess_per_second", "git_commit", "git_is_dirty", "has_compiled"),
}


def planned(method: str, label: str = "", seed: int = 0, **given: Any) -> Run:
    """A run of a method under a label of its own."""
    settings = resolve(method, GIVEN | given, Size("linear", num_points=100, num_parameters=2))
    return Run(Variant("linear"), method, settings, "torch-cpu", seed, label or method)


class Small:
    """A study of some runs, in ``results``."""

    def __init__(self, results: Path, *runs: Run) -> None:
        self.results = results
        self.plan(*runs)

    def plan(self, *runs: Run) -> None:
        self.runs, self.study = runs, Study(self.results.name, "a small study", runs)
        self.study.write(self.results)

    @property
    def batch(self) -> str:
        (batch,) = self.study.batches
        return batch.name

    def mark(self, name: str) -> Path:
        return mark_path(self.results, self.batch, name)

    def step(self, *words: object) -> int:
        """The exit code of a step."""
        name, *key = map(str, words)
        return main([name, str(self.results), *key])

    def problems(self) -> None:
        for run in {run.problem_path(self.results): run for run in self.runs}.values():
            if not run.problem_path(self.results).exists():
                assert self.step("network", "linear", run.seed) == 0
        for path, run in {run.reference_path(self.results): run for run in self.runs}.items():
            if path is not None and not path.exists():
                assert self.step("reference", "linear", run.target_weight, run.seed) == 0

    def call(self) -> list[str]:
        """What one call of Snakemake does, which goes by what is missing; what it says of damaged files."""
        lines = inspect(self.results, self.study)
        self.problems()
        if not self.mark("sampled").exists():
            assert self.step("sample", self.batch) == 0
            self.mark("evaluated").unlink(missing_ok=True)
        if not self.mark("evaluated").exists():
            assert self.step("evaluate", self.batch) == 0
            (self.results / "summary.csv").unlink(missing_ok=True)
        if not all((self.results / f"summary.{kind}").exists() for kind in ("csv", "parquet")):
            assert summary.main(["--results", str(self.results)]) == 0
        return lines

    def numbers(self) -> dict[str, Any]:
        """What must never change: the draws of each run, and its row without times."""
        rows = {row["run"]: row for row in read_rows(self.results / "summary.csv")}
        return {
            run.path: (
                (run.folder(self.results) / "draws.npz").read_bytes(),
                {name: value for name, value in rows[run.path].items() if name not in PASSING},
            )
            for run in self.runs
        }
