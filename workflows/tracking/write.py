"""Writing a study to MLflow: what is new, what has changed, and what left the study."""

import json
import os
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from implementations.finished import check_archive, check_draws, read_record
from implementations.infrastructure.files import Damaged, read_npz
from records.methods import facts_of
from records.setting_runs import Row
from workflows.locks import hold
from workflows.tracking.drawing import Drawer, drawer_of
from workflows.tracking.entries import Data, Entry, entries_of
from workflows.tracking.experiment import experiment_of
from workflows.tracking.store import connect, flushed_once

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Run

#: Points of a trace: enough for a chart, and a third of all that is written for a run.
MAX_POINTS = 25
#: A server that does not answer costs seconds. Whoever needs more patience sets these themselves.
IMPATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PGCONNECT_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def track(
    uri: str, study: str, rows: Sequence[Row], results: Path, on_progress: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """Write a study to the store at ``uri``; how many entries were added, replaced, unchanged and marked stale.

    ``results`` is the study's folder, with the run folders that ``rows`` name. One process at a time writes to a store
    in these results. Interrupted anywhere and called again it completes the work, because an entry counts only when it
    has been ended, which comes last. A run with a damaged file is left as it is in the store; when all others are
    written, Damaged says which. ``on_progress`` is called when the store's work begins and whenever it got further.
    """
    for name, value in IMPATIENCE.items():
        os.environ.setdefault(name, value)
    artifacts = results.parent / "mlflow-artifacts"
    hold(artifacts, is_patient=True)
    on_progress()
    with flushed_once(uri):
        return _track(uri, study, entries_of(rows, results), artifacts, on_progress)


def _track(
    uri: str, study: str, entries: Sequence[Entry], artifacts: Path, on_progress: Callable[[], None]
) -> dict[str, int]:
    client = connect(uri)
    experiment = experiment_of(client, uri, study, artifacts)
    found = _found(client, experiment, on_progress)
    current = {entry.key: next((run for run in found[entry.key] if _is_current(run, entry)), None) for entry in entries}
    counts = Counter(added=0, replaced=0, unchanged=0, stale=0)
    ids: dict[str | None, str] = {}
    damaged: list[Damaged] = []
    with drawer_of(sum(_has_curves(entry) for entry in entries if current[entry.key] is None)) as drawer:
        for entry in entries:
            on_progress()
            parent = {"mlflow.parentRunId": ids[entry.parent]} if entry.parent else {}
            runs, unchanged = found.pop(entry.key), current[entry.key]
            if unchanged is None:
                try:
                    _check_files(entry)
                except Damaged as error:
                    damaged.append(error)
                    continue
                ids[entry.key] = _write(client, experiment, entry, parent, drawer)
                counts["replaced" if runs else "added"] += 1
            else:
                ids[entry.key] = unchanged.info.run_id
                # What can change about a run that has not: its parent was replaced, or it had been marked stale.
                _set_tags(client, unchanged, {"status": entry.tags["status"], **parent})
                counts["unchanged"] += 1
            # After the new one, so that a kill in between loses nothing; the next call finds both.
            for run in runs:
                if run is not unchanged:
                    client.delete_run(run.info.run_id)
    for run in (run for runs in found.values() for run in runs):
        on_progress()
        _set_tags(client, run, {"status": "stale"})
        counts["stale"] += 1
    if damaged:
        more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise Damaged(f"{damaged[0]}{more}; all other runs are tracked")
    return dict(counts)


def _found(client: "MlflowClient", experiment: str, on_progress: Callable[[], None]) -> dict[str, list["Run"]]:
    """The runs in MLflow by what identifies them; whatever else a person keeps there is left alone."""
    found: dict[str, list[Run]] = defaultdict(list)
    token: str | None = ""
    while token is not None:
        page = client.search_runs([experiment], max_results=200, page_token=token or None)
        on_progress()
        for run in page:
            if "fingerprint" in run.data.tags and "run" in run.data.tags:
                found[run.data.tags["run"]].append(run)
        token = page.token or None
    return found


def _check_files(entry: Entry) -> None:
    """Damaged where a file that is to be shown is not what it was when it was written."""
    if entry.folder is None:
        return
    if record := read_record(entry.folder):
        check_draws(entry.folder, record)
    if (entry.folder / "curves.npz").exists():
        check_archive(entry.folder / "curves.npz")


def _is_current(run: "Run", entry: Entry) -> bool:
    return run.info.status == entry.outcome and run.data.tags["fingerprint"] == entry.fingerprint


def _set_tags(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    for name, value in tags.items():
        if run.data.tags.get(name) != value:
            client.set_tag(run.info.run_id, name, value)


def _write(client: "MlflowClient", experiment: str, entry: Entry, parent: Mapping[str, str], drawer: Drawer) -> str:
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    started, ended = entry.started or now, entry.ended or now
    tags = {**entry.tags, **parent, "fingerprint": entry.fingerprint}
    with tempfile.TemporaryDirectory() as scratch:
        _gather_files(entry, Path(scratch), drawer)
        run = client.create_run(experiment, start_time=started, tags=tags, run_name=entry.name)
        metrics = [Metric(name, value, ended, 0) for name, value in entry.metrics.items()]
        metrics += [
            Metric(name, value, started + int((ended - started) * share), step)
            for name, step, share, value in traces(entry)
        ]
        params = [Param(name, value) for name, value in entry.params.items()]
        client.log_batch(run.info.run_id, metrics=metrics, params=params)
        if entry.data:
            client.log_inputs(run.info.run_id, [_dataset(entry.data)])
        drawer.wait()
        _log_files(str(run.info.artifact_uri), client.tracking_uri, Path(scratch))
    client.set_terminated(run.info.run_id, entry.outcome, ended)
    return str(run.info.run_id)


def _dataset(data: Data) -> "DatasetInput":
    from mlflow.entities import Dataset, DatasetInput, InputTag

    profile = json.dumps({"num_points": data.num_points})
    described = Dataset(data.name, data.digest, "pbnn-bench", json.dumps({"task": data.source}), profile=profile)
    return DatasetInput(described, [InputTag("mlflow.data.context", "training")])


def traces(entry: Entry) -> Iterator[tuple[str, int, float, float]]:
    """Acceptance and variance along the chains: name, step, share of the steps done, mean over chains and a stretch."""
    path = entry.folder / "draws.npz" if entry.folder else None
    if path is None or not path.exists():
        return
    thin, num_warmup = (int(entry.params[name]) for name in ("thin", "num_warmup"))
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in ("acceptance", "variance") if name in archive.files}
    for name, array in arrays.items():
        num_draws = array.shape[1]
        ends = np.unique(np.linspace(0, num_draws, MAX_POINTS + 1).astype(int))
        for start, end in pairwise(ends):
            # A chain that became non-finite has no mean to show.
            with np.errstate(all="ignore"):
                value = float(array[:, start:end].mean(dtype=float))
            if np.isfinite(value):
                yield f"trace/{name}", num_warmup + thin * int(end), float(end / num_draws), value


def _has_curves(entry: Entry) -> bool:
    return entry.folder is not None and entry.tags["status"] == "ok" and (entry.folder / "curves.npz").exists()


def _gather_files(entry: Entry, scratch: Path, drawer: Drawer) -> None:
    """The run.json of a run, and its reliability diagram where it ended well; that may still be drawn on return."""
    if entry.folder is None:
        return
    record = entry.folder / "run.json"
    if record.exists():
        shutil.copy(record, scratch)
    if _has_curves(entry):
        # A task out of somebody's file is in no table; of a regression there are errors, of classes an accuracy.
        likelihood = "categorical" if any(name.endswith("accuracy") for name in entry.metrics) else "gaussian"
        colour = facts_of(entry.params["method"]).colour
        arrays = read_npz(entry.folder / "curves.npz")
        # A density has none.
        if "test_counts" in arrays:
            drawer.ask(arrays, likelihood, scratch / "reliability.png", entry.name, colour)


def _log_files(place: str, uri: str, folder: Path) -> None:
    # A client would read the whole run once more to learn the place: an eighth of all that a run takes.
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if any(folder.iterdir()):
        get_artifact_repository(place, tracking_uri=uri).log_artifacts(str(folder))
