"""A real Slurm: two tasks of the smoke study, as on this machine. `make test-slurm` runs it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from tests.slurm.cluster import CannotRun, Cluster, Job, reason_against

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "workflows" / "studies" / "smoke.yaml"
#: Its last task takes as long as the other two and shows nothing more of a cluster.
LEFT_OUT = "  - task: digits\n"
#: One machine: files are there at once, and the queue may be asked often.
ON_SLURM = ["--workflow-profile", str(ROOT / "profiles" / "slurm"), "--slurm-no-account", "--latency-wait", "5"]
ON_SLURM += ["--slurm-init-seconds-before-status-checks", "3"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_against() is not None, reason=str(reason_against())),
]

#: What may differ between two runs of one study: when, how fast and with how much memory.
OF_THE_MOMENT = ["started_at", "ended_at", "wall_clock_s", "cpu_s", "warmup_s", "compile_s", "peak_memory_mb"]
OF_THE_MOMENT += ["ess_per_second", "warmup_cpu_s", "tuning_cpu_s", "anchor_cpu_s"]


class Outcome(NamedTuple):
    """What came of the study at both places."""

    remote: Path
    local: Path
    output: str
    jobs: list[Job]
    cancelled: str


@pytest.fixture(scope="module")
def outcome() -> Iterator[Outcome]:
    study, results = SMOKE.read_text().partition(LEFT_OUT)[0], Path("results", "smoke")
    # A short path: munge's socket has room for some hundred characters.
    with tempfile.TemporaryDirectory(prefix="slurm", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        scratch, cluster = Path(name), Cluster(Path(name, "cluster"))
        try:
            stack.enter_context(cluster)
        except CannotRun as error:
            pytest.skip(str(error))
        remote = start(scratch / "remote", study, cluster.environment, *ON_SLURM)
        cancelled = cancel_a_job_of_runs(cluster, remote, scratch / "remote")
        output, jobs = end(remote, scratch / "remote"), cluster.jobs()
        local = start(scratch / "local", study, dict(os.environ), "--cores", "2", str(results / "summary.parquet"))
        end(local, scratch / "local")
        yield Outcome(scratch / "remote" / results, scratch / "local" / results, output, jobs, cancelled)


def start(folder: Path, study: str, environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    """Snakemake on the study of this text, with its results in ``folder``."""
    folder.mkdir()
    file = folder / "study.yaml"
    file.write_text(study)
    command = [sys.executable, "-m", "snakemake", "--directory", str(folder), "--configfile", str(file), *arguments]
    environment = environment | {"XDG_CACHE_HOME": str(folder / "cache")}
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)


def end(process: subprocess.Popen[bytes], folder: Path) -> str:
    try:
        code = process.wait(timeout=1800)
    finally:
        process.kill()
    output = (folder / "output.txt").read_text()
    assert code == 0, output
    return output


def cancel_a_job_of_runs(cluster: Cluster, snakemake: subprocess.Popen[bytes], folder: Path) -> str:
    """Cancel a job when some of the runs on a CPU are finished and others are under way."""
    while snakemake.poll() is None:
        is_under_way = any(folder.glob("results/smoke/runs/*/*/*-cpu/*/run.json"))
        running = [job.number for job in cluster.jobs() if job.state == "RUNNING" and is_batch(job, "-cpu")]
        if is_under_way and running:
            cluster.ask("scancel", running[0])
            return running[0]
        time.sleep(0.5)
    raise AssertionError(f"the study ended before a job could be cancelled:\n{(folder / 'output.txt').read_text()}")


def is_batch(job: Job, backend: str = "") -> bool:
    """Does the job make a batch of the runs on such a backend? Its comment names rule and wildcards."""
    return job.comment.startswith("rule_sample") and backend in job.comment


def table(results: Path) -> pd.DataFrame:
    return pd.read_parquet(results / "summary.parquet")


def test_summary_and_draws_are_those_of_a_local_study(outcome):
    remote, local = (table(place).drop(columns=OF_THE_MOMENT) for place in (outcome.remote, outcome.local))
    assert set(remote["task"]) == {"linear", "regression"}
    pd.testing.assert_frame_equal(remote, local)
    ok = remote.query("status == 'ok'")["run"]
    assert len(ok) > 10
    for run in ok:
        one, other = (np.load(place / "runs" / run / "draws.npz") for place in (outcome.remote, outcome.local))
        assert one.files == other.files
        assert all(np.array_equal(one[name], other[name]) for name in one.files if name != "artefact"), run


def test_a_batch_of_runs_is_one_job_and_a_cancelled_one_is_submitted_again(outcome):
    assert [job.number for job in outcome.jobs if job.state != "COMPLETED"] == [outcome.cancelled]
    assert "Trying to restart job" in outcome.output
    batches = list(outcome.remote.rglob("sampled.json"))
    # One more, for the job that was cancelled.
    assert len([job for job in outcome.jobs if is_batch(job)]) == len(batches) + 1 < len(table(outcome.remote))


def test_a_run_without_its_gpu_is_a_row_and_no_job_asks_for_one(outcome):
    skipped = table(outcome.remote).query("status == 'skipped'")
    assert list(skipped["backend"]) == ["jax-gpu", "torch-gpu"]
    assert set(skipped["reason"]) == {"no CUDA device"}
    assert not any("gpu" in job.resources for job in outcome.jobs)
