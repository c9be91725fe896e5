"""A study's results as reports read them: the summary, and the files of a run where a figure asks for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from implementations.files import read_npz
from implementations.tasks.problem import Problem
from implementations.tasks.reference import Reference
from metrics.seeds import Estimate, mean_over_seeds, paired_difference
from workflows.failures import load_problem, load_reference
from workflows.grid import plain

#: Function-space R-hat above which a run's other numbers are not evidence.
MAX_R_HAT = 1.05
#: Methods whose chain keeps the posterior of all data, the paper's "BNN", the nearest to the paper's first.
POSTERIOR = ("full_mh", "mala")


@dataclass(frozen=True, eq=False)
class StudyResults:
    """The folder ``results/<study>`` and its summary, one row a run (``workflows.columns`` explains the columns)."""

    folder: Path
    #: With two columns more: ``variant`` and ``label``, the first two parts of ``run``.
    summary: pd.DataFrame
    description: str = ""

    @classmethod
    def load(cls, folder: Path, description: str = "") -> Self:
        return cls.of(pd.read_parquet(folder / "summary.parquet"), folder, description)

    @classmethod
    def of(cls, summary: pd.DataFrame, folder: Path, description: str = "") -> Self:
        parts = summary["run"].str.split("/", expand=True)
        return cls(folder, summary.assign(variant=parts[0], label=parts[1]), description)

    @property
    def name(self) -> str:
        return self.folder.name

    def rows(self, **wanted: Any) -> pd.DataFrame:
        """The rows whose columns have these values; a list stands for any of its values."""
        is_wanted = pd.Series(True, index=self.summary.index)
        for column, value in wanted.items():
            is_wanted &= self.summary[column].isin(value if isinstance(value, list) else [value])
        return self.summary[is_wanted]

    @cached_property
    def ok(self) -> pd.DataFrame:
        """The rows of runs that ended well."""
        return self.rows(status="ok")

    def curves(self, run: str) -> dict[str, np.ndarray]:
        """Reliability curves of a run, and its predictions where inputs have one dimension (workflows.evaluation)."""
        return read_npz(self.folder / "runs" / run / "curves.npz")

    def draws(self, run: str) -> dict[str, np.ndarray]:
        """Draws and traces of a run (implementations.run)."""
        return read_npz(self.folder / "runs" / run / "draws.npz")

    def problem(self, row: Mapping[Any, Any]) -> Problem:
        """The problem that a row's run worked on."""
        return load_problem(self.folder / "problems" / row["variant"] / f"seed{row['seed']}" / "problem.npz")

    def reference(self, row: Mapping[Any, Any]) -> Reference | str:
        """The right answer for a row's own target, or why there is none."""
        weight = f"weight{plain(float(row['target_weight']))}"
        return load_reference(
            self.folder / "references" / row["variant"] / weight / f"seed{row['seed']}" / "reference.npz"
        )


def is_converged(rows: pd.DataFrame) -> pd.Series:
    """Which runs are evidence: those that ended well, with an R-hat of at most MAX_R_HAT."""
    return (rows["status"] == "ok") & (rows["r_hat"] <= MAX_R_HAT).fillna(False)


def by_seed(rows: pd.DataFrame, column: str) -> dict[int, float | None]:
    """One value a seed, None where it is missing; ``rows`` are the seeds of one setting on one backend."""
    if rows["seed"].duplicated().any():
        raise ValueError(f"rows of more than one setting or backend: {', '.join(rows['run'])}")
    pairs = zip(rows["seed"], rows[column], strict=True)
    return {int(seed): None if pd.isna(value) else float(value) for seed, value in pairs}


def estimate(rows: pd.DataFrame, column: str) -> Estimate:
    """Mean and 95 % interval over the seeds of one setting."""
    return mean_over_seeds(by_seed(rows, column))


def difference(rows: pd.DataFrame, baseline: pd.DataFrame, column: str) -> Estimate:
    """Mean and 95 % interval of the paired difference between two settings."""
    return paired_difference(by_seed(rows, column), by_seed(baseline, column))
