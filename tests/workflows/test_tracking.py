"""A study in MLflow: all of it, once, and again after whatever happens to it, to the study or to the store."""

import copy
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from scipy import stats
from sqlalchemy import create_engine

from implementations.infrastructure.files import Damaged
from implementations.methods import METHODS
from records.study import StudyResults
from tests.workflows.made_up import STUDY, MadeUp
from tests.workflows.snakemake import ROOT, Workdir
from tests.workflows.test_damage import WHOLE
from workflows.steps import report
from workflows.steps.track import main
from workflows.tracking.client import Hiding, check_place, hide, without_secrets
from workflows.tracking.entries import METRICS, PARAMETERS, entries_of
from workflows.tracking.write import MAX_POINTS, traces, track

FULL_MH = "linear/full_mh+step_size=0.005/jax-cpu"
PBNN = "linear/pbnn+batch_size=2+num_batches=5/jax-cpu"
SGLD = "digits/sgld+batch_size=50/jax-cpu"
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
    return track(uri, study.results.name, StudyResults.load(study.results).rows, study.results)


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

        # One run made again: its entry and its parent's are replaced, and its siblings have the new parent.
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
        numbers = row[list(METRICS)].dropna() if row["status"] != "skipped" else {}
        traces = {name for name in run.data.metrics if name.startswith("trace/")}
        shown = {
            name.removeprefix("workings/"): value for name, value in run.data.metrics.items() if name not in traces
        }
        assert shown == {name: float(value) for name, value in numbers.items()}, key
        asked = row[list(PARAMETERS)].dropna()
        assert run.data.params == {name: str(value) for name, value in asked.items()}, key
        for name in ("task", "method", "backend", "seed", "status", "git_commit", "version_jax"):
            assert run.data.tags[name] == str(row[name])
        assert run.data.tags["mlflow.runColor"] == METHODS[row["method"]].colour
        if row["status"] == "ok":
            (data,) = run.inputs.dataset_inputs
            assert (data.dataset.name, data.dataset.digest) == (row["variant"], row["problem_sha256"][:36])
        assert run.info.start_time == pd.Timestamp(row["started_at"]).value // 10**6
        assert run.info.end_time == pd.Timestamp(row["ended_at"]).value // 10**6
        parent = runs[key.rpartition("/")[0]]
        assert (run.data.tags["mlflow.parentRunId"], parent.data.tags["level"]) == (parent.info.run_id, "setting")
    by_status = {status: runs[key] for key, status in table["status"].items()}
    assert {status: run.info.status for status, run in by_status.items()} == {
        "ok": "FINISHED",
        "failed": "FAILED",
        "skipped": "SCHEDULED",
    }
    assert by_status["failed"].data.tags["reason"] == "MemoryError: all of it"
    assert by_status["failed"].data.tags["mlflow.note.content"] == "failed: MemoryError: all of it"

    run = runs[f"{FULL_MH}/seed0"]
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["reliability.svg", "run.json"]
    assert [file.path for file in client.list_artifacts(by_status["failed"].info.run_id)] == ["run.json"]
    for name in ("trace/acceptance", "trace/variance"):
        history = client.get_metric_history(run.info.run_id, name)
        assert len(history) == MAX_POINTS
        assert history[-1].step == 700
        assert history[-1].timestamp == run.info.end_time


