"""Findings: their numbers, and that no sentence is said which the numbers do not bear out."""

from dataclasses import replace
from pathlib import Path

import pytest

from reports.findings import findings
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
        *runs("regression", "full_mh", weight="data", ece=0.08, confidence_gap=0.08),
        *runs("regression", "pbnn", **PAPER, sd_ratio=width, mean_variance=0.6),
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
    return [one.headline for one in findings(study(rows, MadeUp))]


def test_every_finding_comes_with_its_numbers():
    found = dict(findings(study(other_world(), MadeUp)))
    expected = {
        "The penalty works.": ["1.80 times as wide", "1.01 times with the variance known", "1.40 times from 2"],
        "Within a data set PBNN samples the tempered posterior, and on fresh data the expected one.": ["n = 200"],
        "A small n calibrates an overconfident posterior and spoils a calibrated one.": ["0.08", "0.01", "0.13"],
        "An overfitted network is cured by a smaller n, and n = 100 is too small for it.": [
            "10,000 images and 60 epochs",
            "from 0.035 with full data to 0.0080 at n = 1000",
            "0.13 at n = 100; the NLL is 0.31, 0.24 and 0.35",
        ],
        "Where a small bias is good enough, SGLD is far cheaper.": ["800 times fewer"],
        "At the step that the paper names, without a preconditioner, the chain does not move.": ["e−6 of its moves"],
        "Read to the letter, the paper's variance of one mini-batch is twice what it should be.": [
            "2.0 times",
            "0.899",
        ],
        "Plain PBNN on the posterior of all data needs n M in proportion to N.": ["to the power of 1"],
    }
    assert list(found) == list(expected)
    for headline, numbers in expected.items():
        for number in numbers:
            assert number in found[headline], found[headline]


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"penalised": 1.7}, "The penalty works."),
        ({"noise": 1.0}, "Plain PBNN"),
        ({"width": 1.5}, "Within a data set"),
        ({"letter": 1.01}, "Read to the letter"),
        ({"cured": 0.05}, "An overfitted network"),
    ],
)
def test_a_sentence_that_the_numbers_do_not_bear_out_is_not_said(change, lost):
    found = headlines(other_world(**change))
    assert not any(headline.startswith(lost) for headline in found)
    assert len(found) >= 4


def test_a_study_without_the_runs_has_fewer_findings():
    rows = [row for row in other_world() if "fresh" not in row["variant"]]
    assert "What PBNN samples is the tempered posterior." in headlines(rows)
    assert headlines([row for row in world() if row["task"] == "mnist"]) == []


# The study `rivals`


def of_rivals(*groups):
    return findings(replace(board_study(*groups), folder=Path("rivals")))


def test_a_network_of_all_layers_is_told_of_where_its_band_is_right():
    def headlines(**changed: float) -> list[str]:
        return [one.headline for one in findings(study(runs("regression-all", "pbnn", **PAPER, **changed)))]

    assert headlines(sd_ratio=1.01) == ["The penalty works where all layers are stochastic."]
    assert headlines(sd_ratio=1.2) == headlines(sd_ratio=1.01, r_hat=1.2) == []


def test_the_study_rivals_begins_with_what_mini_batches_gain_and_who_wins():
    found = of_rivals(
        board_runs("pbnn+batch_size=10", 500_000),
        board_runs("full_mh", 2_000_000),
        board_runs("naive", 10_000, **BIASED),
        board_runs("pbnn+batch_size=2", 3_000_000, target_weight=5.0),
        board_runs("tempered+batch_size=5", 300_000, target_weight=5.0),
    )
    gain, winners, bias = found
    assert gain.headline.endswith("than all data on 1 of 2 targets.")
    assert "4.0 on linear, w = 100 (PBNN over " in gain.text and "0.10 on linear, w = 5" in gain.text
    assert winners.headline == "No method is the best on every target."
    assert bias.headline.startswith("Of 4 methods 3 keep the bias within the bound") and "aive" in bias.text


def test_nothing_is_said_of_rivals_that_the_leaderboards_do_not_hold():
    """One method alone on its target is neither better than another nor the best of several."""
    assert of_rivals(board_runs("pbnn+batch_size=10", 500_000)) == []
    # A Gaussian at the mode takes no evaluations: it wins, and is no chain on mini-batches.
    (only,) = of_rivals(
        board_runs("laplace", 0), board_runs("pbnn+batch_size=10", 500_000), board_runs("full_mh", 2_000_000)
    )
    assert only.headline.endswith("on 1 of 1 targets.")
