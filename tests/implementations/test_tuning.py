"""Tuning by the noise: the budget against Monte Carlo, the pilot against the chains it is for."""

import math
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from implementations import sampling
from implementations.infrastructure.errors import SettingError
from implementations.kernels.acceptance import naive, penalty, penalty_corrected
from implementations.methods import METHODS, resolve
from implementations.run import Job, run
from implementations.sampling import sample
from implementations.settings import Size
from implementations.tuning.noise_budget import (
    BIAS_BUDGET,
    MOST_NOISE,
    balance_residual,
    largest_estimated,
    largest_skewed,
    largest_variance,
    shared_skewness,
)
from implementations.tuning.pilot import ladder, log_acceptance_variance, tune
from tests.implementations.chains import BACKENDS

both = pytest.mark.parametrize("backend", BACKENDS)
SHORT = {"num_steps": 2000, "num_warmup": 1000, "thin": 10}


def tuned(problem, method, backend="torch-cpu", seed=0, budget=None, **given):
    return tune(problem, METHODS[method], resolve(method, SHORT | given, problem), backend, seed, budget)


class TestTheBudget:
    @pytest.mark.parametrize(("variance", "expected"), [(0.3, 0.005), (0.7, 0.020), (1.6, 0.063), (5.0, 0.199)])
    def test_the_residual_of_five_batches_is_that_of_the_regime_map(self, variance, expected):
        """As a referee found it from mini-batches redrawn 2,000 times."""
        assert balance_residual(penalty, variance, 4) == pytest.approx(expected, abs=0.002)

    def test_the_residual_of_the_naive_rule_is_its_closed_form(self):
        """E[min(1, exp(-x))] of x ~ N(d, s^2) is Phi(-d / s) + exp(s^2 / 2 - d) Phi(d / s - s)."""

        def acceptance(rise, sd):
            return stats.norm.cdf(-rise / sd) + math.exp(sd**2 / 2 - rise) * stats.norm.cdf(rise / sd - sd)

        for variance in (0.04, 0.5, 2.0):
            sd = math.sqrt(variance)
            expected = math.log(acceptance(1.0, sd) / acceptance(-1.0, sd)) + 1
            assert balance_residual(naive, variance, math.inf) == pytest.approx(expected, abs=2e-3)

    def test_more_degrees_of_freedom_allow_more_noise_up_to_what_is_best_when_it_is_known(self):
        limits = [largest_estimated(penalty, dof) for dof in (1, 4, 9, 49, math.inf)]
        assert limits == sorted(limits) and limits[1] == pytest.approx(0.68, abs=0.03)
        assert limits[-1] == MOST_NOISE
        assert largest_estimated(penalty_corrected, 4) > limits[1]
        assert largest_estimated(naive, math.inf) == pytest.approx(2 * BIAS_BUDGET, rel=0.05)

    @pytest.mark.parametrize("skewness", [2.0, 4.0, 8.0])
    def test_skewed_noise_whose_variance_is_estimated_stays_within_the_budget(self, skewness):
        """All moves uphill by 1, with noise of the same sign: gamma numbers, both ways."""
        random, count, number = np.random.default_rng(0), 100, 100_000
        variance, shape = largest_skewed(count, skewness), 4 / skewness**2

        def acceptances(sign):
            points = sign * (random.gamma(shape, size=(number, count)) - shape) / math.sqrt(shape)
            delta = sign + points.mean(axis=1) * math.sqrt(variance * count)
            return np.exp(np.minimum(-delta - variance * points.var(axis=1, ddof=1) / 2, 0))

        there, back = acceptances(1), acceptances(-1)
        error = math.hypot(*(each.std() / each.mean() for each in (there, back))) / math.sqrt(number)
        residual = math.log(there.mean() / back.mean()) + 1
        assert BIAS_BUDGET / 3 < residual < BIAS_BUDGET + 3 * error

    def test_skewness_that_uphill_moves_share_counts_and_what_changes_its_sign_does_not(self):
        shapes = resolve("pbnn_cn", {"batch_size": 400}, Size("some", 100_000, 5)).shapes
        rises = np.random.default_rng(0).normal(size=1000)
        downhill = {"true_delta": rises, "log_ratio_proposal": np.zeros(1000), "skewness": 0.1 * np.sign(rises)}
        assert shared_skewness(downhill, shapes) == pytest.approx(0.1 * 20)
        mixed = downhill | {"skewness": 0.1 * np.sign(np.random.default_rng(1).normal(size=1000))}
        assert shared_skewness(mixed, shapes) < 0.3
        assert shared_skewness({name: part[:10] for name, part in mixed.items()}, shapes) > 0.9
        assert shared_skewness({}, shapes) is None


