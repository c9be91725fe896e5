"""The choice of a batch size, on a made-up study whose best one is known."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pbnn_bench.cli import main
from records.study import StudyResults
from records.summary import table_of
from reports.calibrate import batch_settings, choose
from reports.types import NothingToShow

Row = dict[str, Any]

#: ECE on validation and test points by batch size, one per seed. The mean over seeds asks for 10; seed 2 alone for 20.
VALIDATION = {5: (0.040, 0.050, 0.060), 10: (0.010, 0.012, 0.030), 20: (0.030, 0.035, 0.010), 200: (0.07, 0.08, 0.09)}
TEST = {5: (0.042, 0.052, 0.062), 10: (0.013, 0.014, 0.033), 20: (0.031, 0.036, 0.012), 200: (0.07, 0.08, 0.09)}
FULL = (0.081, 0.084, 0.093)


def row(method: str, seed: int, label: str, **columns: Any) -> Row:
    return {
        "run": f"regression/{label}/jax-cpu/seed{seed}",
        "task": "regression",
        "variant": "regression",
        "label": label,
        "method": method,
        "backend": "jax-cpu",
        "seed": seed,
        "status": "ok",
        "r_hat": 1.0,
        "ess_bulk_min": 1000.0,
        "preconditioner": "full",
        "step_size": 0.1,
        "num_steps": 100,
        "chains": 4,
        **columns,
    }


def penalty(size: int, seed: int, label: str = "", **columns: Any) -> Row:
    usual = {
        "batch_size": size,
        "num_batches": 5,
        "weight": "batch",
        "variance": "batches",
        "mean_variance": 0.5,
        "validation_ece": VALIDATION[size][seed],
        "validation_confidence_gap": 0.01,
        "ece": TEST[size][seed],
        "confidence_gap": 0.02,
    }
    return row("pbnn", seed, label or f"pbnn+batch_size={size}", **usual | columns)


def rows() -> list[Row]:
    full = [row("full_mh", seed, "full_mh", weight="data", ece=FULL[seed]) for seed in range(3)]
    return [*full, *(penalty(size, seed) for size in VALIDATION for seed in range(3))]


def results(folder: Path, content: list[Row]) -> Path:
    (folder / "made-up").mkdir()
    table_of(content).to_csv(folder / "made-up" / "summary.csv", index=False)
    return folder


def choice(content: list[Row]):
    study = StudyResults(Path("made-up"), table_of(content))
    return choose(batch_settings(study, "regression", "pbnn"))


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    usual = ["--study", "made-up", "--task", "regression", "--results", str(folder)]
    code = main(["calibrate", *usual, *arguments])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_the_mean_over_seeds_and_each_seed_choose_what_validates_best():
    found = choice(rows())
    means = {size: np.mean(values) for size, values in VALIDATION.items()}
    assert found.best["batch_size"] == min(means, key=means.get) == 10
    assert {seed: one["batch_size"] for seed, one in found.best_of_seed.items()} == {0: 10, 1: 10, 2: 20}


def test_test_points_have_no_say_in_the_choice():
    lured = [one | ({"ece": 0.0} if one.get("batch_size") == 200 else {}) for one in rows()]
    assert choice(lured).best["batch_size"] == 10


def test_batch_sizes_are_compared_on_the_seeds_that_all_have():
    """Without its bad seed, n = 20 would look better than n = 10 with all of its own."""
    content = [one for one in rows() if one.get("batch_size") != 200]
    for one in content:
        if one.get("batch_size") == 20:
            one["r_hat"] = 1.01 if one["seed"] == 2 else 1.5
    found = choice(content)
    assert found.seeds == (2,)
    assert found.best["batch_size"] == 20
    content = [one | ({"r_hat": 1.5} if (one.get("batch_size"), one["seed"]) == (20, 0) else {}) for one in rows()]
    assert choice(content).seeds == (1, 2)


def test_no_seed_in_common_is_an_error():
    lost = {5: 0, 10: 1, 20: 2}
    content = [one | ({"r_hat": 1.5} if lost.get(one.get("batch_size")) == one["seed"] else {}) for one in rows()]
    with pytest.raises(NothingToShow, match="No seed has converged runs"):
        choice(content)


def test_a_batch_size_stands_with_its_least_noisy_setting_that_needs_no_full_data():
    noisy = [
        penalty(10, seed, "pbnn+batch_size=10+num_batches=2", mean_variance=2.0, validation_ece=0.0)
        for seed in range(3)
    ]
    oracle = [
        penalty(10, seed, "oracle", variance="oracle", mean_variance=0.1, validation_ece=0.0) for seed in range(3)
    ]
    found = choice([*rows(), *noisy, *oracle])
    assert [one["label"] for one in found.candidates if one["batch_size"] == 10] == ["pbnn+batch_size=10"]


def test_the_command_prints_the_choice_with_its_intervals(capsys, tmp_path):
    code, out, _ = printed(capsys, results(tmp_path, rows()))
    assert code == 0
    chosen = next(line for line in out.splitlines() if line.endswith("<- chosen"))
    assert chosen.split()[0] == "10"
    low, high = stats.t.interval(0.95, 2, np.mean(VALIDATION[10]), stats.sem(VALIDATION[10]))
    assert f"{np.mean(VALIDATION[10]):.3f} [0, {high:.3f}]" in chosen
    assert low < 0, "no ECE is below 0"
    low, high = stats.ttest_rel(TEST[10], FULL).confidence_interval(0.95)
    assert f"paired over seeds: −{-np.mean(np.subtract(TEST[10], FULL)):.3f} [−{-low:.3f}, −{-high:.3f}]" in out
    assert "seed 0 n = 10, seed 1 n = 10, seed 2 n = 20" in out
    own = np.mean([TEST[10][0], TEST[10][1], TEST[20][2]])
    assert f"test ECE {own:.4f} [" in out.split("chosen for each seed")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--study", "made-upp"], "no study 'made-upp'; did you mean 'made-up'?"),
        (["--study", "scaling"], "study 'scaling' has not been run: "),
        (["--task", "regresion"], "study 'made-up' has no task 'regresion'; did you mean 'regression'?"),
        (["--method", "pbn"], "of method 'pbn'; did you mean 'pbnn'?"),
        (["--method", "full_mh"], "of method 'full_mh'; valid: pbnn"),
    ],
)
def test_a_wrong_name_is_reported_with_the_way_out(capsys, tmp_path, arguments, message):
    code, out, err = printed(capsys, results(tmp_path, rows()), *arguments)
    assert code == 2
    assert message in err
    assert not out


def test_a_fresh_clone_has_the_published_study(capsys, tmp_path):
    code, out, _ = printed(capsys, tmp_path, "--study", "paper")
    assert code == 0
    assert re.search(r"\bn = \d+ calibrates best", out)
