"""A study in MLflow: all of it, once, and again after whatever happens to it, to the study or to the store."""

import copy
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from scipy import stats

from tests.workflows.made_up import STUDY, MadeUp
from workflows import tracking
from workflows.steps.track import main, summary_rows
from workflows.tracking import entries_of, reason_of, track, without_password

FULL_MH = "linear/full_mh,step_size=0.005/jax-cpu"
PBNN = "linear/pbnn,batch_size=2,num_batches=5/jax-cpu"
SGLD = "digits/sgld,batch_size=50/jax-cpu"
#: Two tasks with three settings and one, each with three seeds and a parent.
NUM_ENTRIES = 4 * (1 + 3)


@contextmanager
def sqlite(folder: Path):
    yield f"sqlite:///{folder}/mlflow.db"


@contextmanager
def postgresql(folder: Path):
    """A PostgreSQL of the test's own, that listens on a socket file only."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("PostgreSQL is not installed (on Debian: apt install postgresql)")
    # The server refuses to run as root.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    # Not below ``folder``: pytest shuts its folders to other users whenever another pytest starts, and a path of a
    # socket may have some hundred characters.
    with tempfile.TemporaryDirectory(prefix="postgresql-") as place:
        if as_user:
            shutil.chown(place, "postgres")
        control = [*as_user, str(programs[-1].with_name("pg_ctl")), "--pgdata", f"{place}/data", "--silent", "--wait"]

        def call(*command: str) -> None:
            subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL, timeout=120)

        call(*as_user, str(programs[-1]), "--pgdata", f"{place}/data", "--auth", "trust", "--username", "tracker", "-N")
        settings = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off"
        call(*control, "start", "--options", settings, "--log", f"{place}/log")
        try:
            yield f"postgresql://tracker:secret@/postgres?host={place}"
        finally:
            call(*control, "stop", "--mode", "immediate")


@pytest.fixture
def made_up(tmp_path) -> MadeUp:
    return MadeUp(tmp_path)


def tracked(study: MadeUp, uri: str) -> dict[str, int]:
    return track(uri, study.results.name, summary_rows(study.results), study.results)


def dump(uri: str, name: str = "made_up") -> dict:
    """Every active run of an experiment by its tag ``run``; one that shows twice is a mistake."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(name)
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    by_key = {run.data.tags["run"]: run for run in runs}
    assert len(by_key) == len(runs), "a run shows twice"
    return by_key


def ids(runs: dict) -> dict[str, str]:
    return {key: run.info.run_id for key, run in runs.items()}


@pytest.mark.parametrize("store", [sqlite, postgresql])
def test_a_store_has_the_whole_study_once_whatever_happens_to_it(store, made_up, tmp_path, monkeypatch):
    # Points one by one would take minutes: a run's are one batch.
    monkeypatch.delattr(MlflowClient, "log_metric")
    made_up.make(f"{PBNN}/seed2", status="failed", reason="MemoryError: all of it", acceptance_rate=None)
    made_up.make(f"{SGLD}/seed0", status="skipped", reason="no CUDA device", acceptance_rate=None)
    made_up.summarise()
    with store(tmp_path) as uri:
        assert tracked(made_up, uri) == {"added": NUM_ENTRIES, "replaced": 0, "unchanged": 0, "stale": 0}
        first = dump(uri)
        table = pd.read_parquet(made_up.results / "summary.parquet").set_index("run")
        assert_the_runs_are_the_rows(MlflowClient(uri), first, table)
        assert_the_parents_have_means_and_intervals(first, table)

        assert tracked(made_up, uri) == {"added": 0, "replaced": 0, "unchanged": NUM_ENTRIES, "stale": 0}
        again = dump(uri)
        assert [run.to_dictionary() for run in again.values()] == [run.to_dictionary() for run in first.values()]

        # One run anew: its entry and its parent's are replaced, and its siblings have the new parent.
        made_up.make(f"{PBNN}/seed1", variant=1)
        made_up.summarise()
        assert tracked(made_up, uri) == {"added": 0, "replaced": 2, "unchanged": NUM_ENTRIES - 2, "stale": 0}
        second = dump(uri)
        assert {key for key in first if ids(first)[key] != ids(second)[key]} == {PBNN, f"{PBNN}/seed1"}
        new_ece = summary_value(made_up, f"{PBNN}/seed1", "ece")
        assert second[f"{PBNN}/seed1"].data.metrics["ece"] == new_ece != first[f"{PBNN}/seed1"].data.metrics["ece"]
        assert {second[f"{PBNN}/seed{seed}"].data.tags["mlflow.parentRunId"] for seed in range(3)} == {
            second[PBNN].info.run_id
        }

        # A method and a seed of another leave the study, and come back.
        smaller = copy.deepcopy(STUDY)
        del smaller["tasks"][0]["methods"]["full_mh"]
        smaller["tasks"][1]["seeds"] = [0, 1]
        made_up.write(smaller)
        counts = tracked(made_up, uri)
        assert counts == {"added": 0, "replaced": 1, "unchanged": NUM_ENTRIES - 1 - 5, "stale": 5}
        third = dump(uri)
        stale = {key for key, run in third.items() if run.data.tags["status"] == "stale"}
        assert stale == {FULL_MH, *(f"{FULL_MH}/seed{seed}" for seed in range(3)), f"{SGLD}/seed2"}
        assert third[FULL_MH].data.metrics == second[FULL_MH].data.metrics
        assert third[SGLD].data.tags["seeds"] == "0, 1"
        made_up.write(STUDY)
        assert tracked(made_up, uri)["stale"] == 0
        fourth = dump(uri)
        assert {key: run.data.tags["status"] for key, run in fourth.items()} == {
            key: run.data.tags["status"] for key, run in second.items()
        }
        assert fourth[SGLD].data.metrics == second[SGLD].data.metrics


