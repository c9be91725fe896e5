"""Verdicts on made-up summaries whose right verdict is known."""

import itertools
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.seeds import Estimate
from reports.claims import CLAIMS, as_json, judge_all
from reports.evidence import interval
from reports.parts import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Verdict
from reports.study import StudyResults
from workflows.summary import table_of

Row = dict[str, Any]
SEEDS = (0, 1, 2)
IDS = [claim.id for claim in CLAIMS]

#: What runs have unless they say otherwise: chains that have converged, on their target.
USUAL = {
    "study": "made-up",
    "stochastic": "last",
    "prior": "gaussian",
    "status": "ok",
    "preconditioner": "full",
    "num_steps": 1000,
    "chains": 4,
    "dtype": "float32",
    "r_hat": 1.01,
    "sd_ratio": 1.0,
    "sd_ratio_mc": 0.01,
    "mean_error": 0.02,
    "mean_error_mc": 0.01,
    "sliced_w2": 0.03,
    "sliced_w2_mc": 0.02,
    "audit_num_steps": 500,
    "audit_exact_acceptance": 0.8,
    "audit_noise_skewness": 0.0,
    "audit_noise_excess_kurtosis": 0.0,
    "wall_clock_s": 1.0,
    "gradient_evaluations": 0,
}
#: Columns that differ between seeds, by as much as chains of some length do.
NOISY = {"sd_ratio": 0.004, "accuracy": 2e-4, "ece": 5e-4, "confidence_gap": 5e-4, "acceptance_rate": 1e-3}


def runs(variant: str, method: str, /, *, backend: str = "jax-cpu", **columns: Any) -> list[Row]:
    """The runs of one setting, one a seed."""
    task, _, size = variant.partition("-n")
    num_points = {"linear": 100, "regression": 2000, "mnist": 55000}[task]
    number = itertools.count(1)
    given_settings = ("batch_size", "num_batches", "step_size", "variance", "weight", "preconditioner", "num_steps")
    label = ",".join([method, *(f"{name}={columns[name]}" for name in given_settings if name in columns)])
    rows = []
    for seed in SEEDS:
        row = USUAL | {"task": task, "num_points": int(size or num_points), "step_size": 0.1, **columns}
        row |= {"method": method, "backend": backend, "seed": seed, "run": f"{variant}/{label}/{backend}/seed{seed}"}
        row["target_weight"] = row["batch_size"] if row["weight"] == "batch" else row["num_points"]
        if "acceptance_rate" in row:
            row.setdefault("audit_acceptance", row["acceptance_rate"])
        for name in NOISY.keys() & row.keys():
            # Different for every setting, or paired differences would have no spread at all.
            row[name] += NOISY[name] * math.sin(7.0 * next(number) + len(label) + seed)
        rows.append(row)
    return rows


