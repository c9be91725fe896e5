"""The runs of a study as MLflow shows them: names, parameters, numbers, tags, and views of their table."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from implementations.settings import SETTINGS
from records.columns import COLUMNS
from records.display import setting_names
from records.layout import run_folder
from records.methods import facts_of
from records.setting_runs import Row, SettingRuns, settings_of

#: What a run was asked for, the columns that MLflow shows as parameters.
PARAMETERS = (
    *("task", "stochastic", "prior", "prior_scale", "method", "backend", "seed", *SETTINGS),
    *("target_weight", "num_points", "num_parameters"),
)
_NAMES = list(COLUMNS)
_MEASURED = [name for name in _NAMES[: _NAMES.index("started_at")] if name not in (*PARAMETERS, "own_settings")]
#: The numbers to compare first; in this order the columns of the table.
HEADLINE = (
    *("acceptance_rate", "ece", "wall_clock_s", "sd_ratio", "r_hat", "accuracy"),
    *("rmse", "nll", "confidence_gap", "mean_error", "ess_bulk_min"),
)
#: What came of it in numbers; a flag is 1 or 0.
METRICS = tuple(dict.fromkeys([*HEADLINE, *(name for name in _MEASURED if COLUMNS[name].kind != "text")]))
#: Groups of the other numbers, and of the ends of intervals. MLflow's pages sort by name and show the first twenty of a
#: comparison: named so, the groups come after the headline, of which wall_clock_s is the last.
WORKINGS, INTERVAL = "workings/", "with_interval/"
#: The rest: words and provenance.
TAGS = tuple(name for name in _NAMES if name not in (*PARAMETERS, *METRICS, "own_settings", "started_at", "ended_at"))

#: Saved views of MLflow's table of runs, in its menu "Views": the columns worth seeing.
_NAME_COLUMN = "attributes.`Run Name`"
_COLUMNS = [*(f"metrics.`{name}`" for name in HEADLINE[:6]), "tags.`status`"]
_TABLE = {
    "selectedColumns": _COLUMNS,
    "columnOrder": [_NAME_COLUMN, *_COLUMNS],
    "columnWidths": {_NAME_COLUMN: 360} | dict.fromkeys(_COLUMNS, 125),
    "orderByKey": "tags.`mlflow.runName`",
    "orderByAsc": True,
}
_VIEWS = {
    "means": ("Means over seeds", _TABLE | {"searchFilter": "tags.level = 'setting' and tags.status != 'stale'"}),
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

#: MLflow's words for what became of a run. It has none for a run that found no device or is not there yet: both are
#: still to come, and would be failures if they were called killed.
OUTCOMES = {"ok": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "skipped": "SCHEDULED", "missing": "SCHEDULED"}
#: Of the numbers of a parent: more digits than the means over seeds are worth.
DIGITS = 4


@dataclass(frozen=True)
class Entry:
    """A run as MLflow shows it: that of a seed, or its parent, which has the means over the seeds."""

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
    #: Where its files are, if it has any.
    folder: Path | None = None
    #: The problem that it worked on, as MLflow lists it among the inputs: name, digest, source and profile.
    data: tuple[str, str, str, str] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all this, and of its files."""
        content = [self.name, self.outcome, self.started, self.ended, self.params, self.metrics, self.tags, self.data]
        sha256 = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        # A run.json has the time of its run in it, so it identifies the draws of the run too.
        for name in ("run.json", "curves.npz"):
            if self.folder and (self.folder / name).exists():
                sha256.update((self.folder / name).read_bytes())
        return sha256.hexdigest()


def entries_of(rows: Sequence[Row], results: Path) -> list[Entry]:
    """Parents, each followed by its seeds, from the plain rows of a summary and the files of their runs."""
    entries = []
    for setting, name in setting_names(settings_of(rows)).items():
        parent = _parent(name, setting)
        entries.append(parent)
        entries += [_child(parent.key, name, row, run_folder(results, row["run"])) for row in setting.rows]
    return entries


