"""Findings: their numbers, and that no sentence is said which the numbers do not bear out."""

from dataclasses import replace
from pathlib import Path

import pytest

from reports.contents import findings_of
from tests.reports.test_claims import OVERFITTED, MadeUp, runs, study, world
from tests.reports.test_leaderboard import BIASED
from tests.reports.test_leaderboard import runs as board_runs
from tests.reports.test_leaderboard import study as board_study

LINEAR = {"weight": "data", "step_size": 2e-4, "batch_size": 2, "preconditioner": "none"}
BATCHES = {"variance": "batches", "weight": "batch"}
PAPER = BATCHES | {"batch_size": 5, "num_batches": 5}


def other_world(
    width: float = 1.01, penalised: float = 1.01, noise: float = 100.0, letter: float = 0.9, cured: float = 0.008
) -> list[dict]:
    """Runs that every finding needs.

    Widths of PBNN within a data set, with the variance known and read to the letter; σ² at large N; the ECE at the n
    that calibrates best.
    """
    return [
        *runs("linear", "naive", **LINEAR, num_batches=1, sd_ratio=1.8, acceptance_rate=0.66),
        *runs("linear", "pbnn", **LINEAR, num_batches=1, variance="oracle", sd_ratio=penalised, acceptance_rate=0.26),
        *runs("linear", "pbnn", **LINEAR, num_batches=2, variance="batches", sd_ratio=1.4),
        *runs("linear", "pbnn", **LINEAR, num_batches=10, variance="batches", sd_ratio=1.01),
        *runs("linear", "pbnn", **LINEAR, num_batches=10, variance="batches_finite", sd_ratio=1.03),
        *runs("regression", "full_mh", weight="data", ece=0.08, confidence_gap=0.08),
        *runs("regression", "pbnn", **PAPER, sd_ratio=width, mean_variance=0.6),
        *runs("regression", "pbnn", **PAPER | {"num_batches": 2}, sd_ratio=1.13, mean_variance=1.6),
        *runs("regression", "pbnn", **PAPER | {"step_size": 0.14}, sd_ratio=1.07, mean_variance=2.5),
        *runs("regression", "pbnn", **PAPER | {"batch_size": 10}, ece=0.01, mean_variance=0.6),
        *runs("regression-fresh400000", "pbnn", **PAPER | {"batch_size": 200}, num_points=400_000, mean_variance=0.6),
        *runs("regression", "sgld", weight="batch", batch_size=5, step_size=0.02, likelihood_evaluations=1000),
        *runs(
            "regression",
            "pbnn",
            **PAPER | {"step_size": 0.1, "preconditioner": "none"},
            r_hat=9.0,
            acceptance_rate=6e-6,
        ),
        *runs("regression", "pbnn", **PAPER | {"variance": "literal"}, sd_ratio=letter, audit_variance_ratio_mean=2.01),
        *runs("mnist", "mala", weight="data", ece=0.007, confidence_gap=0.005),
        *runs("mnist", "pbnn", **BATCHES, batch_size=100, num_batches=10, ece=0.13, confidence_gap=-0.13),
        *(
            row
            for weight, ece, nll in (("data", 0.035, 0.31), ("1000", cured, 0.24), ("100", 0.13, 0.35))
            for row in runs(
                OVERFITTED,
                "mala",
                num_points=10_000,
                num_epochs=60,
                weight=weight,
                ece=ece,
                validation_ece=ece,
                confidence_gap=ece,
                nll=nll,
            )
        ),
        *(
            row
            for size, variance in ((1000, 1.0), (100_000, noise))
            for row in runs(
                f"linear-n{size}",
                "pbnn",
                **BATCHES | {"weight": "data"},
                batch_size=10,
                num_batches=10,
                mean_variance=variance,
            )
        ),
    ]


def headlines(rows: list[dict]) -> list[str]:
    return [one.headline for one in findings_of(study(rows, MadeUp))]