def assert_the_runs_are_the_rows(client: MlflowClient, runs: dict, table: pd.DataFrame) -> None:
    for key, row in table.iterrows():
        run = runs[key]
        numbers = row[list(tracking.METRICS)].dropna() if row["status"] != "skipped" else {}
        traces = {name for name in run.data.metrics if name.startswith("trace/")}
        shown = {
            name.removeprefix("workings/"): value for name, value in run.data.metrics.items() if name not in traces
        }
        assert shown == {name: float(value) for name, value in numbers.items()}, key
        asked = row[list(tracking.PARAMETERS)].dropna()
        assert run.data.params == {name: str(value) for name, value in asked.items()}, key
        for name in ("task", "method", "backend", "seed", "status", "git_commit", "version_jax"):
            assert run.data.tags[name] == str(row[name])
        assert run.info.start_time == pd.Timestamp(row["started_at"]).value // 10**6
        assert run.info.end_time == pd.Timestamp(row["ended_at"]).value // 10**6
        parent = runs[key.rpartition("/")[0]]
        assert (run.data.tags["mlflow.parentRunId"], parent.data.tags["level"]) == (parent.info.run_id, "setting")
    by_status = {status: runs[key] for key, status in table["status"].items()}
    assert {status: run.info.status for status, run in by_status.items()} == {
        "ok": "FINISHED",
        "failed": "FAILED",
        "skipped": "KILLED",
    }
    assert by_status["failed"].data.tags["reason"] == "MemoryError: all of it"
    assert by_status["failed"].data.tags["mlflow.note.content"] == "failed: MemoryError: all of it"

    run = runs[f"{FULL_MH}/seed0"]
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["reliability.png", "run.json"]
    assert [file.path for file in client.list_artifacts(by_status["failed"].info.run_id)] == ["run.json"]
    for name in ("trace/acceptance", "trace/variance"):
        history = client.get_metric_history(run.info.run_id, name)
        assert len(history) == 50
        assert history[-1].step == 700
        assert history[-1].timestamp == run.info.end_time


def assert_the_parents_have_means_and_intervals(runs: dict, table: pd.DataFrame) -> None:
    values = table.loc[[f"{FULL_MH}/seed{seed}" for seed in range(3)], "ece"].to_numpy(float)
    metrics = runs[FULL_MH].data.metrics
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert metrics["ece"] == pytest.approx(values.mean())
    assert metrics["with_interval/ece_low"] == pytest.approx(low)
    assert metrics["with_interval/ece_high"] == pytest.approx(high)
    values = table.loc[[f"{FULL_MH}/seed{seed}" for seed in range(3)], "likelihood_evaluations"].to_numpy(float)
    assert metrics["workings/likelihood_evaluations"] == pytest.approx(values.mean())
    assert metrics["workings/with_interval/likelihood_evaluations_high"] > values.mean()
    # A comparison shows some twenty names in their order: first what people ask for.
    assert sorted(metrics).index("wall_clock_s") < 12
    # Two of three seeds ended well.
    assert runs[PBNN].data.tags["status"] == "2 ok, 1 failed"
    assert runs[PBNN].data.metrics["ece"] == pytest.approx(
        table.loc[[f"{PBNN}/seed0", f"{PBNN}/seed1"], "ece"].to_numpy(float).mean()
    )


def summary_value(study: MadeUp, run: str, column: str) -> float:
    return float(pd.read_parquet(study.results / "summary.parquet").set_index("run").loc[run, column])


