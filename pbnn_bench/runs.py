"""``pbnn-bench compare`` and ``pbnn-bench plot``: finished runs, of ``sample`` or of a study."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from implementations.finished import read_draws, read_record
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import read_npz
from implementations.tasks.problem import Problem
from records.columns import COLUMNS
from records.display import format_given, format_number
from records.failures import load_problem
from records.layout import problem_path, read_metrics
from records.methods import facts_of
from reports import diff
from reports.reliability import density, diagram
from workflows.evaluation import evaluate

#: What a comparison shows of a run, in this order, as far as the run has it.
SHOWN = (
    *("acceptance_rate", "mean_variance", "r_hat", "ess_bulk_min", "ess_per_second", "wall_clock_s"),
    *("likelihood_evaluations", "gradient_evaluations"),
    *("nll", "accuracy", "brier", "rmse", "crps", "ece", "confidence_gap", "validation_ece"),
)


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that ended well: its record, metrics and curves."""

    record: dict[str, Any]
    metrics: dict[str, Any]
    curves: dict[str, np.ndarray]
    problem: Problem


def load_run(folder: Path) -> FinishedRun:
    """The run in a folder, evaluated if it has not been."""
    record = read_record(folder)
    if record is None:
        raise SettingError(f"{folder} has no run.json: no finished run is there")
    if record["status"] != "ok":
        raise SettingError(f"the run in {folder} {record['status']}: {record.get('reason')}")
    problem = load_problem(_problem_of(folder, record))
    metrics = read_metrics(folder)
    if metrics is not None and metrics["failure"] is None:
        return FinishedRun(record, metrics, read_npz(folder / "curves.npz"), problem)
    made = evaluate(problem, record, read_draws(folder, record), "a single run has no reference")
    return FinishedRun(record, *made, problem)


def _problem_of(folder: Path, record: dict[str, Any]) -> Path:
    """``problem.npz`` in the folder of a single run, or in that of the study."""
    single = folder / "problem.npz"
    if single.is_file():
        return single
    # results/<study>/runs/<variant>/<label>/<backend>/seed<k>
    parts = folder.resolve().parents
    of_study = problem_path(parts[4], parts[2].name, record["seed"]) if len(parts) > 4 else single
    if not of_study.is_file():
        raise SettingError(f"the problem of the run in {folder} is missing: neither {single} nor {of_study} is there")
    return of_study


def compare(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Compare two finished runs. For two studies: verdicts that changed, and numbers that moved "
        "by more than their error.",
    )
    for name in ("A", "B"):
        parser.add_argument(name, help="the folder of a run, or of a study; at a commit, COMMIT:FOLDER")
    names = list(vars(parser.parse_args(argv)).values())
    folders = [Path(name) for name in names]
    if not any((folder / "run.json").exists() for folder in folders) and any(map(_is_study, folders)):
        return diff.main(names, program)
    one, other = map(load_run, folders)
    print("\n".join(side_by_side(one, other, names=[str(folder) for folder in folders])))
    return 0


def _is_study(path: Path) -> bool:
    """A folder with a summary, a summary, or, where there is no such file, one at a commit."""
    if path.is_dir():
        return (path / "summary.csv").exists()
    return path.suffix == ".csv" or (not path.exists() and ":" in str(path))


def side_by_side(one: FinishedRun, other: FinishedRun, names: Sequence[str]) -> list[str]:
    """What differs in two runs' settings, then what came of them."""
    runs = (one, other)
    given = [_settings(run) for run in runs]
    rows = [["", *names]]
    rows += [
        [name, *(_text(settings.get(name)) for settings in given)]
        for name in dict.fromkeys([*given[0], *given[1]])
        if given[0].get(name) != given[1].get(name) or name in ("task", "method")
    ]
    rows.append(["", "", ""])
    for name in SHOWN:
        values = [(run.metrics | run.record).get(name) for run in runs]
        if any(value is not None for value in values):
            rows.append([name, *map(_text, values), COLUMNS[name].meaning])
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=False)) for row in rows]
    is_same = one.record["problem_sha256"] == other.record["problem_sha256"]
    note = [] if is_same else ["", "they ran on different problems: only their costs can be compared"]
    return [line.rstrip() for line in lines] + note


def _settings(run: FinishedRun) -> dict[str, Any]:
    names = ("task", "stochastic", "prior", "prior_scale", "num_points", "method", "backend", "seed")
    return {name: run.record[name] for name in names} | run.record["settings"]


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        return format_given(value)
    return format_number(value) if isinstance(value, float) else str(value)


def plot(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(
        prog=program, description="Draw the reliability diagram of a finished run; for a density, the density."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder with a run.json")
    parser.add_argument(
        "--out", type=Path, help="the SVG file (default: reliability.svg or density.svg in the run's folder)"
    )
    arguments = parser.parse_args(argv)
    found = load_run(arguments.run)
    is_density = "grid_mean" in found.curves
    path = arguments.out or arguments.run / ("density.svg" if is_density else "reliability.svg")
    if path.suffix != ".svg":
        raise SettingError(f"--out {path}: an SVG file is drawn; end its name in .svg")
    facts = facts_of(found.record["method"])
    path.parent.mkdir(parents=True, exist_ok=True)
    title = f"{facts.label} on {found.record['task']}, seed {found.record['seed']}"
    if is_density:
        drawn = density(found.curves, title, facts.colour)
    else:
        drawn = diagram(found.curves, found.problem.likelihood, title, facts.colour)
    path.write_text(drawn, encoding="utf-8")
    print(path)
    return 0