def assert_the_parents_have_means_and_intervals(runs: dict, table: pd.DataFrame) -> None:
    values = table.loc[[f"{FULL_MH}/seed{seed}" for seed in range(3)], "ece"].to_numpy(float)
    metrics = runs[FULL_MH].data.metrics
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    low = max(low, 0)
    assert metrics["ece"] == pytest.approx(values.mean(), rel=1e-3)
    assert metrics["with_interval/ece_low"] == pytest.approx(low, rel=1e-3)
    assert metrics["with_interval/ece_high"] == pytest.approx(high, rel=1e-3)
    # A page shows all digits there are.
    assert max(len(f"{value:.15g}".partition("e")[0].replace(".", "").strip("-0")) for value in metrics.values()) <= 4
    values = table.loc[[f"{FULL_MH}/seed{seed}" for seed in range(3)], "likelihood_evaluations"].to_numpy(float)
    assert metrics["workings/likelihood_evaluations"] == pytest.approx(values.mean(), rel=1e-3)
    assert metrics["workings/with_interval/likelihood_evaluations_high"] > values.mean()
    # A comparison shows some twenty names in their order: first what people ask for.
    assert sorted(metrics).index("wall_clock_s") < 12
    # Two of three seeds ended well.
    assert runs[PBNN].data.tags["status"] == "2 ok, 1 failed"
    assert runs[PBNN].data.metrics["ece"] == pytest.approx(
        table.loc[[f"{PBNN}/seed0", f"{PBNN}/seed1"], "ece"].to_numpy(float).mean(), rel=1e-3
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
    # What is left where even that was cut short.
    abandoned = tmp_path / ".mlflow.db.x1y2z3.db"
    abandoned.touch()
    os.utime(abandoned, (0, 0))

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
    assert not abandoned.exists()
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


def test_a_damaged_file_is_named_and_stops_the_tracking_of_no_other_run(made_up, tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    runs = made_up.results / "runs"
    draws = runs / FULL_MH / "seed1" / "draws.npz"
    whole = draws.read_bytes()
    draws.write_bytes((runs / FULL_MH / "seed0" / "draws.npz").read_bytes())
    (runs / PBNN / "seed0" / "curves.npz").write_bytes(b"")
    (runs / PBNN / "seed1" / "run.json").write_text("[]")
    with pytest.raises(Damaged) as caught:
        tracked(made_up, uri)
    assert str(caught.value) == (
        f"{draws} is damaged: it is not the one that was recorded; moved to draws.npz.damaged, and 2 more; "
        "all other runs are tracked"
    )
    missing = {f"{FULL_MH}/seed1", f"{PBNN}/seed0", f"{PBNN}/seed1"}
    assert {f"{PBNN}/seed2", *(f"{SGLD}/seed{seed}" for seed in range(3))} <= dump(uri).keys()
    assert not missing & dump(uri).keys()
    # Made again, they follow.
    draws.write_bytes(whole)
    for path in (f"{PBNN}/seed0", f"{PBNN}/seed1"):
        made_up.make(path)
    assert tracked(made_up, uri) == {"added": 3, "replaced": 0, "unchanged": NUM_ENTRIES - 3, "stale": 0}


def test_a_database_reaches_the_disk_once_and_not_with_every_commit(made_up, tmp_path, monkeypatch):
    uri, settings = f"sqlite:///{tmp_path}/mlflow.db", []
    write = MlflowClient.log_batch

    def look(self, *arguments, **named):
        with self._tracking_client.store.engine.connect() as connection:
            settings.append(connection.exec_driver_sql("PRAGMA synchronous").scalar())
        write(self, *arguments, **named)

    monkeypatch.setattr(MlflowClient, "log_batch", look)
    tracked(made_up, uri)
    assert set(settings) == {0}
    # Others that use SQLAlchemy in this process keep what they had.
    with create_engine(uri).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"nonsense" * 50])
def test_a_damaged_summary_is_named_by_tracking_and_report(made_up, capfd, content):
    path, out = made_up.results / "summary.parquet", made_up.results / "tracked.json"
    path.write_bytes(content)
    assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
    assert json.loads(out.read_text())["failure"].startswith(f"{path} is damaged: ")
    capfd.readouterr()
    path.write_bytes(content)
    assert report.main(["--results", str(made_up.results)]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"{path} is damaged: ")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_moved", [False, True], ids=["copied", "moved"])
def test_results_that_were_copied_or_moved_keep_their_files_with_them(is_moved, tmp_path):
    original = MadeUp(tmp_path / "a b")
    tracked(original, f"sqlite:///{original.folder}/results/mlflow.db")
    copy_of = tmp_path / "copy"
    shutil.copytree(original.folder, copy_of)
    if is_moved:
        shutil.rmtree(original.folder)
    before = contents(original.folder)
    uri = f"sqlite:///{copy_of}/results/mlflow.db"
    changed = MadeUp.__new__(MadeUp)
    vars(changed).update(vars(original) | {"folder": copy_of, "results": copy_of / "results" / "made_up"})
    changed.make(f"{FULL_MH}/seed0", variant=1)
    changed.summarise()
    assert tracked(changed, uri) == {"added": 0, "replaced": 2, "unchanged": NUM_ENTRIES - 2, "stale": 0}
    assert original.folder.exists() != is_moved
    assert contents(original.folder) == before
    client = MlflowClient(uri)
    for run in dump(uri).values():
        path = Path(url2pathname(urlsplit(run.info.artifact_uri).path))
        assert path.is_relative_to(copy_of)
        if run.data.tags["level"] == "seed":
            assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["reliability.svg", "run.json"]


