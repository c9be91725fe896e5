"""``pbnn-bench run``, ``report`` and ``ui``: what ``make`` does for a checkout, from any folder."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.errors import SettingError, unknown
from pbnn_bench import packages

#: The saved view of a study's runs that is shown first, and the tag that has it (workflows.tracking.entries).
MEANS = "means"
VIEW_TAG = f"mlflow.sharedViewState.{MEANS}"
STUDIES = packages.folder() / "workflows" / "studies"


def find_study(name: str) -> Path:
    """The file of a study: a path, or the name of one that comes with the suite."""
    if Path(name).is_file():
        return Path(name)
    own = STUDIES / f"{name}.yaml"
    if own.is_file():
        return own
    if name.endswith((".yaml", ".yml")):
        raise SettingError(f"no file {name}")
    raise SettingError(unknown("study", name, sorted(path.stem for path in STUDIES.glob("*.yaml"))))


def run(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run a study with Snakemake in the current folder. Finished results are kept.",
        epilog="Other arguments are passed to Snakemake, as in: pbnn-bench run smoke --keep-going",
    )
    parser.add_argument("study", metavar="STUDY", help="a study's name (`list studies`), or a file of your own")
    parser.add_argument(
        "--dry-run",
        "-n",
        action="store_true",
        help="check the study, and say what would run: minutes, disk and downloads",
    )
    parser.add_argument("--cores", default="all", help="processors to use (default: %(default)s)")
    arguments, others = parser.parse_known_args(argv)
    # Each command imports what it needs: `list` reads this module too, and should take no seconds for it.
    from workflows.study import describe, load_study

    path = find_study(arguments.study)
    # Before Snakemake, which answers a file that it cannot read with a traceback.
    print(describe(load_study(path)), flush=True)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(packages.folder() / "Snakefile")]
    command += ["--cores", arguments.cores, *others, "--configfile", str(path)]
    return subprocess.run(command + ["--dry-run"] * arguments.dry_run, env=_environment(), check=False).returncode


def _environment() -> dict[str, str]:
    """That of a process which has to find the suite's packages too."""
    paths = [str(packages.folder()), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "MLFLOW_DISABLE_TELEMETRY": "true"}


def report(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(prog=program, description="Render the report of a finished study again.")
    parser.add_argument("study", metavar="STUDY", help="a study's name, or its file")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of all results (default: %(default)s)"
    )
    arguments = parser.parse_args(argv)
    from workflows.steps import report as report_step
    from workflows.study import load_study

    path = find_study(arguments.study)
    folder = arguments.results / load_study(path).name
    if not (folder / "summary.csv").is_file():
        raise SettingError(f"{folder} has no summary.csv; run the study first: pbnn-bench run {arguments.study}")
    code = report_step.main(["--results", str(folder)])
    if code == 0:
        print(folder / "report.html")
    return code


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


def ui(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Serve the runs in MLflow, to this machine only, and print one address per study.",
        epilog="MLFLOW_TRACKING_URI selects another store, as it does for a study. Other arguments go to `mlflow ui`.",
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of all results (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=5000, help="port of the server (default: %(default)s)")
    arguments, others = parser.parse_known_args(argv)
    uri, database = os.environ.get("MLFLOW_TRACKING_URI", ""), arguments.results / "mlflow.db"
    if uri.startswith("http"):
        print("MLFLOW_TRACKING_URI is a server, which has pages of its own: open that address")
        return 0
    if not uri and not database.exists():
        raise SettingError(
            f"no study has been run yet ({database} does not exist); run one first: pbnn-bench run smoke"
        )
    pages = study_pages(uri or f"sqlite:///{database}")
    width = max(map(len, pages))
    print("open one of these addresses in a browser; Ctrl-C stops the server", flush=True)
    for name, page in pages.items():
        print(f"  {name:{width}}  http://127.0.0.1:{arguments.port}/#/{page}", flush=True)
    # The address goes by the environment: a database's password is not shown.
    environment = _environment() | {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_BACKEND_STORE_URI": uri or f"sqlite:///{database}",
    }
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "ui",
        "--host",
        "127.0.0.1",
        "--port",
        str(arguments.port),
        "--workers",
        "1",
        *others,
    ]
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except KeyboardInterrupt:
        return 0
