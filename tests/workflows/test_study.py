"""A study through real Snakemake: everything a person meets, from the first call to the last line."""

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from records.columns import COLUMNS
from records.summary import report_failures
from records.usage import WORK, budget, read_usage
from tests.browser import opened_browser, why_absent
from tests.reports.page_checks import assert_page_works
from tests.workflows.snakemake import Workdir
from workflows.locks import hold

#: Small enough to run in a moment; torch, because its short chains need no compilation.
TINY = {
    "study": "tiny",
    "description": "one run of every outcome",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "chains": 2,
    "defaults": {"num_steps": 100, "num_warmup": 20, "thin": 2},
    "tasks": [
        {
            "task": "linear",
            "defaults": {"preconditioner": "none", "step_size": 0.0002},
            "methods": {
                "full_mh": {"step_size": 0.005},
                "pbnn": {"batch_size": 2, "num_batches": 5, "weight": "data", "backends": ["torch-cpu", "jax-gpu"]},
                # So large a step that the drift overshoots further every time.
                "sgld": {"batch_size": 2, "step_size": 1.0},
            },
        }
    ],
}
#: No machine has the memory.
IMPOSSIBLE = {"naive": {"batch_size": 2, "chains": 10**12}}
FULL_MH, PBNN = "linear/full_mh+step_size=0.005/torch-cpu/seed0", "linear/pbnn+batch_size=2+num_batches=5+weight=data"
NAIVE, SGLD = "linear/naive+batch_size=2+chains=1000000000000/torch-cpu/seed0", "linear/sgld+batch_size=2+step_size=1"

pytestmark = pytest.mark.slow


def add_impossible(study: dict) -> None:
    study["tasks"][0]["methods"] |= IMPOSSIBLE


def drop_impossible(study: dict) -> None:
    del study["tasks"][0]["methods"]["naive"]


def halve_step(study: dict) -> None:
    study["tasks"][0]["methods"]["full_mh"]["step_size"] = 0.0025


def add_seed(study: dict) -> None:
    study["seeds"] = [0, 1]


def lengthen(study: dict) -> None:
    study["defaults"]["num_steps"] = 200


def test_a_study_is_reported_to_its_end_whatever_its_runs_come_to_and_only_what_changed_runs_again(tmp_path):
    work = Workdir(tmp_path / "work", TINY)
    work.edit(add_impossible)

    code, output = work.run()
    assert code == 1
    rows = {row["run"]: row for row in work.rows()}
    assert {run: row["status"] for run, row in rows.items()} == {
        FULL_MH: "ok",
        f"{PBNN}/torch-cpu/seed0": "ok",
        f"{PBNN}/jax-gpu/seed0": "skipped",
        f"{SGLD}/torch-cpu/seed0": "diverged",
        NAIVE: "failed",
    }
    assert rows[f"{PBNN}/jax-gpu/seed0"]["reason"] == "no CUDA device"
    assert "became non-finite" in rows[f"{SGLD}/torch-cpu/seed0"]["reason"]
    assert "can't allocate memory" in rows[NAIVE]["reason"]
    assert float(rows[FULL_MH]["sd_ratio"]) > 0
    assert rows[NAIVE]["sd_ratio"] == rows[f"{SGLD}/torch-cpu/seed0"]["sd_ratio"] == ""
    closing = output.partition("tiny: ")[2]
    assert closing.startswith("2 of 5 runs ok\n1 skipped: no CUDA device\n1 diverged: ")
    assert f"1 failed: {rows[NAIVE]['reason']}" in closing
    assert f"    {NAIVE}\n" in closing
    assert "summary: results/tiny/summary.csv" in closing
    assert "report: results/tiny/report.html" in closing
    assert_report_is_complete(work)

    # Where the time went, from all its processes; the page was rendered before its own time was known.
    used = budget(read_usage(work.results))
    # It has one N, and steps that are given.
    assert used.keys() == WORK.keys() - {"timing", "tuning"}

    # Parquet and CSV say the same, in the documented columns and no others.
    table = pd.read_parquet(work.results / "summary.parquet")
    with (work.results / "summary.csv").open(newline="") as file:
        assert next(csv.reader(file)) == list(table.columns) == list(COLUMNS)
    assert table["sd_ratio"].to_numpy(float, na_value=np.nan) == pytest.approx(
        [float(row["sd_ratio"] or "nan") for row in rows.values()], nan_ok=True
    )

    # The batch with the failed run, and no other, is worked through once more; without it there is nothing that failed.
    assert work.planned() == plan(sample=1, evaluate=1)
    work.edit(drop_impossible)
    code, output = work.run()
    assert code == 0, output
    assert "tiny: 2 of 4 runs ok" in output
    code, output = work.run()
    assert code == 0
    assert "Nothing to be done" in output

    before = modification_times(work)
    # The batch with the changed run; all batches.
    edits = {halve_step: 1, lengthen: 2}
    for edit, num_batches in edits.items():
        work.write(TINY)
        work.edit(edit)
        assert work.planned() == plan(sample=num_batches, evaluate=num_batches), edit
    work.write(TINY)
    work.edit(add_seed)
    assert work.planned() == plan(network=1, reference=2, sample=2, evaluate=2)
    assert modification_times(work) == before, "a dry run changed a file"

    # A study in another's hands is left alone.
    held = os.fork()
    if held == 0:
        hold(work.results, is_patient=False)
        time.sleep(60)
        os._exit(0)
    try:
        wait_for(lambda: is_held(work.results))
        code, output = work.run()
    finally:
        os.kill(held, signal.SIGKILL)
        os.waitpid(held, 0)
    assert code == 1
    assert "another Snakemake is running the study tiny" in output
    assert modification_times(work) == before


