"""The questions and figures of the study of tall data, on a made-up summary whose right verdicts are known."""

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from implementations.methods import METHODS
from records.study import StudyResults
from records.summary import table_of
from reports.claims.tall import TALL
from reports.contents import CONTENTS, PAPER, contents_of
from reports.evidence import CONTROLLED
from reports.figures import TALL_FIGURES
from reports.judging import FRAGILE, judge_claims
from reports.publish import DOCUMENTED
from reports.render import render
from reports.types import INCONCLUSIVE, MAX_WORDS, NOT_ASKED, NOT_REPRODUCED, REPRODUCED, NothingToShow, Verdict
from tests.reports.legible import flaws
from tests.reports.studies import NO_BENCHMARKS
from workflows.study import load_study

Row = dict[str, Any]
SIZES = {"logistic": 10_000, "digits": 1200, "mnist": 55_000, "flights": 2_900_000}


def runs(task: str, method: str, num_points: int | None = None, **columns: Any) -> list[Row]:
    """The runs of one setting at w = N, one per seed, with a little noise."""
    points = num_points or SIZES[task]
    variant = task if points == SIZES[task] else f"{task}-points{points}"
    shared = {name: one.default_for(20) for name, one in METHODS[method].settings.items() if name != "proxy"}
    rows, number = [], itertools.count(len(method))
    for seed in range(3):
        wobble = 1 + 0.01 * math.sin(7.0 * next(number) + points)
        row = shared | {
            "study": "tall",
            "run": f"{variant}/{method}/jax-cpu/seed{seed}",
            "variant": variant,
            "task": task,
            "method": method,
            "backend": "jax-cpu",
            "seed": seed,
            "stochastic": "last",
            "prior": "gaussian",
            "prior_scale": 1.0,
            "own_settings": "proxy=second" if "proxy" in METHODS[method].settings else None,
            "status": "ok",
            "weight": "data",
            "target_weight": float(points),
            "num_points": points,
            "num_parameters": 20,
            "num_steps": 1000,
            "r_hat": 1.005,
            "ess_bulk_min": 4000.0 * wobble,
            "sd_ratio": 1 + 0.1 * (wobble - 1),
            "sd_ratio_mc": 0.005,
            "mean_error": 0.015 * wobble,
            "mean_error_mc": 0.01,
            "point_error": 0.015 * wobble,
            "point_error_mc": 0.01,
            "point_error_resolved": False,
            "sliced_w2": 0.03 * wobble,
            "sliced_w2_mc": 0.03,
            "sliced_w2_resolved": False,
            "likelihood_evaluations": 4_000_000,
            "gradient_evaluations": 0,
            "wall_clock_s": 0.1,
            "cpu_s": 0.1 * wobble,
            "warmup_cpu_s": 0.01,
            "anchor_cpu_s": 3.0,
            "ess_per_second": 40_000 * wobble,
        }
        row |= {name: value(seed) if callable(value) else value for name, value in columns.items()}
        row["label"] = "+".join(
            [method, *(f"{name}={columns[name]}" for name in ("num_batches", "step_size") if name in columns)]
        )
        row["run"] = f"{variant}/{row['label']}/jax-cpu/seed{seed}"
        rows.append(row)
    return rows


def world() -> list[Row]:
    """A summary in which every question is answered with yes."""
    sizes = (10_000, 1_000_000, 10_000_000)
    slow = {"cpu_s": 80.0, "warmup_cpu_s": 1.0}
    return [
        *(row for method in CONTROLLED for size in sizes for row in runs("logistic", method, size)),
        *(
            row
            for size in sizes[:2]
            for row in runs("logistic", "mala", size, gradient_evaluations=1000 * size, ess_per_second=1e7 / size)
        ),
        *runs("logistic", "laplace", sizes[-1], likelihood_evaluations=0),
        *(row for task in ("digits", "mnist", "flights") for row in runs(task, "pbnn_cn")),
        *runs("mnist", "mala", **slow),
        *runs("mnist", "blackjax_hmc", **slow | {"cpu_s": 70.0}),
        *runs("flights", "mala", **slow | {"cpu_s": 1000.0}),
        *runs("digits", "laplace", point_error=1.7),
        *runs("mnist", "laplace", point_error=0.19),
        *runs("flights", "laplace", point_error=0.01),
        *(
            row
            for num_batches in (2, 5)
            for step, variance, residual in ((0.02, 0.2, 0.004), (0.1, 0.8, 0.03), (0.35, 4.0, 0.3))
            for row in runs(
                "logistic", "pbnn_cv", 20_000, num_batches=num_batches, step_size=step, variance="batches",
                mean_variance=variance, audit_balance_residual=residual, audit_balance_residual_mc=residual / 10,
            )
        ),
    ]  # fmt: skip


