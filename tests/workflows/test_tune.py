"""The stage that tunes a step for all seeds of a setting, called as its rule calls it, and by Snakemake."""

import json
from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.files import sealed, write_json
from implementations.tasks import prepare
from records.failures import write_failure
from records.layout import tuning_path
from records.reference import reference
from records.usage import read_usage
from tests.workflows.snakemake import Workdir
from tests.workflows.test_steps import clear, make_problem, make_reference, part_of, planned, read, results  # noqa: F401
from workflows.judge import known
from workflows.steps import sample, tune
from workflows.study import PILOT_SEED

SETTINGS = {"batch_size": 10, "step_size": "ladder", "weight": 100, "num_steps": 400, "preconditioner": "full"}


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    monkeypatch.setattr(tune, "JUDGED_BUDGET", 200_000)


def make_tuning(results: Path, problem: Path, answer: Path, method: str = "sgld", **given: object) -> tuple[Path, dict]:  # noqa: F811
    """Where it is, and the run that it is for."""
    run = planned(method, **given)
    out = tuning_path(results, "linear", method, "torch-cpu")
    where = ["--results", str(results), "--problem", str(problem), "--reference", str(answer), "--out", str(out)]
    pilot = run | {"seed": PILOT_SEED}
    assert tune.main([*where, "--backend", "torch-cpu", "--run", json.dumps(pilot)]) == 0
    return out, run | {"tuned": str(out)}


def test_a_run_takes_the_step_that_was_tuned_apart_and_another_step_is_another_run(results, monkeypatch):  # noqa: F811
    problem = make_problem(results)
    path, run = make_tuning(results, problem, make_reference(results, problem), **SETTINGS)
    tuned = read(path)
    # No pilot of its own.
    monkeypatch.setattr("implementations.sampling.climb", None)
    assert sample.main(part_of(results, run)) == 0
    record = results / "runs" / run["path"] / "run.json"
    made = read(record)
    assert made["status"] == "ok" and made["tuning"] == tuned["record"]
    assert (made["tuning"]["pilot_seed"], made["tuning"]["has_reference"]) == (PILOT_SEED, True)
    assert made["tuned"] == made["tuning"]["chosen"] and made["settings"]["step_size"] == "ladder"
    assert 0 < made["tuning_evaluations"] <= made["tuning"]["budget"] == 200_000
    assert made["tuning_cpu_s"] == tuned["cpu_seconds"] > 0
    finished_at = record.stat().st_mtime_ns
    assert sample.main(part_of(results, run)) == 0
    assert record.stat().st_mtime_ns == finished_at
    del tuned["sha256"]
    tuned["record"]["chosen"] = {"step_size": 2 * made["tuned"]["step_size"]}
    write_json(path, sealed(tuned))
    assert sample.main(part_of(results, run)) == 0
    assert read(record)["tuned"] == tuned["record"]["chosen"]


def test_pilots_are_a_phase_of_their_own_in_the_line_of_the_process_that_ran_them(results, monkeypatch):  # noqa: F811
    monkeypatch.setattr("implementations.tuning.ladder.LEAST_BUDGET", 100_000)
    monkeypatch.setattr(tune, "JUDGED_BUDGET", 100_000)
    problem = make_problem(results)
    path, apart = make_tuning(results, problem, make_reference(results, problem), **SETTINGS)
    alone = planned("sgld", path="alone", **SETTINGS)
    for run in (apart, alone):
        assert sample.main(part_of(results, run)) == 0
    of_tune, of_apart, of_alone = (usage for usage in read_usage(results) if usage["step"] in ("tune", "sample"))
    # What is left of that line is the tuning itself, which the run that takes its step does not count again.
    assert of_tune["phases"].keys() == {"imports", "compilation"} and read(path)["cpu_seconds"] > 0
    assert "tuning" not in of_apart["phases"]
    made = read(results / "runs" / alone["path"] / "run.json")
    assert of_alone["phases"]["tuning"] == made["tuning_cpu_s"] > 0


