"""The ladder of steps: its parts against closed forms, its budget, and the run that it belongs to."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from implementations.backends.jax.chain import loop_of
from implementations.methods import METHODS, resolve
from implementations.sampling import sample
from implementations.tasks.references.closed_form import gaussian_posterior
from implementations.tuning import ladder
from implementations.tuning.ladder import (
    Bias,
    Known,
    LadderPilot,
    Rung,
    budget_of,
    choose,
    climb,
    other_means,
    slowest,
)

GIVEN = {"num_steps": 400, "num_warmup": 100, "thin": 10, "step_size": "ladder", "weight": 20}
BUDGET = 200_000
#: Steps of a run that is long enough for any rung.
LONG = 10**9


@pytest.fixture
def small_budget(monkeypatch):
    monkeypatch.setattr(ladder, "LEAST_BUDGET", BUDGET)
    # Of a budget so small they would take too much.
    monkeypatch.setattr(ladder, "NUM_GRADIENTS", 128)
    monkeypatch.setattr(ladder, "GRADIENT_POINTS", 25)


def climbed(problem, method, **given):
    return climb(problem, METHODS[method], resolve(method, GIVEN | given, problem), "torch-cpu", 0)


def made_pilot(problem, method, **given):
    return LadderPilot(problem, METHODS[method], "torch-cpu", 0, settings=resolve(method, given, problem))


class TestTheSizeOfASample:
    @pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 0.999])
    def test_it_is_that_of_an_autoregression(self, correlation):
        """(1 - r) / (1 + r) for each draw, also where the pilot is shorter than the autocorrelation time."""
        noise = np.random.default_rng(0).standard_normal((4, 20_400))
        noise[:, 1:] *= math.sqrt(1 - correlation**2)
        trace = signal.lfilter([1], [1, -correlation], noise, axis=1)[:, -400:, None]
        assert slowest(trace, np.ones(1)) == pytest.approx((1 - correlation) / (1 + correlation), rel=0.15)

    def test_what_stands_still_is_worth_nothing_and_the_slowest_counts(self):
        moving = np.random.default_rng(0).standard_normal((4, 1000, 1))
        still = np.broadcast_to(np.arange(4.0)[:, None, None], moving.shape)
        assert slowest(still, np.ones(1)) == 0 == slowest(np.ones_like(moving), np.zeros(1))
        both = np.concatenate([moving, 0.1 * moving], axis=-1)
        assert slowest(both, np.ones(2)) < 0.1 * slowest(moving, np.ones(1))

    def test_variances_of_the_outputs_are_those_of_the_exact_posterior(self, problem):
        linear = problem("linear")
        pilot = made_pilot(linear, "sgld", weight=20)
        covariance = gaussian_posterior(linear, 20.0).covariance
        points = linear.features[np.linspace(0, 99, 20).astype(int)].astype(float)
        exact = np.einsum("nf,fg,ng->n", points, covariance, points)
        np.testing.assert_allclose(pilot.variances, exact, rtol=0.35)


class TestTheTemperature:
    @pytest.mark.parametrize("scale", [1.0, 1.3])
    def test_it_is_the_mean_ratio_of_variances_of_a_gaussian(self, problem, scale):
        linear = problem("linear")
        exact = gaussian_posterior(linear, 20.0)
        random = np.random.default_rng(1)
        draws = random.multivariate_normal(exact.mean, scale**2 * exact.covariance, (4, 4000))
        pilot = made_pilot(linear, "sgld", weight=20)
        found, error = (np.mean(part) for part in zip(*self._many(pilot, draws, exact.mean), strict=True))
        # 16 independent estimates of 64 draws in two dimensions.
        assert found == pytest.approx(scale**2, abs=4 * error / math.sqrt(16)) and error < 0.4

    @staticmethod
    def _many(pilot, draws, centre):
        for part in np.array_split(draws, 16, axis=1):
            yield pilot._temperature(part, centre)

    def test_chains_that_hardly_move_look_no_colder_than_they_are(self, problem):
        """Around the mean of all four of them it would be 3 / 4."""
        linear = problem("linear")
        exact = gaussian_posterior(linear, 20.0)
        places = np.random.default_rng(1).multivariate_normal(exact.mean, exact.covariance, (1000, 4, 1))
        pilot = made_pilot(linear, "sgld", weight=20)
        found = np.array([pilot._temperature(still, other_means(still))[0] for still in places])
        assert found.mean() == pytest.approx(1, abs=4 * found.std() / math.sqrt(1000)) and found.std() < 1.5


class TestTheChoice:
    @pytest.mark.parametrize(
        ("temperature", "error", "is_within"),
        [
            # The Monte Carlo error taken off: sqrt(0.12^2 - 0.08^2) = 0.09, and 0.11 where the error is 0.05.
            (1.12, 0.08, True),
            (1.12, 0.05, False),
            (0.88, 0.05, False),
            # Of a pilot too short to tell no more counts than the bound: 0.14 in all.
            (1.13, 0.5, True),
            (1.16, 0.5, False),
            (1.5, 0.5, False),
            (None, 0.0, False),
        ],
    )
    def test_a_temperature_is_judged_with_its_error_taken_off_up_to_the_bound(self, temperature, error, is_within):
        assert Rung(0.4, 4e-3, temperature, temperature_error=error).is_within_bound == is_within

    def test_a_step_too_rare_for_the_run_is_not_chosen_however_cheap(self):
        """As in delayed acceptance: a move that the first stage rejects takes no evaluation."""
        rungs = [Rung(0.1, 0.02, 1.0, cost=1000), Rung(0.2, 0.03, 1.0, cost=900), Rung(0.4, 1e-4, 1.0, cost=0.1)]
        assert choose(rungs, num_steps=LONG)[0] is rungs[2]
        assert choose(rungs, num_steps=100_000)[0] is rungs[1]
        # Too few steps for any of them: as many effective draws as possible.
        assert choose([replace(rungs[0], cost=10), rungs[1]], num_steps=100)[0] is rungs[1]

    def test_where_none_is_within_it_the_nearest_is_taken_and_said(self):
        rungs = [Rung(0.1, 1e-3, 0.6), Rung(0.2, 2e-3, 1.2), Rung(0.4, 0.0, 1.0), Rung(0.8, 2e-3, 1.4), Rung(1.6)]
        best, warning = choose(rungs, LONG)
        assert best is rungs[1] and "no step of the ladder has a temperature within 0.1" in warning
        assert choose(rungs[-1:], LONG)[0] is rungs[-1]


class TestWhereTheRightPredictionsAreKnown:
    """Of whole networks: the width of predictions is what steps are judged by."""

    @pytest.mark.parametrize(
        ("sd_ratio", "error", "is_within"),
        [
            (1.05, 0.02, True),
            (1.06, 0.02, False),
            (0.94, 0.02, False),
            # The Monte Carlo error taken off: sqrt(0.06^2 - 0.04^2) = 0.045.
            (1.06, 0.04, True),
            (1.07, 0.04, False),
            # Too short to tell: only what is resolved counts.
            (1.4, 0.2, True),
            (1.6, 0.2, False),
        ],
    )
    def test_a_width_is_judged_with_its_monte_carlo_error_taken_off(self, sd_ratio, error, is_within):
        rung = Rung(0.1, 1e-3, bias=Bias(0.0, sd_ratio, error, 50.0), num_steps=1000)
        assert rung.is_within_bound == is_within
        assert not replace(rung, draws_per_step=0.0).is_within_bound

    def climbed(self, monkeypatch, problem, widths, ess=500.0):
        """With pilots of a made-up width at each exponent of 2: on the ladder, and in the longer ones."""
        linear, default, seen = problem("linear"), METHODS["sgld"].settings["step_size"].default_for(2), []

        def rung(self, step_size, affordable, cost):
            exponent = round(math.log2(step_size / default))
            is_long = exponent in seen
            seen.append(exponent)
            self.num_gradients += int(40 * affordable)
            bias = Bias(0.0, widths(exponent, is_long), 0.01, ess * 2.0**exponent)
            return Rung(step_size, 1e-3 * 2.0**exponent, cost=40.0, bias=bias, num_steps=int(affordable))

        monkeypatch.setattr(LadderPilot, "_rung", rung)
        monkeypatch.setattr(LadderPilot, "_works_from_starts", lambda *_: True)
        known = Known(np.zeros((10, 2)), lambda _: None)
        settings = resolve("sgld", GIVEN | {"batch_size": 10}, linear)
        found = climb(linear, METHODS["sgld"], settings, "torch-cpu", 0, known, 4_000_000)
        assert found.num_likelihoods + found.num_gradients <= found.budget == 4_000_000
        return round(math.log2(found.chosen["step_size"] / default)), seen, found

    def test_the_largest_step_within_the_bound_is_confirmed_by_a_longer_pilot(self, problem, monkeypatch):
        chosen, seen, found = self.climbed(monkeypatch, problem, lambda exponent, _: 1 + 0.025 * 2.0**exponent)
        assert chosen == 1 and seen[-1] == 1 and found.warning is None
        assert {round(rung["sd_ratio"], 9) for rung in found.rungs} >= {1.025, 1.05, 1.1}
        # Of 4,000,000 evaluations, at 40 a step.
        assert found.rungs[-1]["num_steps"] == ladder.SHARE_OF_LAST * 4_000_000 / 40

    def test_a_step_that_no_pilot_confirms_is_said_to_be_none(self, problem, monkeypatch):
        chosen, seen, found = self.climbed(monkeypatch, problem, lambda _, is_long: 1.5 if is_long else 1.0)
        assert len(seen) - len(set(seen)) == 3 and chosen == min(seen[-3:]) - 1
        assert found.warning == "none of the last 3 steps was confirmed; the next smaller is taken"


@pytest.mark.parametrize(
    ("method", "given"),
    [("sgld", {"batch_size": 10}), ("pbnn", {"batch_size": 5}), ("full_mh", {}), ("csgld", {"batch_size": 10})],
)
def test_every_method_has_the_same_budget_and_keeps_it(problem, small_budget, method, given):
    found = climbed(problem("linear"), method, **given)
    assert budget_of(problem("linear").num_points, 4) == BUDGET == found.budget
    assert 0.4 * BUDGET < found.num_likelihoods + found.num_gradients <= BUDGET
    steps = [rung["step_size"] for rung in found.rungs]
    default = METHODS[method].settings["step_size"].default_for(2)
    exponents = np.log2(np.array(steps) / default)
    assert np.allclose(np.diff(exponents), 1) and {-3, 3} <= set(exponents.round(9)) and len(steps) <= 10
    assert found.chosen["step_size"] in steps
    # The part that is kept of so short a cycle does not tell its temperature.
    assert found.warning is None or method == "csgld"


def test_an_exact_method_is_not_judged_by_a_bias_that_it_cannot_have(problem, small_budget, monkeypatch):
    """Pilots too short to know the temperature once left full_mh with a step at which it accepts 4 per cent."""
    monkeypatch.setattr(LadderPilot, "_temperature", lambda *_: (2.0, 0.0))
    exact = climbed(problem("linear"), "full_mh")
    assert exact.warning is None
    assert 0.15 < exact.acceptance < 0.6, "the best random walk in two dimensions accepts a third"
    assert "temperature" in climbed(problem("linear"), "sgld", batch_size=10).warning


def test_a_step_that_widens_the_target_is_not_chosen(problem, small_budget, monkeypatch):
    """SGLD at w = N with two points: the noise of its gradient heats it at all but the smallest steps."""
    monkeypatch.setattr(ladder, "MOST_STEPS", 700)
    found = climbed(problem("linear"), "sgld", batch_size=2, weight=100)
    temperatures = [math.inf if rung["temperature"] is None else rung["temperature"] for rung in found.rungs]
    assert temperatures[-1] > 1.3
    chosen = next(rung for rung in found.rungs if rung["step_size"] == found.chosen["step_size"])
    assert chosen["temperature"] - chosen["temperature_error"] <= 1.1


@pytest.mark.parametrize("method", ["csgld", "csghmc"])
def test_a_cycle_is_judged_by_all_that_a_run_keeps_of_it(problem, monkeypatch, method):
    """Not by the smallest steps of its end alone, which would let a first step through that is far too large."""
    linear = problem("linear")
    monkeypatch.setattr(ladder, "NUM_DRAWS", 100)
    settings = resolve(method, GIVEN | {"batch_size": 10, "step_size": 0.1, "explored": 0.2}, linear)
    pilot, judged = LadderPilot(linear, METHODS[method], "torch-cpu", 0, settings=settings), []
    monkeypatch.setattr(ladder, "slowest", lambda traces, variances: judged.append(traces.shape[1]) or 0.25)
    rung = pilot._rung(0.1, 1000, 40.0)
    # Of 100 draws the run drops the first fifth; each kept one, of 10 steps and 4 chains, counts for a quarter.
    assert judged == [80]
    assert rung.draws_per_step == pytest.approx(4 * 0.25 * 80 / 1000)


@pytest.mark.parametrize(("best", "expected"), [(40.0, 32.0), (1 / 40, 1 / 32), (1.0, 1.0)])
def test_the_ladder_goes_on_where_the_best_is_at_its_end(problem, small_budget, monkeypatch, best, expected):
    """The most effective step is 40 times the default, or a fortieth of it: neither is among the first seven."""

    def rung(self, step_size, affordable, cost):
        self.num_gradients += int(2 * affordable)
        return Rung(step_size, 2 / (1 + abs(math.log(step_size / default / best))), 1.0, cost=2.0)

    default = METHODS["sgld"].settings["step_size"].default_for(2)
    monkeypatch.setattr(LadderPilot, "_rung", rung)
    monkeypatch.setattr(LadderPilot, "_works_from_starts", lambda *_: True)
    found = climbed(problem("linear"), "sgld", batch_size=10)
    assert found.chosen["step_size"] == pytest.approx(expected * default)
    assert found.num_gradients <= BUDGET


def test_a_step_that_carries_chains_away_from_the_starts_of_a_run_is_not_taken(problem, small_budget, monkeypatch):
    """As if chains bore the spread of the target at every step, and that of a run's starts at small ones only."""
    right, default = LadderPilot._run, METHODS["sgld"].settings["step_size"].default_for(2)

    def run(self, step_size, num_steps, spread, cost):
        draws, *others = right(self, step_size, num_steps, spread, cost)
        return (draws * np.nan if spread > 2 and step_size > default else draws), *others

    free = climbed(problem("linear"), "sgld", batch_size=10)
    monkeypatch.setattr(LadderPilot, "_run", run)
    found = climbed(problem("linear"), "sgld", batch_size=10)
    assert free.chosen["step_size"] > default >= found.chosen["step_size"]


