"""A study and an MLflow server that was down: the study goes on, is caught up with, and is read in a browser."""

import json
import math

import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.browser import opened_browser
from tests.mlflow_pages import free_port, open_comparison, open_page, open_view, serving
from tests.workflows.snakemake import Workdir

STUDY = {
    "study": "small",
    "description": "two methods with two seeds, and one that diverges",
    "seeds": [0, 1],
    "backends": ["torch-cpu"],
    "chains": 2,
    "defaults": {"num_steps": 200, "num_warmup": 20, "thin": 2},
    "tasks": [
        {
            "task": "linear",
            "defaults": {"preconditioner": "none", "step_size": 0.0002},
            "methods": {
                "full_mh": {"step_size": 0.005},
                "pbnn": {"batch_size": 2, "num_batches": 5, "weight": "data"},
                "sgld": {"batch_size": 2, "step_size": 1.0, "seeds": [0]},
            },
        }
    ],
}


@pytest.mark.slow
def test_a_server_that_was_down_gets_the_study_with_the_next_call_and_its_pages_compare_the_methods(
    tmp_path, monkeypatch
):
    work = Workdir(tmp_path / "work", STUDY)
    port = free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    code, output = work.run()
    assert code == 0, output
    assert "small: 4 of 5 runs ok" in output
    assert f"MLflow: not tracked in http://127.0.0.1:{port}: " in output
    assert "the same command catches up" in output
    assert work.planned() == {"track": 1, "all": 1, "total": 2}

    with serving(f"sqlite:///{tmp_path}/server.db", tmp_path / "server", port) as address:
        code, output = work.run()
        assert code == 0, output
        assert f"MLflow: tracked in {address}; experiment small" in output
        assert json.loads((work.results / "tracked.json").read_text())["added"] == 3 + 5
        code, output = work.run()
        assert "Nothing to be done" in output

        client = MlflowClient(address)
        experiment = client.get_experiment_by_name("small").experiment_id
        runs = {run.info.run_name: run for run in client.search_runs([experiment])}
        assert_values_are_those_of_the_summary(runs, pd.read_parquet(work.results / "summary.parquet"))
        run = next(run for name, run in runs.items() if name.startswith("linear · PBNN n=2, M=5") and "seed 1" in name)
        assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["reliability.svg", "run.json"]
        with opened_browser(1600, 1200) as browser:
            assert_the_table_reads_well(browser, address, experiment, runs)
            assert_the_comparison_has_the_methods(browser, address, experiment, runs)
            open_page(browser, address, f"experiments/{experiment}/runs/{run.info.run_id}/artifacts/reliability.svg")
            browser.wait_for_text("reliability.svg", "run.json")

    # Elsewhere it is tracked as well.
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    code, output = work.run()
    assert "MLflow: tracked in sqlite:///results/mlflow.db; see it with: make ui, or pbnn-bench ui" in output
    assert sorted(path.name for path in (work.folder / "results").iterdir() if "mlflow" in path.name) == [
        "mlflow-artifacts",
        "mlflow.db",
    ]
    assert not (work.folder / "mlruns").exists()


def assert_values_are_those_of_the_summary(runs, table):
    by_key = {run.data.tags["run"]: run for run in runs.values()}
    assert len(by_key) == len(runs) == 3 + len(table)
    for row in table.to_dict("records"):
        run = by_key[row["run"]]
        assert run.data.tags["status"] == row["status"]
        for name in ("acceptance_rate", "ece", "wall_clock_s", "r_hat", "sd_ratio"):
            expected = {} if pd.isna(row[name]) else {name: row[name]}
            assert {key: value for key, value in run.data.metrics.items() if key == name} == expected


def assert_the_table_reads_well(browser, address, experiment, runs):
    open_view(browser, address, experiment)
    text = browser.wait_for_text(*(name for name in runs if "seed" not in name))
    assert "seed 0" not in text
    shown = [text.index(column) for column in ("acceptance_rate", "ece", "wall_clock_s")]
    assert shown == sorted(shown)
    full_data = next(name for name in runs if "full-data MH" in name and "seed" not in name)
    assert shortened(runs[full_data].data.metrics["acceptance_rate"]) in text
    open_view(browser, address, experiment, "seeds")
    browser.wait_for_text(f"{full_data} · seed 1")


def assert_the_comparison_has_the_methods(browser, address, experiment, runs):
    compared = [run for name, run in runs.items() if name.endswith("torch-cpu") and "SGLD" not in name]
    open_comparison(browser, address, experiment, [run.info.run_id for run in compared])
    names = [run.info.run_name for run in compared]
    browser.wait_for_text("Run details", *names, "acceptance_rate", "ece", "wall_clock_s", "with_interval/ece_low")
    values = [run.data.metrics[name] for run in compared for name in ("acceptance_rate", "ece", "wall_clock_s")]
    browser.wait_for_text(*map(rounded, values))


def shortened(value: float) -> str:
    """The first digits of a number: pages round the rest as they like."""
    return f"{value:.6f}"[:4]


def rounded(value: float) -> tuple[str, ...]:
    """A number with three decimals and no zeros at their end, rounded down or up."""
    return tuple(f"{whole / 1000:.3f}".rstrip("0") for whole in (math.floor(1000 * value), math.ceil(1000 * value)))
