"""Whatever happens to a file of a study, the next call heals it or names it; no number changes, and no file is exempt.

The list of files is that of a study that was run, so new ones are covered. The whole matrix runs on the steps and on
what clears up before them, joined by dates as Snakemake joins them. Snakemake itself runs a sample of it, or, with
DAMAGE=all in the environment, all of it, which takes some two hours.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from implementations.infrastructure.files import read_npz, sealed, write_json, write_npz
from records import layout
from records.summary import is_complete, read_rows, report_failures
from tests.workflows.snakemake import Workdir
from tests.workflows.test_recovery import ONE
from workflows import recovery
from workflows.shared import STORE
from workflows.steps import evaluate, network, reference, report, sample, summary
from workflows.study import load_study
from workflows.summary import closing_lines

#: What differs between two runs of the same chains: when, how fast, and what follows from that.
PASSING = {
    *("started_at", "ended_at", "wall_clock_s", "cpu_s", "warmup_s", "compile_s", "has_compilation_cache"),
    *("warmup_cpu_s", "tuning_cpu_s", "anchor_cpu_s"),
    *("peak_memory_mb", "ess_per_second", "git_commit", "git_is_dirty"),
}
#: No results: what a person reads when something went wrong, and what keeps processes apart.
NO_RESULTS = (".log", ".lock", "log.txt", ".snakemake_timestamp")


def numbers_changed(content: Any) -> Any:
    """The same content with every number with a fraction another; settings and checksums stay what they are."""
    if isinstance(content, float):
        return content + 1
    if isinstance(content, dict):
        return {name: value if name == "settings" else numbers_changed(value) for name, value in content.items()}
    return [numbers_changed(value) for value in content] if isinstance(content, list) else content


def another(path: Path) -> None:
    """A file of the same kind that can be read, with something else in it."""
    if path.suffix == ".npz":
        arrays = read_npz(path)
        write_npz(path, {name: array + 1 if array.dtype.kind == "f" else array for name, array in arrays.items()})
    elif path.suffix == ".json":
        content = json.loads(path.read_text())
        changed = numbers_changed(content)
        write_json(path, changed if changed != content else content | {"more": 1})
    elif path.suffix == ".parquet":
        table = pd.read_parquet(path)
        table.assign(acceptance_rate=table["acceptance_rate"] / 2).to_parquet(path, index=False)
    elif path.suffix == ".png":
        path.write_bytes(path.read_bytes() + b"\0")
    else:
        text = path.read_text()
        digit = next(character for character in text if character.isdigit())
        path.write_text(text.replace(digit, str((int(digit) + 1) % 10)))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size)),
    "another": another,
    "removed": lambda path: path.unlink(),
    "older": lambda path: os.utime(path, (10**9, 10**9)),
}


class Made(NamedTuple):
    """A job as its rule has it: the files it is made from, and those it makes."""

    inputs: list[Path]
    outputs: list[Path]
    make: Callable[[], object]


@cache
def the_study(text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.yaml")
        path.write_text(text)
        return load_study(path)


class Study:
    """A study of one run in a folder, called as Snakemake calls it."""

    def __init__(self, folder: Path, rendered: Path) -> None:
        self.results = folder / "results" / "one"
        #: A report that was rendered once: that takes seconds, and its content is not what matters here.
        self.rendered = rendered
        self.file = folder / "study.yaml"
        study = the_study(self.file.read_text())
        study.write(self.results)
        (self.run,) = study.runs
        self.folder = layout.run_folder(self.results, self.run.path)

    @property
    def problem(self) -> Path:
        return layout.problem_path(self.results, self.run.variant.label, self.run.seed)

    @property
    def reference(self) -> Path:
        return layout.reference_path(self.results, self.run.variant.label, 100.0, self.run.seed)

    @property
    def marks(self) -> tuple[Path, Path]:
        part = self.results / "parts" / "linear" / self.run.backend / "batch0"
        return part / "sampled.json", part / "evaluated.json"

    def jobs(self) -> list[Made]:
        results = ["--results", str(self.results)]
        problem, seed = ["--problem", str(self.problem)], ["--seed", str(self.run.seed), *results]
        sampled, evaluated = self.marks
        part = [*results, "--variant", self.run.variant.label]
        planned = {"path": self.run.path, "method": self.run.method, "seed": self.run.seed}
        planned["settings"] = self.run.settings.as_dict()
        csv, parquet = (self.results / f"summary.{kind}" for kind in ("csv", "parquet"))
        report_files = [self.results / name for name in (*layout.REPORT, "figures", "tables", "pages")]
        variant = ["--variant", json.dumps(asdict(self.run.variant)), "--data", "data", "--out", str(self.problem)]
        tracked = self.results / "tracked.json"
        return [
            Made([], [self.problem], lambda: network.main([*variant, *seed])),
            Made([self.problem], [self.reference], lambda: reference.main(
                [*problem, "--weight", "100", *seed, "--out", str(self.reference)])),
            Made([self.problem], [sampled], lambda: sample.main(
                [*part, "--backend", self.run.backend, "--runs", json.dumps([planned]), "--out", str(sampled)])),
            Made([self.problem, sampled, self.reference], [evaluated], lambda: evaluate.main(
                [*part, "--runs", json.dumps([[self.run.path, self.run.seed, 100.0]]), "--out", str(evaluated)])),
            Made([evaluated, self.file], [csv, parquet], lambda: summary.main(results)),
            Made([self.file, parquet], report_files, self._report),
            Made([csv, parquet], [tracked], lambda: write_json(tracked, sealed({"store": "", "failure": None}))),
        ]  # fmt: skip

    def _report(self) -> None:
        if not self.rendered.exists():
            report.main(["--results", str(self.results)])
            self.rendered.mkdir()
            for name in (*layout.REPORT, "report.sha256", "figures", "tables", "pages"):
                path = self.results / name
                (shutil.copytree if path.is_dir() else shutil.copy)(path, self.rendered / name)
        else:
            # As new: not with the dates of then.
            shutil.copytree(self.rendered, self.results, copy_function=shutil.copy, dirs_exist_ok=True)

    def call(self, num_jobs: int = 7) -> tuple[int, str]:
        """One call, to the end or the first few jobs only: exit code and output."""
        jobs = [recovery.Job(self.folder, self.problem, self.reference)]
        lines = recovery.clear_failures(self.results, jobs)
        sampled, evaluated = self.marks
        lines += recovery.clear_marks({sampled: [self.folder / "run.json"], evaluated: [self.folder / "metrics.json"]})
        lines += recovery.clear_conclusions(self.results, [self.run.path])
        made: set[Path] = set()
        for job in self.jobs()[:num_jobs]:
            is_there = all(path.exists() for path in job.outputs)
            oldest = min((path.stat().st_mtime_ns for path in job.outputs), default=0) if is_there else 0
            if is_there and all(path.stat().st_mtime_ns <= oldest and path not in made for path in job.inputs):
                continue
            for path in job.outputs:
                if path.exists():
                    (shutil.rmtree if path.is_dir() else Path.unlink)(path)
            job.make()
            made |= set(job.outputs)
            # Snakemake would end the study there.
            assert all(path.exists() for path in job.outputs), job.outputs
        if num_jobs < 7:
            return 0, "\n".join(lines)
        rows = read_rows(self.results / "summary.csv")
        is_broken = not is_complete(rows) or report_failures(self.results)
        return int(bool(is_broken)), "\n".join([*lines, *closing_lines(rows, self.results)])


class Numbers(NamedTuple):
    """What must never change."""

    draws: bytes
    summary: list[dict[str, str]]

    @classmethod
    def of(cls, results: Path) -> "Numbers":
        (draws,) = results.glob("runs/**/draws.npz")
        rows = read_rows(results / "summary.csv")
        table = pd.read_parquet(results / "summary.parquet").to_dict("records")
        assert [str(row["acceptance_rate"]) for row in table] == [row["acceptance_rate"] for row in rows]
        kept = [{name: value for name, value in row.items() if name not in PASSING} for row in rows]
        return cls(draws.read_bytes(), kept)


def files_of(results: Path) -> list[str]:
    """Every result of a study."""
    paths = [path for path in results.rglob("*") if path.is_file() and not path.name.endswith(NO_RESULTS)]
    return sorted(str(path.relative_to(results)) for path in paths)


@pytest.fixture(scope="module")
def stages(tmp_path_factory) -> dict[str, Path]:
    """A study before its evaluation and at its end, and the numbers it had then."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(json.dumps(ONE))
    study = Study(folder, tmp_path_factory.mktemp("report") / "rendered")
    assert study.call(num_jobs=3) == (0, "")
    before = tmp_path_factory.mktemp("before") / "study"
    shutil.copytree(folder, before)
    code, output = study.call()
    assert code == 0, output
    return {"before evaluate": before, "after the study": folder, "rendered": study.rendered}


