"""Finished runs and studies: ``pbnn-bench run``, ``report``, ``ui``, ``compare`` and ``plot``."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from implementations.infrastructure.errors import SettingError
from implementations.run_files import read_draws, read_run
from implementations.tasks.problem import Problem
from pbnn_bench import packages

#: The saved view of a study's runs that is shown first, and the tag that has it (workflows.tracking.entries).
MEANS = "means"
VIEW_TAG = f"mlflow.sharedViewState.{MEANS}"
#: Seconds to wait for a database.
PATIENCE = 5
#: What a comparison shows of a run, in this order, as far as the run has it.
SHOWN = (
    *("acceptance_rate", "mean_variance", "r_hat", "ess_bulk_min", "ess_per_second", "wall_clock_s"),
    *("likelihood_evaluations", "gradient_evaluations"),
    *("nll", "accuracy", "brier", "rmse", "crps", "ece", "confidence_gap", "validation_ece"),
)


def run(arguments: argparse.Namespace) -> int:
    """Run a study with Snakemake."""
    from workflows.study import describe, load_study

    path = packages.find_study(arguments.study)
    # Before Snakemake, which answers a file that it cannot read with a traceback.
    print(describe(load_study(path)), flush=True)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(packages.folder() / "Snakefile")]
    command += ["--cores", arguments.cores, *arguments.others, "--configfile", str(path)]
    if arguments.dry_run:
        # The plan in four lines, without a line for each job.
        command += ["--dry-run", "--quiet", "rules", "progress", "host", "reason"]
    return subprocess.run(command, env=_environment(), check=False).returncode


def _environment() -> dict[str, str]:
    """That of a process which has to find the suite's packages too."""
    paths = [str(packages.folder()), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "MLFLOW_DISABLE_TELEMETRY": "true"}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache"))
    if not os.access(cache if cache.exists() else cache.parent, os.W_OK):
        # As in many containers; Snakemake and matplotlib need a place.
        ours = Path("results", ".cache", "home").absolute()
        own |= {"XDG_CACHE_HOME": str(ours), "MPLCONFIGDIR": str(ours / "matplotlib")}
    return os.environ | own


def report(arguments: argparse.Namespace) -> int:
    """Render the report of a finished study again."""
    from workflows.steps import report as report_step
    from workflows.study import load_study

    folder = arguments.results / load_study(packages.find_study(arguments.study)).name
    if not (folder / "summary.csv").is_file():
        raise SettingError(f"{folder} has no summary.csv; run the study first: pbnn-bench run {arguments.study}")
    code = report_step.main(["--results", str(folder)])
    if code == 0:
        print(folder / "report.html")
    return code


def ui(arguments: argparse.Namespace) -> int:
    """Serve the runs in MLflow, to this machine only, and print one address per study."""
    uri, database = os.environ.get("MLFLOW_TRACKING_URI", ""), arguments.results / "mlflow.db"
    if uri.startswith("http"):
        print("MLFLOW_TRACKING_URI is a server, which has pages of its own: open that address")
        return 0
    if not uri and not database.exists():
        raise SettingError(
            f"no study has been run yet ({database} does not exist); run one first: pbnn-bench run smoke"
        )
    store = uri or f"sqlite:///{database}"
    check_database(store)
    pages = study_pages(store)
    width = max(map(len, pages))
    print("open one of these addresses in a browser; Ctrl-C stops the server", flush=True)
    for name, page in pages.items():
        print(f"  {name:{width}}  http://127.0.0.1:{arguments.port}/#/{page}", flush=True)
    # The address goes by the environment: a database's password is not shown.
    own = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_BACKEND_STORE_URI": store}
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(arguments.port)]
    try:
        command += ["--workers", "1", *arguments.others]
        return subprocess.run(command, env=_environment() | own, check=False).returncode
    except KeyboardInterrupt:
        return 0