def study(rows: list[Row]) -> StudyResults:
    return StudyResults(Path("tall"), table_of(rows))


def judged(rows: list[Row], number: int) -> Verdict:
    return next(claim for claim in TALL if claim.id == number).judge(study(rows))


def changed(where: Mapping[str, Any], **columns: Any) -> list[Row]:
    rows = world()
    hits = [row for row in rows if all(row.get(name) == value for name, value in where.items())]
    assert hits, f"no row of the world has {where}"
    for row in hits:
        row |= {name: value(row["seed"]) if callable(value) else value for name, value in columns.items()}
    return rows


@pytest.mark.parametrize("claim", TALL, ids=lambda claim: claim.id)
def test_every_question_is_answered_with_yes_where_it_is_so(claim):
    verdict = claim.judge(study(world()))
    assert verdict.outcome == REPRODUCED, verdict.reason
    assert verdict.evidence and verdict.runs and any(character.isdigit() for character in verdict.reason)


LARGEST = {"method": "pbnn_cn", "num_points": 10_000_000}
MNIST, FLIGHTS = {"method": "pbnn_cn", "task": "mnist"}, {"method": "pbnn_cn", "task": "flights"}


@pytest.mark.parametrize(
    ("number", "where", "columns"),
    [
        (21, LARGEST, {"likelihood_evaluations": 8_000_000}),
        (21, {"method": "pbnn_cv", "num_points": 10_000_000}, {"ess_bulk_min": 1000.0}),
        (22, LARGEST, {"cpu_s": 1.0}),
        (23, MNIST, {"sd_ratio": 1.05}),
        (23, MNIST, {"sd_ratio": 0.95}),
        (23, FLIGHTS, {"mean_error": 0.2}),
        (23, {"num_points": 10_000_000}, {"mean_error": 0.2}),
        # A full-data sampler that is nearly as fast; a warm-up that takes longer than the draws.
        (24, {"method": "blackjax_hmc"}, {"cpu_s": 0.4, "warmup_cpu_s": 0.01}),
        (24, FLIGHTS, {"warmup_cpu_s": 5.0}),
        (24, FLIGHTS, {"tuning_cpu_s": 5.0}),
        # The Gaussian is enough where it should not be, and not where it should.
        (25, {"method": "laplace", "task": "mnist"}, {"point_error": 0.01}),
        (25, {"method": "laplace", "task": "flights"}, {"point_error": 0.3}),
    ],
)  # fmt: skip
def test_numbers_that_say_no_are_heard(number, where, columns):
    verdict = judged(changed(where, **columns), number)
    assert verdict.outcome == NOT_REPRODUCED, verdict.reason


@pytest.mark.parametrize(
    ("number", "where", "columns"),
    [
        (21, LARGEST, {"likelihood_evaluations": lambda seed: (4_000_000, 6_000_000, 8_000_000)[seed]}),
        (22, LARGEST, {"cpu_s": lambda seed: (0.1, 0.3, 0.9)[seed]}),
        # Three seeds agree, but chains this short could be anywhere.
        (23, MNIST, {"sd_ratio_mc": 0.05}),
        (23, FLIGHTS, {"mean_error": 0.045, "mean_error_mc": 0.02}),
        (24, FLIGHTS, {"cpu_s": lambda seed: (8.0, 1.3, 0.1)[seed]}),
        (25, {"method": "laplace", "task": "flights"}, {"point_error": 0.05}),
    ],
)
def test_an_interval_across_the_border_decides_nothing(number, where, columns):
    verdict = judged(changed(where, **columns), number)
    assert verdict.outcome == INCONCLUSIVE and "Too close to call" in verdict.reason


