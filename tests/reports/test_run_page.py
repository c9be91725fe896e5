"""The pages of single runs: what they show is right, and their command makes the run again."""

import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from arviz_stats.base import array_stats

from implementations.__main__ import parser
from implementations.infrastructure.artefact import write_arrays
from implementations.run_files import write_run
from records.layout import run_folder
from reports.page import anchors_of
from reports.render import render
from reports.run_page import run_pages, running_mean, split_r_hat, worst_parameter
from tests.reports.studies import NO_BENCHMARKS, row, study_of
from tests.reports.test_render import Page

SETTINGS = {"batch_size": 2, "num_batches": 5, "step_size": 1e-05, "weight": "data", "num_warmup": 100, "thin": 4}


def made_up_run(results: Path, one: dict, **record: object) -> Path:
    """The files of a run: four chains of which the last is elsewhere in parameter 1."""
    folder = run_folder(results, one["run"])
    random = np.random.default_rng(0)
    draws = random.normal(size=(4, 300, 3)).astype(np.float32)
    draws[3, :, 1] += 5
    acceptance = random.uniform(size=(4, 300)).astype(np.float32)
    levels = np.linspace(0.1, 0.9, 9)
    write_arrays(folder / "curves.npz", "curves", {"test_nominal": levels, "test_observed": levels**2}, {})
    usual = {"stochastic": "last", "prior": "laplace", "prior_scale": 1.0, "num_points": 100, "settings": SETTINGS}
    names = {name: one[name] for name in ("task", "method", "backend", "seed", "status")}
    arrays = {"draws": draws, "acceptance": acceptance, "variance": 0 * acceptance}
    write_run(folder, {"run": one["run"]}, {**names, **usual, "method_source": None, **record}, arrays)
    return folder


@pytest.fixture
def study(tmp_path):
    rows = [row("pbnn+batch_size=2", seed, **SETTINGS) for seed in range(2)]
    rows += [row("mala", status="skipped", reason="no CUDA device"), row("pbnn", fresh_points=400)]
    for one in (rows[0], rows[1], rows[3]):
        made_up_run(tmp_path / "made_up", one)
    return study_of(rows, tmp_path / "made_up")


def pages(study) -> dict[str, str]:
    anchors = anchors_of(study)
    return {anchors[run]: content for run, content in run_pages(study)}


def test_a_run_with_draws_has_a_page_and_its_command_asks_for_the_very_same_run(study):
    found = pages(study)
    assert list(found) == ["run-1", "run-2", "run-4"]
    (command,) = re.findall(r"<code>(pbnn-bench sample .*?)</code>", found["run-2"])
    words = shlex.split(unescape(command))
    asked = parser().parse_args(words[2:])
    assert (asked.task, asked.method, asked.backend, asked.seed, asked.prior) == (
        "linear",
        "pbnn",
        "jax-cpu",
        1,
        "laplace",
    )
    given = dict(word.split("=") for word in asked.settings)
    assert asked.num_points == 100
    assert {name: type(SETTINGS[name])(value) for name, value in given.items()} == SETTINGS
    # A command has no option for it.
    assert "<code>" not in found["run-4"] and "Run the study again" in found["run-4"]


def test_a_page_has_what_there_is_to_see_and_is_small(study):
    page = pages(study)["run-1"]
    headings = re.findall(r"<figure>\s*<h2>(.*?)</h2>", page)
    # No variance was estimated.
    assert headings == ["Trace of parameter 1", "R-hat", "Acceptance", "Reliability"]
    assert page.count('role="img"') == 4 and page.count("var(--cb0618f") == 2, (
        "the fourth chain is in trace and acceptance"
    )
    assert len(page) < 60_000
    assert not re.findall(r"(?:src|href)=\"(?!\.\./report.html#run-1)", page), "nothing from elsewhere"


def test_a_run_whose_draws_cannot_be_read_says_so_on_its_page(study):
    (run_folder(study.folder, study.rows[0]["run"]) / "draws.npz").write_bytes(b"PK not an archive")
    page = pages(study)["run-1"]
    assert "Its files cannot be read" in page and "draws.npz" in page
    assert "pbnn-bench sample" in page


def test_the_report_links_to_the_pages_there_are_and_they_link_back(study, tmp_path):
    render(study, tmp_path / "out", [], [], NO_BENCHMARKS)
    report = Page(tmp_path / "out" / "report.html")
    links = [one["href"] for one in report.all("a") if one.get("class") == "run-page"]
    assert links == ["pages/run-1.html", "pages/run-2.html", "pages/run-4.html"]
    assert all((tmp_path / "out" / link).is_file() for link in links)
    assert Page(tmp_path / "out" / links[1]).all("a")[0]["href"] == "../report.html#run-2"
    render(study, tmp_path / "without", [], [], NO_BENCHMARKS, has_run_pages=False)
    without = Page(tmp_path / "without" / "report.html")
    assert "run-page" not in without.source.partition("</style>")[2] and "has a page of its own" not in without.text


def test_r_hat_is_that_of_arviz_with_split_chains_and_nan_where_nothing_moves():
    chains = np.random.default_rng(1).normal(size=(3, 40)).cumsum(axis=1)
    assert split_r_hat(chains) == pytest.approx(float(array_stats.rhat(chains, method="split")), rel=1e-12)
    assert np.isnan(split_r_hat(np.ones((3, 40))))


def test_the_parameter_shown_is_the_one_that_chains_agree_on_least():
    draws = np.random.default_rng(2).normal(size=(4, 500, 6)).astype(np.float32)
    draws[0, :, 4] += 1
    draws[:, :, 5] = 7
    assert worst_parameter(draws) == 4


def test_a_running_mean_is_that_of_each_window():
    values = np.random.default_rng(3).normal(size=(2, 9))
    expected = [[chain[start : start + 4].mean() for start in range(6)] for chain in values]
    assert running_mean(values, 4) == pytest.approx(np.array(expected))
