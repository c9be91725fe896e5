"""The stage that tunes a step for all seeds of a setting, called as its rule calls it, and by Snakemake."""

from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.artefact import Record, read_record, write_arrays, write_record
from implementations.run_files import read_run
from implementations.tasks import prepare
from records.layout import reference_path
from records.reference import reference
from records.usage import read_usage
from tests.workflows.small_study import Small, planned
from tests.workflows.snakemake import Workdir
from workflows.preflight import inspect
from workflows.runs import Run
from workflows.steps import tune
from workflows.steps.tune import known
from workflows.study import PILOT_SEED

SETTINGS = {"batch_size": 10, "step_size": "ladder", "weight": 100, "num_steps": 400, "preconditioner": "full"}


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    monkeypatch.setattr(tune, "JUDGED_BUDGET", 200_000)


@pytest.fixture(autouse=True)
def a_layer_as_a_network(monkeypatch):
    """A study tunes whole networks apart; here the linear task stands for one."""
    monkeypatch.setattr(Run, "is_tuned_apart", property(lambda run: run.settings.step_size == "ladder"))


@pytest.fixture
def results(tmp_path) -> Path:
    return tmp_path / "results" / "small"


def tuned(results: Path, method: str = "sgld", **given: object) -> tuple[Small, Path]:
    """A study of one run with its problem and that of the pilots, its tuning made; where that is."""
    study = Small(results, planned(method, **given))
    study.problems()
    (run,) = study.runs
    for seed in (run.seed, PILOT_SEED):
        assert study.step("network", "linear", seed) == 0
        assert study.step("reference", "linear", run.target_weight, seed) == 0
    assert study.step("tune", run.path, PILOT_SEED) == 0
    path = run.tuning_path(results)
    assert path is not None
    return study, path


def sampled(study: Small) -> Record:
    assert study.step("sample", study.batch) == 0
    record = read_run(study.runs[0].folder(study.results))
    assert record is not None
    return record


def test_a_run_takes_the_step_that_was_tuned_apart_and_another_step_is_another_run(results, monkeypatch):
    study, path = tuned(results, **SETTINGS)
    found = read_record(path, "tuning", study.runs[0].tuning_identity)
    # No pilot of its own.
    monkeypatch.setattr("implementations.sampling.climb", None)
    made = sampled(study)
    assert made["status"] == "ok" and made["tuning"] == found["record"]
    assert (made["tuning"]["pilot_seed"], made["tuning"]["has_reference"]) == (PILOT_SEED, True)
    assert made["tuned"] == made["tuning"]["chosen"] and made["settings"]["step_size"] == "ladder"
    assert 0 < made["tuning_evaluations"] <= made["tuning"]["budget"] == 200_000
    assert made["tuning_cpu_s"] == found["cpu_seconds"] > 0
    assert sampled(study)["sha256"] == made["sha256"]
    found["record"]["chosen"] = {"step_size": 2 * made["tuned"]["step_size"]}
    write_record(path, "tuning", found)
    assert sampled(study)["tuned"] == found["record"]["chosen"]


def test_pilots_are_a_phase_of_their_own_in_the_line_of_the_process_that_ran_them(results, monkeypatch):
    monkeypatch.setattr("implementations.tuning.ladder.LEAST_BUDGET", 100_000)
    monkeypatch.setattr(tune, "JUDGED_BUDGET", 100_000)
    study, path = tuned(results, **SETTINGS)
    sampled(study)
    monkeypatch.setattr(Run, "is_tuned_apart", False)
    study.plan(planned("sgld", "alone", **SETTINGS))
    made = sampled(study)
    of_tune, of_apart, of_alone = (usage for usage in read_usage(results) if usage["step"] in ("tune", "sample"))
    # What is left of that line is the tuning itself, which the run that takes its step does not count again.
    assert of_tune["phases"].keys() == {"imports", "compilation"}
    assert read_record(path, "tuning")["cpu_seconds"] > 0
    assert "tuning" not in of_apart["phases"]
    assert of_alone["phases"]["tuning"] == made["tuning_cpu_s"] > 0


def test_another_study_finds_the_tuning_and_other_settings_have_their_own(results, tmp_path, monkeypatch):
    _, first = tuned(results, **SETTINGS)
    monkeypatch.setattr(tune, "climb", None)
    _, again = tuned(tmp_path / "results" / "other", **SETTINGS)
    assert again.read_bytes() == first.read_bytes()
    study, other = tuned(results, **SETTINGS | {"batch_size": 20})
    assert "'NoneType' object is not callable" in read_record(other, "tuning")["failure"]
    # The run says why it was not made, and both are tried again.
    made = sampled(study)
    assert made["status"] == "failed" and made["reason"].startswith("not tuned: TypeError")
    assert inspect(results, study.study) == []
    assert not other.exists() and read_run(study.runs[0].folder(results)) is None


def test_a_tuning_in_the_place_of_another_is_named(results):
    study, path = tuned(results, **SETTINGS)
    other = read_record(path, "tuning") | {"label": "sgld+batch_size=20"}
    write_record(path, "tuning", other)
    (line,) = inspect(results, study.study)
    assert f"{path} is damaged: it belongs elsewhere: label is 'sgld+batch_size=20', not 'sgld'" in line


def test_a_method_that_is_not_applicable_is_a_skipped_run_with_that_reason(results):
    study, path = tuned(results, "tunamh", step_size="ladder")
    found, made = read_record(path, "tuning"), sampled(study)
    assert found["record"] is None and found["failure"] is None
    assert (made["status"], made["reason"]) == ("skipped", found["skipped"])
    assert "tunamh is not applicable to 'linear'" in made["reason"]


def test_without_a_reference_the_bound_is_that_of_the_temperature(results):
    study = Small(results, planned("sgld", **SETTINGS))
    assert study.step("network", "linear", PILOT_SEED) == 0
    identity = {"variant": "linear", "weight": 100.0, "seed": PILOT_SEED}
    path = reference_path(results, "linear", 100.0, PILOT_SEED)
    write_arrays(path, "reference", {}, identity, failure="ZeroDivisionError: division by zero")
    assert study.step("tune", study.runs[0].path, PILOT_SEED) == 0
    found = read_record(study.runs[0].tuning_path(results), "tuning")["record"]
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