@both
@pytest.mark.parametrize("method", ["full_mh", "mala"])
def test_a_full_data_chain_has_the_acceptance_that_is_best(problem, backend, method):
    found = sample(problem("linear"), method, SHORT | {"step_size": "auto"}, backend, is_audited=False)
    best = {"full_mh": 0.234, "mala": 0.574}[method]
    assert found.draws.acceptance.mean() == pytest.approx(best, abs=0.05)
    assert found.progress.tuning["best_acceptance"] == best
    assert found.progress.tuning["variance"] is None and found.warnings == ()


@both
def test_the_noise_of_a_chain_is_what_the_budget_allows(problem, backend):
    """From a step that is far too large; and the run is the one that the chosen numbers would have given."""
    given = SHORT | {"weight": 40, "batch_size": 5}
    found = sample(problem("linear"), "pbnn", given | {"step_size": "auto"}, backend)
    shapes = resolve("pbnn", given, problem("linear")).shapes
    limit = largest_variance("penalty", shapes, found.progress.tuning["skewness"])
    assert np.median(found.draws.variance) == pytest.approx(limit, rel=0.25)
    assert found.draws.acceptance.mean() > 0.234
    chosen = found.progress.tuning["chosen"]
    assert set(chosen) == {"step_size"} and found.progress.tuning["largest_variance"] == limit
    again = sample(problem("linear"), "pbnn", given | chosen, backend)
    np.testing.assert_array_equal(found.draws.positions, again.draws.positions)
    assert again.progress.tuning is None


def test_the_fewest_batches_are_found_for_a_step_and_for_none(problem):
    digits = problem("digits")
    given = {"weight": 100, "batch_size": 10, "variance": "points"}
    fixed = tuned(digits, "pbnn", num_batches="auto", step_size=0.02, **given)
    assert fixed.variance <= 1.2 * fixed.largest_variance and fixed.warning is None
    fewer = max(rung for rung in ladder(1, 100) if rung < fixed.chosen["num_batches"])
    settings = resolve("pbnn", SHORT | given | {"num_batches": fewer, "step_size": 0.02}, digits)
    # The variance of one point's share is what it is: fewer would have been too noisy.
    noisier = fixed.variance * fixed.chosen["num_batches"] / fewer
    assert noisier > 0.8 * largest_variance("penalty", settings.shapes)
    free = tuned(digits, "pbnn", num_batches="auto", step_size="auto", **given)
    assert set(free.chosen) == {"num_batches", "step_size"}
    assert free.acceptance == pytest.approx(0.234, abs=0.08) or free.variance > 0.7 * free.largest_variance
    assert free.variance <= 1.2 * free.largest_variance


