"""Writing a study to MLflow: what is new, what has changed, and what left the study."""

import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from implementations.infrastructure.files import Damaged
from implementations.run_files import read_draws, read_run
from records.artefacts import read_curves, read_metrics
from records.methods import facts_of
from records.setting_runs import Row
from reports.reliability import diagram
from workflows.locks import hold
from workflows.tracking.client import check_place, connect, experiment_of, flushed_once
from workflows.tracking.entries import Entry, entries_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

#: Points of a trace: enough for a chart, and a third of all that is written for a run.
MAX_POINTS = 25


def track(uri: str, study: str, rows: Sequence[Row], results: Path) -> dict[str, int]:
    """Write a study to the store at ``uri``; how many entries were added, replaced, unchanged and marked stale.

    ``results`` is the study's folder, with the run folders that ``rows`` name. One process at a time writes to a store
    in these results. Interrupted anywhere and called again it completes the work, because an entry counts only when it
    has been ended, which comes last. A run with a damaged file is left as it is in the store; when all others are
    written, Damaged says which.
    """
    artifacts = results.parent / "mlflow-artifacts"
    hold(artifacts, is_patient=True)
    with flushed_once(uri):
        client = connect(uri)
        return _Writer(client, experiment_of(client, uri, study, artifacts)).write(entries_of(rows, results))


class _Writer:
    """Brings an experiment in line with the entries of a study."""

    def __init__(self, client: "MlflowClient", experiment: str) -> None:
        self.client, self.experiment = client, experiment

    def write(self, entries: Sequence[Entry]) -> dict[str, int]:
        found = self._found()
        counts = Counter(added=0, replaced=0, unchanged=0, stale=0)
        ids: dict[str | None, str] = {}
        damaged: list[Damaged] = []
        for entry in entries:
            parent = {"mlflow.parentRunId": ids[entry.parent]} if entry.parent else {}
            runs = found.pop(entry.key, [])
            unchanged = next((run for run in runs if _is_current(run, entry)), None)
            if unchanged is None:
                try:
                    _check_files(entry)
                except Damaged as error:
                    damaged.append(error)
                    continue
                ids[entry.key] = self._add(entry, parent)
                counts["replaced" if runs else "added"] += 1
            else:
                ids[entry.key] = unchanged.info.run_id
                # What can change about a run that has not: its parent was replaced, or it had been marked stale.
                self._set_tags(unchanged, {"status": entry.tags["status"], **parent})
                counts["unchanged"] += 1
            # After the new one, so that a kill in between loses nothing; the next call finds both.
            for run in runs:
                if run is not unchanged:
                    self.client.delete_run(run.info.run_id)
        for run in (run for runs in found.values() for run in runs):
            self._set_tags(run, {"status": "stale"})
            counts["stale"] += 1
        if damaged:
            more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            raise Damaged(f"{damaged[0]}{more}; all other runs are tracked")
        return dict(counts)

    def _found(self) -> dict[str, list["Run"]]:
        """The runs in MLflow by what identifies them; whatever else a person keeps there is left alone."""
        found: dict[str, list[Run]] = defaultdict(list)
        token: str | None = ""
        while token is not None:
            page = self.client.search_runs([self.experiment], max_results=200, page_token=token or None)
            for run in page:
                if "fingerprint" in run.data.tags and "run" in run.data.tags:
                    found[run.data.tags["run"]].append(run)
            token = page.token or None
        return found

    def _set_tags(self, run: "Run", tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            if run.data.tags.get(name) != value:
                self.client.set_tag(run.info.run_id, name, value)

    def _add(self, entry: Entry, parent: Mapping[str, str]) -> str:
        from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

        now = int(time.time() * 1000)
        started, ended = entry.started or now, entry.ended or now
        tags = {**entry.tags, **parent, "fingerprint": entry.fingerprint}
        metrics = [Metric(name, value, ended, 0) for name, value in entry.metrics.items()]
        metrics += [
            Metric(name, value, started + int((ended - started) * share), step)
            for name, step, share, value in traces(entry)
        ]
        params = [Param(name, value) for name, value in entry.params.items()]
        with tempfile.TemporaryDirectory() as scratch:
            self._gather_files(entry, Path(scratch))
            run = self.client.create_run(self.experiment, start_time=started, tags=tags, run_name=entry.name)
            self.client.log_batch(run.info.run_id, metrics=metrics, params=params)
            if entry.data:
                name, digest, source, profile = entry.data
                described = Dataset(name, digest, "pbnn-bench", source, profile=profile)
                context = [InputTag("mlflow.data.context", "training")]
                self.client.log_inputs(run.info.run_id, [DatasetInput(described, context)])
            self._log_files(str(run.info.artifact_uri), Path(scratch))
        self.client.set_terminated(run.info.run_id, entry.outcome, ended)
        return str(run.info.run_id)

    def _gather_files(self, entry: Entry, scratch: Path) -> None:
        """The run.json of a run, and the reliability diagram of a run that ended well."""
        if entry.folder is None:
            return
        record, curves = entry.folder / "run.json", entry.folder / "curves.npz"
        if record.exists():
            shutil.copy(record, scratch)
        arrays = read_curves(entry.folder) if entry.tags["status"] == "ok" and curves.exists() else {}
        # A density has none.
        if "test_counts" in arrays:
            # A task from a file is in no table; a regression has errors, classes have an accuracy.
            likelihood = "categorical" if any(name.endswith("accuracy") for name in entry.metrics) else "gaussian"
            colour = facts_of(entry.params["method"]).colour
            drawn = diagram(arrays, likelihood, entry.name, colour)
            (scratch / "reliability.svg").write_text(drawn, encoding="utf-8")

    def _log_files(self, place: str, folder: Path) -> None:
        # A client would read the whole run once more to learn the place: an eighth of all that a run takes.
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        if any(folder.iterdir()):
            check_place(place, self.client.tracking_uri)
            get_artifact_repository(place, tracking_uri=self.client.tracking_uri).log_artifacts(str(folder))


def _is_current(run: "Run", entry: Entry) -> bool:
    return run.info.status == entry.outcome and run.data.tags["fingerprint"] == entry.fingerprint


def _check_files(entry: Entry) -> None:
    """Damaged where a file that is to be shown is not what it was when it was written."""
    if entry.folder is None:
        return
    if record := read_run(entry.folder):
        read_draws(entry.folder, record)
    if metrics := read_metrics(entry.folder):
        read_curves(entry.folder, metrics)


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
