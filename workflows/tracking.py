"""A study as MLflow shows it: its summary, projected into an experiment of the study's name.

Every row of the summary is a run, grouped under a parent that has the means over seeds. The result files stay the
truth: tracking again adds what is missing, replaces what has changed, and marks as stale what the study has no more.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from implementations.files import atomic_path, read_npz
from implementations.methods import SETTINGS
from implementations.tasks import TASKS
from reports.style import COLOURS
from workflows.columns import COLUMNS
from workflows.locks import hold

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from reports.reliability import Diagrams

Row = Mapping[str, Any]

#: What a run was asked for, the columns that MLflow shows as parameters.
PARAMETERS = (
    *("task", "stochastic", "prior", "prior_scale", "method", "backend", "seed", *SETTINGS),
    *("target_weight", "num_points", "num_parameters"),
)
_NAMES = list(COLUMNS)
_MEASURED = [name for name in _NAMES[: _NAMES.index("started_at")] if name not in PARAMETERS]
#: The numbers to compare first; in this order the columns of the table.
HEADLINE = (
    *("acceptance_rate", "ece", "wall_clock_s", "sd_ratio", "r_hat", "accuracy"),
    *("rmse", "nll", "confidence_gap", "mean_error", "ess_bulk_min"),
)
NUM_SHOWN = 6
#: What came of it in numbers; a flag is 1 or 0.
METRICS = tuple(dict.fromkeys([*HEADLINE, *(name for name in _MEASURED if COLUMNS[name].kind != "text")]))
#: Groups of the other numbers, and of the ends of intervals. MLflow's pages sort by name and show the first twenty of a
#: comparison: named so, the groups come after the headline, of which wall_clock_s is the last.
WORKINGS, INTERVAL = "workings/", "with_interval/"
#: The rest: words and provenance.
TAGS = tuple(name for name in _NAMES if name not in (*PARAMETERS, *METRICS, "started_at", "ended_at"))

#: How MLflow calls what became of a run. It has no word for one that had no device or has not been made.
OUTCOMES = {"ok": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "skipped": "KILLED", "missing": "KILLED"}
#: Settings in a run's name, by the paper's letters.
LETTERS = {"batch_size": "n", "num_batches": "M", "step_size": "η", "weight": "w", "decay": "γ"}
#: Settings that a run's name leaves out as long as it is unique without them.
LENGTHS = ("num_steps", "num_warmup", "thin", "chains", "dtype")
#: Points of a trace: enough for a chart, and half of all that is written for a run.
MAX_POINTS = 50
#: Tells a parent from the run of a seed, for filters such as  tags.level = "setting".
SETTING, SEED = "setting", "seed"

#: Saved views of MLflow's table of runs, in its menu "Views": the columns worth seeing, sorted by name.
_NAME_COLUMN = "attributes.`Run Name`"
_COLUMNS = [*(f"metrics.`{name}`" for name in HEADLINE[:NUM_SHOWN]), "tags.`status`"]
_TABLE = {
    "selectedColumns": _COLUMNS,
    "columnOrder": [_NAME_COLUMN, *_COLUMNS],
    "columnWidths": {_NAME_COLUMN: 360} | dict.fromkeys(_COLUMNS, 125),
    "orderByKey": "tags.`mlflow.runName`",
    "orderByAsc": True,
}
_VIEWS = {
    "means": ("Means over seeds", _TABLE | {"searchFilter": f"tags.level = '{SETTING}' and tags.status != 'stale'"}),
    "seeds": ("Every seed", _TABLE | {"searchFilter": "tags.status != 'stale'"}),
}
EXPERIMENT_TAGS = {
    # Shows the pages of runs, and not those of language models.
    "mlflow.experimentKind": "custom_model_development",
    **{
        f"mlflow.sharedViewState.{key}": json.dumps({"name": name, "createdAt": 0, "state": json.dumps(state)})
        for key, (name, state) in _VIEWS.items()
    },
}

#: A server that does not answer costs seconds. Whoever needs more patience sets these themselves.
IMPATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PGCONNECT_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


# Where


def chosen_store(results: Path) -> str:
    """The address of the tracking store: MLFLOW_TRACKING_URI, or a database in the folder of all results."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results / 'mlflow.db'}"