def test_results_that_were_copied_do_not_write_into_the_originals_files_through_a_store_elsewhere(tmp_path):
    original, uri = MadeUp(tmp_path / "original"), f"sqlite:///{tmp_path}/mlflow.db"
    tracked(original, uri)
    before = contents(original.folder)
    other = MadeUp(tmp_path / "other")
    with pytest.raises(
        ValueError, match=r"with other results, in file://.*/original/results/mlflow-artifacts/made_up;"
    ):
        tracked(other, uri)
    assert contents(original.folder) == before


class Dripping(threading.Thread):
    """A server on this machine that takes every request and sends a byte of its answer now and then, for ever."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.num_answers = 0

    def run(self) -> None:
        # The client goes away when it has had enough, and the test closes the socket.
        with suppress(OSError):
            while True:
                with suppress(ConnectionError), self.socket.accept()[0] as connection:
                    connection.recv(1)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nX-More: ")
                    while True:
                        connection.sendall(b"x")
                        self.num_answers += 1
                        time.sleep(0.1)

    def close(self) -> None:
        self.socket.close()


class Answering(threading.Thread):
    """A server on this machine that answers each call, named by the end of its path, by what ``answer`` says."""

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        super().__init__(daemon=True)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                outer.num_answers += 1
                content = answer(self.path.partition("?")[0].rpartition("/")[2])
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_PUT = do_GET

            def log_message(self, *_) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.socket = self.server.socket
        self.num_answers = 0

    def run(self) -> None:
        self.server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


EXPERIMENT = {"experiment_id": "1", "name": "made_up", "artifact_location": "mlflow-artifacts:/1"}


def repeating() -> Answering:
    """Its list of runs has one more page, for ever the same."""
    answers = {"get-by-name": {"experiment": EXPERIMENT}, "search": {"runs": [], "next_page_token": "again"}}
    return Answering(lambda call: json.dumps(answers.get(call, {})).encode())


@pytest.mark.parametrize("kind", [Dripping, repeating])
def test_a_server_without_end_is_given_up_and_the_next_call_catches_up(kind, made_up, tmp_path):
    server = kind()
    address = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    server.start()
    out = made_up.results / "tracked.json"
    command = [sys.executable, "-m", "workflows.steps.track", "--results", str(made_up.results), "--out", str(out)]
    environment = os.environ | {"MLFLOW_TRACKING_URI": address}
    # Twelve runs have 24 seconds besides.
    started, patience = time.monotonic(), "--patience=-20"
    done = subprocess.run([*command, patience], cwd=ROOT, env=environment, timeout=120, capture_output=True)
    server.close()
    assert done.returncode == 0, done.stderr.decode()
    assert server.num_answers > 10
    assert time.monotonic() - started < 60
    outcome = json.loads(out.read_text())
    assert (outcome["store"], outcome["failure"]) == (address, "the store was not done after 4 s")
    assert tracked(made_up, f"sqlite:///{tmp_path}/mlflow.db")["added"] == NUM_ENTRIES


#: Whole answers, and values of the fields of an experiment and of a run that no server should give.
WHOLE_ANSWERS = (b"", b"null", b"[]", b"<html>", b"\xff\xfe", b"1e999", b'{"experiment": "\\ud800"}', b"[" * 100_000)
FIELDS = (None, [], {}, "", -1, 1e300, True, "\ud800", "../../etc", "x" * 100_000, ["a", None], {"key": {}})


def garbage() -> Iterator[Callable[[str], bytes]]:
    for whole in WHOLE_ANSWERS:
        yield lambda call, whole=whole: whole
    for value in FIELDS:
        for name in EXPERIMENT:
            yield lambda call, changed={"experiment": EXPERIMENT | {name: value}}: json.dumps(changed).encode()
        info = {"run_id": value, "artifact_uri": value, "status": value, "experiment_id": value}
        runs = {"experiment": EXPERIMENT, "runs": [{"info": info, "data": {"tags": value, "params": value}}]}
        yield lambda call, changed=runs | {"run": runs["runs"][0]}: json.dumps(changed).encode()


def test_whatever_a_server_answers_is_a_failure_in_a_line(made_up, tmp_path, monkeypatch):
    before = sorted(path for path in made_up.results.parent.rglob("*"))
    out = made_up.results / "tracked.json"
    answers = list(garbage())
    current: list[Callable[[str], bytes]] = []
    server = Answering(lambda call: current[-1](call))
    server.start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.socket.getsockname()[1]}")
    with closing(server):
        for answer in answers:
            current.append(answer)
            assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
            failure = json.loads(out.read_text())["failure"]
            assert failure and "\n" not in failure and len(failure) <= 300
    # No answer names a place on this machine that anything is written to.
    new = {path.name for path in made_up.results.parent.rglob("*")} - {path.name for path in before}
    assert new <= {"tracked.json", "usage.log", "mlflow-artifacts", ".lock"}


def test_a_trace_is_the_mean_over_chains_over_stretches(made_up):
    (entry,) = (
        e for e in entries_of(StudyResults.load(made_up.results).rows, made_up.results) if e.key == f"{FULL_MH}/seed1"
    )
    arrays = np.load(made_up.results / "runs" / entry.key / "draws.npz")
    for name in ("acceptance", "variance"):
        points = [point for point in traces(entry) if point[0] == f"trace/{name}"]
        assert [step for _, step, _, _ in points] == list(range(124, 701, 24))
        assert [value for *_, value in points] == pytest.approx(arrays[name].reshape(2, 25, 12).mean(axis=(0, 2)))


@pytest.mark.parametrize("name", ["run.json", "curves.npz"])
def test_a_file_that_changed_replaces_the_entry_of_its_run_although_no_number_did(name, made_up):
    rows = StudyResults.load(made_up.results).rows
    before = {entry.key: entry.fingerprint for entry in entries_of(rows, made_up.results)}
    with (made_up.results / "runs" / FULL_MH / "seed1" / name).open("ab") as file:
        file.write(b" ")
    after = {entry.key: entry.fingerprint for entry in entries_of(rows, made_up.results)}
    assert {key for key in before if before[key] != after[key]} == {f"{FULL_MH}/seed1"}


def test_a_store_out_of_reach_costs_seconds_and_is_reported_in_a_line_without_its_password(made_up, monkeypatch):
    with socket.socket() as taken:
        # Bound, and nobody listens.
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for uri in (f"http://me:secret@127.0.0.1:{port}", f"postgresql://me:secret@127.0.0.1:{port}/runs"):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
            out = made_up.results / "tracked.json"
            started = time.monotonic()
            assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
            # Without a limit, MLflow tries for many minutes.
            assert time.monotonic() - started < 60
            outcome = json.loads(out.read_text())
            assert "refused" in outcome["failure"].lower()
            assert "\n" not in outcome["failure"]
            assert outcome["store"] == uri.replace("me:secret" if uri.startswith("http") else "secret", "***")
            assert "secret" not in out.read_text()


@pytest.mark.parametrize("uri", ["results/mlflow.db", "elsewhere://me:secret@there"])
def test_an_address_of_nothing_is_reported_with_what_was_expected(uri, made_up, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    out = made_up.results / "tracked.json"
    assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
    shown = without_secrets(uri)
    assert json.loads(out.read_text())["failure"] == (
        f"'{shown}' is no address of a server (http://…) or of a database (sqlite:///…, postgresql://…)"
    )


#: Addresses with the secret s3cret or pieces of it, as people write them, and what may be shown of them.
ADDRESSES = {
    "postgresql://me:s3cret@db.example/runs": "postgresql://me:***@db.example/runs",
    "postgresql://me:s3c/s3cret@db.example/runs": "postgresql://me:***@db.example/runs",
    "postgresql://me:s3c%2Fs3cret@db.example:5432/runs": "postgresql://me:***@db.example:5432/runs",
    "postgresql://me:s3c@s3cret@db.example/runs": "postgresql://***",
    "postgresql://db.example/runs?user=me&password=s3cret": "postgresql://db.example/runs?***",
    "mysql+pymysql://me:s3cret@db.example:x/runs": "mysql+pymysql://***",
    "http://me:s3cret@host:5000/mlflow": "http://***@host:5000/mlflow",
    "http://s3cret@host": "http://***@host",
    "https://host/mlflow?token=s3cret": "https://***",
    "https://host/?token=s3c@s3cret": "https://***",
    "http://me:s3c/s3cret@host": "http://***@host",
    "HTTP://me:s3c#s3cret@host": "http://***",
    "elsewhere://me:s3cret@there": "elsewhere://me:***@there",
    "me:s3cret@host": "***",
}
OPEN = ["sqlite:///results/mlflow.db", "sqlite:////home/me@work/#1/mlflow.db", "http://host:5000/a", "http://[::1", ""]


@pytest.mark.parametrize(("uri", "shown"), [*ADDRESSES.items(), *((uri, uri) for uri in OPEN)])
def test_an_address_is_shown_without_secrets(uri, shown):
    assert without_secrets(uri) == shown
    assert "s3c" not in shown


@pytest.mark.parametrize("uri", ADDRESSES)
def test_no_error_repeats_a_secret_in_whole_or_in_part(uri):
    pieces = ["s3cret", uri, uri + "/api/2.0", uri.upper(), unquote(uri), quote(uri, safe="")]
    for piece in pieces:
        assert "s3cret" not in hide(f"cannot parse '{piece}' of it", uri).lower()
    assert hide("an error of another kind", uri) == "an error of another kind"
    stream = io.StringIO()
    with closing(Hiding(stream, uri)) as hiding:
        # Whoever logs a line may write it in pieces.
        for piece in (uri[: len(uri) // 2], uri[len(uri) // 2 :], "\nmore s3c", "ret"):
            hiding.write(piece)
    assert "s3cret" not in stream.getvalue() and "\nmore " in stream.getvalue()


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:s3c/s3c#ret@127.0.0.1:{port}/runs",
        "postgresql://127.0.0.1:{port}/runs?user=me&password=s3cret",
        "http://127.0.0.1:{port}?token=s3cret",
        "http://me:s3cret@[::1",
    ],
)
def test_a_failure_of_tracking_shows_no_secret_anywhere_and_ends_no_study(uri, made_up, monkeypatch, capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(port=taken.getsockname()[1]))
        out = made_up.results / "tracked.json"
        capfd.readouterr()
        assert main(["--results", str(made_up.results), "--out", str(out)]) == 0
    assert json.loads(out.read_text())["failure"]
    captured = capfd.readouterr()
    assert "Traceback" in captured.err
    assert "s3c" not in out.read_text() + captured.out + captured.err


@pytest.mark.slow
def test_no_file_of_a_study_and_no_line_on_the_terminal_has_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:s3c/s3cret@[::1?token=s3cret")
    work = Workdir(tmp_path / "work", WHOLE)
    code, output = work.run()
    assert (code, "MLflow: not tracked in http://***: " in output) == (0, True), output
    files = [path for path in work.folder.rglob("*") if path.is_file()]
    assert any(".snakemake/metadata" in str(path) for path in files)
    assert [path for path in files if b"s3c" in path.read_bytes()] == []


@pytest.mark.parametrize(
    "place", ["file:///etc", "/etc", "FILE:///etc", "ftp://host/x", "sftp://host/x", "", "dbfs:/x"]
)
def test_a_server_does_not_choose_a_folder_of_this_machine(place, tmp_path):
    with pytest.raises(ValueError, match="a server may not choose a folder here"):
        check_place(place, "http://127.0.0.1:5000")
    check_place(place, f"sqlite:///{tmp_path}/mlflow.db")


@pytest.mark.parametrize("place", ["mlflow-artifacts:/1/a/artifacts", "s3://bucket/runs", "https://host/runs"])
def test_a_server_keeps_files_itself_or_in_an_object_store(place):
    check_place(place, "https://tracking.example")
