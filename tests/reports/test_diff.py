"""Two studies side by side: what moved is named, and what only wobbled is not."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from implementations.infrastructure.errors import SettingError
from pbnn_bench.cli import main as command
from reports.diff import Side, diff, difference_of, lines_of, load
from tests.reports.studies import row, study_of

SEEDS = range(6)
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.normal(size=(2, len(SEEDS)))


def side(name: str, shift: float = 0.0, noise: int = 0, verdicts=None, seeds=SEEDS, **values: object) -> Side:
    """Two settings, of which the NLL of the second is shifted."""
    rows = [row("full_mh", seed, nll=1 + 0.01 * NOISE[0, seed % 6]) for seed in seeds]
    rows += [row("pbnn+batch_size=2", seed, nll=2 + shift + 0.01 * NOISE[noise, seed % 6], **values) for seed in seeds]
    return Side(name, study_of(rows), verdicts or {})


def test_what_moved_beyond_its_error_is_named_with_both_values_and_the_rest_is_not():
    one, other = (
        side("before", verdicts={1: "reproduced", 2: "inconclusive"}),
        side("after", 0.2, 1, {1: "inconclusive"}),
    )
    found = diff(one, other)
    assert [(move.key[1], move.column) for move in found.moved] == [("pbnn+batch_size=2", "nll")]
    assert found.verdicts == [(1, "reproduced", "inconclusive")]
    lines = lines_of(found, one, other)
    assert "  claim 1: reproduced → inconclusive" in lines
    (line,) = [line for line in lines if "NLL" in line]
    assert "linear · PBNN n=2" in line and "· jax-cpu" in line and "2.00" in line and "2.20" in line


def test_a_wobble_of_the_size_of_its_error_has_not_moved():
    found = diff(side("before"), side("after", 0.0, 1))
    assert found.moved == [] and found.num_compared > 10


def test_the_p_value_is_that_of_the_paired_t_test_and_of_welchs_where_seeds_differ():
    one, other = side("before"), side("after", 0.004, 1)
    (ours,), (theirs,) = (one.study.settings(method="pbnn"), other.study.settings(method="pbnn"))
    before, after = 2 + 0.01 * NOISE[0], 2.004 + 0.01 * NOISE[1]
    assert difference_of(ours, theirs, "nll")[1] == pytest.approx(stats.ttest_rel(before, after).pvalue)
    (apart,) = side("after", 0.004, 1, seeds=range(6, 12)).study.settings(method="pbnn")
    difference, p_value = difference_of(ours, apart, "nll")
    expected = stats.ttest_ind(after, before, equal_var=False)
    assert p_value == pytest.approx(expected.pvalue)
    assert (difference.low, difference.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_a_single_seed_cannot_move_and_a_constant_can():
    assert diff(side("before", seeds=[0]), side("after", 5.0, seeds=[0])).moved == []
    found = diff(side("before", data_fraction=0.1), side("after", data_fraction=0.2))
    assert [move.column for move in found.moved] == ["data_fraction"]
    # Two seeds that moved by the same amount, though not alike: by chance, as far as anyone can tell.
    assert diff(side("before", seeds=[0, 1]), side("after", 0.5, seeds=[0, 1])).moved == []


def test_settings_of_one_side_and_other_numbers_of_converged_runs_are_listed():
    one, other = side("before"), side("after", r_hat=1.4)
    rows = [*other.study.rows, row("mala")]
    found = diff(one, Side("after", study_of(rows)))
    assert found.only_other == [("linear", "mala", "jax-cpu")] and found.only_one == []
    assert found.converged == [(("linear", "pbnn+batch_size=2", "jax-cpu"), "6 of 6", "0 of 6")]


def test_settings_that_differ_in_the_length_of_their_chains_alone_have_different_names():
    one, other = (
        Side(name, study_of([row(f"pbnn+num_steps={steps}", num_steps=steps)]))
        for name, steps in (("a", 500), ("b", 700))
    )
    lines = lines_of(diff(one, other), one, other)
    assert [line.endswith("500 steps · jax-cpu") for line in lines].count(True) == 1
    assert [line.endswith("700 steps · jax-cpu") for line in lines].count(True) == 1


def test_a_study_is_a_folder_a_summary_or_either_at_a_commit_and_the_front_door_knows_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = Path("published", "paper")
    folder.mkdir(parents=True)

    def write(shift: float, noise: int, verdict: str) -> None:
        side("", shift, noise).study.summary.to_csv(folder / "summary.csv", index=False)
        (folder / "claims.json").write_text(json.dumps({"claims": [{"id": 1, "verdict": verdict}]}))

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    git("init")
    write(0.0, 0, "reproduced")
    git("add", ".")
    git("commit", "-m", "first")
    write(0.3, 1, "inconclusive")
    assert command(["compare", "HEAD:published/paper", "published/paper"]) == 0
    printed = capsys.readouterr().out
    assert "claim 1: reproduced → inconclusive" in printed and "NLL" in printed
    assert load("HEAD:published/paper/summary.csv").verdicts == {1: "reproduced"}
    assert load("published/paper/summary.csv").verdicts == {1: "inconclusive"}
    git("commit", "--all", "-m", "second")
    Path("other").mkdir()
    side("").study.summary.to_csv(Path("other", "summary.csv"), index=False)
    for names in (["HEAD~1:published/paper", "HEAD:published/paper"], ["other", "published/paper"]):
        assert command(["compare", *names]) == 0
        printed = capsys.readouterr().out
        assert "Numbers that moved beyond their error: 1 of" in printed and "NLL" in printed
        assert printed.startswith(f"A: {names[0]}, 12 runs") and f"B: {names[1]}, 12 runs" in printed
        assert ("claim 1: reproduced → inconclusive" in printed) == ("HEAD" in names[0]), "one has no claims"
    for name, reason in {
        "nowhere": "no folder or file",
        "nowhere:paper": "not in commit",
        "published": "no summary",
    }.items():
        with pytest.raises(SettingError, match=reason):
            load(name)