def test_every_finding_comes_with_its_numbers():
    found = dict(findings_of(study(other_world(), MadeUp)))
    expected = {
        "The penalty removes most of the bias of mini-batches.": [
            "1.8 times as wide as it should be; with it, and the variance of the noise known, the width is right to "
            "within 1.1 %.",
            "from 10 mini-batches the band is 1.01 times as wide (1.03 if the estimate allows for the size of the data "
            "set), from 2 it is still 1.40 times",
        ],
        "With the paper's weight (w = n), PBNN draws from the tempered posterior on a fixed data set; on fresh data, "
        "from that of the expected loss.": [
            "1.01 times where the noise is smallest, and 1.13 times where it is farthest off, at M = 2.",
            "n = 200",
        ],
        "Small mini-batches lower the calibration error of an overconfident posterior, and raise that of a calibrated "
        "one.": [
            "0.08",
            "0.01",
            "0.13",
        ],
        "A smaller n calibrates an overfitted network; with our prior, the paper's n = 100 is too small.": [
            "10,000 images and 60 epochs",
            "0.035 with full data, 0.0080 at n = 1,000",
            "0.13 at n = 100. The NLL is 0.31, 0.24 and 0.35",
        ],
        "Where a small bias is good enough, SGLD is far cheaper.": ["800 times fewer"],
        "At the paper's step size, without a preconditioner, the chain does not move.": ["e−6 of its moves"],
        "Read literally, the paper's variance of one mini-batch is twice what it should be.": [
            "2.0 times",
            "0.899",
        ],
        "On the posterior of all data, plain PBNN needs n M in proportion to N.": ["to the power of 1"],
    }
    assert list(found) == list(expected)
    for headline, numbers in expected.items():
        for number in numbers:
            assert number in found[headline], found[headline]


def test_a_lower_calibration_error_is_said_with_what_the_proper_scores_do():
    scores = {"full_mh": (0.04, 1.0), "pbnn": (0.05, 1.0)}
    rows = other_world()
    for row in rows:
        if row["variant"] == "regression" and row["method"] in scores:
            crps, nll = scores[row["method"]]
            row |= {"crps": crps + 1e-4 * row["seed"], "nll": nll + 0.1 * (row["seed"] % 2) * (row["method"] == "pbnn")}
            row["nll"] -= 0.05 * (row["method"] == "pbnn")
    (text,) = (one.text for one in findings_of(study(rows, MadeUp)) if one.headline.startswith("Small mini-batches"))
    assert "(its CRPS rises from 0.040 to 0.050 and its NLL is too close to call)" in text


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"penalised": 1.7}, "The penalty removes"),
        ({"noise": 1.0}, "On the posterior of all data"),
        ({"width": 1.5}, "With the paper's weight"),
        ({"letter": 1.01}, "Read literally"),
        ({"cured": 0.05}, "A smaller n"),
    ],
)
def test_a_sentence_that_the_numbers_do_not_bear_out_is_not_said(change, lost):
    found = headlines(other_world(**change))
    assert not any(headline.startswith(lost) for headline in found)
    assert len(found) >= 4


def test_a_study_without_the_runs_has_fewer_findings():
    rows = [row for row in other_world() if "fresh" not in row["variant"]]
    assert "PBNN, the paper's sampler, draws from the tempered posterior." in headlines(rows)
    assert headlines([row for row in world() if row["task"] == "mnist"]) == []


# The study `rivals`


def of_rivals(*groups):
    return findings_of(replace(board_study(*groups), folder=Path("rivals")))


def test_the_study_rivals_begins_with_what_mini_batches_gain_and_who_wins():
    found = of_rivals(
        board_runs("pbnn+batch_size=10", 500_000),
        board_runs("full_mh", 2_000_000),
        board_runs("naive", 10_000, **BIASED),
        board_runs("pbnn+batch_size=2", 3_000_000, target_weight=5.0),
        board_runs("tempered+batch_size=5", 300_000, target_weight=5.0),
    )
    gain, winners, bias = found
    assert gain.headline.startswith("Where a small bias is acceptable,")
    assert gain.headline.endswith("than full data on 1 of 2 targets.")
    assert "chosen among many methods on the seeds that measure them" in gain.text
    assert "gives 0.10 to 4.0 times as many" in gain.text
    assert "4.00 [4.00, 4.00] on linear, w = 100 (PBNN over " in gain.text and "] on linear, w = 5" in gain.text
    assert winners.headline == "No method is best on every target."
    assert bias.headline.startswith("Of 4 methods, 3 have a small bias") and "aive" in bias.text