@pytest.mark.parametrize(
    ("number", "where", "columns"),
    [
        (21, LARGEST, {"likelihood_evaluations": 40_000_000}),
        (22, LARGEST, {"cpu_s": 10.0}),
        (23, MNIST, {"sd_ratio": 1.2}),
        (24, {"method": "mala", "task": "flights"}, {"cpu_s": 1.0}),
        (25, {"method": "laplace", "task": "flights"}, {"point_error": 0.5}),
    ],
)
def test_a_single_seed_that_speaks_against_it_is_named(number, where, columns):
    claim = next(claim for claim in TALL if claim.id == number)
    (result,) = judge_claims([claim], study(changed(where | {"seed": 2}, **columns)), contents_of("tall").words)
    assert result.verdict.outcome != REPRODUCED
    assert result.robustness == FRAGILE
    assert result.fragility.startswith("The answer is yes without seed 2")


@pytest.mark.parametrize("claim", TALL, ids=lambda claim: claim.id)
def test_a_study_without_the_runs_says_which_are_missing(claim):
    verdict = claim.judge(study(runs("digits", "mala")))
    assert verdict.outcome == NOT_ASKED and "issing runs" in verdict.reason


def test_a_chain_that_has_not_converged_is_no_evidence_of_speed():
    verdict = judged(changed({"method": "blackjax_hmc"}, r_hat=1.5, cpu_s=0.001, warmup_cpu_s=0.0), 24)
    assert "MALA" in verdict.reason and verdict.outcome == REPRODUCED


@pytest.mark.parametrize("name", ["cost_of_a_draw", "bias_cost", "regime_map"])
def test_a_figure_is_legible_and_says_what_to_see_in_few_words(name):
    spec = next(spec for spec in TALL_FIGURES if spec.name == name)
    drawing = spec.draw(study(world()))
    assert flaws(drawing) == []
    assert drawing.runs and len(drawing.caption.split()) <= MAX_WORDS
    with pytest.raises(NothingToShow):
        spec.draw(study(runs("digits", "mala", ess_per_second=None, ess_bulk_min=None)))


def test_the_title_of_the_cost_says_what_the_numbers_say():
    spec = next(spec for spec in TALL_FIGURES if spec.name == "cost_of_a_draw")
    assert "at most 1 times the evaluations" in spec.draw(study(world())).title
    assert (
        "at most 2 times the evaluations" in spec.draw(study(changed(LARGEST, likelihood_evaluations=8_000_000))).title
    )


def test_each_study_has_its_own_questions_and_others_are_asked_what_the_paper_claims():
    assert contents_of("tall") is CONTENTS["tall"] and contents_of("tall").claims == TALL
    assert contents_of("my_own") is contents_of("paper") is PAPER
    for study, names in DOCUMENTED.items():
        assert set(names) <= {spec.name for spec in contents_of(study).figures}
    for contents in CONTENTS.values():
        assert len({claim.id for claim in contents.claims}) == len(contents.claims)


def test_the_report_asks_its_questions_in_its_own_words(tmp_path):
    contents = contents_of("tall")
    assert render(study(world()), tmp_path, contents.figures[:1], contents.claims, NO_BENCHMARKS) == []
    verdicts = [claim["verdict"] for claim in json.loads((tmp_path / "claims.json").read_text())["claims"]]
    assert verdicts == ["yes"] * len(TALL)
    page = (tmp_path / "report.html").read_text()
    assert "Questions and verdicts" in page and "In the paper" not in page and ">yes</span>" in page
    assert "A thousand times the data" in page, "the title is the figure's message"


def test_the_study_asks_for_the_posterior_of_all_data_everywhere():
    runs = load_study(Path("workflows/studies/tall.yaml")).runs
    assert {run.settings.weight for run in runs} == {"data"}
    assert {run.variant.size.num_points for run in runs if run.variant.task == "logistic"} >= {
        10**4,
        10**5,
        10**6,
        10**7,
    }
    assert {run.variant.task for run in runs} == set(SIZES)