def without_password(uri: str) -> str:
    """The address as it may be shown and kept."""
    parts = urlsplit(uri)
    return uri.replace(f":{parts.password}@", ":***@") if parts.password else uri


def reason_of(error: Exception, uri: str) -> str:
    """Why a store could not be written to, in a line without a password."""
    # The last cause is the plainest, such as "connection refused"; what wraps it repeats addresses and retries.
    while error.__cause__ or error.__context__:
        cause = error.__cause__ or error.__context__
        if not isinstance(cause, Exception) or not str(cause).strip():
            break
        error = cause
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line.replace(uri, without_password(uri))[:300]


# What


@dataclass(frozen=True)
class Entry:
    """A run as it is to stand in MLflow."""

    #: What identifies it in its experiment: its folder below ``runs``, for a parent without the seed.
    key: str
    name: str
    #: Key of its parent.
    parent: str | None
    outcome: str
    #: Milliseconds since 1970; None where nothing ran.
    started: int | None
    ended: int | None
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    #: Files it is told by as well, where there are any.
    folder: Path | None = None
    #: A checksum of all this.
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        content = [self.name, self.outcome, self.started, self.ended, self.params, self.metrics, self.tags]
        sha256 = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        # A run.json has the time of its run in it, and so stands for the draws beside it.
        for path in self._files():
            sha256.update(path.read_bytes())
        object.__setattr__(self, "fingerprint", sha256.hexdigest())

    def _files(self) -> list[Path]:
        paths = [self.folder / name for name in ("run.json", "curves.npz")] if self.folder else []
        return [path for path in paths if path.exists()]