def world() -> list[Row]:
    """A summary in which everything is as the paper says."""
    linear = {"weight": "data", "step_size": 2e-4, "batch_size": 2, "preconditioner": "none"}
    batches = {"variance": "batches", "weight": "batch"}
    paper = batches | {"batch_size": 5, "num_batches": 5}
    scaling = batches | {"batch_size": 10, "num_batches": 10, "mean_variance": 0.2, "acceptance_rate": 0.5}
    return [
        *runs("linear", "naive", **linear, num_batches=1, sd_ratio=1.8, acceptance_rate=0.67, audit_noise_skewness=0.5),
        *runs("linear", "pbnn", **linear, num_batches=1, variance="oracle", mean_variance=4.0, acceptance_rate=0.28),
        *(
            row
            for n, m, variance, acceptance, skewness in [
                (2, 2, 2.0, 0.50, 0.3),
                (2, 5, 0.8, 0.58, 0.1),
                (2, 10, 0.4, 0.65, 0.0),
                (5, 2, 0.8, 0.60, 0.0),
                (10, 2, 0.4, 0.66, 0.0),
            ]
            for row in runs(
                "linear",
                "pbnn",
                **linear | {"batch_size": n, "num_batches": m, "variance": "batches"},
                mean_variance=variance,
                acceptance_rate=acceptance,
                audit_noise_skewness=skewness,
                sd_ratio=1 + 0.02 * variance,
            )
        ),
        *runs("regression", "full_mh", weight="data", ece=0.08, confidence_gap=0.08),
        *runs("regression", "tempered", weight="batch", batch_size=5),
        *(
            row
            for n, ece, gap in [(5, 0.03, -0.03), (10, 0.01, 0.0), (200, 0.07, 0.07)]
            for row in runs(
                "regression",
                "pbnn",
                **paper | {"batch_size": n},
                ece=ece,
                validation_ece=ece,
                confidence_gap=gap,
                mean_variance=0.6,
                acceptance_rate=0.5,
                sd_ratio=1.3,
            )
        ),
        *runs("regression", "pbnn", **paper, step_size=0.4, mean_variance=2.4, acceptance_rate=0.2, sd_ratio=1.33),
        *runs("regression", "sgld", weight="batch", batch_size=5, step_size=1e-5, sd_ratio=1.02),
        *runs("regression", "sgld", weight="batch", batch_size=5, step_size=1e-4, sd_ratio=2.0),
        *runs("mnist", "mala", weight="data", accuracy=0.936, ece=0.03, confidence_gap=0.03),
        *runs(
            "mnist",
            "pbnn",
            **batches,
            batch_size=100,
            num_batches=10,
            accuracy=0.932,
            ece=0.01,
            confidence_gap=0.01,
            mean_variance=0.2,
            acceptance_rate=0.3,
        ),
        *(
            row
            for n in (1000, 100_000)
            for row in runs(f"linear-n{n}", "pbnn", **scaling, likelihood_evaluations=800_000)
        ),
        *(
            row
            for n in (1000, 100_000)
            for row in runs(
                f"linear-n{n}", "full_mh", weight="data", wall_clock_s=n / 1e4, likelihood_evaluations=4000 * n
            )
        ),
    ]


def study(rows: list[Row]) -> StudyResults:
    return StudyResults.of(table_of(rows), Path("made-up"))


def judged(rows: list[Row], number: int) -> Verdict:
    return next(claim for claim in CLAIMS if claim.id == number).judge(study(rows))


def changed(where: Mapping[str, Any], **columns: Any) -> list[Row]:
    """The world with other numbers in some of its rows; a function makes the new value of the row."""
    rows = world()
    hits = [row for row in rows if all(row.get(name) == value for name, value in where.items())]
    assert hits, f"no row of the world has {where}"
    for row in hits:
        row |= {name: value(row) if callable(value) else value for name, value in columns.items()}
    return rows


def by_seed(*values: float) -> Callable[[Row], float]:
    return lambda row: values[row["seed"]]


def test_there_are_twelve_claims_in_order():
    assert list(range(1, 13)) == IDS


@pytest.mark.parametrize("number", IDS)
def test_a_claim_is_reproduced_where_everything_is_as_the_paper_says(number):
    verdict = judged(world(), number)
    assert verdict.outcome == REPRODUCED, verdict.reason
    assert any(character.isdigit() for character in verdict.reason), "a reason has numbers"
    assert verdict.evidence and verdict.runs


NAIVE = {"method": "naive"}
LINEAR = {"task": "linear", "method": "pbnn", "weight": "data"}
MNIST = {"task": "mnist", "method": "pbnn"}
FULL_MNIST = {"task": "mnist", "method": "mala"}
REGRESSION = {"task": "regression", "method": "pbnn"}


