"""The steps, called as their rules call them."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.files import read_npz, sealed, write_json, write_npz
from implementations.methods import resolve
from implementations.settings import Size
from implementations.tasks import TASKS
from implementations.tasks.data.download import DataError
from implementations.tasks.problem import Problem
from records.failures import read_failure, write_failure
from workflows.locks import CALL, hold, take
from workflows.recovery import Job, clear_failures
from workflows.steps import data, evaluate, network, reference, sample

#: Packages that take long to import, and those of them that steps begin with; they import others when they need them.
HEAVY = ("jax", "torch", "scipy.stats", "pandas", "matplotlib", "sklearn", "mlflow", "snakemake")
STEPS = {
    "data network reference sample timing": [],
    "evaluate tune": ["scipy.stats"],
    "summary track": ["scipy.stats", "pandas"],
}

LINEAR = json.dumps({"task": "linear", "stochastic": "last", "prior": "gaussian", "prior_scale": 1.0})
PATH = "linear/{}/torch-cpu/seed0"
GIVEN = {"num_steps": 100, "num_warmup": 0, "thin": 2, "chains": 2, "preconditioner": "none", "step_size": 0.005}


def make_problem(results: Path, *more: str) -> Path:
    out, where = results / "problems" / "linear" / "seed0" / "problem.npz", ["--results", str(results)]
    assert network.main(["--variant", LINEAR, "--seed", "0", "--data", "data", "--out", str(out), *where, *more]) == 0
    return out


def make_reference(results: Path, problem: Path) -> Path:
    out = results / "references" / "linear" / "weight100" / "seed0" / "reference.npz"
    where = ["--results", str(results), "--out", str(out)]
    assert reference.main(["--problem", str(problem), "--weight", "100", "--seed", "0", *where]) == 0
    return out


def make_run(results: Path, problem: Path, **given: object) -> Path:
    assert sample.main(part_of(results, planned("full_mh", **given))) == 0
    return results / "runs" / PATH.format("full_mh") / "run.json"


def planned(method: str, path: str = "", **given: object) -> dict:
    settings = resolve(method, GIVEN | given, Size("linear", num_points=100, num_parameters=2))
    return {
        "path": PATH.format(path or method),
        "method": method,
        "settings": settings.as_dict(),
        "seed": 0,
    }


def part_of(results: Path, *runs: dict) -> list[str]:
    """The arguments of a part."""
    where = ["--results", str(results), "--variant", "linear", "--backend", "torch-cpu"]
    return [*where, "--runs", json.dumps(runs), "--out", str(results / "parts" / "sampled.json")]


def make_evaluation(results: Path, problem: Path, run: Path, answer: Path) -> None:
    runs = [[str(run.parent.relative_to(results / "runs")), 0, 100.0]]
    where = ["--results", str(results), "--variant", "linear", "--out", str(results / "parts" / "evaluated.json")]
    assert evaluate.main([*where, "--runs", json.dumps(runs)]) == 0


def clear(results: Path, problem: Path, run: Path, answer: Path) -> list[str]:
    return clear_failures(results, [Job(run.parent, problem, answer)])


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def unsealed(content: dict) -> dict:
    return {name: value for name, value in content.items() if name != "sha256"}


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
    assert read_failure(answer) == reason
    assert read_npz(run.with_name("draws.npz"))["draws"].size == 0

    clear(results, problem, run, answer)
    assert [path for path in (fetched, problem, run, answer) if path.exists()] == []
    assert read(run.with_name("failed.json"))["reason"] == reason


def test_a_full_disk_is_no_outcome_of_a_run(results, monkeypatch):
    make_problem(results)

    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sample, "run", full)
    assert sample.main(part_of(results, planned("full_mh"))) == 1
    assert list(results.rglob("run.json")) == list(results.rglob("sampled.json")) == []
    assert (results / "runs" / PATH.format("full_mh") / "log.txt").read_text().endswith("No space left on device\n")


def test_an_interruption_is_no_outcome_of_a_run(results, monkeypatch):
    problem = make_problem(results)

    def interrupted(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sample, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_run(results, problem)
    assert list(results.rglob("run.json")) == []


def test_what_becomes_of_a_run_is_nothing_to_the_others_of_its_part(results, monkeypatch, capfd):
    """One is skipped for want of a method, one fails, one meets a full disk, one diverges; two are as if alone."""
    make_problem(results)
    own_run = sample.run

    def some_fail(job: object, out: Path, **more: object) -> object:
        os.write(2, f"C writes into the log of {out.parts[-3]}\n".encode())
        if out.parts[-3] == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if out.parts[-3] == "broken":
            raise ZeroDivisionError("division by zero")
        return own_run(job, out, **more)

    pbnn = {"batch_size": 2, "num_batches": 5}
    runs = [
        planned("full_mh", "first"),
        planned("full_mh", "broken"),
        planned("blackjax_nuts", "elsewhere"),
        planned("full_mh", "full"),
        planned("sgld", "wild", batch_size=2, step_size=1.0),
        planned("pbnn", "last", **pbnn),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", some_fail)
        assert sample.main(part_of(results, *runs)) == 1
    folders = {run["path"].split("/")[1]: results / "runs" / run["path"] for run in runs}
    assert {name: read(folder / "run.json")["status"] for name, folder in folders.items() if name != "full"} == {
        "first": "ok",
        "broken": "failed",
        "elsewhere": "skipped",
        "wild": "diverged",
        "last": "ok",
    }
    assert not (folders["full"] / "run.json").exists() and not (results / "parts" / "sampled.json").exists()
    logs = {name: (folder / "log.txt").read_text() for name, folder in folders.items()}
    assert all(f"C writes into the log of {name}\n" in log for name, log in logs.items())
    assert logs["broken"].endswith("ZeroDivisionError: division by zero\n")
    assert "Traceback" not in logs["last"] + logs["first"] + capfd.readouterr().err

    # The next call makes the rest, last of all what was begun before, and the mark.
    times = {name: (folder / "run.json").stat().st_mtime_ns for name, folder in folders.items() if name != "full"}
    made = []
    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", lambda job, out, **more: made.append(out.parts[-3]) or own_run(job, out, **more))
        assert sample.main(part_of(results, planned("full_mh", "new"), *runs)) == 0
    assert made == ["new", "broken", "elsewhere", "full"]
    for name in ("first", "wild", "last"):
        assert (folders[name] / "run.json").stat().st_mtime_ns == times[name]
    # As if each had a process to itself.
    alone = results.with_name("alone")
    make_problem(alone)
    for run in (runs[0], runs[5]):
        assert sample.main(part_of(alone, run)) == 0
        ours, theirs = (place / "runs" / run["path"] / "draws.npz" for place in (results, alone))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_run_that_ended_its_process_comes_last_and_what_a_later_call_wants_is_left_to_it(results, monkeypatch):
    make_problem(results)
    runs = [planned("full_mh", "deadly"), planned("full_mh", "other")]
    made = []

    def deadly(job: object, out: Path, **more: object) -> None:
        made.append(out.parts[-3])
        raise KeyboardInterrupt if out.parts[-3] == "deadly" else OSError("enough seen")

    monkeypatch.setattr(sample, "run", deadly)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            sample.main(part_of(results, *runs))
    assert made == ["deadly", "other", "deadly"]
    hold(results, is_patient=False)
    take(results)
    monkeypatch.setenv(CALL, "an earlier one")
    assert sample.main(part_of(results, *runs)) == 1
    assert made == ["deadly", "other", "deadly"]


def test_an_error_of_the_runs_own_is_its_outcome_and_is_cleared_when_reported(results, monkeypatch):
    problem = make_problem(results)
    answer = make_reference(results, problem)

    def broken(*arguments: object, **more: object) -> None:
        raise ZeroDivisionError("division by zero")

    with monkeypatch.context() as patch:
        patch.setattr(sample, "run", broken)
        run = make_run(results, problem)
    assert (read(run)["status"], read(run)["reason"]) == ("failed", "ZeroDivisionError: division by zero")
    assert read(run)["log"] == str(run.with_name("log.txt"))
    assert "Traceback" in run.with_name("log.txt").read_text()
    make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json"))["failure"] is None
    clear(results, problem, run, answer)
    assert not run.exists()
    assert problem.exists() and answer.exists()
    assert not run.with_name("metrics.json").exists()


def test_a_run_that_another_process_has_just_finished_is_not_made_twice(results, monkeypatch):
    problem = make_problem(results)
    run = make_run(results, problem)
    first = run.read_text()
    make_run(results, problem)
    assert run.read_text() == first
    make_run(results, problem, step_size=0.004)
    assert read(run)["settings"]["step_size"] == 0.004


def test_a_finished_run_is_not_replaced_by_a_failure_of_its_problem(results):
    problem = make_problem(results)
    run = make_run(results, problem)
    first = run.read_text(), run.with_name("draws.npz").read_bytes()
    write_failure(problem, "RuntimeError: no")
    make_run(results, problem)
    assert (run.read_text(), run.with_name("draws.npz").read_bytes()) == first
    make_run(results, problem, step_size=0.004)
    assert (read(run)["status"], read(run)["reason"]) == ("failed", "no problem: RuntimeError: no")


def test_a_run_with_damaged_draws_is_made_again(results):
    problem = make_problem(results)
    run = make_run(results, problem)
    draws = run.with_name("draws.npz")
    whole = draws.read_bytes()
    draws.write_bytes(whole[:-1])
    make_run(results, problem)
    assert {name: array.tolist() for name, array in read_npz(draws).items()} == arrays_of(whole)


def arrays_of(content: bytes) -> dict[str, list]:
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name].tolist() for name in archive.files}


def test_a_run_that_did_not_end_well_has_an_evaluation_without_numbers(results):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)
    write_json(run, sealed({**unsealed(read(run)), "status": "diverged"}))
    make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json")).keys() == {"made_from", "curves_sha256", "failure", "sha256"}
    assert read_npz(run.with_name("curves.npz")) == {}


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
    write_failure(answer, "RuntimeError: no")
    make_evaluation(results, problem, run, answer)
    assert metrics.stat().st_mtime_ns > second
    assert read(metrics)["reference_kind"] == "failed"


def test_a_failed_evaluation_keeps_the_draws_and_is_made_again(results, monkeypatch):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("division by zero")

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "evaluate", broken)
        make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json"))["failure"] == "ZeroDivisionError: division by zero"
    clear(results, problem, run, answer)
    assert run.exists() and run.with_name("draws.npz").exists()
    assert not run.with_name("metrics.json").exists()


def test_draws_that_became_others_are_named_not_evaluated_and_made_again(results):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)
    draws = run.with_name("draws.npz")
    whole = draws.read_bytes()
    write_npz(draws, {name: np.full_like(array, 7) for name, array in read_npz(draws).items()})
    make_evaluation(results, problem, run, answer)
    assert f"{draws} is damaged" in read(run.with_name("metrics.json"))["failure"]
    (line,) = clear(results, problem, run, answer)
    assert f"{draws} is damaged" in line
    make_run(results, problem)
    assert draws.read_bytes() == whole
    make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json"))["failure"] is None
    assert clear(results, problem, run, answer) == []


@pytest.mark.parametrize("damage", ["", "[]", "{"])
def test_a_damaged_record_is_named_by_its_evaluation_and_made_again(results, damage):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)
    whole = run.with_name("draws.npz").read_bytes()
    run.write_text(damage)
    make_evaluation(results, problem, run, answer)
    assert f"{run} is damaged" in read(run.with_name("metrics.json"))["failure"]
    (line,) = clear(results, problem, run, answer)
    assert f"{run} is damaged" in line
    make_run(results, problem)
    make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json"))["failure"] is None
    assert run.with_name("draws.npz").read_bytes() == whole


@pytest.mark.parametrize("name", ["problem", "reference"])
def test_a_damaged_problem_or_reference_is_named_by_what_is_made_from_it(results, name):
    problem = make_problem(results)
    answer, run = make_reference(results, problem), make_run(results, problem)
    path = {"problem": problem, "reference": answer}[name]
    path.write_bytes(b"")
    make_evaluation(results, problem, run, answer)
    assert read(run.with_name("metrics.json"))["failure"].startswith(f"{path} is damaged: ")


def test_what_a_download_left_behind_is_named_where_it_is_damaged(results):
    fetched = results / "fetched.json"
    results.mkdir(parents=True)
    fetched.write_text("[]")
    assert f"{fetched} is damaged" in str(read_failure(make_problem(results, "--fetched", str(fetched))))


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


def test_a_step_begins_with_no_package_that_it_may_not_need():
    """One process, one step after the other: what an earlier one has imported may be there for a later one."""
    code = ["import sys, importlib"]
    for steps in STEPS:
        code += [f"importlib.import_module('workflows.steps.{step}')" for step in steps.split()]
        code += [f"print(*[name for name in {HEAVY} if name in sys.modules], sep=',')"]
    found = subprocess.check_output([sys.executable, "-c", "\n".join(code)], cwd=Path(__file__).parents[2], text=True)
    assert found.splitlines() == [",".join(packages) for packages in STEPS.values()]
