"""The runs of a study as typed values, and ``results/<study>/runs.parquet``, from which every later step reads them.

A run is a method with its settings on a variant of a task, a backend and a seed. The file has one row per run and one
typed column per setting; the study's name and description are in the schema's metadata.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from implementations.card import Card
from implementations.infrastructure.artefact import parsing, reading, write_record
from implementations.infrastructure.files import Damaged, atomic_path
from implementations.methods import find_method
from implementations.settings import LADDER, SETTINGS, Settings, Size
from implementations.tasks import find_task
from implementations.tasks.task import Task
from records import layout
from records.layout import plain

#: Between the items of a label. Not a comma: Snakemake splits the wildcards of a cluster job there (its issue 2366).
SEPARATOR = "+"


@dataclass(frozen=True)
class Variant:
    """A task as a study asks for it: stochastic layers, prior, data and training."""

    #: The name of a task, or ``file.py:TASK`` (implementations.tasks.find_task).
    task: str
    stochastic: str = "last"
    prior: str = "gaussian"
    prior_scale: float = 1.0
    #: None for the task's own.
    num_points: int | None = None
    num_epochs: int | None = None
    #: None if the chains read the data that trained the network.
    fresh_points: int | None = None

    @cached_property
    def definition(self) -> Task:
        return find_task(self.task, self.num_points, self.num_epochs, self.fresh_points)

    @property
    def name(self) -> str:
        """The task's name, also of a task that comes from a file."""
        return self.definition.name

    @cached_property
    def size(self) -> Size:
        """What settings are checked against."""
        return self.definition.size(self.stochastic)

    @cached_property
    def label(self) -> str:
        """``regression``, ``regression-all-laplace``: the task and each departure from its usual form."""
        parts = [
            self.name,
            self.stochastic if self.stochastic != "last" else "",
            self.prior if self.prior != "gaussian" else "",
            f"scale{plain(self.prior_scale)}" if self.prior_scale != 1 else "",
            f"points{self.num_points}" if self.num_points is not None else "",
            f"epochs{self.num_epochs}" if self.num_epochs is not None else "",
            f"fresh{self.fresh_points}" if self.fresh_points is not None else "",
        ]
        return "-".join(filter(None, parts))


@dataclass(frozen=True)
class Run:
    """A method with its settings on one task, backend and seed."""

    variant: Variant
    method: str
    settings: Settings
    backend: str
    seed: int
    #: The method and the settings that its entry in the study gives: ``pbnn+batch_size=5+weight=data``.
    label: str
    #: Where a method from outside the suite comes from: ``/path/to/file.py:CARD`` or ``package.module:CARD``.
    source: str | None = None
    #: Does the study compare it with the exact or gold-standard answer for its target?
    has_reference: bool = True

    @property
    def card(self) -> Card:
        return find_method(self.source or self.method)

    @property
    def path(self) -> str:
        """Its folder below ``results/<study>/runs``, and its id. For people: no code takes it apart."""
        return f"{self.variant.label}/{self.label}/{self.backend}/seed{self.seed}"

    @property
    def target_weight(self) -> float:
        """w of the target as a number."""
        return self.settings.target_weight(self.variant.size.num_points)

    @property
    def is_tuned_apart(self) -> bool:
        """Does the stage ``tune`` find its step, once for all seeds, against a reference? Only for whole networks."""
        return self.settings.step_size == LADDER and self.variant.stochastic == "all" and self.has_reference

    @property
    def tuning_identity(self) -> dict[str, str]:
        """What a step that is tuned apart is for: the setting, whatever the seed."""
        return {"variant": self.variant.label, "label": self.label, "backend": self.backend}

    def folder(self, results: Path) -> Path:
        return layout.run_folder(results, self.path)

    def problem_path(self, results: Path) -> Path:
        return layout.problem_path(results, self.variant.label, self.seed)

    def reference_path(self, results: Path) -> Path | None:
        """Where the right answer for its target is; None if the study asks for none."""
        if not self.has_reference:
            return None
        return layout.reference_path(results, self.variant.label, self.target_weight, self.seed)

    def tuning_path(self, results: Path) -> Path | None:
        """Where the step that all its seeds share is; None for a run whose step is not tuned apart."""
        if not self.is_tuned_apart:
            return None
        return layout.tuning_path(results, self.variant.label, self.label, self.backend)


