"""A study's results as reports read them: the summary, and the files of a run where a figure needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from implementations.infrastructure.files import Damaged
from implementations.tasks.problem import Problem
from records.artefacts import load_problem, load_reference, read_curves
from records.layout import run_folder
from records.reference import Reference
from records.setting_runs import Row, SettingRuns, plain_rows, settings_of
from records.summary import read_summary, table_of


@dataclass(frozen=True, eq=False)
class StudyResults:
    """The folder ``results/<study>`` and its summary, one row per run (``records.columns`` explains the columns)."""

    folder: Path
    summary: pd.DataFrame
    description: str = ""
    #: The rows in plain values, if they are known already.
    known_rows: list[Row] | None = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: Path, description: str = "") -> Self:
        """The results in a folder; a published one has its summary as CSV only."""
        parquet = folder / "summary.parquet"
        path = parquet if parquet.exists() else folder / "summary.csv"
        try:
            table = read_summary(folder) if path == parquet else table_of(pd.read_csv(path, low_memory=False))
            return cls(folder, table, description)
        except (FileNotFoundError, Damaged):
            raise
        # Errors of the Parquet library are of either kind.
        except (ValueError, TypeError, LookupError, OSError) as error:
            line = str(error).partition("\n")[0]
            raise Damaged(f"{path} is damaged: {line}; remove it, and the same command makes it again") from None

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the summary in plain values."""
        return plain_rows(self.summary) if self.known_rows is None else self.known_rows

    def subset(self, is_in: Sequence[bool]) -> Self:
        """The same study with the rows that have a True here."""
        rows = [row for row, flag in zip(self.rows, is_in, strict=True) if flag]
        return replace(self, summary=self.summary[list(is_in)], known_rows=rows)

    @cached_property
    def all_settings(self) -> list[SettingRuns]:
        """Every setting on every backend, in the order of the study."""
        return settings_of(self.rows)

    def settings(self, **wanted: Any) -> list[SettingRuns]:
        """The settings whose columns have these values; a list stands for any of its values."""
        lists = {name: value if isinstance(value, list) else [value] for name, value in wanted.items()}
        return [one for one in self.all_settings if all(one[name] in values for name, values in lists.items())]

    def ran(self, **wanted: Any) -> list[SettingRuns]:
        """Those of ``settings`` with a run that ended well."""
        return [one for one in self.settings(**wanted) if one.ok]

    @property
    def variants(self) -> list[str]:
        """The tasks of the study and their variants, in its order."""
        return list(dict.fromkeys(row["variant"] for row in self.rows))

    def curves(self, run: str) -> dict[str, np.ndarray]:
        """Reliability curves of a run, and its predictions where inputs have one dimension (records.evaluation)."""
        return read_curves(run_folder(self.folder, run))

    def problem(self, row: Mapping[Any, Any]) -> Problem:
        """The problem that a row's run worked on."""
        return load_problem(self.folder, row["variant"], row["seed"])

    def reference(self, row: Mapping[Any, Any]) -> Reference | str:
        """The right answer for a row's own target, or why there is none."""
        if row["reference_kind"] == "none":
            return "the study asks for none"
        return load_reference(self.folder, row["variant"], row["target_weight"], row["seed"])