def entries_of(rows: Sequence[Row], results: Path) -> list[Entry]:
    """Parents, each followed by its seeds, from the rows of a summary and the files of their runs."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["run"].rpartition("/")[0]].append(row)
    names = _names({key: members[0] for key, members in groups.items()})
    return [
        entry
        for key, members in groups.items()
        for entry in (
            _parent(key, names[key], members),
            *(_child(key, names[key], row, results / "runs" / row["run"]) for row in members),
        )
    ]


def _names(groups: Mapping[str, Row]) -> dict[str, str]:
    """``mnist · pbnn n=100 M=10 · jax-cpu`` for every group, with more of its settings where two would be alike."""
    short = {key: _name(key, row, LENGTHS) for key, row in groups.items()}
    counts = Counter(short.values())
    return {key: name if counts[name] == 1 else _name(key, groups[key], ()) for key, name in short.items()}


def _name(key: str, row: Row, left_out: Sequence[str]) -> str:
    variant, label, backend = key.split("/")
    method, *given = label.split(",")
    settings = {name: str(row[name]) for name in ("batch_size", "num_batches") if row[name] is not None}
    settings |= dict(word.split("=", 1) for word in given)
    shown = [f"{LETTERS.get(name, name)}={value}" for name, value in settings.items() if name not in left_out]
    return " · ".join([variant, " ".join([method, *shown]), backend])


def _child(parent: str, name: str, row: Row, folder: Path) -> Entry:
    tags = {tag: str(row[tag]) for tag in TAGS if row[tag] is not None}
    return Entry(
        key=row["run"],
        name=f"{name} · seed {row['seed']}",
        parent=parent,
        outcome=OUTCOMES[row["status"]],
        started=_milliseconds(row["started_at"]),
        ended=_milliseconds(row["ended_at"]),
        params={parameter: str(row[parameter]) for parameter in PARAMETERS if row[parameter] is not None},
        metrics={_group(metric) + metric: number for metric in METRICS if (number := _number(row, metric)) is not None},
        tags=tags
        | _row_tags(SEED, row)
        | {"seed": str(row["seed"])}
        | _note(f"{row['status']}: {row['reason']}" if row["reason"] else ""),
        folder=folder,
    )


def _parent(key: str, name: str, rows: Sequence[Row]) -> Entry:
    """Means over the seeds of one setting, and their 95 % intervals where there is more than one seed."""
    from metrics.seeds import mean_over_seeds

    metrics: dict[str, float] = {}
    for metric in METRICS:
        estimate = mean_over_seeds({row["seed"]: _number(row, metric) for row in rows})
        group = _group(metric)
        values = {
            f"{group}{metric}": estimate.mean,
            f"{group}{INTERVAL}{metric}_low": estimate.low,
            f"{group}{INTERVAL}{metric}_high": estimate.high,
        }
        metrics |= {name: value for name, value in values.items() if value is not None}
    statuses = Counter(row["status"] for row in rows)
    counted = ", ".join(f"{count} {status}" for status, count in statuses.items())
    first = next((row for row in rows if row["status"] == "ok"), rows[0])
    started, ended = ([row[name] for row in rows if row[name]] for name in ("started_at", "ended_at"))
    seeds = ", ".join(str(row["seed"]) for row in rows)
    return Entry(
        key=key,
        name=name,
        parent=None,
        outcome=OUTCOMES[first["status"]],
        started=min(map(_milliseconds, started), default=None),
        ended=max(map(_milliseconds, ended), default=None),
        params={
            parameter: str(first[parameter])
            for parameter in PARAMETERS
            if parameter != "seed" and first[parameter] is not None
        },
        metrics=metrics,
        tags={"study": first["study"], "run": key, "seeds": seeds}
        | _row_tags(SETTING, first)
        | {"status": first["status"] if len(statuses) == 1 else counted}
        | _note(f"mean and 95 % interval over the seeds {seeds}: {counted}"),
    )


def _row_tags(level: str, row: Row) -> dict[str, str]:
    tags = {name: row[name] for name in ("task", "method", "backend")} | {"level": level}
    source = {"mlflow.source.name": "pbnn-bench", "mlflow.source.type": "PROJECT"}
    return tags | source | ({"mlflow.source.git.commit": row["git_commit"]} if row["git_commit"] else {})


def _group(metric: str) -> str:
    return "" if metric in HEADLINE else WORKINGS


def _note(text: str) -> dict[str, str]:
    """What MLflow shows as the description."""
    return {"mlflow.note.content": text} if text else {}


def _number(row: Row, metric: str) -> float | None:
    """A metric of a run. One that was skipped has none: with its 0 seconds it would be the fastest of all."""
    return None if row["status"] == "skipped" or row[metric] is None else float(row[metric])


def _milliseconds(time_of_day: str | None) -> Any:
    return int(datetime.fromisoformat(time_of_day).timestamp() * 1000) if time_of_day else None


# Into MLflow


def track(uri: str, study: str, rows: Sequence[Row], results: Path) -> dict[str, int]:
    """Write a study to the store at ``uri``; how many entries were added, replaced, unchanged and marked stale.

    ``results`` is the study's folder, with the run folders that ``rows`` name. One process at a time writes to a store
    in these results. Interrupted anywhere and called again it completes the work, because an entry counts only when it
    has been ended, which comes last.
    """
    for name, value in IMPATIENCE.items():
        os.environ.setdefault(name, value)
    # Not at the top: Snakemake's own process wants only the address of the store.
    from reports.reliability import Diagrams

    artifacts = results.parent / "mlflow-artifacts"
    hold(artifacts, is_patient=True)
    client = _connect(uri)
    experiment = _experiment(client, uri, study, artifacts)
    found = _found(client, experiment)
    counts = Counter(added=0, replaced=0, unchanged=0, stale=0)
    ids: dict[str | None, str] = {}
    with Diagrams() as diagrams:
        for entry in entries_of(rows, results):
            parent = {"mlflow.parentRunId": ids[entry.parent]} if entry.parent else {}
            runs = found.pop(entry.key, [])
            current = next((run for run in runs if _is_current(run, entry)), None)
            if current is None:
                ids[entry.key] = _write(client, experiment, entry, parent, diagrams)
                counts["replaced" if runs else "added"] += 1
            else:
                ids[entry.key] = current.info.run_id
                # What can change about a run that has not: its parent was replaced, or it had been marked stale.
                _set_tags(client, current, {"status": entry.tags["status"], **parent})
                counts["unchanged"] += 1
            # After the new one, so that a kill in between loses nothing; the next call finds both.
            for run in runs:
                if run is not current:
                    client.delete_run(run.info.run_id)
    for run in (run for runs in found.values() for run in runs):
        _set_tags(client, run, {"status": "stale"})
        counts["stale"] += 1
    return dict(counts)


def _connect(uri: str) -> "MlflowClient":
    from mlflow import MlflowClient
    from sqlalchemy import create_engine, make_url

    if _is_database(uri):
        address = make_url(uri)
        if address.get_backend_name() == "sqlite" and address.database:
            _create(Path(address.database))
        # MLflow would try ten times, over minutes.
        engine = create_engine(address)
        engine.connect().close()
        engine.dispose()
    elif urlsplit(uri).scheme not in ("http", "https"):
        raise ValueError(f"'{uri}' is no address of a server (http://…) or of a database (sqlite:///…, postgresql://…)")
    return MlflowClient(tracking_uri=uri)


def _create(path: Path) -> None:
    """A database file where there is none. MLflow makes it in many steps and cannot go on from the middle of them."""
    from mlflow import MlflowClient

    if not path.exists():
        with atomic_path(path) as temporary:
            MlflowClient(tracking_uri=f"sqlite:///{temporary}")


def _is_database(uri: str) -> bool:
    from mlflow.store.db.db_types import DATABASE_ENGINES

    return urlsplit(uri).scheme.partition("+")[0] in DATABASE_ENGINES


def _experiment(client: "MlflowClient", uri: str, study: str, artifacts: Path) -> str:
    """The id of the study's experiment; one that a person has deleted is taken out of the bin."""
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        # A server has a place of its own for them.
        location = (artifacts / study).resolve().as_uri() if _is_database(uri) else None
        return str(client.create_experiment(study, location, EXPERIMENT_TAGS))
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    for name, value in EXPERIMENT_TAGS.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
    return str(experiment.experiment_id)