def plan(**jobs: int) -> dict[str, int]:
    """These jobs, and those that follow whenever a run changes."""
    planned = jobs | dict.fromkeys(("summary", "track", "report", "all"), 1)
    return planned | {"total": sum(planned.values())}


def assert_report_is_complete(work: Workdir) -> None:
    """The page shows what became of every run, and opens in a browser where there is one."""
    assert report_failures(work.results) == []
    text = (work.results / "report.html").read_text()
    assert "no CUDA device" in text
    assert "became non-finite" in text
    assert "allocate memory" in text
    assert {path.suffix for path in (work.results / "figures").glob("[!.]*")} == {".svg"}
    claims = json.loads((work.results / "claims.json").read_text())["claims"]
    assert {claim["verdict"] for claim in claims} == {"inconclusive", "not asked"}, "one short chain says nothing"
    if why_absent() is None:
        with opened_browser() as browser:
            assert_page_works(browser, work.results / "report.html")


def is_held(folder: Path) -> bool:
    import fcntl

    with (folder / ".lock").open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def modification_times(work: Workdir) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in work.results.rglob("*") if path.is_file()}


def wait_for(condition, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


#: A run that is over at once, and one that is caught in the middle.
INTERRUPTED = {
    "study": "interrupted",
    "description": "a short run and a longer one",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "chains": 2,
    "reference": "none",
    "defaults": {"preconditioner": "none", "num_warmup": 0, "thin": 10},
    "tasks": [
        {
            "task": "linear",
            "methods": {
                "full_mh": {"num_steps": 100, "step_size": 0.005},
                "pbnn": {"num_steps": 12000, "batch_size": 2, "step_size": 0.0002},
            },
        }
    ],
}
SHORT, LONG = (
    "linear/full_mh+step_size=0.005+num_steps=100/torch-cpu/seed0",
    "linear/pbnn+batch_size=2+step_size=0.0002+num_steps=12000/torch-cpu/seed0",
)


def test_a_study_stopped_and_killed_in_mid_sample_ends_with_the_draws_of_an_undisturbed_one(tmp_path):
    undisturbed = Workdir(tmp_path / "undisturbed", INTERRUPTED)
    code, output = undisturbed.run("--until", "sample")
    assert code == 0, output
    work = Workdir(tmp_path / "work", INTERRUPTED)

    process = start_and_wait_for_mid_sample(work)
    os.killpg(process.pid, signal.SIGINT)  # What Ctrl-C does: Snakemake and its jobs.
    code, output = work.end(process)
    assert code == 1
    assert "missing: not finished; the end of its log: KeyboardInterrupt" in output
    assert output.rstrip().endswith("the same command makes what is missing or failed once more, and nothing else")
    finished_at = (work.results / "runs" / SHORT / "run.json").stat().st_mtime_ns

    process = start_and_wait_for_mid_sample(work)
    os.killpg(process.pid, signal.SIGKILL)
    work.end(process)

    # The job outlives this one, and the next call's job has to wait for it.
    process = start_and_wait_for_mid_sample(work)
    os.kill(process.pid, signal.SIGKILL)
    work.end(process)
    assert not (work.results / "runs" / LONG / "run.json").exists()

    code, output = work.run()
    assert code == 0, output
    assert "interrupted: 2 of 2 runs ok" in output
    assert (work.results / "runs" / SHORT / "run.json").stat().st_mtime_ns == finished_at
    assert "waiting for another process" in (work.results / "runs" / LONG / "log.txt").read_text()
    # It asked for no references, and its rows say so.
    assert not (work.results / "references").exists()
    for row in work.rows():
        assert (row["reference_kind"], row["reference_usable"], row["sd_ratio"]) == ("none", "", "")
        assert float(row["rmse"]) > 0
    for run in (SHORT, LONG):
        ours, theirs = (np.load(place.results / "runs" / run / "draws.npz") for place in (work, undisturbed))
        assert ours.files == theirs.files
        for name in ours.files:
            assert np.array_equal(ours[name], theirs[name]), (run, name)
    code, output = work.run()
    assert "Nothing to be done" in output


def start_and_wait_for_mid_sample(work: Workdir) -> subprocess.Popen[bytes]:
    """Snakemake when the long run is under way and the short one is finished; both are of one batch."""
    log = work.results / "runs" / LONG / "log.txt"
    log.unlink(missing_ok=True)
    process = work.start()
    short = work.results / "runs" / SHORT / "run.json"
    wait_for(lambda: log.exists() and "steps (" in log.read_text() and short.exists())
    return process


def test_a_bad_study_stops_before_anything_runs_and_says_why(tmp_path):
    work = Workdir(tmp_path / "work", TINY, shares_compiled=False)
    work.edit(lambda study: study["tasks"][0]["methods"]["pbnn"].update(batchsize=3))
    code, output = work.run()
    assert code == 1
    assert "tasks[0].methods.pbnn.batchsize: no setting 'batchsize'; did you mean 'batch_size'?" in output
    assert "Traceback" not in output
    assert not (work.folder / "results").exists()


@pytest.mark.parametrize("change", ["seeds=3", "another=1"])
def test_a_change_that_would_be_ignored_is_refused(change, tmp_path):
    work = Workdir(tmp_path / "work", TINY, shares_compiled=False)
    code, output = work.run("--dry-run", "--config", change)
    assert (code, output.splitlines()[-1]) == (
        1,
        "--config changes nothing here; edit the study's file, or a copy of it",
    )
    assert not (work.folder / "results").exists()
