"""MLflow's pages of a tracked study: a server on loopback, the two pages people compare runs on, and their pictures.

    python -m tests.mlflow_pages results/mlflow.db paper reports/published/paper

writes mlflow-runs.png and mlflow-compare.png of the experiment ``paper`` into the last folder.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.browser import Browser, opened_browser


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def serving(store: str, folder: Path, port: int | None = None) -> Iterator[str]:
    """The address of an MLflow server on a database; what clients upload it keeps in ``folder``."""
    port = port or free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", store, "--artifacts-destination", str(folder / "artifacts")]
    # Without the queue of its assistant's jobs, which nobody here needs and which takes seconds to start.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until_healthy(address, process, folder / "server.log")
            yield address
        finally:
            # The workers too, which would outlive it.
            os.killpg(process.pid, 15)
            process.wait(timeout=30)


def wait_until_healthy(address: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None and time.monotonic() < deadline, f"no server at {address}:\n{log.read_text()}"
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)


def open_page(browser: Browser, address: str, page: str) -> None:
    """A page of MLflow as it is for training, without its assistant, which covers a quarter of it on a first visit."""
    if not browser.driver.current_url.startswith(address):
        browser.open(f"{address}/health")
        for key, value in {"fab.autoOpenedOnFirstLoad": "true", "panelOpen": "false"}.items():
            browser.driver.execute_script(f"localStorage.setItem('mlflow.assistant.{key}_v1', '{value}')")
    browser.open(f"{address}/#/{page}{'&' if '?' in page else '?'}workflowType=machine_learning")


def open_view(browser: Browser, address: str, experiment: str, view: str = "means") -> None:
    """The table of an experiment's runs as one of its saved views shows it, without the notice that it is one."""
    open_page(browser, address, f"experiments/{experiment}/runs?viewStateShareKey={view}")
    browser.wait_for_text("acceptance_rate", "wall_clock_s", seconds=90)
    browser.click("//*[contains(text(), 'viewing a shared view')]/following::button[.//*[local-name() = 'svg']][1]")


def open_comparison(browser: Browser, address: str, experiment: str, runs: Sequence[str]) -> None:
    """The page that sets runs side by side."""
    ids, experiments = (quote(json.dumps(values)) for values in (list(runs), [experiment]))
    open_page(browser, address, f"compare-runs?runs={ids}&experiments={experiments}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mlflow_pages", description="Pictures of a tracked study.")
    parser.add_argument("database", type=Path, help="such as results/mlflow.db")
    parser.add_argument("study")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument("--task", default="mnist", help="whose methods are compared")
    arguments = parser.parse_args(argv)
    from mlflow import MlflowClient

    store = f"sqlite:///{arguments.database.resolve()}"
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name(arguments.study).experiment_id
    wanted = f"tags.level = 'setting' and tags.task = '{arguments.task}' and tags.backend = 'jax-cpu'"
    runs = client.search_runs([experiment], wanted, order_by=["tags.`mlflow.runName`"])
    with (
        tempfile.TemporaryDirectory() as scratch,
        serving(store, Path(scratch)) as address,
        opened_browser(1400, 900) as browser,
    ):
        open_view(browser, address, experiment)
        time.sleep(2)
        browser.screenshot(arguments.out / "mlflow-runs.png")
        browser.resize(1400, 1200)
        open_comparison(browser, address, experiment, [run.info.run_id for run in runs])
        browser.wait_for_text("Run details", "acceptance_rate", seconds=90)
        # What is left are the methods and their numbers, from the first, which is the acceptance rate.
        for section in ("Visualizations", "Parameters"):
            browser.click(f"//*[text() = '{section}']")
        browser.driver.execute_script("window.scrollTo(0, 0)")
        time.sleep(2)
        browser.screenshot(arguments.out / "mlflow-compare.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