def test_the_run_is_that_of_the_chosen_number_and_a_resumed_one_is_not_tuned_again(problem, small_budget, monkeypatch):
    linear, given, saved = problem("linear"), GIVEN | {"batch_size": 10}, []
    found = sample(linear, "sgld", given, "torch-cpu", on_chunk=lambda *seen: saved.append((seen[0], seen[2]())))
    chosen = found.progress.tuning["chosen"]
    again = sample(linear, "sgld", given | chosen, "torch-cpu")
    np.testing.assert_array_equal(found.draws.positions, again.draws.positions)
    monkeypatch.setattr("implementations.sampling.climb", None)
    resumed = sample(linear, "sgld", given, "torch-cpu", resume=saved[0])
    np.testing.assert_array_equal(found.draws.positions, resumed.draws.positions)
    assert resumed.progress.tuning == found.progress.tuning


def test_pilots_run_on_the_compiled_code_of_their_run(problem, monkeypatch):
    monkeypatch.setattr(ladder, "LEAST_BUDGET", 10 * BUDGET)
    loop_of.cache_clear()
    # Kept draws, and steps between them, are others in each: a run of 40 draws per chunk, rungs and starts.
    made = sample(problem("linear"), "sgld", GIVEN | {"num_steps": 20_000, "batch_size": 20}, "jax-cpu")
    assert made.status == "ok" and len(made.progress.tuning["rungs"]) > 1
    assert made.has_compiled is False, "its pilots had"
    assert loop_of.cache_info().currsize == 1
    # A checkpoint, and what is kept in memory, have no more than the draws.
    assert all(part.positions.base.size == part.positions.size for part in made.progress.kept)