def check_database(store: str) -> None:
    """SettingError where a database does not answer: MLflow would try again for half a minute."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.exc import SQLAlchemyError

    timeout = {"timeout" if store.startswith("sqlite") else "connect_timeout": PATIENCE}
    try:
        inspect(create_engine(store, connect_args=timeout)).get_table_names()
    except (SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise SettingError(f"the database of the runs cannot be opened: {reason}") from None


def study_pages(store: str) -> dict[str, str]:
    """Where MLflow shows the means of each tracked study, and the list of all; paths of its pages."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    # MLflow begins with the pages of language models, whatever an experiment's kind, unless the address says otherwise.
    kind = "workflowType=machine_learning"
    try:
        found = [one for one in MlflowClient(store).search_experiments() if VIEW_TAG in one.tags]
    except (MlflowException, SQLAlchemyError):
        # Whatever is wrong with the store, the server says it.
        found = []
    pages = {one.name: f"experiments/{one.experiment_id}/runs?viewStateShareKey={MEANS}&{kind}" for one in found}
    return dict(sorted(pages.items())) | {"all": f"experiments?{kind}"}


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that ended well: its record, metrics and curves."""

    record: dict[str, Any]
    metrics: dict[str, Any]
    curves: dict[str, np.ndarray]
    problem: Problem


def load_run(folder: Path) -> FinishedRun:
    """The run in a folder, evaluated if it has not been."""
    from records.artefacts import read_curves, read_metrics
    from records.evaluation import evaluate

    place = _place_of(folder)
    record = read_run(folder, {"run": place} if place else None)
    if record is None:
        raise SettingError(f"{folder} has no run.json: no finished run is there")
    if record["status"] != "ok":
        raise SettingError(f"the run in {folder} {record['status']}: {record.get('reason')}")
    problem = Problem.load(_problem_of(folder, record), {"seed": record["seed"]})
    metrics = read_metrics(folder, place)
    if metrics is not None and metrics["failure"] is None and metrics["made_from"]["run"] == record["sha256"]:
        return FinishedRun(record, metrics, read_curves(folder, metrics), problem)
    made = evaluate(problem, record, read_draws(folder, record), "a single run has no reference")
    return FinishedRun(record, *made, problem)


def _place_of(folder: Path) -> str | None:
    """The path of a run in its study, which its files have to name; None for a run that is in no study."""
    # results/<study>/runs/<variant>/<label>/<backend>/seed<k>
    place, parents = folder.resolve(), folder.resolve().parents
    is_in_study = len(parents) > 4 and parents[3].name == "runs" and (parents[4] / "runs.parquet").exists()
    return place.relative_to(parents[3]).as_posix() if is_in_study else None


def _problem_of(folder: Path, record: dict[str, Any]) -> Path:
    """``problem.npz`` in the folder of a single run, or in that of the study."""
    from records.layout import problem_path

    single = folder / "problem.npz"
    if single.is_file():
        return single
    # results/<study>/runs/<variant>/<label>/<backend>/seed<k>
    parts = folder.resolve().parents
    of_study = problem_path(parts[4], parts[2].name, record["seed"]) if len(parts) > 4 else single
    if not of_study.is_file():
        raise SettingError(f"the problem of the run in {folder} is missing: neither {single} nor {of_study} is there")
    return of_study


def compare(arguments: argparse.Namespace) -> None:
    """Print what differs in two runs, or in two studies."""
    names = [arguments.A, arguments.B]
    folders = [Path(name) for name in names]
    if not any((folder / "run.json").exists() for folder in folders) and any(map(_is_study, folders)):
        from reports.diff import diff, lines_of, load

        before, after = map(load, names)
        print("\n".join(lines_of(diff(before, after), before, after)))
        return
    one, other = map(load_run, folders)
    print("\n".join(side_by_side(one, other, names)))


def _is_study(path: Path) -> bool:
    """A folder with a summary, a summary, or, where there is no such file, one at a commit."""
    if path.is_dir():
        return (path / "summary.csv").exists()
    return path.suffix == ".csv" or (not path.exists() and ":" in str(path))


def side_by_side(one: FinishedRun, other: FinishedRun, names: Sequence[str]) -> list[str]:
    """What differs in two runs' settings, then what came of them."""
    from records.columns import COLUMNS

    runs = (one, other)
    given = [_settings(run) for run in runs]
    rows = [["", *names]]
    for name in dict.fromkeys([*given[0], *given[1]]):
        if given[0].get(name) != given[1].get(name) or name in ("task", "method"):
            rows.append([name, *(_text(settings.get(name)) for settings in given)])
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
    from records.display import format_given, format_number

    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        return format_given(value)
    return format_number(value) if isinstance(value, float) else str(value)


def plot(arguments: argparse.Namespace) -> None:
    """Draw the reliability diagram of a finished run, or its density."""
    from records.methods import facts_of
    from reports.reliability import density, diagram

    found = load_run(arguments.run)
    is_density = "grid_mean" in found.curves
    path = arguments.out or arguments.run / ("density.svg" if is_density else "reliability.svg")
    if path.suffix != ".svg":
        raise SettingError(f"--out {path}: an SVG file is drawn; end its name in .svg")
    check_output(path)
    facts = facts_of(found.record["method"])
    title = f"{facts.label} on {found.record['task']}, seed {found.record['seed']}"
    if is_density:
        drawn = density(found.curves, title, facts.colour)
    else:
        drawn = diagram(found.curves, found.problem.likelihood, title, facts.colour)
    path.write_text(drawn, encoding="utf-8")
    print(path)


def check_output(path: Path) -> None:
    """SettingError where no file can be written, before the work and not after it; makes its folder."""
    if path.is_dir():
        raise SettingError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise SettingError(f"{path} is a device or a pipe, not a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from None
