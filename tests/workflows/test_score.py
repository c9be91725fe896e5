"""Draws of any program get the score of a study's runs, and wrong ones a clear error."""

import json
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from implementations.infrastructure.errors import SettingError
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior
from records.reference import reference
from reports.leaderboard import CRITERION
from workflows.score import main, score


def exact_draws(problem, weight, scale=1.0):
    posterior = gaussian_posterior(problem, weight)
    return np.random.default_rng(0).multivariate_normal(posterior.mean, scale**2 * posterior.covariance, (4, 500))


def test_exact_draws_score_as_exact_and_wide_ones_do_not(problem):
    linear = problem("linear")
    right, wide = (score(linear, exact_draws(linear, 20.0, scale), 20.0) for scale in (1.0, 1.2))
    assert not right["sd_ratio_resolved"] and not right["mean_error_resolved"]
    assert wide["sd_ratio"] == pytest.approx(1.2, abs=0.05) and wide["sd_ratio_resolved"]
    # Draws of another weight are draws of another target.
    assert score(linear, exact_draws(linear, 100.0), 20.0)["sd_ratio"] < 0.7


def test_a_file_is_scored_from_the_command_line(problem, tmp_path, capsys):
    linear = problem("linear")
    np.savez(tmp_path / "draws.npz", draws=exact_draws(linear, 100.0))
    arguments = ["--task", "linear", "--problem", str(tmp_path / "problem.npz")]
    assert main([str(tmp_path / "draws.npz"), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target_weight"] == 100 and found["reference_kind"] == "closed_form"
    assert abs(found["sd_ratio"] - 1) < 0.1
    with np.load(tmp_path / "problem.npz") as made:
        np.testing.assert_array_equal(made["features"], linear.features)
    np.savez(tmp_path / "draws.npz", samples=np.zeros(3))
    assert main([str(tmp_path / "draws.npz"), *arguments]) == 2
    assert "holds 'samples'; expected an array 'draws'" in capsys.readouterr().err
    assert main(["--task", "linear"]) == 2
    assert main([str(tmp_path / "none.npz"), "--task", "linear"]) == 2
    assert main([str(tmp_path / "draws.npz"), "--task", "linear", "--weight", "batch"]) == 2


def test_the_last_line_is_the_answer_in_words_and_says_what_may_be_wrong(problem, tmp_path, capsys):
    linear, right = problem("linear"), exact_draws(problem("linear"), 20.0)
    reference(linear, 20.0).save(tmp_path / "reference.npz")

    def told(draws, *given):
        np.savez(tmp_path / "draws.npz", draws=draws)
        assert main([str(tmp_path / "draws.npz"), "--task", "linear", "--weight", "20", *given]) == 0
        return capsys.readouterr().err.splitlines()

    kept = "--reference", str(tmp_path / "reference.npz")
    assert told(right)[0].startswith("yours: within the bound of leaderboards (0.1 RMS sd in the mean, 10 % in the sd)")
    assert told(right, *kept) == told(right)
    assert told(exact_draws(linear, 20.0, scale=1.3), "--name", "stan")[0].startswith("stan: biased; mean off by 0.")
    assert told(right[:1])[0].startswith("yours: not converged: one chain: R-hat needs two; ")
    assert "were the first two axes exchanged?" in told(right.transpose(1, 0, 2))[-1]
    assert "often in another order" in told(right[..., ::-1])[-1]
    reference(linear, 100.0).save(tmp_path / "reference.npz")
    assert main([str(tmp_path / "draws.npz"), "--task", "linear", "--weight", "20", *kept]) == 2
    assert "weight 100; expected 'linear', seed 0, weight 20" in capsys.readouterr().err
    for name, said in (("draws.npz", "is no reference"), ("none.npz", "cannot be read")):
        arguments = ["--task", "linear", "--weight", "20", "--reference", str(tmp_path / name)]
        assert main([str(tmp_path / "draws.npz"), *arguments]) == 2
        assert said in capsys.readouterr().err
    np.save(tmp_path / "draws.npy", right)
    assert main([str(tmp_path / "draws.npy"), "--task", "linear"]) == 2
    expected = "is a single array, as numpy.save writes it; expected what numpy.savez(path, draws=array) writes"
    assert capsys.readouterr().err == f"error: {tmp_path / 'draws.npy'} {expected}\n"


def test_a_task_out_of_a_file_is_scored_like_any_other(tmp_path, capsys):
    words = ["--task", "templates/task.py:TASK", "--data", str(tmp_path)]
    assert main([*words, "--problem", str(tmp_path / "problem.npz")]) == 0
    assert capsys.readouterr().out == f"problem: {tmp_path / 'problem.npz'}\n"
    own = Problem.load(tmp_path / "problem.npz")
    np.savez(tmp_path / "draws.npz", draws=exact_draws(own, own.num_points))
    assert main([str(tmp_path / "draws.npz"), *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == "my_task" and abs(found["sd_ratio"] - 1) < 0.1
    assert main(["--task", "linaer", "--problem", "p.npz"]) == 2
    assert capsys.readouterr().err == "error: no task 'linaer'; did you mean 'linear'?\n"


def test_draws_made_elsewhere_get_a_row_on_a_leaderboard(problem, tmp_path, capsys):
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
        np.savez(tmp_path / "draws.npz", draws=exact_draws(problem("linear"), 20.0, scale))
        arguments = ["--task", "linear", "--weight", "20", "--board", str(tmp_path / "board.csv"), *given]
        assert main([str(tmp_path / "draws.npz"), *arguments]) == 0
        return pd.read_csv(StringIO(capsys.readouterr().out))

    # Some 2,000 independent draws: 200 and 20 per million.
    for evaluations, place in (("1e7", 1), ("1e8", 2)):
        found = rows_of(1.0, "--evaluations", evaluations, "--name", "stan")
        assert list(found["rank"][:3]) == [1, 2, 3] and found["method"][place] == "stan"
        assert found[CRITERION][place] == pytest.approx(2e9 / float(evaluations), rel=0.3)
    assert rows_of(1.0)["reason"][2] == "its evaluations are not known"
    assert rows_of(1.3, "--evaluations", "1e7")["reason"][2] == "biased"
    (tmp_path / "board.csv").write_text("a,b\n1,2\n")
    arguments = ["--task", "linear", "--weight", "20", "--board", str(tmp_path / "board.csv")]
    assert main([str(tmp_path / "draws.npz"), *arguments]) == 2
    assert "is no leaderboard: it has no column" in capsys.readouterr().err


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
        score(problem("linear"), draws, 100.0)


def test_the_reference_of_another_target_is_refused(problem):
    linear = problem("linear")
    with pytest.raises(
        SettingError, match=r"that of 'linear', seed 0, weight 20; expected 'linear', seed 0, weight 100"
    ):
        score(linear, exact_draws(linear, 100.0), 100.0, reference(linear, 20.0))
