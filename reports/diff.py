"""Two studies compared: which verdicts changed, and which numbers moved by more than their error.

    pbnn-bench compare results/paper reports/published/paper
    pbnn-bench compare HEAD~5:reports/published/paper reports/published/paper

A study is a folder with its summary, a ``summary.csv`` itself, or either at a commit, as ``git show`` writes it.
"""

import io
import json
import math
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from scipy import stats

from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged
from metrics.seeds import LEVEL, Estimate, holm, p_above, p_below
from records.columns import METRICS
from records.display import ROUNDING, estimate_parts, format_number, setting_names
from records.setting_runs import SettingRuns
from records.study import StudyResults
from records.summary import table_of

#: Chance that anything is called moved where nothing has, over all that is compared.
RATE = 0.05
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Side:
    """One of two studies: its settings, and its verdicts by claim."""

    name: str
    study: StudyResults
    verdicts: dict[int, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[Key, SettingRuns]:
        return {(one["variant"], one["label"], one["backend"]): one for one in self.study.all_settings}


class Move(NamedTuple):
    """A number of a setting on both sides, and the chance of such a difference where there is none."""

    key: Key
    column: str
    one: Estimate
    other: Estimate
    difference: Estimate
    p_value: float


@dataclass(frozen=True)
class Diff:
    """The differences between two studies."""

    moved: list[Move]
    num_compared: int
    #: Claims whose verdicts differ: number, before, after.
    verdicts: list[tuple[int, str, str]]
    only_one: list[Key]
    only_other: list[Key]
    #: Settings with other numbers of converged runs: before and after.
    converged: list[tuple[Key, str, str]]


FILES = ("summary.csv", "claims.json")


def load(name: str) -> Side:
    """A study by its folder, its summary, or either at a commit. Raises SettingError."""
    path = Path(name)
    folder = path.parent if path.name == "summary.csv" else path
    if path.exists():
        contents = [file.read_bytes() if file.is_file() else None for file in (folder / one for one in FILES)]
    else:
        commit, colon, inside = name.partition(":")
        if not colon:
            raise SettingError(f"no folder or file {name}; at a commit it is COMMIT:{name}")
        folder = Path(inside.removesuffix("/summary.csv"))
        contents = [_at_commit(commit, (folder / one).as_posix()) for one in FILES]
        if contents[0] is None:
            raise SettingError(f"{folder}/summary.csv is not in commit {commit}, or there is no such commit")
    summary, claims = contents
    if summary is None:
        raise SettingError(f"{name} has no summary: it is not the folder of a study")
    try:
        study = StudyResults(folder, table_of(pd.read_csv(io.BytesIO(summary), low_memory=False)))
        verdicts = {claim["id"]: claim["verdict"] for claim in json.loads(claims)["claims"]} if claims else {}
    except (ValueError, LookupError, TypeError) as error:
        raise Damaged(f"{name} is damaged: {error}") from None
    if study.summary["label"].isna().any():
        raise SettingError(f"{name} is of an older version: its summary has no column 'label' to tell settings apart")
    return Side(name, study, verdicts)


def _at_commit(commit: str, path: str) -> bytes | None:
    if commit.startswith("-"):
        return None
    try:
        return subprocess.run(["git", "show", f"{commit}:./{path}"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def diff(one: Side, other: Side) -> Diff:
    """The numbers that moved from one to the other beyond their error, with Holm's correction for all compared."""
    ours, theirs = one.settings, other.settings
    common = [key for key in ours if key in theirs]
    compared = [move for key in common for move in _moves(key, ours[key], theirs[key])]
    adjusted = holm([move.p_value for move in compared])
    verdicts = [
        (number, before, other.verdicts[number])
        for number, before in sorted(one.verdicts.items())
        if other.verdicts.get(number, before) != before
    ]
    counts = [(key, _counted(ours[key]), _counted(theirs[key])) for key in common]
    return Diff(
        [move for move, p_value in zip(compared, adjusted, strict=True) if p_value <= RATE],
        len(compared),
        verdicts,
        [key for key in ours if key not in theirs],
        [key for key in theirs if key not in ours],
        [(key, before, after) for key, before, after in counts if before != after],
    )


def _counted(setting: SettingRuns) -> str:
    return f"{len(setting.converged)} of {len(setting.rows)}"


def _moves(key: Key, one: SettingRuns, other: SettingRuns) -> Iterator[Move]:
    for column in METRICS:
        if one.has(column) and other.has(column):
            difference, p_value = difference_of(one, other, column)
            yield Move(key, column, one.estimate(column), other.estimate(column), difference, p_value)


def difference_of(one: SettingRuns, other: SettingRuns, column: str) -> tuple[Estimate, float]:
    """Other minus one, and its two-sided p-value: paired by seed where two seeds are on both sides, or Welch's.

    A single seed has no error to compare with, and its p-value is 1.
    """
    paired = other.difference(one, column)
    if paired.num_seeds > 1:
        width = math.inf if paired.low is None or paired.high is None else paired.high - paired.low
        if width <= ROUNDING * max(1.0, abs(paired.mean or 0.0)):
            return paired, _without_spread(one, other, column)
        return paired, min(1.0, 2 * min(p_above(paired, 0.0), p_below(paired, 0.0)))
    samples = [list(side.present(column).values()) for side in (other, one)]
    mean = sum(samples[0]) / len(samples[0]) - sum(samples[1]) / len(samples[1])
    if min(map(len, samples)) < 2:
        return Estimate(mean, None, None, 1, 0), 1.0
    found = stats.ttest_ind(*samples, equal_var=False)
    low, high = found.confidence_interval(LEVEL)
    p_value = float(found.pvalue)
    return Estimate(mean, low, high, min(map(len, samples)), 0), 1.0 if math.isnan(p_value) else p_value


def _without_spread(one: SettingRuns, other: SettingRuns, column: str) -> float:
    """The p-value where all seeds moved by the same amount.

    A number that no seed changes, such as the data a step reads, has moved or not. One that seeds change may come in
    steps, as a share of few test points does, and then agree by chance: all that is left is that all have one sign.
    """
    ours, theirs = (set(side.present(column).values()) for side in (one, other))
    if ours == theirs:
        return 1.0
    if len(ours) == len(theirs) == 1:
        return 0.0
    return float(0.5 ** (other.difference(one, column).num_seeds - 1))


def lines_of(found: Diff, one: Side, other: Side) -> list[str]:
    """The difference as text, what matters most first."""
    # Together: a setting on one side alone may have the same letters as another on the other side.
    both = one.settings | {key: setting for key, setting in other.settings.items() if key not in one.settings}
    texts = setting_names(both.values())
    names = {key: texts[setting] for key, setting in both.items()}
    lines = [f"A: {_origin(one)}", f"B: {_origin(other)}", ""]
    lines.append(f"Verdicts that changed: {len(found.verdicts) or 'none'}")
    lines += [f"  claim {number}: {before} → {after}" for number, before, after in found.verdicts]
    total = f"of {found.num_compared:,} numbers, with Holm's correction"
    lines += ["", f"Numbers that moved beyond their error: {len(found.moved) or 'none'} {total}"]
    rows = [["setting", "", "A", "B", "B − A"]] + [_row(names[move.key], move) for move in found.moved]
    if found.moved:
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if found.converged:
        lines += ["", f"Settings with other numbers of converged runs: {len(found.converged)}"]
        lines += [f"  {names[key]}: {before} → {after}" for key, before, after in found.converged]
    for name, keys in (("A", found.only_one), ("B", found.only_other)):
        if keys:
            lines += ["", f"Settings in {name} alone: {len(keys)}", *(f"  {names[key]}" for key in keys)]
    return [line.rstrip() for line in lines]


def _origin(side: Side) -> str:
    commits = ", ".join(one[:12] for one in side.study.summary["git_commit"].dropna().unique())
    return f"{side.name}, {len(side.study.summary):,} runs of commit {commits or 'unknown'}"


def _row(name: str, move: Move) -> list[str]:
    values = [format_number(one.mean) for one in (move.one, move.other)]
    return [name, METRICS[move.column].heading, *values, " ".join(estimate_parts(move.difference))]