_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string()}
#: Settings whose value is a number or a word (``step_size: auto``): the word has a column of its own.
_WITH_WORDS = [name for name, setting in SETTINGS.items() if setting.kind is not str and setting.choices]
_SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("batch", pa.string()),
        ("variant", pa.string()),
        ("label", pa.string()),
        # The fields of Variant.
        ("task", pa.string()),
        ("stochastic", pa.string()),
        ("prior", pa.string()),
        ("prior_scale", pa.float64()),
        ("num_points", pa.int64()),
        ("num_epochs", pa.int64()),
        ("fresh_points", pa.int64()),
        ("method", pa.string()),
        ("source", pa.string()),
        ("backend", pa.string()),
        ("seed", pa.int64()),
        # Settings; those that only this method has are one JSON object.
        *((name, _TYPES[setting.kind]) for name, setting in SETTINGS.items() if name != "weight"),
        ("weight", pa.float64()),
        *((f"{name}_word", pa.string()) for name in _WITH_WORDS),
        ("own_settings", pa.string()),
        ("target_weight", pa.float64()),
        ("has_reference", pa.bool_()),
        ("is_tuned_apart", pa.bool_()),
        # Files that it needs, below the folder of the study's results.
        ("problem", pa.string()),
        ("reference", pa.string()),
        ("tuning", pa.string()),
    ]
)


def runs_path(results: Path) -> Path:
    return results / "runs.parquet"


def write_runs(results: Path, runs: Iterable[tuple[Run, str]], description: str) -> None:
    """Write runs, each with the name of its batch, to ``runs.parquet``; a file that has this content is left alone."""
    rows = [_row(run, batch) for run, batch in runs]
    table = pa.Table.from_pylist(rows, _SCHEMA.with_metadata({"description": description}))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    content = buffer.getvalue().to_pybytes()
    path = runs_path(results)
    with suppress(FileNotFoundError, Damaged), reading(path) as file:
        if file.read() == content:
            return
    with atomic_path(path) as partial:
        partial.write_bytes(content)


def read_runs(results: Path, **wanted: str) -> list[Run]:
    """The runs of a study in its order; with ``wanted``, the runs whose columns have these values."""
    filters = [(column, "==", value) for column, value in wanted.items()]
    with reading(runs_path(results)) as file, parsing():
        return [_run(row) for row in pq.read_table(file, filters=filters or None).to_pylist()]


def write_mark(results: Path, batch: str, name: str, runs: Iterable[Run]) -> None:
    """Say that these runs are ``sampled`` or ``evaluated``: Snakemake follows marks and leaves the runs alone."""
    content = {"batch": batch, "name": name, "runs": [run.path for run in runs]}
    write_record(layout.mark_path(results, batch, name), "mark", content)


def read_description(results: Path) -> str:
    """The study's line of description."""
    with reading(runs_path(results)) as file, parsing():
        metadata: Mapping[bytes, bytes] = pq.read_schema(file).metadata
        return metadata[b"description"].decode()


def _row(run: Run, batch: str) -> dict[str, Any]:
    paths = {name: getattr(run, f"{name}_path")(Path()) for name in ("problem", "reference", "tuning")}
    shared = {name: value for name, value in run.settings.as_dict().items() if name in SETTINGS}
    words = {name: shared.pop(name) for name in _WITH_WORDS if isinstance(shared.get(name), str)}
    return {
        "run": run.path,
        "batch": batch,
        "variant": run.variant.label,
        **asdict(run.variant),
        **{name: getattr(run, name) for name in ("label", "method", "source", "backend", "seed")},
        **shared,
        **{f"{name}_word": word for name, word in words.items()},
        "own_settings": json.dumps(dict(run.settings.own)),
        **{name: getattr(run, name) for name in ("target_weight", "has_reference", "is_tuned_apart")},
        **{name: str(path) if path else None for name, path in paths.items()},
    }


def _run(row: Mapping[str, Any]) -> Run:
    shared = {name: row[name] for name in SETTINGS} | {
        name: row[f"{name}_word"] for name in _WITH_WORDS if row[f"{name}_word"] is not None
    }
    given = {name: value for name, value in shared.items() if value is not None} | json.loads(row["own_settings"])
    return Run(
        variant=Variant(**{field.name: row[field.name] for field in fields(Variant)}),
        settings=Settings.of(given),
        **{name: row[name] for name in ("method", "backend", "seed", "label", "source", "has_reference")},
    )