def test_tracking_that_was_interrupted_is_completed_by_the_next_call(made_up, tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    # MLflow itself cannot go on from a database with half of its tables.
    monkeypatch.setattr("mlflow.store.db.utils._upgrade_db", lambda engine: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        tracked(made_up, uri)
    monkeypatch.undo()
    assert not (tmp_path / "mlflow.db").exists()

    undisturbed = MlflowClient.set_terminated
    left = 6

    def die(self, *arguments, **named):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        undisturbed(self, *arguments, **named)

    monkeypatch.setattr(MlflowClient, "set_terminated", die)
    with pytest.raises(KeyboardInterrupt):
        tracked(made_up, uri)
    assert Counter(run.info.status for run in dump(uri).values()) == {"FINISHED": 5, "RUNNING": 1}
    monkeypatch.undo()
    assert tracked(made_up, uri) == {"added": NUM_ENTRIES - 6, "replaced": 1, "unchanged": 5, "stale": 0}
    assert {run.info.status for run in dump(uri).values()} == {"FINISHED"}
    assert tracked(made_up, uri)["unchanged"] == NUM_ENTRIES

    # A kill between the new entry and the end of the old one leaves both, and both belong to the run.
    made_up.make(f"{FULL_MH}/seed0", variant=1)
    made_up.summarise()
    monkeypatch.setattr(MlflowClient, "delete_run", lambda self, run_id: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        tracked(made_up, uri)
    monkeypatch.undo()
    tracked(made_up, uri)
    assert len(dump(uri)) == NUM_ENTRIES

    # Neither the bin nor a person's own runs are in the way.
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("made_up").experiment_id
    own = client.create_run(experiment, run_name="mine").info.run_id
    client.delete_experiment(experiment)
    assert tracked(made_up, uri) == {"added": 0, "replaced": 0, "unchanged": NUM_ENTRIES, "stale": 0}
    assert client.get_run(own).data.tags.get("status") is None


def test_names_are_readable_and_no_two_are_alike(made_up):
    names = [entry.name for entry in entries_of(summary_rows(made_up.results), made_up.results)]
    assert len(set(names)) == NUM_ENTRIES
    assert {"digits · sgld n=50 · jax-cpu", "digits · sgld n=50 · jax-cpu · seed 1"} <= set(names)
    # Alike but for the number of steps, which is only then a part of a name.
    assert {"linear · pbnn n=2 M=5 · jax-cpu", "linear · pbnn n=2 M=5 num_steps=500 · jax-cpu"} <= set(names)


def test_a_trace_is_the_mean_over_chains_over_fifty_stretches(made_up):
    (entry,) = (e for e in entries_of(summary_rows(made_up.results), made_up.results) if e.key == f"{FULL_MH}/seed1")
    arrays = np.load(made_up.results / "runs" / entry.key / "draws.npz")
    for name in ("acceptance", "variance"):
        points = [point for point in tracking.traces(entry) if point[0] == f"trace/{name}"]
        assert [step for _, step, _, _ in points] == list(range(112, 701, 12))
        assert [value for *_, value in points] == pytest.approx(arrays[name].reshape(2, 50, 6).mean(axis=(0, 2)))


@pytest.mark.parametrize("name", ["run.json", "curves.npz"])
def test_a_file_that_changed_replaces_the_entry_of_its_run_although_no_number_did(name, made_up):
    rows = summary_rows(made_up.results)
    before = {entry.key: entry.fingerprint for entry in entries_of(rows, made_up.results)}
    with (made_up.results / "runs" / FULL_MH / "seed1" / name).open("ab") as file:
        file.write(b" ")
    after = {entry.key: entry.fingerprint for entry in entries_of(rows, made_up.results)}
    assert {key for key in before if before[key] != after[key]} == {f"{FULL_MH}/seed1"}


def test_a_store_out_of_reach_costs_seconds_and_is_told_in_a_line_without_its_password(made_up, monkeypatch):
    with socket.socket() as taken:
        # Bound, and nobody listens.
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for uri in (f"http://me:secret@127.0.0.1:{port}", f"postgresql://me:secret@127.0.0.1:{port}/runs"):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
            out = made_up.results / "tracked.json"
            started = time.monotonic()
            assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
            assert time.monotonic() - started < 15
            outcome = json.loads(out.read_text())
            assert "refused" in outcome["failure"].lower()
            assert "\n" not in outcome["failure"]
            assert outcome["store"] == uri.replace("secret", "***")
            assert "secret" not in out.read_text()


@pytest.mark.parametrize("uri", ["nonsense", "results/mlflow.db", "elsewhere://me:secret@there"])
def test_an_address_of_nothing_is_told_with_what_was_expected(uri, made_up, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    out = made_up.results / "tracked.json"
    assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
    shown = without_password(uri)
    assert json.loads(out.read_text())["failure"] == (
        f"'{shown}' is no address of a server (http://…) or of a database (sqlite:///…, postgresql://…)"
    )


def test_a_password_is_hidden_wherever_an_error_repeats_the_address():
    uri = "postgresql://me:s3cret@db.example/runs"
    assert without_password(uri) == "postgresql://me:***@db.example/runs"
    assert without_password("sqlite:///results/mlflow.db") == "sqlite:///results/mlflow.db"
    assert (
        reason_of(ValueError(f"no driver for {uri}\nmore"), uri) == "no driver for postgresql://me:***@db.example/runs"
    )