def test_another_study_finds_the_tuning_and_other_settings_have_their_own(results, tmp_path, monkeypatch):  # noqa: F811
    problem = make_problem(results)
    answer = make_reference(results, problem)
    first, _ = make_tuning(results, problem, answer, **SETTINGS)
    monkeypatch.setattr(tune, "climb", None)
    again, _ = make_tuning(tmp_path / "results" / "other", problem, answer, **SETTINGS)
    assert again.read_bytes() == first.read_bytes()
    other, run = make_tuning(results, problem, answer, **SETTINGS | {"batch_size": 20})
    assert "'NoneType' object is not callable" in read(other)["failure"]
    # The run says why it was not made, and both are tried again.
    assert sample.main(part_of(results, run)) == 0
    record = results / "runs" / run["path"] / "run.json"
    assert read(record)["status"] == "failed" and read(record)["reason"].startswith("not tuned: TypeError")
    clear(results, problem, record, answer)
    assert not other.exists() and not record.exists()


def test_a_method_that_is_not_applicable_is_a_skipped_run_with_that_reason(results):  # noqa: F811
    problem = make_problem(results)
    path, run = make_tuning(results, problem, make_reference(results, problem), "tunamh", step_size="ladder")
    assert read(path)["record"] is None and read(path)["failure"] is None
    assert sample.main(part_of(results, run)) == 0
    made = read(results / "runs" / run["path"] / "run.json")
    assert (made["status"], made["reason"]) == ("skipped", read(path)["skipped"])
    assert "tunamh is not applicable to 'linear'" in made["reason"]


def test_without_a_reference_the_bound_is_that_of_the_temperature(results):  # noqa: F811
    problem = make_problem(results)
    answer = results / "reference.npz"
    write_failure(answer, "ZeroDivisionError: division by zero")
    path, _ = make_tuning(results, problem, answer, **SETTINGS)
    found = read(path)["record"]
    assert not found["has_reference"] and "temperature" in found["why"] and found["budget"] == 200_000


@pytest.fixture(scope="module")
def linear():
    problem = prepare("linear", seed=0, progress=False)
    return problem, known(problem, reference(problem, 20.0))


@pytest.mark.parametrize("width", [1.0, 1.3])
def test_the_bias_of_draws_is_that_of_their_predictions(linear, width):
    _, right = linear
    centre = right.draws.mean(axis=0)
    random = np.random.default_rng(0)
    draws = centre + width * (right.draws[random.integers(len(right.draws), size=(4, 1000))] - centre)
    found = right.bias(draws)
    assert found.sd_ratio == pytest.approx(width, abs=4 * found.sd_ratio_mc) and found.sd_ratio_mc < 0.02 * width
    assert found.is_within_bound == (width == 1.0) and found.ess > 2000
    # Too few to tell anything.
    assert right.bias(draws[:, :3]) is None


NETWORK = {
    "study": "whole",
    "description": "one method on a whole network, tuned apart",
    "seeds": [0, PILOT_SEED],
    "backends": ["torch-cpu"],
    "defaults": {"preconditioner": "diagonal", "step_size": "ladder"},
    "tasks": [
        {
            "task": "regression",
            "stochastic": "all",
            "methods": {"sgld": {"batch_size": 10, "weight": 5}, "full_mh": {"weight": 5, "step_size": 0.01}},
        }
    ],
}


def test_a_study_tunes_whole_networks_once_for_all_seeds_on_a_seed_of_its_own(tmp_path):
    work = Workdir(tmp_path / "work", NETWORK)
    planned_jobs = work.planned()
    # Problem and reference of two seeds, and of the pilots.
    assert (planned_jobs["tune"], planned_jobs["network"], planned_jobs["reference"]) == (1, 3, 3)
    code, output = work.run("--dry-run", "--verbose")
    assert code == 0 and f"problems/regression-all/seed{PILOT_SEED + 1}/problem.npz" in output
    # Without references, and of one layer, each run has a ladder of its own.
    work.edit(lambda study: study.update(reference="none"))
    assert "tune" not in work.planned()
    work.edit(lambda study: (study.pop("reference"), study["tasks"][0].update(stochastic="last")))
    assert "tune" not in work.planned()