@pytest.mark.parametrize(
    ("number", "where", "columns"),
    [
        # Without a penalty the band is right all the same.
        (1, NAIVE, {"sd_ratio": 1.02}),
        # Known variance, and the answer is wrong: too wide, too narrow, in the wrong place.
        (2, LINEAR | {"variance": "oracle"}, {"sd_ratio": 1.3}),
        (2, LINEAR | {"variance": "oracle"}, {"sd_ratio": 0.8}),
        (2, LINEAR | {"variance": "oracle"}, {"mean_error": 0.4}),
        # The same where the variance is estimated from many batches.
        (2, LINEAR | {"variance": "batches", "num_batches": 10}, {"sd_ratio": 1.2}),
        (2, LINEAR | {"variance": "batches", "num_batches": 10}, {"mean_error": 0.3}),
        # Acceptance falls, at the end or in the middle; the variance rises.
        (3, LINEAR | {"batch_size": 10}, {"acceptance_rate": 0.3}),
        (3, LINEAR | {"batch_size": 5}, {"acceptance_rate": 0.4}),
        (3, LINEAR | {"batch_size": 10}, {"mean_variance": 1.0}),
        (4, LINEAR | {"num_batches": 10}, {"mean_variance": 1.0}),
        (4, LINEAR | {"num_batches": 5}, {"mean_variance": 3.0}),
        # The noisy rule accepts more than the exact one; the larger variance costs less; the penalty costs nothing.
        (5, LINEAR | {"batch_size": 2, "num_batches": 2}, {"audit_acceptance": 0.9}),
        (5, LINEAR | {"batch_size": 2, "num_batches": 10}, {"audit_acceptance": 0.3}),
        (5, NAIVE, {"acceptance_rate": 0.2}),
        # Full data are underconfident; the chosen n is worse; n does nothing, or the wrong way round.
        (6, {"task": "regression", "method": "full_mh"}, {"confidence_gap": -0.05}),
        (6, {"task": "regression", "method": "full_mh"}, {"ece": 0.002}),
        (6, REGRESSION | {"batch_size": 200}, {"confidence_gap": -0.2}),
        (7, MNIST, {"accuracy": 0.91}),
        (7, MNIST, {"accuracy": 0.96}),
        # More overconfident; so underconfident that calibration is worse; nothing to cure.
        (8, MNIST, {"confidence_gap": 0.05}),
        (8, MNIST, {"confidence_gap": -0.12, "ece": 0.12}),
        (8, FULL_MNIST, {"confidence_gap": -0.01}),
        # SGLD does not move; pbnn moves.
        (9, {"method": "sgld"}, {"sd_ratio": 1.02}),
        (9, REGRESSION | {"step_size": 0.4}, {"sd_ratio": 1.6}),
        # pbnn is the tempered posterior.
        (10, REGRESSION, {"sd_ratio": 1.01}),
        # Time, or evaluations, grow with the data.
        (11, {"method": "pbnn", "num_points": 100_000}, {"wall_clock_s": 50.0}),
        (11, {"method": "pbnn", "num_points": 100_000}, {"likelihood_evaluations": 80_000_000}),
        # Less normal with more batches.
        (12, LINEAR | {"batch_size": 2, "num_batches": 10}, {"audit_noise_excess_kurtosis": 4.0}),
    ],
)
def test_numbers_against_a_claim_are_told_as_not_reproduced(number, where, columns):
    verdict = judged(changed(where, **columns), number)
    assert verdict.outcome == NOT_REPRODUCED, verdict.reason
    assert any(character.isdigit() for character in verdict.reason)


@pytest.mark.parametrize(
    ("number", "where", "columns"),
    [
        (1, NAIVE, {"sd_ratio": by_seed(1.0, 1.1, 1.3)}),
        (1, NAIVE, {"sd_ratio": 1.3, "sd_ratio_mc": 0.3}),
        (2, LINEAR | {"variance": "oracle"}, {"sd_ratio": by_seed(1.0, 1.05, 1.12)}),
        # The three seeds agree, but chains as short as these could be anywhere.
        (2, LINEAR | {"variance": "oracle"}, {"sd_ratio_mc": 0.2}),
        (2, LINEAR | {"variance": "oracle"}, {"mean_error": 0.19, "mean_error_mc": 0.1}),
        (3, LINEAR | {"batch_size": 10}, {"acceptance_rate": by_seed(0.5, 0.6, 0.8)}),
        (3, LINEAR | {"batch_size": 10}, {"mean_variance": by_seed(0.4, 0.8, 1.1)}),
        (4, LINEAR | {"num_batches": 10}, {"mean_variance": by_seed(0.4, 0.8, 1.1)}),
        (5, NAIVE, {"acceptance_rate": by_seed(0.1, 0.3, 0.6)}),
        (6, {"task": "regression", "method": "full_mh"}, {"confidence_gap": by_seed(-0.02, 0.01, 0.03)}),
        (7, MNIST, {"accuracy": by_seed(0.92, 0.93, 0.94)}),
        (8, MNIST, {"ece": by_seed(0.01, 0.03, 0.04)}),
        (9, {"method": "sgld", "step_size": 1e-4}, {"sd_ratio": by_seed(1.0, 1.1, 1.3)}),
        (10, REGRESSION, {"sd_ratio": by_seed(1.0, 1.1, 1.3)}),
        (11, {"method": "pbnn", "num_points": 100_000}, {"wall_clock_s": by_seed(0.8, 1.5, 3.0)}),
        (12, NAIVE, {"audit_noise_skewness": 0.1}),
        # One data set in three has noise that is far from normal: that many steps were audited does not help.
        (12, {"num_batches": 1, "task": "linear"}, {"audit_noise_excess_kurtosis": by_seed(1.5, 0.3, 0.1)}),
    ],
)
def test_numbers_that_do_not_decide_are_inconclusive(number, where, columns):
    verdict = judged(changed(where, **columns), number)
    assert verdict.outcome == INCONCLUSIVE, verdict.reason
    assert "does not decide" in verdict.reason
    assert "does not lie wholly" in verdict.reason


