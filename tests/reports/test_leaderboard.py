"""The leaderboard: every method of the suite on every target, ranked or with the reason why not."""

from pathlib import Path

import pytest

from implementations.methods import METHODS
from reports.contents import contents_of
from reports.leaderboard import NOT_RUN, leaderboards
from reports.render import render
from tests.reports.studies import NO_BENCHMARKS, row, study_of
from workflows.study import load_study

SEEDS = range(3)
BIASED = {"sd_ratio": 1.4, "sd_ratio_resolved": True}


def study(*rows):
    return study_of([one for group in rows for one in group])


def runs(label, evaluations, **values):
    return [row(label, seed, likelihood_evaluations=round(evaluations * (1 + 1e-4 * seed)), **values) for seed in SEEDS]


@pytest.fixture(scope="module")
def boards():
    tables = leaderboards(
        study(
            runs("pbnn+batch_size=2", 1_000_000),
            runs("pbnn+batch_size=10", 500_000),
            runs("full_mh", 2_000_000),
            runs("naive", 10_000, **BIASED),
            runs("laplace", 0),
            runs("mala", 100, r_hat=1.3),
            runs("ula", 100, status="missing", reason="not run yet", weight="data", num_points=100),
            runs("tunamh", 100, status="skipped", reason="tunamh is not applicable to 'linear'", target_weight=100.0),
            runs("austerity", 100, status="skipped", reason="no CUDA device", target_weight=100.0),
            runs("sgld+batch_size=5", 100, status="diverged", reason="chain 0 became non-finite", target_weight=100.0),
            runs("barker_test", 100, reference_usable=False, reference_reason="R-hat 1.2 is above 1.01"),
            runs("tempered+batch_size=5", 300_000, target_weight=5.0),
        )
    )
    return {table.name: table for table in tables}


def test_every_method_stands_once_on_every_target(boards):
    assert list(boards) == ["leaderboard_linear-w100", "leaderboard_linear-w5"]
    for board in boards.values():
        assert sorted(row["method"] for row in board.rows) == sorted(METHODS)


def test_ranks_go_by_effective_draws_per_evaluation_among_those_within_the_bound(boards):
    board = boards["leaderboard_linear-w100"].frame
    ranked = board[board["rank"].notna()]
    # Draws without evaluations first; then 1,000 effective ones for half a million, and for two. naive is wrong.
    assert list(ranked["method"]) == ["laplace", "pbnn", "full_mh"] and list(ranked["rank"]) == [1, 2, 3]
    assert list(board["method"])[:3] == list(ranked["method"])
    best = board[board["method"] == "pbnn"].iloc[0]
    assert best["ess_per_million_evaluations"] == pytest.approx(2000, rel=1e-3) and "n=10" in best["setting"]
    assert best["ess_per_million_evaluations_low"] < 1999.8 < best["ess_per_million_evaluations_high"]
    assert best["num_converged"] == best["num_runs"] == 3 and best["sd_ratio"] == 1.01


def test_who_has_no_rank_has_a_reason(boards):
    board = boards["leaderboard_linear-w100"].frame.set_index("method")
    assert board.loc["naive", "reason"] == "biased" and board.loc["naive", "is_within_bound"] is False
    assert board.loc["mala", "reason"] == "not converged: R-hat up to 1.3, ESS from 1000"
    assert board.loc["ula", "reason"] == "not run: not run yet"
    assert board.loc["tunamh", "reason"] == "not run: tunamh is not applicable to 'linear'"
    assert board.loc["austerity", "reason"] == "not run: no CUDA device"
    assert board.loc["sgld", "reason"] == "diverged: chain 0 became non-finite"
    assert board.loc["barker_test", "reason"] == "without a reference: R-hat 1.2 is above 1.01"
    assert board.loc["sghmc", "reason"] == NOT_RUN and board.loc["sghmc", "num_runs"] == 0
    assert board["reason"].isna().sum() == 3 and board["rank"].notna().sum() == 3


def test_the_page_shows_a_table_per_target_with_words_for_the_bound(boards):
    first, second = boards.values()
    assert first.caption == "Leaderboard of linear, w = 100" and second.id == "leaderboard-linear-w5"
    ((_, rows),) = first.parts()
    words = {cells[0].text: (cells[1].text, cells[2].text, cells[-1].text) for _, cells in rows}
    assert len(rows) == len(METHODS)
    assert words["PBNN"] == ("2", "yes", "") and words["naive"] == ("–", "no", "biased")


def test_the_study_rivals_has_a_leaderboard_and_others_do_not():
    assert contents_of("rivals").has_leaderboard
    assert not contents_of("tall").has_leaderboard and not contents_of("paper").has_leaderboard


def test_the_report_of_the_study_has_its_leaderboards(tmp_path):
    rows = [*runs("pbnn+batch_size=2", 500_000), *runs("full_mh", 2_000_000)]
    for number, one in enumerate(rows):
        one |= {"squared_bias": 0.001 + 1e-5 * number, "sd_ratio": 1.0}
    contents = contents_of("rivals")
    found = study_of(rows, Path("rivals"))
    assert render(found, tmp_path, contents.figures[:2], contents.claims, NO_BENCHMARKS) == []
    board = (tmp_path / "tables" / "leaderboard_linear-w100.csv").read_text()
    assert len(board.splitlines()) == 1 + len(METHODS) and board.splitlines()[1].startswith("1.0,pbnn")
    assert "Leaderboard of linear, w = 100" in (tmp_path / "report.html").read_text()


def test_the_study_has_every_method_both_targets_of_every_task_and_one_way_to_tune():
    found = load_study(Path("workflows/studies/rivals.yaml")).runs
    # tempered is full_mh at another weight, and temperature scaling samples nothing.
    assert {run.method for run in found} == set(METHODS) - {"tempered", "temperature"}
    targets = {(run.variant.label, run.settings.target_weight(run.variant.size.num_points)) for run in found}
    sizes = {"logistic": (10_000, 100), "digits": (1200, 100), "mnist": (55_000, 100), "regression-all": (2000, 5)}
    assert targets == {(task, float(weight)) for task, weights in sizes.items() for weight in weights}
    pinned = {run.method for run in found if run.settings.step_size != "ladder"}
    assert pinned == {"laplace", "blackjax_hmc", "blackjax_nuts", "posteriors_sgld"}
    assert {run.seed for run in found} == {3, 4, 5}
    # Of the whole network each step that is not pinned is found once for all seeds.
    assert all(run.is_tuned_apart == (run.variant.stochastic == "all" and run.method not in pinned) for run in found)
