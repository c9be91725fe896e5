"""Runs as figures show them: the seeds of one setting together, and which setting stands where several could."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from implementations.backends import BACKENDS
from implementations.methods import METHODS, SETTINGS
from implementations.tasks import TASKS
from metrics.seeds import Estimate
from reports.evidence import interval
from reports.study import MAX_R_HAT, POSTERIOR, estimate, is_converged

#: Settings that say how long a chain is, not what it does.
LENGTHS = ("num_steps", "num_warmup", "thin", "chains")
#: How a setting stands in a figure.
SYMBOLS = {"batch_size": "n", "num_batches": "M", "step_size": "η"}


@dataclass(frozen=True, eq=False)
class Group:
    """The seeds of one setting on one backend that ended well. Converged or not, figures show them: apart, marked."""

    rows: pd.DataFrame

    def __getitem__(self, column: str) -> Any:
        """A value that all seeds share, None where they have none."""
        value = self.rows[column].iloc[0]
        return None if pd.isna(value) else value

    @property
    def num_converged(self) -> int:
        return int(is_converged(self.rows).sum())

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self.rows["run"])

    @property
    def is_converged(self) -> bool:
        return self.num_converged == len(self.rows)

    def parts(self, column: str) -> list[tuple[Estimate, bool]]:
        """The estimate of its converged seeds (True) and that of the others (False), where they have values."""
        rows = self.rows[self.rows[column].notna()]
        flags = is_converged(rows)
        return [(estimate(rows[flags == flag], column), flag) for flag in (True, False) if (flags == flag).any()]

    def best(self, column: str) -> Estimate | None:
        """The estimate of the converged seeds, of the others where there are none, and None without values."""
        parts = self.parts(column)
        return parts[0][0] if parts else None

    def mean(self, column: str) -> float:
        """The mean of ``best``, NaN without values."""
        value = self.best(column)
        return math.nan if value is None or value.mean is None else value.mean

    def shown(self) -> pd.DataFrame:
        """The rows that stand for it: the converged ones if there are any, by seed."""
        flags = is_converged(self.rows)
        return self.rows[flags if flags.any() else ~flags].sort_values("seed")


def groups_of(rows: pd.DataFrame) -> list[Group]:
    """The settings in ``rows``, in their order, of the runs that ended well."""
    rows = rows[rows["status"] == "ok"]
    return [Group(part) for _, part in rows.groupby(["variant", "label", "backend"], sort=False)]


def of_usual_size(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of a task at another N than its own, where it was run at that too.

    Other N ask what a step costs, with a few short chains; a panel for each would tell nothing else.
    """
    is_usual = rows["num_points"].eq(rows["task"].map({name: task.num_points for name, task in TASKS.items()}))
    is_usual = is_usual.fillna(False)
    return rows[is_usual | ~rows["task"].isin(rows.loc[is_usual, "task"])]


def one_backend(groups: Iterable[Group]) -> list[Group]:
    """Of each setting the backend with most converged seeds, then most seeds, then the first of BACKENDS."""
    best: dict[tuple[str, str], Group] = {}
    for group in groups:
        key = group["variant"], group["label"]
        best[key] = max(best.get(key, group), group, key=_rank)
    return list(best.values())


def _rank(group: Group) -> tuple[int, int, int]:
    return group.num_converged, len(group.rows), -list(BACKENDS).index(group["backend"])


def choose(groups: Iterable[Group], **preferred: float) -> Group | None:
    """The group that stands for a method: nearest to the preferred settings (by ratio), then of fewest own settings.

    A setting that the study gives to a run stands in its label, so few of them means near to the defaults.
    """

    def rank(group: Group) -> tuple[float, ...]:
        distances = [
            math.inf if group[name] is None else abs(math.log(group[name] / wanted))
            for name, wanted in preferred.items()
        ]
        return (*distances, group["label"].count(","))

    return min(one_backend(groups), key=rank, default=None)


def posterior_of(groups: Sequence[Group]) -> Group | None:
    """The chain that stands for the posterior of all data: the method with most converged seeds, full_mh of equals."""
    exact = [group for group in groups if group["weight"] == "data"]
    found = [choose(group for group in exact if group["method"] == method) for method in POSTERIOR]
    return max((group for group in found if group is not None), key=lambda group: group.num_converged, default=None)


def sweeps(groups: Iterable[Group], axis: str) -> list[list[Group]]:
    """Families of groups that differ in the setting ``axis`` alone (and in length), each in its order."""
    fixed = [name for name in SETTINGS if name not in (axis, *LENGTHS)]
    families: dict[tuple[Any, ...], dict[float, Group]] = {}
    # Of two lengths the longer chain comes last, and stays.
    for group in sorted(groups, key=lambda group: int(group["num_steps"])):
        if group[axis] is not None:
            key = tuple(group[name] for name in ("variant", "method", "backend", *fixed))
            families.setdefault(key, {})[float(group[axis])] = group
    found = [[family[value] for value in sorted(family)] for family in families.values() if len(family) > 1]
    return sorted(found, key=lambda family: int(family[0].rows.index[0]))


def settings_text(group: Group, *without: str) -> str:
    """``n = 5, M = 5, η = 0.034``, and what departs from the method's defaults."""
    method = METHODS[group["method"]]
    parts = {name: f"{symbol} = {group[name]:.3g}" for name, symbol in SYMBOLS.items() if group[name] is not None}
    if group["weight"] != method.weight:
        parts["weight"] = {"data": "w = N", "batch": "w = n"}.get(group["weight"], f"w = {group['weight']}")
    if group["variance"] != method.variance:
        parts["variance"] = f"{group['variance']} variance"
    if group["preconditioner"] != "full":
        parts["preconditioner"] = {"none": "C = I", "diagonal": "diagonal C"}[group["preconditioner"]]
    return ", ".join(text for name, text in parts.items() if name not in without)


def name_text(group: Group, *without: str) -> str:
    """``pbnn (n = 5, M = 5, η = 0.034)``"""
    settings = settings_text(group, *without)
    return f"{group['method']} ({settings})" if settings else str(group["method"])


def runs_of(groups: Iterable[Group]) -> tuple[str, ...]:
    """Their runs, each once."""
    return tuple(dict.fromkeys(run for group in groups for run in group.runs))


def told(group: Group, column: str) -> str:
    """A column of a group over its seeds: ``1.02 [0.98, 1.06]``."""
    value = group.best(column)
    return "without a value" if value is None else interval(value)


def unconverged_text(groups: Sequence[Group]) -> str:
    """What a caption says of the runs that are not evidence; nothing where there are none."""
    runs = runs_of(groups)
    converged = {run for group in groups for run in group.rows.loc[is_converged(group.rows), "run"]}
    missing = len(runs) - len(converged)
    if not missing:
        return ""
    return f" Hollow or hatched: {missing} of {len(runs)} runs have not converged (R-hat above {MAX_R_HAT})."