@pytest.mark.parametrize("number", [number for number in IDS if number != 11])
def test_runs_that_have_not_converged_are_no_evidence(number):
    verdict = judged(changed({}, r_hat=1.2), number)
    assert verdict.outcome == INCONCLUSIVE
    assert "not converged (R-hat up to 1.2" in verdict.reason
    assert not verdict.runs


def test_a_step_costs_the_same_whether_or_not_chains_have_converged():
    assert judged(changed({}, r_hat=None), 11) == judged(world(), 11)


@pytest.mark.parametrize("number", IDS)
def test_one_seed_is_too_few(number):
    verdict = judged([row for row in world() if row["seed"] == 1], number)
    assert verdict.outcome == INCONCLUSIVE
    assert "Too few seeds" in verdict.reason


@pytest.mark.parametrize("number", IDS)
@pytest.mark.parametrize("status", ["missing", "diverged", None])
def test_runs_that_are_not_there_are_named(number, status):
    other = runs("regression", "ula", weight="data")
    rows = other if status is None else [{**row, "status": status, "r_hat": None, "sd_ratio": None} for row in world()]
    verdict = judged(rows, number)
    assert verdict.outcome == INCONCLUSIVE
    assert (status or "Missing runs") in verdict.reason


def test_one_naive_setting_that_is_right_and_one_that_is_not_leave_the_claim_open():
    right = runs("linear", "naive", weight="data", batch_size=2, num_batches=1, step_size=1e-7, sd_ratio=1.0)
    verdict = judged([*world(), *right], 1)
    assert verdict.outcome == INCONCLUSIVE
    assert "contradict each other" in verdict.reason


def test_a_seed_that_has_not_converged_is_left_out_and_counted():
    rows = changed({"task": "mnist", "method": "pbnn", "seed": 2}, r_hat=1.3, accuracy=0.1)
    difference = judged(rows, 7).evidence[0].value
    assert (difference.num_seeds, difference.num_missing) == (2, 1)
    assert difference.mean == pytest.approx(-0.004, abs=5e-4)
    assert not any(run.endswith("seed2") for run in judged(rows, 7).runs if "pbnn" in run)


def test_the_backend_with_more_converged_runs_is_taken():
    columns = {"weight": "batch", "variance": "batches", "batch_size": 100, "num_batches": 10}
    torch = runs("mnist", "pbnn", backend="torch-cpu", **columns, accuracy=0.90)
    assert judged([*world(), *torch], 7).outcome == REPRODUCED
    without_jax = [
        row | ({"r_hat": 2.0} if (row["task"], row["method"], row["seed"]) == ("mnist", "pbnn", 0) else {})
        for row in world()
    ]
    assert judged([*without_jax, *torch], 7).outcome == NOT_REPRODUCED


def test_of_equal_settings_the_longest_run_counts():
    columns = {"weight": "batch", "variance": "batches", "batch_size": 5, "num_batches": 5, "step_size": 0.4}
    short = runs("regression", "pbnn", **columns, num_steps=500, mean_variance=2.4, sd_ratio=1.9)
    assert judged([*world(), *short], 9).outcome == REPRODUCED
    long = runs("regression", "pbnn", **columns, num_steps=5000, mean_variance=2.4, sd_ratio=1.9)
    assert judged([*world(), *long], 9).outcome == NOT_REPRODUCED


