"""The runs of a study as they stand in MLflow: names, parameters, numbers and tags."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from implementations.settings import SETTINGS
from records.columns import COLUMNS
from records.display import setting_names
from records.layout import run_folder
from records.methods import facts_of
from records.setting_runs import Row, SettingRuns, settings_of

#: What a run was asked for, the columns that MLflow shows as parameters.
PARAMETERS = (
    *("task", "stochastic", "prior", "prior_scale", "method", "backend", "seed", *SETTINGS, "own_settings"),
    *("target_weight", "num_points", "num_parameters"),
)
_NAMES = list(COLUMNS)
_MEASURED = [name for name in _NAMES[: _NAMES.index("started_at")] if name not in PARAMETERS]
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
TAGS = tuple(name for name in _NAMES if name not in (*PARAMETERS, *METRICS, "started_at", "ended_at"))

#: How MLflow calls what became of a run. It has no word for one that had no device or has not been made: both are still
#: to come, and no failures, which it would show what it calls killed as.
OUTCOMES = {"ok": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "skipped": "SCHEDULED", "missing": "SCHEDULED"}
#: Of the numbers of a parent: more digits than the means over seeds are worth.
DIGITS = 4
#: Tells a parent from the run of a seed, for filters such as  tags.level = "setting".
SETTING, SEED = "setting", "seed"


class Data(NamedTuple):
    """What a run worked on, as MLflow lists it among the inputs."""

    name: str
    #: Of data, network and curvature; MLflow takes at most 36 characters.
    digest: str
    source: str
    num_points: int


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
    #: Where its files are, if it has any.
    folder: Path | None = None
    data: Data | None = None
    #: A checksum of all this.
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        content = [self.name, self.outcome, self.started, self.ended, self.params, self.metrics, self.tags, self.data]
        sha256 = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        # A run.json has the time of its run in it, so it identifies the draws beside it.
        for path in self._files():
            sha256.update(path.read_bytes())
        object.__setattr__(self, "fingerprint", sha256.hexdigest())

    def _files(self) -> list[Path]:
        paths = [self.folder / name for name in ("run.json", "curves.npz")] if self.folder else []
        return [path for path in paths if path.exists()]


def entries_of(rows: Sequence[Row], results: Path) -> list[Entry]:
    """Parents, each followed by its seeds, from the plain rows of a summary and the files of their runs."""
    settings = settings_of(rows)
    entries = []
    for setting, name in setting_names(settings).items():
        # Its runs' folder: what identifies it among all entries.
        key = str(Path(setting["run"]).parent)
        entries.append(_parent(key, name, setting))
        entries += [_child(key, name, row, run_folder(results, row["run"])) for row in setting.rows]
    return entries


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
        data=_data(row),
    )


def _data(row: Row) -> Data | None:
    """None where nothing ran."""
    if row["problem_sha256"] is None or row["num_points"] is None:
        return None
    return Data(
        row["variant"], row["problem_sha256"][:36], f"{row['task']}, seed {row['seed']}", int(row["num_points"])
    )


def _parent(key: str, name: str, setting: SettingRuns) -> Entry:
    """Means over the seeds of one setting, and their 95 % intervals where there is more than one seed."""
    metrics: dict[str, float] = {}
    for metric in METRICS:
        estimate = setting.estimate(metric)
        group = _group(metric)
        values = {
            f"{group}{metric}": estimate.mean,
            f"{group}{INTERVAL}{metric}_low": estimate.low,
            f"{group}{INTERVAL}{metric}_high": estimate.high,
        }
        metrics |= {name: rounded(value) for name, value in values.items() if value is not None}
    rows = setting.rows
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
    # The dot before a run's name, and its line in charts.
    tags["mlflow.runColor"] = facts_of(row["method"]).colour
    return tags | source | ({"mlflow.source.git.commit": row["git_commit"]} if row["git_commit"] else {})


def rounded(value: float) -> float:
    """To DIGITS significant digits."""
    return float(f"{value:.{DIGITS}g}")


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