def test_where_all_points_are_too_few_the_run_says_so_and_what_would_help(problem, tmp_path):
    linear = problem("linear")
    given = SHORT | {"num_batches": "auto", "batch_size": 10, "weight": "data", "step_size": 1.0, "num_steps": 300}
    job = Job(linear, "pbnn", resolve("pbnn", given, linear), "torch-cpu", 0)
    record = run(job, tmp_path, stream=StringIO())
    assert record["settings"]["num_batches"] == "auto" and record["tuning"]["chosen"] == {"num_batches": 10}
    assert "no num_batches with num_batches × batch_size <= 100" in record["warning"]
    assert "control variates" in record["warning"]
    assert record["tuning_evaluations"] == record["tuning"]["num_likelihoods"] > 0
    helped = float(record["warning"].split("step_size = ")[2].split(",")[0])
    settings = given | {"num_batches": 10, "step_size": helped}
    better = sample(linear, "pbnn", settings, "torch-cpu", is_audited=False)
    assert np.median(better.draws.variance) <= 1.3 * largest_variance(
        "penalty", resolve("pbnn", settings, linear).shapes, record["tuning"]["skewness"]
    )


@pytest.mark.parametrize("given", [{"step_size": "auto"}, {"step_size": "auto", "num_batches": "auto"}])
def test_a_budget_is_kept(problem, given):
    for budget in (20_000, 100_000):
        found = tuned(problem("linear"), "pbnn", budget=budget, **given)
        assert 0.5 * budget < found.num_likelihoods + found.num_gradients <= budget
        assert found.record()["budget"] == budget
    with pytest.raises(SettingError, match="a tuning of 1000 evaluations is too short for pbnn on 'linear'"):
        tuned(problem("linear"), "pbnn", budget=1000, **given)


def test_a_resumed_run_is_not_tuned_again(problem, monkeypatch):
    saved = []
    given = {"num_steps": 600, "num_warmup": 300, "step_size": "auto"}
    whole = sample(
        problem("linear"), "pbnn", given, "torch-cpu", on_chunk=lambda *seen: saved.append((seen[0], seen[2]()))
    )
    monkeypatch.setattr(sampling, "tune", None)
    again = sample(problem("linear"), "pbnn", given, "torch-cpu", resume=saved[1])
    np.testing.assert_array_equal(again.draws.positions, whole.draws.positions)
    assert again.progress.tuning == whole.progress.tuning


BARKER = f"{Path(__file__).parents[1] / 'plugins' / 'barker.py'}:CARD"


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("sgld", {"step_size": "auto"}, "sgld: step_size = 'auto' aims at an acceptance rate, and every"),
        ("laplace", {"step_size": "auto"}, "laplace: step_size = 'auto' aims at"),
        ("blackjax_nuts", {"step_size": "auto"}, "blackjax_nuts: step_size = 'auto': the method's card has no"),
        (BARKER, {"step_size": "auto"}, "barker: step_size = 'auto': the method's card has no"),
        ("pbnn", {"step_size": "auto", "num_warmup": 99}, "num_warmup = 99 is too short for one; raise it to 100"),
        ("naive", {"step_size": "auto", "batch_size": 1}, "depends on the noise, which one point cannot estimate"),
        ("pbnn", {"num_batches": "auto", "batch_size": 1500}, "num_batches × batch_size = 3000 exceeds the 2000"),
        ("pbnn", {"batch_size": "auto"}, "batch_size = 'auto' is not a whole number"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_refused_with_the_reason(method, given, message):
    with pytest.raises(SettingError) as caught:
        resolve(method, given, Size("regression", num_points=2000, num_parameters=21))
    assert message in str(caught.value)


def test_the_ladder_is_short_and_ends_at_the_most_there_are():
    assert list(ladder(1, 47)) == [1, 2, 3, 5, 7, 10, 15, 20, 30, 47]
    assert list(ladder(2, 2)) == [2]


def test_an_acceptance_is_that_of_its_variance():
    """E[min(1, exp(x))] of x ~ N(-v / 2, v)."""
    variance = log_acceptance_variance(0.234)
    assert variance == pytest.approx(2.38**2, rel=0.01)
    draws = np.random.default_rng(0).normal(-variance / 2, math.sqrt(variance), 1_000_000)
    assert np.exp(np.minimum(draws, 0)).mean() == pytest.approx(0.234, abs=0.002)