def _found(client: "MlflowClient", experiment: str) -> dict[str, list["Run"]]:
    """The runs in MLflow by what identifies them; whatever else a person keeps there is left alone."""
    found: dict[str, list[Run]] = defaultdict(list)
    token: str | None = ""
    while token is not None:
        page = client.search_runs([experiment], max_results=200, page_token=token or None)
        for run in page:
            if "fingerprint" in run.data.tags and "run" in run.data.tags:
                found[run.data.tags["run"]].append(run)
        token = page.token or None
    return found


def _is_current(run: "Run", entry: Entry) -> bool:
    return run.info.status == entry.outcome and run.data.tags["fingerprint"] == entry.fingerprint


def _set_tags(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    for name, value in tags.items():
        if run.data.tags.get(name) != value:
            client.set_tag(run.info.run_id, name, value)


def _write(
    client: "MlflowClient", experiment: str, entry: Entry, parent: Mapping[str, str], diagrams: "Diagrams"
) -> str:
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    started, ended = entry.started or now, entry.ended or now
    tags = {**entry.tags, **parent, "fingerprint": entry.fingerprint}
    run = client.create_run(experiment, start_time=started, tags=tags, run_name=entry.name)
    metrics = [Metric(name, value, ended, 0) for name, value in entry.metrics.items()]
    if entry.folder:
        metrics += [
            Metric(name, value, started + int((ended - started) * share), step)
            for name, step, share, value in traces(entry)
        ]
        _log_files(client, run.info.run_id, entry, diagrams)
    params = [Param(name, value) for name, value in entry.params.items()]
    client.log_batch(run.info.run_id, metrics=metrics, params=params)
    client.set_terminated(run.info.run_id, entry.outcome, ended)
    return str(run.info.run_id)


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
            # A chain on its way out of the finite numbers has no mean to show.
            with np.errstate(all="ignore"):
                value = float(array[:, start:end].mean(dtype=float))
            if np.isfinite(value):
                yield f"trace/{name}", num_warmup + thin * int(end), float(end / num_draws), value


def _log_files(client: "MlflowClient", run_id: str, entry: Entry, diagrams: "Diagrams") -> None:
    """The run.json of a run, and its reliability diagram where it ended well."""
    assert entry.folder is not None
    record, curves = entry.folder / "run.json", entry.folder / "curves.npz"
    with tempfile.TemporaryDirectory() as scratch:
        if record.exists():
            shutil.copy(record, scratch)
        if curves.exists() and entry.tags["status"] == "ok":
            task, method = entry.params["task"], entry.params["method"]
            path = Path(scratch, "reliability.png")
            diagrams.draw(read_npz(curves), TASKS[task].likelihood, path, entry.name, COLOURS[method])
        client.log_artifacts(run_id, scratch)