def cases(stages: dict[str, Path]) -> Iterator[tuple[str, str, str]]:
    for stage in ("before evaluate", "after the study"):
        for name in files_of(stages[stage] / "results" / "one"):
            yield from ((stage, name, damage) for damage in DAMAGES)


def assert_healed_or_named(outcome: tuple[int, str], numbers: Numbers, results: Path, name: str) -> None:
    code, output = outcome
    if code == 0:
        now = Numbers.of(results)
        assert now.draws == numbers.draws
        assert now.summary == numbers.summary
    else:
        assert name in output


@pytest.fixture
def alone(monkeypatch) -> None:
    # One process, so nobody to keep out; locks are held to its end, and hundreds are more than it may have.
    for step in (network, reference):
        monkeypatch.setattr(step, "hold", lambda folder, is_patient: None)


@pytest.mark.slow
def test_no_damage_to_what_studies_share_gets_into_a_study_that_needs_it(stages, alone, tmp_path):
    results = stages["after the study"] / "results"
    numbers, names = Numbers.of(results / "one"), files_of(results / STORE)
    assert {Path(name).name for name in names} > {"problem.npz", "problem.sha256", "reference.npz"}
    for number, (name, damage) in enumerate(product(names, DAMAGES)):
        folder = tmp_path / str(number)
        shutil.copytree(stages["after the study"], folder)
        study = Study(folder, stages["rendered"])
        DAMAGES[damage](study.results.parent / STORE / name)
        study.problem.unlink()
        study.reference.unlink()
        for _ in range(2):
            code, output = study.call()
            assert code == 0, (name, damage, output)
            assert Numbers.of(study.results) == numbers, (name, damage)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_every_damage_to_every_file_is_healed_or_named_and_changes_no_number(stages, alone, tmp_path):
    numbers = Numbers.of(stages["after the study"] / "results" / "one")
    names = files_of(stages["after the study"] / "results" / "one")
    assert {Path(name).name for name in names} > {"run.json", "draws.npz", "metrics.json", "curves.npz", "summary.csv"}
    faults = []
    for number, (stage, name, damage) in enumerate(cases(stages)):
        folder = tmp_path / str(number)
        shutil.copytree(stages[stage], folder)
        study = Study(folder, stages["rendered"])
        path = study.results / name
        before = path.read_bytes()
        DAMAGES[damage](path)
        try:
            if damage not in ("removed", "older"):
                assert path.read_bytes() != before, "no damage was done"
            for _ in range(2):
                assert_healed_or_named(study.call(), numbers, study.results, name)
            if name in files_of(study.results) and damage in ("emptied", "random", "truncated"):
                assert path.read_bytes() not in (b"", np.random.default_rng(0).bytes(len(before)))
        except Exception as error:
            faults.append(f"{stage}, {name} {damage}: {type(error).__name__}: {str(error)[:300]}")
        shutil.rmtree(folder)
    assert number > 200
    assert not faults, "\n".join(faults)


