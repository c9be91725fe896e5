"""Draws of any program get the score of a study's runs, and wrong ones a clear error."""

import json
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from implementations.infrastructure.errors import SettingError
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior
from pbnn_bench.cli import main
from pbnn_bench.scoring import against_reference
from records.reference import reference
from reports.leaderboard import CRITERION


def exact_draws(problem, weight, scale=1.0):
    posterior = gaussian_posterior(problem, weight)
    return np.random.default_rng(0).multivariate_normal(posterior.mean, scale**2 * posterior.covariance, (4, 500))


@pytest.fixture
def score(tmp_path, capsys):
    """``score(draws, "--weight", "20")``: exit code, output and errors of the command on draws for ``linear``."""

    def run(draws, *words, task="linear"):
        given = []
        if draws is not None:
            given = [str(tmp_path / "draws.npz")]
            np.savez(given[0], **(draws if isinstance(draws, dict) else {"draws": draws}))
        code = main(["score", *given, "--task", task, *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_exact_draws_score_as_exact_and_wide_ones_do_not(problem):
    linear = problem("linear")
    right, wide = (against_reference(linear, exact_draws(linear, 20.0, scale), 20.0) for scale in (1.0, 1.2))
    assert not right["sd_ratio_resolved"] and not right["mean_error_resolved"]
    assert wide["sd_ratio"] == pytest.approx(1.2, abs=0.05) and wide["sd_ratio_resolved"]
    # Draws of another weight are draws of another target.
    assert against_reference(linear, exact_draws(linear, 100.0), 20.0)["sd_ratio"] < 0.7


def test_a_file_is_scored_from_the_command_line(problem, score, tmp_path):
    linear = problem("linear")
    code, text, _ = score(exact_draws(linear, 100.0), "--problem", tmp_path / "problem.npz")
    found = json.loads(text)
    assert code == 0 and found["target_weight"] == 100 and found["reference_kind"] == "closed_form"
    assert abs(found["sd_ratio"] - 1) < 0.1
    with np.load(tmp_path / "problem.npz") as made:
        np.testing.assert_array_equal(made["features"], linear.features)


def test_the_last_line_is_the_answer_in_words_and_says_what_may_be_wrong(problem, score, tmp_path):
    linear, right = problem("linear"), exact_draws(problem("linear"), 20.0)
    reference(linear, 20.0).save(tmp_path / "reference.npz")

    def told(draws, *given):
        code, _, errors = score(draws, "--weight", "20", *given)
        assert code == 0
        return errors.splitlines()

    assert told(right)[0].startswith("yours: within the bound of leaderboards (0.1 RMS sd in the mean, 10 % in the sd)")
    assert told(right, "--reference", tmp_path / "reference.npz") == told(right)
    assert told(exact_draws(linear, 20.0, scale=1.3), "--name", "stan")[0].startswith("stan: biased; mean off by 0.")
    assert told(right[:1])[0].startswith("yours: not converged: one chain: R-hat needs two; ")
    assert "were the first two axes exchanged?" in told(right.transpose(1, 0, 2))[-1]
    assert "often in another order" in told(right[..., ::-1])[-1]


def test_mistakes_are_one_line(problem, score, tmp_path):
    linear = problem("linear")
    right, draws = exact_draws(linear, 20.0), tmp_path / "draws.npz"
    reference(linear, 100.0).save(tmp_path / "reference.npz")
    (tmp_path / "board.csv").write_text("a,b\n1,2\n")
    at_20 = ("--weight", "20")
    for given, words, expected in (
        (None, (), "nothing to do: give a file of draws, or --problem"),
        (None, (tmp_path / "none.npz",), "none.npz"),
        ({"samples": np.zeros(3)}, (), "holds 'samples'; expected an array 'draws'"),
        (right, ("--weight", "batch"), "needs a batch_size, which draws do not have"),
        (1e308 * np.sign(right), (), "are not finite, or beyond 1e+100"),
        (
            right,
            (*at_20, "--reference", tmp_path / "reference.npz"),
            "weight 100; expected 'linear', seed 0, weight 20",
        ),
        (right, (*at_20, "--reference", draws), "is no reference"),
        (right, (*at_20, "--board", tmp_path / "board.csv"), "is no leaderboard: it has no column"),
        (right, (*at_20, "--board", "/dev/zero"), "/dev/zero is not there, or is no file"),
        (right, ("--problem", "/dev/null"), "/dev/null is a device or a pipe, not a file"),
    ):
        code, text, errors = score(given, *words)
        assert (code, text) == (2, "") and expected in errors.splitlines()[-1], errors
        assert errors.splitlines()[-1].startswith("error: ")


def test_a_task_out_of_a_file_is_scored_like_any_other(score, tmp_path):
    words = ["--data", tmp_path, "--problem", tmp_path / "problem.npz"]
    assert score(None, *words, task="templates/task.py:TASK")[1] == f"problem: {tmp_path / 'problem.npz'}\n"
    own = Problem.load(tmp_path / "problem.npz")
    _, text, _ = score(exact_draws(own, own.num_points), *words[:2], task="templates/task.py:TASK")
    found = json.loads(text)
    assert found["task"] == "my_task" and abs(found["sd_ratio"] - 1) < 0.1
    assert score(None, task="linaer")[2] == "error: no task 'linaer'; did you mean 'linear'?\n"


def test_draws_made_elsewhere_get_a_row_on_a_leaderboard(problem, score, tmp_path):
    """Exact ones the rank of their evaluations, wide ones the reason why they have none."""
    board = pd.DataFrame(
        [
            {"rank": 1, "method": "laplace", "reason": None, CRITERION: None},
            {"rank": 2, "method": "mala", "reason": None, CRITERION: 50.0},
            {"rank": None, "method": "naive", "reason": "biased", CRITERION: 900.0},
        ]
    )
    board.to_csv(tmp_path / "board.csv", index=False)

    def rows_of(scale, *given):
        draws = exact_draws(problem("linear"), 20.0, scale)
        return pd.read_csv(StringIO(score(draws, "--weight", "20", "--board", tmp_path / "board.csv", *given)[1]))

    # Some 2,000 independent draws: 200 and 20 per million.
    for evaluations, place in (("1e7", 1), ("1e8", 2)):
        found = rows_of(1.0, "--evaluations", evaluations, "--name", "stan")
        assert list(found["rank"][:3]) == [1, 2, 3] and found["method"][place] == "stan"
        assert found[CRITERION][place] == pytest.approx(2e9 / float(evaluations), rel=0.3)
    assert rows_of(1.0)["reason"][2] == "its evaluations are not known"
    assert rows_of(1.3, "--evaluations", "1e7")["reason"][2] == "biased"


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.zeros((10, 2)), r"shape \(10, 2\): expected \(chains, draws, 2\) .*one chain is draws\[None\]"),
        (np.zeros((4, 10, 3)), r"shape \(4, 10, 3\): expected \(chains, draws, 2\)"),
        (np.zeros((4, 0, 2)), "are empty"),
        (np.full((4, 10, 2), np.nan), "10 of 10 draws are not finite"),
        (np.zeros((4, 10, 2), complex), "type complex128: expected real numbers"),
    ],
)
def test_what_cannot_be_draws_is_refused(problem, draws, message):
    with pytest.raises(SettingError, match=message):
        against_reference(problem("linear"), draws, 100.0)


def test_the_reference_of_another_target_is_refused(problem):
    linear = problem("linear")
    with pytest.raises(SettingError, match=r"that of 'linear', seed 0, weight 20; expected 'linear', seed 0, weight 1"):
        against_reference(linear, exact_draws(linear, 100.0), 100.0, reference(linear, 20.0))
