"""The templates, copied and used as a stranger would: they run as they are, and lack nothing."""

import json
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from implementations.card import Card
from implementations.kernels.contract import Info, Kernel
from implementations.methods import find_method
from implementations.sampling import sample
from implementations.tasks import find_task, prepare
from implementations.tasks.references.closed_form import gaussian_posterior
from implementations.tasks.task import Task
from pbnn_bench.cli import main
from workflows.study import load_study

TEMPLATES = Path(__file__).parents[2] / "templates"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Copies, in a folder that has nothing to do with the suite."""
    folder = tmp_path_factory.mktemp("mine")
    for name in ("method", "task"):
        shutil.copy(TEMPLATES / f"{name}.py", folder / f"my_{name}.py")
    return folder


def test_the_command_runs_both_together(folder, tmp_path, capsys):
    words = ["--task", f"{folder}/my_task.py:TASK", "--method", f"{folder}/my_method.py:CARD"]
    words += ["--set", "num_steps=100", "--backend", "torch-cpu", "--data", str(tmp_path)]
    words += ["--out", str(tmp_path / "out")]
    assert main(["sample", *words]) == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["task"], record["method"], record["status"]) == ("my_task", "my_method", "ok")
    assert record["likelihood_evaluations"] == 100 * 4 * 2 * 50
    assert main(["sample", *words]) == 0
    assert "already holds this run" in capsys.readouterr().out


def test_a_study_takes_both(folder):
    study = folder / "study.yaml"
    study.write_text("""
study: mine
description: templates
seeds: [0]
backends: [jax-cpu]
tasks:
  - task: my_task.py:TASK
    methods: {"my_method.py:CARD": {batch_size: [20, 50]}, full_mh: {}}
""")
    found = load_study(study)
    assert {run.variant.label for run in found.runs} == {"my_task"}
    assert [run.method for run in found.runs] == ["my_method", "my_method", "full_mh"]


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
def test_the_method_finds_the_closed_form(folder, tmp_path, backend):
    """Of the task, whose posterior is Gaussian: against its moments, to the Monte Carlo error."""
    problem = prepare(f"{folder}/my_task.py:TASK", 0, data_dir=tmp_path, progress=False)
    exact = gaussian_posterior(problem, 50)
    settings = {"num_steps": 6_000, "weight": 50, "chains": 40}
    found = sample(problem, f"{folder}/my_method.py:CARD", settings, backend, is_audited=False)
    draws = found.draws.positions.reshape(-1, problem.num_parameters).astype(float)
    sd = np.sqrt(np.diag(exact.covariance))
    # Some two thousand effective draws of every parameter.
    np.testing.assert_allclose(draws.mean(axis=0), exact.mean, atol=0.15 * sd.max())
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1, atol=0.1)


def test_nothing_is_missing(folder):
    """Every field that a card or a task may have is in its template, or is one that templates need not show."""
    card, task = find_method(f"{folder}/my_method.py:CARD"), find_task(f"{folder}/my_task.py:TASK")
    of_task = "training activation fetch fetched_bytes resize draw is_fresh network support truth"
    left_out = {Card: {"accepts", "libraries", "is_compiled"}, Task: set(of_task.split())}
    for kind, name in ((Card, "method"), (Task, "task")):
        text = (TEMPLATES / f"{name}.py").read_text()
        shown = {field.name for field in fields(kind) if f"\n    {field.name}=" in text}
        assert shown == {field.name for field in fields(kind)} - left_out[kind]
    assert card.condition and task.summary
    for part in (*Kernel._fields[:3], *Info._fields[:2]):
        assert part in (TEMPLATES / "method.py").read_text()