# Through Snakemake

RUN = "runs/linear/full_mh+step_size=0.005+preconditioner=none/torch-cpu/seed0"
PROBLEM = "problems/linear/seed0/problem.npz"
#: Damages that one call meets together.
SAMPLE: dict[str, list[dict[str, str]]] = {
    "before evaluate": [{f"{RUN}/draws.npz": "another", PROBLEM: "older"}],
    "after the study": [
        {
            PROBLEM: "another",
            f"{RUN}/metrics.json": "another",
            f"{RUN}/run.json": "older",
            "figures.json": "removed",
            "../mlflow.db": "random",
        },
        {
            f"{RUN}/run.json": "another",
            f"{RUN}/curves.npz": "emptied",
            "summary.parquet": "random",
            "tables/comparison_linear.csv": "truncated",
        },
    ],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[str, Path]:
    """The same by Snakemake."""
    folder = tmp_path_factory.mktemp("snakemake") / "work"
    work = Workdir(folder, ONE)
    code, output = work.run("--until", "sample", "reference")
    assert code == 0, output
    before = folder.with_name("before")
    shutil.copytree(folder, before, symlinks=True)
    code, output = work.run()
    assert code == 0, output
    return {"before evaluate": before, "after the study": folder}


@pytest.mark.slow
@pytest.mark.parametrize("stage", SAMPLE)
def test_snakemake_heals_or_names_damages_and_changes_no_number(finished, stage, tmp_path):
    numbers = Numbers.of(finished["after the study"] / "results" / "one")
    every = [{name: damage} for _, name, damage in cases(finished) if _ == stage]
    for number, damages in enumerate(every if os.environ.get("DAMAGE") == "all" else SAMPLE[stage]):
        folder = tmp_path / str(number)
        work = Workdir(folder, ONE, shares_compiled=False)
        # Over the study's file too, whose date would be a reason to run again.
        shutil.copytree(finished[stage], folder, symlinks=True, dirs_exist_ok=True)
        for name, damage in damages.items():
            DAMAGES[damage](work.results / name)
        for _ in range(2):
            code, output = work.run()
            assert "Traceback" not in output, (damages, output)
            for name in damages:
                assert_healed_or_named((code, output), numbers, work.results, Path(name).name)
            if "../mlflow.db" in damages:
                assert "not tracked in sqlite:///results/mlflow.db: " in output
        shutil.rmtree(folder)
