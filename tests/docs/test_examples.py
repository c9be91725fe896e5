"""The worked examples of the documentation, and those of the README, do what the text says."""

import importlib.util
import runpy
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

from implementations import tasks
from implementations.sampling import sample
from pbnn_bench.cli import main as command
from records.study import StudyResults
from reports.claim_file import KEYS, parse_claims
from reports.judge import NOT_ASKED, REPRODUCED, verdict_of
from reports.publish import PUBLISHED
from tests.reports.legible import flaws
from tests.reports.studies import row, study_of
from workflows.study import load_study

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def published() -> StudyResults:
    return StudyResults.load(PUBLISHED / "paper")


def widths(printed: str) -> dict[str, list[float]]:
    """``naive [1.3 1.2]`` by its first word."""
    rows = [line.split(maxsplit=1) for line in printed.strip().splitlines()]
    return {name: [float(number) for number in numbers.strip("[]").split()] for name, numbers in rows}


def test_the_first_example_shows_that_the_penalty_is_needed(capsys):
    runpy.run_path(str(EXAMPLES / "start.py"))
    found = widths(capsys.readouterr().out)
    assert list(found) == ["naive", "pbnn"]
    # 80,000 steps of chains that move by a fifth of the posterior's sd: a few hundred effective draws.
    assert min(found["naive"]) > 1.15
    assert found["pbnn"] == pytest.approx([1, 1], abs=0.15)


def test_draws_of_a_program_of_ones_own_get_the_score_that_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["--task", "logistic", "--weight", "100"]
    assert command(["score", *given, "--problem", "problem.npz"]) == 0
    runpy.run_path(str(EXAMPLES / "draws.py"))
    capsys.readouterr()
    assert command(["score", "draws.npz", *given]) == 0
    answer = capsys.readouterr().err.splitlines()[-1]
    assert answer.startswith("yours: within the bound of leaderboards")
    page = (EXAMPLES.parent / "use" / "score.md").read_text(encoding="utf-8")
    assert answer.partition(";")[0] in page


def test_own_arrays_give_the_same_answer_on_all_data_and_on_mini_batches(capsys):
    found = runpy.run_path(str(EXAMPLES / "own_data.py"))
    assert capsys.readouterr().out.startswith("tempered ")
    tempered, pbnn = (found["draws"][method].astype(float) for method in ("tempered", "pbnn"))
    sd = tempered.std(axis=(0, 1))
    # Some hundred effective draws of each: a mean is known to a tenth of the sd, an sd to a tenth of itself.
    assert np.abs((pbnn - tempered).mean(axis=(0, 1)) / sd).max() < 0.25
    assert pbnn.std(axis=(0, 1)) / sd == pytest.approx(np.ones(11), abs=0.2)


def test_a_task_of_a_page_can_be_sampled(monkeypatch):
    task = example("task").TASK
    monkeypatch.setitem(tasks.TASKS, task.name, task)
    problem = tasks.prepare("wine", seed=1, progress=False)
    again = task.load(1, Path("data"))
    assert problem.num_points == task.num_points == len(again.train.targets)
    assert np.array_equal(again.train.inputs, task.load(1, Path("data")).train.inputs)
    assert len(again.train.targets) + len(again.validation.targets) + len(again.test.targets) == 178
    sampled = sample(problem, "pbnn", {"batch_size": 10, "num_steps": 200, "num_warmup": 50}, "torch-cpu")
    assert sampled.status == "ok"
    # A mode that tells the growers apart: the test points it has not seen too.
    outputs = problem.test_features @ problem.map.reshape(14, 3)
    assert (outputs.argmax(axis=1) == problem.test_targets).mean() > 0.9


def test_the_metric_of_a_page_is_the_closed_form_for_a_gaussian():
    """E S of the central interval of N(0, 1), where y is N(0, 1) too: 2 z + 4 / a (phi(z) - z (1 - Phi(z)))."""
    rng = np.random.default_rng(0)
    targets = rng.normal(size=40_000)
    draws = norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    z, share = norm.ppf(0.95), 0.1
    expected = 2 * z + 4 / share * (norm.pdf(z) - z * norm.sf(z))
    assert example("metric").interval_score(draws, targets) == pytest.approx(expected, rel=0.02)


def test_the_figure_of_a_page_is_legible(published):
    drawing = example("figure").FIGURE.draw(published)
    assert flaws(drawing) == []
    assert len(drawing.panels[0].rows) > 5
    assert drawing.runs


def test_the_claim_of_a_page_has_three_answers(published):
    (claim,) = parse_claims((EXAMPLES / "claim.yaml").read_text(encoding="utf-8")).values()
    assert verdict_of(claim, published).outcome == REPRODUCED
    assert verdict_of(claim, study_of([row("full_mh")])).outcome == NOT_ASKED
    wide = [row("pbnn_mala", seed, task="regression", sd_ratio=1.5 + seed / 100) for seed in range(3)]
    (number,) = verdict_of(claim, study_of(wide)).parts[0].evidence
    assert number.holds is False and number.value.mean == pytest.approx(1.51)


def test_every_key_of_a_claim_is_explained():
    page = (EXAMPLES.parent / "extend" / "claim.md").read_text(encoding="utf-8")
    assert [key for key in set(KEYS) - {"runs", "parts", "ask", "what", "around"} if f"`{key}" not in page] == []


def test_the_study_of_a_page_is_valid():
    study = load_study(EXAMPLES / "my_study.yaml")
    assert len(study.runs) == 3 * (1 + 1 + 3 + 2)