def test_the_known_variance_decides_about_tempering_where_there_is_one():
    """Noise makes pbnn too wide everywhere; where its variance is known it is the tempered posterior."""
    columns = {"weight": "batch", "variance": "oracle", "batch_size": 5, "num_batches": 5}
    known = runs("regression", "pbnn", **columns, mean_variance=0.7, sd_ratio=1.0, acceptance_rate=0.5)
    verdict = judged([*world(), *known], 10)
    assert verdict.outcome == NOT_REPRODUCED
    assert "noise regime" in verdict.reason


def test_the_limit_of_no_noise_is_the_intercept_of_a_line():
    rows = [
        row
        for step, variance in ((0.01, 0.2), (0.05, 1.0), (0.1, 2.0))
        for row in runs(
            "regression",
            "pbnn",
            weight="batch",
            variance="batches",
            batch_size=5,
            num_batches=5,
            step_size=step,
            mean_variance=variance,
        )
    ]
    for row in rows:
        row["sd_ratio"] = 1.02 + 0.1 * row["seed"] + 0.3 * row["mean_variance"] ** 2
    evidence = judged([*rows, *runs("regression", "tempered", weight="batch", batch_size=5)], 10).evidence
    limit = next(one.value for one in evidence if "extrapolated" in one.label)
    assert limit.mean == pytest.approx(1.12)
    assert limit.high - limit.low == pytest.approx(2 * stats.t.ppf(0.975, 2) * 0.1 / math.sqrt(3))


def test_the_limit_of_no_noise_is_no_surer_than_its_chains():
    """Seeds that agree to the last digit, and two points of the line, one twice as far out as the other."""
    columns = {"weight": "batch", "variance": "batches", "batch_size": 5, "num_batches": 5}
    rows = [
        row | {"sd_ratio": 1.0, "sd_ratio_mc": 0.03}
        for step, variance in ((0.01, 1.0), (0.05, math.sqrt(2.0)))
        for row in runs("regression", "pbnn", **columns, step_size=step, mean_variance=variance)
    ]
    evidence = judged([*rows, *runs("regression", "tempered", weight="batch", batch_size=5)], 10).evidence
    limit = next(one.value for one in evidence if "extrapolated" in one.label)
    # The intercept of points at 1 and 2 is 2 y1 - y2, its error sqrt(5) times that of a point.
    half_width = 2 * math.sqrt(5) * 0.03 / math.sqrt(3)
    assert (limit.low, limit.high) == pytest.approx((1 - half_width, 1 + half_width))


def test_noise_is_no_reason_where_it_makes_no_difference():
    verdict = judged(changed({"task": "regression"}, sd_ratio=1.0), 10)
    assert verdict.outcome == NOT_REPRODUCED
    assert "noise regime" not in verdict.reason


def test_bias_that_few_mini_batches_leave_is_told_with_the_verdict():
    rows = changed(LINEAR | {"batch_size": 2, "num_batches": 2}, sd_ratio=1.4)
    verdict = judged(rows, 2)
    assert verdict.outcome == REPRODUCED
    assert "fewer mini-batches: sd 1.40" in verdict.reason
    assert "fewer" not in judged(world(), 2).reason


def test_a_network_that_is_not_overconfident_is_told_with_the_verdict():
    rows = changed(MNIST, confidence_gap=-0.12, ece=0.12)
    assert "not seen to be overconfident" not in judged(rows, 8).reason
    rows = [row | ({"confidence_gap": 0.01 * (row["seed"] - 1)} if row["method"] == "mala" else {}) for row in rows]
    assert "not seen to be overconfident" in judged(rows, 8).reason


