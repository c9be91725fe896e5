"""The steps, called as their rules call them: failure is data, and what is finished stays."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.artefact import read_record, write_arrays
from implementations.run_files import read_draws, read_run, write_run
from implementations.tasks import TASKS
from implementations.tasks.data.download import DataError
from records.artefacts import load_problem, load_reference, read_curves, read_metrics
from records.layout import fetched_path
from tests.workflows.small_study import Small, planned
from workflows.preflight import inspect
from workflows.steps import evaluate, network, reference, sample

#: Packages that take long to import, and those of them that steps begin with; they import others when they need them.
HEAVY = ("jax", "torch", "scipy.stats", "pandas", "matplotlib", "sklearn", "mlflow", "snakemake")
STEPS = {
    "data network reference sample timing": [],
    "evaluate tune": ["scipy.stats"],
    "summary track": ["scipy.stats", "pandas"],
}


@pytest.fixture
def results(tmp_path) -> Path:
    return tmp_path / "results" / "small"


@pytest.fixture
def small(results) -> Small:
    """A study of one run, with its problem and reference."""
    study = Small(results, planned("full_mh"))
    study.problems()
    return study


def record_of(study: Small, number: int = 0) -> dict:
    return json.loads((study.runs[number].folder(study.results) / "run.json").read_text())


def broken(*arguments: object, **more: object) -> None:
    raise ZeroDivisionError("division by zero")


def test_data_that_cannot_be_had_make_rows_that_say_so_and_are_tried_again(results, monkeypatch):
    def fetch(folder: Path) -> None:
        raise DataError(f"no source has linear; put it into {folder}")

    monkeypatch.setitem(TASKS, "linear", TASKS["linear"].__class__(**vars(TASKS["linear"]) | {"fetch": fetch}))
    study = Small(results, planned("full_mh"))
    assert study.step("data", "linear") == 0
    study.problems()
    assert study.step("sample", study.batch) == 0
    reason = "no problem: no data: DataError: no source has linear; put it into data"
    assert (record_of(study)["status"], record_of(study)["reason"]) == ("failed", reason)
    assert load_reference(results, "linear", 100.0, 0) == reason
    assert read_draws(study.runs[0].folder(results), record_of(study))["draws"].size == 0
    # What was reported is forgotten, so that it is tried again.
    assert inspect(results, study.study) == []
    paths = (fetched_path(results, "linear"), study.runs[0].problem_path(results), study.mark("sampled"))
    assert [path for path in (*paths, study.runs[0].folder(results) / "run.json") if path.exists()] == []


def test_a_full_disk_is_no_outcome_of_a_run(small, monkeypatch):
    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sample, "run", full)
    assert small.step("sample", small.batch) == 1
    assert list(small.results.rglob("run.json")) == list(small.results.rglob("sampled.json")) == []
    log = small.runs[0].folder(small.results) / "log.txt"
    assert log.read_text().endswith("No space left on device\n")


def test_an_interruption_is_no_outcome_of_a_run(small, monkeypatch):
    def interrupted(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sample, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small.step("sample", small.batch)
    assert list(small.results.rglob("run.json")) == []


def test_what_becomes_of_a_run_is_nothing_to_the_others_of_its_batch(results, monkeypatch, capfd):
    """One is skipped for want of a method, one fails, one meets a full disk, one diverges; two are as if alone."""
    own_run = sample.run

    def some_fail(job: object, out: Path, **more: object) -> object:
        os.write(2, f"C writes into the log of {out.parts[-3]}\n".encode())
        if out.parts[-3] == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if out.parts[-3] == "broken":
            raise ZeroDivisionError("division by zero")
        return own_run(job, out, **more)

    runs = [
        planned("full_mh", "first"),
        planned("full_mh", "broken"),
        planned("blackjax_nuts", "elsewhere"),
        planned("full_mh", "full"),
        planned("sgld", "wild", batch_size=2, step_size=1.0),
        planned("pbnn", "last", batch_size=2, num_batches=5),
    ]
    study = Small(results, *runs)
    study.problems()
    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", some_fail)
        assert study.step("sample", study.batch) == 1
    folders = {run.label: run.folder(results) for run in runs}
    assert {name: read_run(folder)["status"] for name, folder in folders.items() if name != "full"} == {
        "first": "ok",
        "broken": "failed",
        "elsewhere": "skipped",
        "wild": "diverged",
        "last": "ok",
    }
    assert read_run(folders["full"]) is None and not study.mark("sampled").exists()
    logs = {name: (folder / "log.txt").read_text() for name, folder in folders.items()}
    assert all(f"C writes into the log of {name}\n" in log for name, log in logs.items())
    assert logs["broken"].endswith("ZeroDivisionError: division by zero\n")
    assert "Traceback" not in logs["last"] + logs["first"] + capfd.readouterr().err

    # The next call makes the rest, last of all what was begun before, and the mark.
    times = {name: (folder / "run.json").stat().st_mtime_ns for name, folder in folders.items() if name != "full"}
    made = []
    study.plan(*runs, planned("full_mh", "new"))
    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", lambda job, out, **more: made.append(out.parts[-3]) or own_run(job, out, **more))
        assert study.step("sample", study.batch) == 0
    assert made == ["broken", "elsewhere", "new", "full"] and study.mark("sampled").exists()
    for name in ("first", "wild", "last"):
        assert (folders[name] / "run.json").stat().st_mtime_ns == times[name]
    # As if each had a process to itself.
    for run in (runs[0], runs[5]):
        alone = Small(results.with_name(f"alone {run.label}"), run)
        alone.problems()
        assert alone.step("sample", alone.batch) == 0
        ours, theirs = (run.folder(place) / "draws.npz" for place in (results, alone.results))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_run_that_ended_its_process_comes_last_and_an_orphan_begins_nothing_new(results, monkeypatch):
    study = Small(results, planned("full_mh", "deadly"), planned("full_mh", "other"))
    study.problems()
    made = []

    def deadly(job: object, out: Path, **more: object) -> None:
        made.append(out.parts[-3])
        raise KeyboardInterrupt if out.parts[-3] == "deadly" else OSError("enough seen")

    monkeypatch.setattr(sample, "run", deadly)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            study.step("sample", study.batch)
    assert made == ["deadly", "other", "deadly"]
    monkeypatch.setattr("workflows.locks._PARENT", -1)
    assert study.step("sample", study.batch) == study.step("evaluate", study.batch) == 1
    assert made == ["deadly", "other", "deadly"]


def test_an_error_of_the_runs_own_is_its_outcome_and_is_forgotten_when_reported(small, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", broken)
        small.call()
    folder = small.runs[0].folder(small.results)
    assert (record_of(small)["status"], record_of(small)["reason"]) == ("failed", "ZeroDivisionError: division by zero")
    assert record_of(small)["log"] == str(folder / "log.txt") and "Traceback" in (folder / "log.txt").read_text()
    assert read_metrics(folder)["failure"] is None and read_curves(folder) == {}
    assert inspect(small.results, small.study) == []
    assert not (folder / "run.json").exists() and not small.mark("sampled").exists()
    assert small.runs[0].problem_path(small.results).exists()
    assert small.call() == [] and record_of(small)["status"] == "ok"


def test_a_finished_run_is_not_made_twice_and_one_with_other_settings_is_another(small):
    small.call()
    first = record_of(small)
    assert small.step("sample", small.batch) == 0 and record_of(small) == first
    small.plan(planned("full_mh", step_size=0.004))
    assert small.step("sample", small.batch) == 0 and record_of(small)["settings"]["step_size"] == 0.004


def test_a_finished_run_is_not_replaced_by_a_failure_of_its_problem(small):
    small.call()
    first = record_of(small)
    identity = {"variant": "linear", "seed": 0}
    write_arrays(small.runs[0].problem_path(small.results), "problem", {}, identity, failure="RuntimeError: no")
    assert small.step("sample", small.batch) == 0 and record_of(small) == first
    small.plan(planned("full_mh", step_size=0.004))
    assert small.step("sample", small.batch) == 0
    assert (record_of(small)["status"], record_of(small)["reason"]) == ("failed", "no problem: RuntimeError: no")


def test_only_what_has_changed_is_evaluated_again(small):
    small.call()
    folder = small.runs[0].folder(small.results)
    times = [(folder / "metrics.json").stat().st_mtime_ns]

    def is_evaluated() -> bool:
        assert small.step("evaluate", small.batch) == 0
        times.append((folder / "metrics.json").stat().st_mtime_ns)
        return times[-1] > times[-2]

    assert not is_evaluated()
    # Its record says another time.
    (folder / "run.json").unlink()
    assert small.step("sample", small.batch) == 0 and is_evaluated()
    path, identity = small.runs[0].reference_path(small.results), {"variant": "linear", "weight": 100.0, "seed": 0}
    write_arrays(path, "reference", {}, identity, failure="RuntimeError: no")
    assert is_evaluated() and read_metrics(folder)["reference_kind"] == "failed"
    # A run that did not end well has an evaluation without numbers.
    record = record_of(small)
    write_run(folder, {"run": small.runs[0].path}, record | {"status": "diverged"}, {"draws": np.zeros((2, 0, 2))})
    assert is_evaluated() and "r_hat" not in read_metrics(folder) and read_curves(folder) == {}


def test_a_failed_evaluation_keeps_the_draws_and_is_made_again(small, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "evaluate", broken)
        small.call()
    folder = small.runs[0].folder(small.results)
    assert read_metrics(folder)["failure"] == "ZeroDivisionError: division by zero"
    assert inspect(small.results, small.study) == []
    assert (folder / "run.json").exists() and small.mark("sampled").exists()
    assert not (folder / "metrics.json").exists() and not small.mark("evaluated").exists()


def test_the_problem_of_a_step_is_that_of_the_library(small):
    problem = load_problem(small.results, "linear", 0)
    assert (problem.task, problem.seed, problem.num_points) == ("linear", 0, 100)


def test_another_study_finds_what_one_has_made_and_a_failure_is_not_shared(results, monkeypatch):
    monkeypatch.setattr(network, "prepare", broken)
    other = Small(results.with_name("other"), planned("full_mh"))
    assert other.step("network", "linear", 0) == 0
    path = other.runs[0].problem_path(other.results)
    assert read_record(path, "problem")["failure"] == "ZeroDivisionError: division by zero"
    monkeypatch.undo()
    small = Small(results, planned("full_mh"))
    small.problems()
    monkeypatch.setattr(network, "prepare", broken)
    monkeypatch.setattr(reference, "reference", broken)
    path.unlink()
    other.problems()
    for name in ("problem_path", "reference_path"):
        ours, theirs = (getattr(study.runs[0], name)(study.results).read_bytes() for study in (small, other))
        assert ours == theirs
    # Another version of a library might give other numbers.
    monkeypatch.setattr("workflows.cache.versions", lambda: {"numpy": "3.0"})
    path.unlink()
    assert other.step("network", "linear", 0) == 0
    assert read_record(path, "problem")["failure"] is not None


def test_progress_reaches_the_person_who_waits_only_when_there_was_none_for_long(monkeypatch):
    log, person = io.StringIO(), io.StringIO()
    now = [0.0]
    monkeypatch.setattr(sample.time, "monotonic", lambda: now[0])
    stream = sample.Slow(log, person)
    for second in range(100):
        now[0] = float(second)
        print(f"step {second}", file=stream)
    assert log.getvalue().splitlines() == [f"step {second}" for second in range(100)]
    assert person.getvalue().splitlines() == ["step 30", "step 60", "step 90"]


def test_a_step_begins_with_no_package_that_it_may_not_need():
    """One process, one step after the other: what an earlier one has imported may be there for a later one."""
    code = ["import sys, importlib"]
    for steps in STEPS:
        code += [f"importlib.import_module('workflows.steps.{step}')" for step in steps.split()]
        code += [f"print(*[name for name in {HEAVY} if name in sys.modules], sep=',')"]
    found = subprocess.check_output([sys.executable, "-c", "\n".join(code)], cwd=Path(__file__).parents[2], text=True)
    assert found.splitlines() == [",".join(packages) for packages in STEPS.values()]