def _child(parent: str, name: str, row: Row, folder: Path) -> Entry:
    # One that was skipped has no numbers: with its 0 seconds it would be the fastest of all.
    measured = [metric for metric in METRICS if row["status"] != "skipped" and row[metric] is not None]
    note = {"mlflow.note.content": f"{row['status']}: {row['reason']}"} if row["reason"] else {}
    data = None
    if row["problem_sha256"] is not None and row["num_points"] is not None:
        source, profile = {"task": f"{row['task']}, seed {row['seed']}"}, {"num_points": int(row["num_points"])}
        # MLflow takes at most 36 characters of a digest.
        data = (row["variant"], row["problem_sha256"][:36], json.dumps(source), json.dumps(profile))
    return Entry(
        key=row["run"],
        name=f"{name} · seed {row['seed']}",
        parent=parent,
        outcome=OUTCOMES[row["status"]],
        started=_milliseconds(row["started_at"]),
        ended=_milliseconds(row["ended_at"]),
        params=_params(row),
        metrics={_group(metric) + metric: float(row[metric]) for metric in measured},
        tags={tag: str(row[tag]) for tag in TAGS if row[tag] is not None}
        | _row_tags(row)
        | {"level": "seed", "seed": str(row["seed"])}
        | note,
        folder=folder,
        data=data,
    )


def _parent(name: str, setting: SettingRuns) -> Entry:
    """Means over the seeds of one setting, and their 95 % intervals where there is more than one seed."""
    metrics: dict[str, float] = {}
    for metric in METRICS:
        estimate, group = setting.estimate(metric), _group(metric)
        values = {
            f"{group}{metric}": estimate.mean,
            f"{group}{INTERVAL}{metric}_low": estimate.low,
            f"{group}{INTERVAL}{metric}_high": estimate.high,
        }
        metrics |= {name: float(f"{value:.{DIGITS}g}") for name, value in values.items() if value is not None}
    rows = setting.rows
    statuses = Counter(row["status"] for row in rows)
    counted = ", ".join(f"{count} {status}" for status, count in statuses.items())
    first = next((row for row in rows if row["status"] == "ok"), rows[0])
    started, ended = ([_milliseconds(row[name]) for row in rows if row[name]] for name in ("started_at", "ended_at"))
    seeds = ", ".join(str(row["seed"]) for row in rows)
    key = f"{first['variant']}/{first['label']}/{first['backend']}"
    return Entry(
        key=key,
        name=name,
        parent=None,
        outcome=OUTCOMES[first["status"]],
        started=min(started, default=None),
        ended=max(ended, default=None),
        params={name: value for name, value in _params(first).items() if name != "seed"},
        metrics=metrics,
        tags=_row_tags(first)
        | {"study": first["study"], "run": key, "seeds": seeds, "level": "setting"}
        | {"status": first["status"] if len(statuses) == 1 else counted}
        | {"mlflow.note.content": f"mean and 95 % interval over the seeds {seeds}: {counted}"},
    )


def _params(row: Row) -> dict[str, str]:
    """What the run was asked for; each of the method's own settings is a parameter too."""
    shared = {name: str(row[name]) for name in PARAMETERS if row[name] is not None}
    return shared | {name: str(value) for name, value in row["own_settings"] or ()}


def _row_tags(row: Row) -> dict[str, str]:
    tags = {name: row[name] for name in ("task", "method", "backend")}
    tags |= {"mlflow.source.name": "pbnn-bench", "mlflow.source.type": "PROJECT"}
    # The dot before a run's name, and its line in charts.
    tags["mlflow.runColor"] = facts_of(row["method"]).colour
    return tags | ({"mlflow.source.git.commit": row["git_commit"]} if row["git_commit"] else {})


def _group(metric: str) -> str:
    return "" if metric in HEADLINE else WORKINGS


def _milliseconds(time_of_day: str | None) -> Any:
    return int(datetime.fromisoformat(time_of_day).timestamp() * 1000) if time_of_day else None