def test_intervals_are_those_of_a_paired_t_test():
    rows = changed({"task": "mnist"}, accuracy=lambda row: 0.9 + 0.01 * math.sin(row["seed"] * len(row["method"])))
    ours, theirs = (
        [row["accuracy"] for row in rows if row["task"] == "mnist" and row["method"] == method]
        for method in ("pbnn", "mala")
    )
    expected = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    found = judged(rows, 7).evidence[0].value
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_growth_of_full_data_is_told_beside_that_of_a_mini_batch():
    evidence = {one.label: one.value.mean for one in judged(world(), 11).evidence}
    assert evidence["growth exponent of a step's time, full_mh, jax-cpu"] == pytest.approx(1.0)
    assert evidence["growth exponent of a step's time, pbnn n = 10, M = 10, jax-cpu"] == pytest.approx(0.0)


def test_a_chi_squared_noise_becomes_normal_as_fast_as_it_should():
    """The mean of M χ² variables has skewness² 8 / M and excess kurtosis 12 / M."""
    random = np.random.default_rng(3)
    rows = []
    for m in (1, 4, 40):
        rows += runs("linear", "naive", weight="data", batch_size=2, num_batches=m, step_size=2e-4)
        for row in rows[-len(SEEDS) :]:
            noise = random.chisquare(1, size=(5000, m)).mean(axis=1)
            row |= {
                "audit_num_steps": 5000,
                "audit_noise_skewness": stats.skew(noise),
                "audit_noise_excess_kurtosis": stats.kurtosis(noise),
            }
    verdict = judged(rows, 12)
    assert verdict.outcome == REPRODUCED
    found = {one.label.split(", ")[-1]: one.value.mean for one in verdict.evidence}
    for m in (4, 40):
        assert found[f"M = {m}"] == pytest.approx((8 / m) / 6 + (12 / m) ** 2 / 24, rel=0.25)


def test_normal_noise_is_seldom_taken_for_anything_else():
    """Both M are normal: an interval of 95 % decides wrongly once in twenty, and the departure is 0 on average."""
    random = np.random.default_rng(5)
    wrong, departures = 0, []
    for _ in range(60):
        rows = [
            row
            | {
                "audit_noise_skewness": random.normal(0, math.sqrt(6 / 500)),
                "audit_noise_excess_kurtosis": random.normal(0, math.sqrt(24 / 500)),
            }
            for m in (1, 10)
            for row in runs("linear", "naive", weight="data", batch_size=2, num_batches=m, step_size=2e-4)
        ]
        verdict = judged(rows, 12)
        wrong += verdict.outcome != INCONCLUSIVE
        departures.append(next(one.value.mean for one in verdict.evidence if one.label.endswith("M = 10")))
    # More than 8 of 60 at a rate of 5 % has a chance of 0.3 %.
    assert wrong <= 8
    # Three runs of 500 steps have an sd of sqrt(12) / 1500 = 0.0023 each.
    assert abs(np.mean(departures)) < 3 * 0.0023 / math.sqrt(60)


SHUFFLED = world()
VERDICTS = judge_all(study(SHUFFLED))


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(len(SHUFFLED))))
def test_the_order_of_rows_changes_no_verdict(order):
    assert judge_all(study([SHUFFLED[place] for place in order])) == VERDICTS


@pytest.mark.parametrize(
    ("mean", "half_width", "told"),
    [
        (1.8512, 0.14, "1.85 [1.71, 1.99]"),
        (1234.5, 300.0, "1234 [934, 1534]"),
        (0.1 + 0.2, 5e-17, "0.300 [0.300, 0.300]"),
    ],
)
def test_an_interval_has_the_digits_that_its_width_deserves(mean, half_width, told):
    assert interval(Estimate(mean, mean - half_width, mean + half_width, 3, 0)) == told


def test_the_file_has_all_there_is_to_a_verdict():
    content = json.loads(json.dumps(as_json(VERDICTS), allow_nan=False))
    assert [one["id"] for one in content] == IDS
    for one, (claim, verdict) in zip(content, VERDICTS, strict=True):
        assert (one["statement"], one["place"], one["rule"]) == (claim.statement, claim.place, claim.rule)
        assert (one["verdict"], one["reason"]) == (verdict.outcome, verdict.reason)
        assert one["runs"] == list(verdict.runs)
        first = verdict.evidence[0]
        assert one["evidence"][0] == {
            "label": first.label,
            "mean": first.value.mean,
            "low": first.value.low,
            "high": first.value.high,
            "num_seeds": 3,
            "num_missing": 0,
            "unit": first.unit,
        }
