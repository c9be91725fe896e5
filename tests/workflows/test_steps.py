"""The steps, called as their rules call them."""

import errno
import io
import json
from pathlib import Path

import numpy as np
import pytest

from implementations.files import read_npz
from implementations.methods import resolve
from implementations.tasks import TASKS
from implementations.tasks.download import DataError
from implementations.tasks.problem import Problem
from workflows.failures import clear, leave, reason_in
from workflows.steps import data, evaluate, network, reference, sample

LINEAR = json.dumps({"task": "linear", "stochastic": "last", "prior": "gaussian", "prior_scale": 1.0})
GIVEN = {"num_steps": 100, "num_warmup": 0, "thin": 2, "chains": 2, "preconditioner": "none", "step_size": 0.005}


def make_problem(results: Path, *more: str) -> Path:
    out = results / "problems" / "linear" / "seed0" / "problem.npz"
    assert network.main(["--variant", LINEAR, "--seed", "0", "--data", "data", "--out", str(out), *more]) == 0
    return out


def make_reference(results: Path, problem: Path) -> Path:
    out = results / "references" / "linear" / "weight100" / "seed0" / "reference.npz"
    assert reference.main(["--problem", str(problem), "--weight", "100", "--seed", "0", "--out", str(out)]) == 0
    return out


def make_run(results: Path, problem: Path, **given: object) -> Path:
    settings = resolve("full_mh", GIVEN | given, task="linear", num_points=100, num_parameters=2)
    out = results / "runs" / "linear" / "full_mh" / "torch-cpu" / "seed0" / "run.json"
    arguments = ["--problem", str(problem), "--method", "full_mh", "--settings", json.dumps(settings.as_dict())]
    assert sample.main([*arguments, "--backend", "torch-cpu", "--seed", "0", "--out", str(out)]) == 0
    return out


def make_evaluation(results: Path, problem: Path, run: Path, answer: Path) -> Path:
    out = results / "evaluations" / "linear" / "seed0" / "part0" / "done"
    arguments = ["--problem", str(problem), "--runs", str(run), "--references", str(answer), "--out", str(out)]
    assert evaluate.main(arguments) == 0
    return out


def read(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.fixture
def results(tmp_path) -> Path:
    return tmp_path / "results" / "small"


def test_data_that_cannot_be_had_make_rows_that_say_so_and_are_tried_again(results, tmp_path, monkeypatch):
    def fetch(folder: Path) -> None:
        raise DataError(f"no source has mnist; put it into {folder}")

    monkeypatch.setitem(TASKS, "mnist", TASKS["mnist"].__class__(**vars(TASKS["mnist"]) | {"fetch": fetch}))
    fetched = results / "data" / "mnist" / "fetched.json"
    assert data.main(["--task", "mnist", "--data", "somewhere", "--out", str(fetched)]) == 0
    problem = make_problem(results, "--fetched", str(fetched))
    run = make_run(results, problem)
    answer = make_reference(results, problem)
    make_evaluation(results, problem, run, answer)
    reason = "no problem: no data: DataError: no source has mnist; put it into somewhere"
    assert (read(run)["status"], read(run)["reason"]) == ("failed", reason)
    assert reason_in(answer) == reason
    assert read_npz(run.with_name("draws.npz"))["draws"].size == 0

    clear(results)
    assert [path for path in (fetched, problem, run, answer) if path.exists()] == []
    assert read(run.with_name("failed.json"))["reason"] == reason


def test_a_full_disk_is_no_outcome_of_a_run(results, monkeypatch):
    problem = make_problem(results)

    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sample, "run", full)
    with pytest.raises(OSError, match="No space left"):
        make_run(results, problem)
    assert list(results.rglob("run.json")) == []


def test_an_interruption_is_no_outcome_of_a_run(results, monkeypatch):
    problem = make_problem(results)

    def interrupted(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sample, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_run(results, problem)
    assert list(results.rglob("run.json")) == []


def test_an_error_of_the_runs_own_is_its_outcome_and_is_cleared_when_told(results, monkeypatch, capsys):
    problem = make_problem(results)
    answer = make_reference(results, problem)

    def broken(*arguments: object, **more: object) -> None:
        raise ZeroDivisionError("division by zero")

    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", broken)
        run = make_run(results, problem)
    assert (read(run)["status"], read(run)["reason"]) == ("failed", "ZeroDivisionError: division by zero")
    assert read(run)["log"] == str(run.with_name("log.txt"))
    assert "Traceback" in capsys.readouterr().err
    make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json"))["failure"] is None
    clear(results)
    assert not run.exists()
    assert problem.exists() and answer.exists()


def test_a_run_that_another_process_has_just_finished_is_not_made_twice(results, monkeypatch):
    problem = make_problem(results)
    run = make_run(results, problem)
    first = run.read_text()
    make_run(results, problem)
    assert run.read_text() == first
    make_run(results, problem, step_size=0.004)
    assert read(run)["settings"]["step_size"] == 0.004


def test_only_what_has_changed_is_evaluated_again(results):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)
    make_evaluation(results, problem, run, answer)
    metrics = run.with_name("metrics.json")
    first = metrics.stat().st_mtime_ns
    make_evaluation(results, problem, run, answer)
    assert metrics.stat().st_mtime_ns == first
    run.unlink()
    make_run(results, problem)
    make_evaluation(results, problem, run, answer)
    second = metrics.stat().st_mtime_ns
    assert second > first
    leave(answer, "RuntimeError: no")
    make_evaluation(results, problem, run, answer)
    assert metrics.stat().st_mtime_ns > second
    assert read(metrics)["reference_kind"] == "failed"


def test_a_failed_evaluation_keeps_the_draws_and_is_made_again(results):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)
    draws = run.with_name("draws.npz")
    arrays = read_npz(draws)
    arrays["draws"][0, 0, 0] = np.nan
    np.savez(draws, **arrays)
    done = make_evaluation(results, problem, run, answer)
    assert "not finite" in read(run.with_name("metrics.json"))["failure"]
    clear(results)
    assert run.exists() and draws.exists()
    assert not done.exists()
    assert not run.with_name("metrics.json").exists()


def test_the_problem_of_a_step_is_that_of_the_library(results):
    problem = Problem.load(make_problem(results))
    assert (problem.task, problem.seed, problem.num_points) == ("linear", 0, 100)


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
