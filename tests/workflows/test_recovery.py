"""What a call finds of an earlier one: the good stays; the failed and the damaged is taken away and made again."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from implementations.finished import finished, read_record
from implementations.infrastructure.files import Damaged, read_npz, sha256_of, write_json, write_npz
from records.checksums import list_of, listed
from records.failures import write_failure
from records.layout import REPORT
from tests.workflows.made_up import MadeUp
from tests.workflows.snakemake import Workdir
from workflows.recovery import Job, clear_conclusions, clear_failures

RECORD = {"status": "ok", "method": "mala", "seed": 0, "settings": {"chains": 2}}


@pytest.fixture
def job(tmp_path) -> Job:
    """A run with its evaluation, and the files these are made from."""
    results = tmp_path / "results" / "small"
    job = Job(results / "runs/linear/mala/jax-cpu/seed0", results / "problem.npz", results / "reference.npz")
    for path in (job.problem, job.reference, job.folder / "draws.npz", job.folder / "curves.npz"):
        write_npz(path, {"numbers": np.arange(50.0)})
    write_json(job.folder / "run.json", RECORD)
    write_json(job.folder / "metrics.json", {"failure": None})
    write_json(results / "tracked.json", {"failure": None})
    write_json(results / "data/mnist/fetched.json", {"failure": None})
    return job


def results_of(job: Job) -> Path:
    return job.problem.parent


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(300)),
    "of another kind": lambda path: path.write_text("[7]"),
    "removed": lambda path: path.unlink(),
}
RUN, METRICS, DRAWS, CURVES = (
    f"runs/linear/mala/jax-cpu/seed0/{name}" for name in ("run.json", "metrics.json", "draws.npz", "curves.npz")
)
#: What goes with a file that is damaged: what was made from it, but no finished run.
FOLLOWS = {
    "problem.npz": {METRICS},
    "reference.npz": {METRICS},
    RUN: {METRICS},
    DRAWS: {RUN, METRICS},
    METRICS: set(),
    CURVES: {METRICS},
    "tracked.json": set(),
    "data/mnist/fetched.json": set(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FOLLOWS)
def test_a_damaged_file_is_named_and_goes_with_its_evaluation_and_nothing_else(job, name, damage):
    results = results_of(job)
    before = files(results)
    DAMAGES[damage](results / name)
    lines = clear_failures(results, [job])
    # Of an archive that is needed, its damage counts; a draws.npz is left for its run to replace.
    gone = {name for name in before if not (results / name).exists()}
    assert gone - {DRAWS, CURVES} == ({name} | FOLLOWS[name]) - {DRAWS, CURVES}
    assert len(lines) == (damage != "removed" or name in (DRAWS, CURVES))
    assert all(str(results / name) in line for line in lines)
    kept = files(results)
    assert all(kept[other] == content for other, content in before.items() if other in kept and other != name)
    assert clear_failures(results, [job]) == []


@pytest.mark.parametrize("name", ["problem.npz", "reference.npz", DRAWS, CURVES])
def test_one_flipped_bit_of_an_archive_is_noticed(job, name):
    flip(results_of(job) / name)
    (line,) = clear_failures(results_of(job), [job])
    assert str(results_of(job) / name) in line


def test_a_study_without_faults_is_left_alone(job):
    before = files(results_of(job))
    assert clear_failures(results_of(job), [job]) == []
    assert files(results_of(job)) == before


def test_an_evaluation_without_a_reference_needs_none_and_one_with_it_is_another(job):
    alone = job._replace(reference=None)
    sources = {"problem": sha256_of(job.problem), "run": sha256_of(job.folder / "run.json")}
    curves = sha256_of(job.folder / "curves.npz")
    write_json(job.folder / "metrics.json", {"failure": None, "made_from": sources, "curves_sha256": curves})
    before = files(results_of(job))
    assert clear_failures(results_of(job), [alone]) == []
    assert files(results_of(job)) == before
    # The study has come to ask for one.
    assert clear_failures(results_of(job), [job]) == []
    assert files(results_of(job)).keys() == before.keys() - {METRICS}


def test_failures_are_cleared_without_a_word(job):
    write_failure(job.reference, "RuntimeError: no")
    write_json(job.folder / "run.json", RECORD | {"status": "failed"})
    assert clear_failures(results_of(job), [job]) == []
    assert not job.reference.exists() and not (job.folder / "run.json").exists()
    assert json.loads((job.folder / "failed.json").read_text())["status"] == "failed"


def rewrite(path: Path) -> None:
    """A whole archive of the same arrays with other numbers."""
    write_npz(path, {name: np.full_like(array, 7.0) for name, array in read_npz(path).items()})


def test_draws_that_are_whole_but_others_are_named_and_their_run_is_made_again(job):
    write_json(job.folder / "run.json", RECORD | {"draws_sha256": sha256_of(job.folder / "draws.npz")})
    assert clear_failures(results_of(job), [job]) == []
    assert finished(job.folder, {}) is not None
    rewrite(job.folder / "draws.npz")
    assert finished(job.folder, {}) is None
    (line,) = clear_failures(results_of(job), [job])
    assert line == f"{job.folder / 'draws.npz'} is damaged: its SHA-256 is not the one in run.json"
    assert not (job.folder / "run.json").exists()


def test_draws_of_earlier_versions_have_no_checksum_and_are_taken_as_they_are(job):
    rewrite(job.folder / "draws.npz")
    assert clear_failures(results_of(job), [job]) == []
    assert finished(job.folder, {}) is not None


@pytest.mark.parametrize(("change", "is_kept"), [({}, True), ({"seed": 1}, False), ({"status": "skipped"}, False)])
def test_a_finished_run_has_its_draws_and_what_was_asked_for(job, change, is_kept):
    wanted = {"method": "mala", "seed": 0, "settings": {"chains": 2}}
    write_json(job.folder / "run.json", RECORD | change)
    assert (finished(job.folder, wanted) is not None) == is_kept
    flip(job.folder / "draws.npz")
    assert finished(job.folder, wanted) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"status": 7}', "[" * 100_000, "\x00"])
def test_a_record_that_is_none_is_damaged(job, text):
    (job.folder / "run.json").write_text(text)
    with pytest.raises(Damaged, match=r"run\.json is damaged"):
        read_record(job.folder)
    assert finished(job.folder, {}) is None


# Summary and report


def whole(folder: Path) -> MadeUp:
    study = MadeUp(folder)
    write_json(study.results / "figures.json", {"figures": [{"name": "a", "failure": None}]})
    write_json(study.results / "claims.json", {"claims": [{"id": 1, "failure": None}]})
    page = study.results / "report.html"
    with listed(list_of(page), lambda: [study.results / name for name in REPORT]):
        page.write_text("<html></html>\n")
    return study


def test_a_whole_summary_and_report_are_left_alone(tmp_path):
    study = whole(tmp_path)
    assert clear_conclusions(study.results, list(study.runs)) == []
    assert (study.results / "summary.csv").exists() and (study.results / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "change", "gone"),
    [
        ("summary.csv", lambda text: "", "summary.csv"),
        ("summary.csv", lambda text: text[: len(text) // 2], "summary.csv"),
        ("summary.csv", lambda text: text.replace("0.1", "0.2", 1), "summary.csv"),
        ("summary.sha256", lambda text: "", "summary.csv"),
        ("report.html", lambda text: "<html>", "report.html"),
        ("figures.json", lambda text: text + " ", "report.html"),
        ("claims.json", lambda text: "{", "report.html"),
        ("report.sha256", lambda text: text[:100], "report.html"),
    ],
)
def test_a_summary_or_report_that_is_damaged_is_named_and_made_again(tmp_path, name, change, gone):
    study = whole(tmp_path)
    path = study.results / name
    path.write_text(change(path.read_text()))
    (line,) = clear_conclusions(study.results, list(study.runs))
    assert f"{path} is damaged" in line
    assert not (study.results / gone).exists()


def test_a_summary_with_failures_and_a_report_with_failures_are_made_again_without_a_word(tmp_path):
    study = whole(tmp_path)
    path = study.results / "figures.json"
    with listed(list_of(study.results / "report.html"), lambda: [study.results / name for name in REPORT]):
        write_json(path, {"figures": [{"name": "a", "failure": "RuntimeError: no"}]})
    study.make(next(iter(study.runs)), status="failed", reason="no")
    study.summarise()
    assert clear_conclusions(study.results, list(study.runs)) == []
    assert not (study.results / "summary.csv").exists() and not (study.results / "report.html").exists()


@pytest.mark.parametrize("name", ["summary", "report"])
def test_conclusions_of_earlier_versions_have_no_checksums_and_are_made_again(tmp_path, name):
    study = whole(tmp_path)
    (study.results / f"{name}.sha256").unlink()
    assert clear_conclusions(study.results, list(study.runs)) == []
    assert (study.results / "summary.csv").exists() == (name != "summary")
    assert (study.results / "report.html").exists() == (name != "report")


def test_a_study_counts_as_tracked_as_long_as_its_database_is_there_and_whole(job, monkeypatch):
    results = results_of(job)
    monkeypatch.chdir(results)
    tracked = results / "tracked.json"
    for damage in (None, "emptied", "cut short", "random", "removed"):
        with closing(sqlite3.connect("mlflow.db")) as database:
            database.execute("CREATE TABLE IF NOT EXISTS runs (id)")
        write_json(tracked, {"store": "sqlite:///mlflow.db", "failure": None})
        if damage:
            DAMAGES[damage](Path("mlflow.db"))
        assert clear_failures(results, [job]) == []
        assert tracked.exists() == (damage is None)
        Path("mlflow.db").unlink(missing_ok=True)


def test_a_summary_of_other_runs_is_made_again(tmp_path):
    study = whole(tmp_path)
    clear_conclusions(study.results, list(study.runs)[:-1])
    assert not (study.results / "summary.csv").exists()


# Through Snakemake

ONE = {
    "study": "one",
    "description": "a single run",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "chains": 2,
    "defaults": {"num_steps": 100, "num_warmup": 20, "thin": 2},
    "tasks": [{"task": "linear", "methods": {"full_mh": {"preconditioner": "none", "step_size": 0.005}}}],
}


@pytest.mark.slow
def test_no_broken_study_returns_zero_and_its_draws_stay(tmp_path):
    work = Workdir(tmp_path / "work", ONE)
    code, output = work.run()
    assert code == 0, output
    (run,) = work.results.glob("runs/*/*/*/*/run.json")
    draws, summary = run.with_name("draws.npz").read_bytes(), (work.results / "summary.csv").read_text()
    times = run.read_text()

    # A damaged problem is made again; what rests on it is the same and is not sampled once more.
    problem = work.results / "problems/linear/seed0/problem.npz"
    problem.write_bytes(problem.read_bytes()[:500])
    run.with_name("metrics.json").write_text("{")
    (work.results / "summary.csv").write_text("")
    code, output = work.run()
    assert code == 0, output
    assert f"{problem.relative_to(work.folder)} is damaged" in output
    assert "one: 1 of 1 runs ok" in output
    assert run.read_text() == times and run.with_name("draws.npz").read_bytes() == draws
    assert (work.results / "summary.csv").read_text() == summary

    # Killed before it could tell of a failed run and a failed figure, the next call makes both again.
    record = json.loads(times)
    del record["sha256"]
    write_json(run, record | {"status": "failed", "reason": "RuntimeError: no"})
    figures = json.loads((work.results / "figures.json").read_text())
    figures["figures"][0]["failure"] = "RuntimeError: no"
    write_json(work.results / "figures.json", figures)
    for path in (run, work.results / "figures.json"):
        os.utime(path, (0, 0))
    code, output = work.run()
    assert code == 0, output
    assert "one: 1 of 1 runs ok" in output
    assert run.with_name("draws.npz").read_bytes() == draws
    code, output = work.run()
    assert (code, "Nothing to be done" in output) == (0, True)


@pytest.mark.slow
def test_a_part_of_a_study_can_be_asked_for_by_itself(tmp_path):
    work = Workdir(tmp_path / "work", ONE)
    code, output = work.run("--until", "network")
    assert code == 0, output
    assert (work.results / "problems/linear/seed0/problem.npz").exists()
    assert not (work.results / "runs").exists()