def test_draws_that_read_nothing_are_named_and_do_not_win_per_evaluation():
    """As under 'Who won': the Gaussian at the mode has no draws per evaluation."""
    _, winners, _ = of_rivals(
        board_runs("laplace", 0),
        board_runs("pbnn+batch_size=10", 500_000),
        board_runs("full_mh", 2_000_000),
        board_runs("naive", 10_000, **BIASED),
        board_runs("tempered+batch_size=5", 300_000, target_weight=5.0),
    )
    aside = "(Laplace, which draws from a Gaussian and reads nothing, aside)"
    start = f"Most effective draws per evaluation with a small bias {aside}: PBNN on linear, w = 100; "
    assert winners.text.startswith(start)
    # A target on which mini-batches are all biased is lost, and named; Laplace does not save it.
    gain, *_ = of_rivals(
        board_runs("pbnn+batch_size=10", 500_000),
        board_runs("full_mh", 2_000_000),
        board_runs("laplace", 0, target_weight=5.0),
        board_runs("pbnn+batch_size=5", 10_000, target_weight=5.0, **BIASED),
        board_runs("tempered+batch_size=5", 300_000, target_weight=5.0),
    )
    assert gain.headline.endswith("on 1 of 2 targets.")
    assert "On linear, w = 5 no chain on mini-batches has a small bias." in gain.text


def test_control_variates_are_compared_at_as_many_steps_of_one_method_on_one_target():
    read = {"audit_mean_points": 5286.4, "audit_mean_points_mc": 10.0}

    def repaired(steps=1000, **without):
        return [
            one.headline
            for one in of_rivals(
                board_runs("barker_test+proxy=none", 500_000, num_steps=1000, **read, **without),
                board_runs("barker_test+proxy=second", 500_000, num_steps=steps, **read | {"audit_mean_points": 101.0}),
                # The default is none, and no one to compare it with.
                board_runs("austerity+epsilon=0.1", 500_000, num_steps=1000, **BIASED),
            )
            if one.headline.startswith("Control variates")
        ]

    (headline,) = repaired(**BIASED)
    assert headline.endswith("1 of 1 cases converge to a small bias, and 0 without them.")
    assert repaired() == [], "both are right"
    assert repaired(steps=9000, **BIASED) == [], "one has nine times as many steps"


def test_nothing_is_said_of_rivals_that_the_leaderboards_do_not_hold():
    """One method alone on its target is neither better than another nor the best of several."""
    assert of_rivals(board_runs("pbnn+batch_size=10", 500_000)) == []
    # A Gaussian at the mode takes no evaluations: it wins, and is no chain on mini-batches.
    (only,) = of_rivals(
        board_runs("laplace", 0), board_runs("pbnn+batch_size=10", 500_000), board_runs("full_mh", 2_000_000)
    )
    assert only.headline.endswith("on 1 of 1 targets.")


# The study `layers`


@pytest.mark.parametrize(("width", "num_said"), [(1.01, 1), (1.5, 0)])
def test_the_study_layers_says_that_a_whole_network_is_sampled_where_it_is(width, num_said):
    rows = runs("regression-all", "pbnn", **PAPER, sd_ratio=width, num_parameters=61, mean_error=0.01)
    found = findings_of(replace(study(rows, MadeUp), folder=Path("layers")))
    assert len(found) == num_said
    assert all("all 61 parameters" in one.text and "1.0 times as wide" in one.text for one in found)
    assert all(one.text.endswith("on 3 seeds, with 5 mini-batches of 5 points.") for one in found)
