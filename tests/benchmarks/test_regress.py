"""The gate lets the code as it is through, and stops a wrong or slow one; a gate that measures nothing is no gate."""

import json
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy import integrate

from benchmarks import baselines, exact, processes, regress, statistical, timing
from benchmarks.explicit_noise import METROPOLIS, parts_of
from benchmarks.known_problems import known_problem, log_odds_posterior
from benchmarks.rows import NothingMeasured
from benchmarks.stopwatch import Work, alternate, comparison, sized
from benchmarks.tiers import TIERS
from implementations.backends.jax import chain as jax_chain
from implementations.backends.jax import likelihood as jax_likelihood
from implementations.backends.jax import minibatch as jax_minibatch
from implementations.backends.torch import chain as torch_chain
from implementations.backends.torch import likelihood as torch_likelihood
from implementations.card import Exactness
from implementations.kernels import metropolis
from implementations.methods import METHODS

LIKELIHOODS = {"jax-cpu": jax_likelihood, "torch-cpu": torch_likelihood}
STEP = "jax-cpu pbnn mnist to bare"


baseline = baselines.read_baseline


def complaints_about(problem, method, backend):
    return statistical.judge(statistical.measure([(problem, method)], [backend]), baseline("statistical"))


@pytest.fixture
def compiled_afresh():
    """What is broken on purpose must be compiled, and must not outlive its test."""

    def clear():
        jax_chain.loop_of.cache_clear()
        torch_chain.loop_of.cache_clear()

    clear()
    yield clear
    clear()


@pytest.mark.slow
def test_a_sampler_without_its_penalty_is_stopped_and_the_right_one_is_not(monkeypatch, compiled_afresh):
    assert complaints_about("linear", "pbnn", "jax-cpu") == []
    compiled_afresh()
    monkeypatch.setitem(metropolis.ACCEPTANCES, "penalty", lambda delta, variance, dof: -delta)
    complaints = complaints_about("linear", "pbnn", "jax-cpu")
    assert any("acceptance" in complaint for complaint in complaints)
    assert any("variance" in complaint for complaint in complaints)


@pytest.mark.slow
@pytest.mark.parametrize("backend", LIKELIHOODS)
def test_a_softmax_gradient_off_by_a_tenth_is_stopped(monkeypatch, compiled_afresh, backend):
    """Though MALA stays exact with any gradient: it accepts at another rate."""
    right = LIKELIHOODS[backend].losses_and_gradient

    def wrong(*arguments):
        losses, gradient = right(*arguments)
        return losses, 1.1 * gradient

    monkeypatch.setattr(LIKELIHOODS[backend], "losses_and_gradient", wrong)
    assert any("acceptance" in complaint for complaint in complaints_about("two_classes", "mala", backend))


@pytest.mark.slow
@pytest.mark.parametrize("backend", LIKELIHOODS)
def test_a_softmax_loss_off_by_a_tenth_misses_the_exact_answer(monkeypatch, compiled_afresh, backend):
    right = LIKELIHOODS[backend].point_losses
    monkeypatch.setattr(LIKELIHOODS[backend], "point_losses", lambda *arguments: 1.1 * right(*arguments))
    complaints = complaints_about("two_classes", "full_mh", backend)
    assert any("variance" in complaint and "exactly" in complaint for complaint in complaints)


def test_chains_that_leave_the_finite_numbers_are_stopped(monkeypatch, compiled_afresh):
    right = torch_likelihood.losses_and_gradient
    monkeypatch.setattr(torch_likelihood, "losses_and_gradient", lambda *arguments: (None, -right(*arguments)[1]))
    rows = statistical.measure([("two_classes", "sgld")], ["torch-cpu"])
    for expected in (baseline("statistical"), rows):
        (complaint,) = statistical.judge(rows, expected)
        assert "diverged, chain" in complaint


@pytest.mark.parametrize("weight", [40, 200])
def test_the_posterior_of_the_log_odds_is_that_of_adaptive_quadrature(weight):
    problem = known_problem("two_classes")

    def moments(places):
        """The density, and its products with the intercept, the slope, and pairs of them."""
        log_odds = places @ problem.features.T.astype(float)
        chances = 1 / (1 + np.exp(np.where(problem.targets == 1, -log_odds, log_odds)))
        # The prior of a difference of two N(0, 1); near its mode the likelihood is about e^(-w / 2).
        density = np.exp(weight * (np.log(chances).mean(axis=1) + 0.5) - np.square(places).sum(axis=1) / 4)
        pairs = np.einsum("ni,nj->nij", places, places).reshape(-1, 4)
        return density[:, None] * np.concatenate([np.ones_like(places[:, :1]), places, pairs], axis=1)

    integral = integrate.cubature(moments, [-6.0, -6.0], [6.0, 6.0], rtol=1e-8, atol=1e-14).estimate
    mean, second = integral[1:3] / integral[0], integral[3:].reshape(2, 2) / integral[0]
    found_mean, found_covariance = log_odds_posterior(problem, weight)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-6)
    np.testing.assert_allclose(found_covariance, second - np.outer(mean, mean), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_indices_drawn_by_shuffling_all_points_are_stopped(monkeypatch, compiled_afresh):
    """By far: the most that a busy machine does to a ratio is nothing beside it."""

    def shuffle(key, shape, count, num_points):
        keys = jax.random.split(key, shape)
        flat = jax.vmap(lambda key: jax.random.permutation(key, num_points)[:count])(keys.reshape(-1))
        return flat.reshape(*shape, count)

    # Two steps per block, or the shuffles of a whole block would fill the memory.
    monkeypatch.setattr(jax_chain, "block_steps", lambda *arguments: 2)
    monkeypatch.setattr(jax_minibatch, "draw_indices", shuffle)
    (complaint,) = timing.judge(timing.measure([STEP]), baseline("timing"))
    assert complaint.startswith(STEP)


#: One draw and no chain: it has no moments to compare.
UNGATED = {"temperature"}


def test_both_known_problems_meet_every_kind_of_part():
    assert set().union(*statistical.LIVELY.values()) == METHODS.keys() - UNGATED
    for axis in ("estimate", "proposal", "gradient"):
        of_classes = {
            getattr(parts_of(method), axis) for method in statistical.LIVELY["two_classes"] if method in METROPOLIS
        }
        assert of_classes == {getattr(parts_of(method), axis) for method in METROPOLIS}


@pytest.mark.parametrize("tier", TIERS)
def test_a_baseline_passes_its_own_gate(tier):
    rows = baseline(tier)
    assert TIERS[tier].judge(rows, rows) == []


def test_one_other_decision_or_evaluation_is_stopped():
    expected = baseline("exact")
    name = next(iter(expected))
    row = expected[name]
    flipped = [("-" if row["decisions"][0][0] == "+" else "+") + row["decisions"][0][1:], *row["decisions"][1:]]
    for change in ({"decisions": flipped}, {"losses": row["losses"] + 1}):
        (complaint,) = exact.judge({name: row | change}, expected)
        assert complaint.startswith(name)


def test_a_bias_of_an_exact_method_is_stopped_even_when_the_baseline_has_it():
    row = {"acceptance": [0.3, 0.01], "shift": [0.0, 0.01], "variance": [1.1, 0.01], "confidence_gap": [0.0, 0.01]}
    (complaint,) = statistical.judge({"linear mala jax-cpu": row}, {"linear mala jax-cpu": row})
    assert "exactly 1 ±" in complaint


@pytest.mark.parametrize("value", [[np.nan, 0.01], [1.0, np.nan], [1.0, np.inf], [np.inf, np.inf]])
def test_what_is_not_a_number_is_stopped(value):
    right = {"linear pbnn jax-cpu": {"variance": [1.0, 0.01]}}
    assert statistical.judge(right, right) == []
    wrong = {"linear pbnn jax-cpu": {"variance": value}}
    assert statistical.judge(wrong, right) != []
    assert statistical.judge(right, wrong) != []
    assert exact.judge({"a": {"position": value}}, {"a": {"position": value}}) != []
    steady = {"a": timed([2.0] * 10)}
    assert timing.judge({"a": {"ratio": np.nan}}, steady) != []
    assert timing.judge(steady, {"a": {"ratio": 2.0, "ratios": [2.0, *value]}}) != []


def test_missing_values_are_stopped():
    whole = {"linear pbnn jax-cpu": {"variance": [1.0, 0.01], "shift": [0.0, 0.01]}}
    part = {"linear pbnn jax-cpu": {"variance": [1.0, 0.01]}}
    for judge in (exact.judge, statistical.judge):
        assert len(judge(part, whole)) == 1


def timed(ratios):
    (row,) = timing.together([{"a": {"ratio": ratio}} for ratio in ratios]).values()
    return row


def test_a_slowdown_counts_from_the_threshold_on():
    spread = np.exp(0.1 * np.array([1, -1] * 5) * np.sqrt(9 / 10))
    expected = {"a": timed([2.0] * 10), "b": timed(2.0 * spread)}
    # Of Student's t with nine degrees of freedom, 0.5 % are above 3.25.
    least, wide = 2.0 * timing.LEAST_SLOWDOWN, 2.0 * np.exp(3.25 * np.sqrt(1.1) * 0.1)
    assert timing.judge({"a": {"ratio": least - 0.01}, "b": {"ratio": wide - 0.01}}, expected) == []
    complaints = timing.judge({"a": {"ratio": least + 0.01}, "b": {"ratio": wide + 0.01}}, expected)
    assert [complaint[0] for complaint in complaints] == ["a", "b"]


def test_unchanged_timings_exceed_their_bound_at_the_stated_rate_and_a_doubling_does_nearly_always():
    """Five rows; a spread so wide that the least slow-down plays no part, and one as it is."""
    random = np.random.default_rng(0)

    def share_stopped(spread, slowdown, count):
        """Of simulated runs, by any of their rows, the first of which is slower."""
        num_stopped = 0
        for _ in range(count):
            *repeats, last = np.exp(spread * random.normal(size=(baselines.NUM_REPEATS + 1, 5)))
            last[0] *= slowdown
            kept = {name: timed(ratios) for name, ratios in zip("abcde", np.transpose(repeats), strict=True)}
            rows = {name: {"ratio": ratio} for name, ratio in zip("abcde", last, strict=True)}
            num_stopped += timing.judge(rows, kept) != []
        return num_stopped / count

    rate = timing.FALSE_ALARMS
    assert abs(share_stopped(0.3, 1.0, 3000) - rate) < 3 * np.sqrt(rate / 3000)
    assert share_stopped(0.08, 1.0, 500) <= rate
    assert share_stopped(0.08, 2.0, 500) > 0.98


def test_unchanged_statistics_are_stopped_at_the_stated_rate(monkeypatch):
    """At a rate that a thousand gates can tell, or a little less: comparisons of the same value go together."""
    random = np.random.default_rng(0)
    monkeypatch.setattr(statistical, "FALSE_ALARMS", 0.2)
    kept = baseline("statistical")
    truths = {
        name: {key: (value, error) for key, (value, error) in row.items() if error > 0} for name, row in kept.items()
    }
    for name, row in truths.items():
        if METHODS[name.split()[1]].exactness == Exactness.EXACT:
            row |= {key: (truth, row[key][1]) for key, truth in statistical.TRUTHS.items() if key in row}

    def measured():
        freedom = statistical.CHAINS["chains"] - 1
        return {
            name: {
                key: [random.normal(value, error), error * np.sqrt(random.chisquare(freedom) / freedom)]
                for key, (value, error) in row.items()
            }
            for name, row in truths.items()
        }

    rate = np.mean([statistical.judge(measured(), measured()) != [] for _ in range(1000)])
    assert 0.13 < rate < 0.22


def test_every_tier_has_its_exit_code_and_the_first_that_fails_decides(monkeypatch, capsys):
    verdicts = {"exact": [], "statistical": ["pbnn: variance"], "timing": ["pbnn: ratio"]}
    monkeypatch.setattr(regress, "check", lambda tier, base: (3, verdicts[tier]))
    assert regress.main(["--tiers", "exact"]) == 0
    assert regress.main(["--tiers", "timing"]) == 4
    assert regress.main([]) == 3
    assert "pbnn: variance" in capsys.readouterr().err


def test_a_tier_that_fails_is_not_hidden_by_a_later_one_that_measures_nothing(monkeypatch):
    def check(tier, base):
        if tier == "timing":
            raise NothingMeasured("no baseline")
        return 3, ["pbnn: variance"]

    monkeypatch.setattr(regress, "check", check)
    assert regress.main(["--tiers", "timing", "statistical"]) == regress.NOTHING
    assert regress.main(["--tiers", "statistical", "timing"]) == 3


def test_nothing_measured_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: {})
    assert regress.main(["--tiers", "exact"]) == regress.NOTHING
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: baseline(tier))
    assert regress.main(["--tiers", "exact"]) == 0
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    assert regress.main(["--tiers", "exact"]) == regress.NOTHING


@pytest.mark.parametrize("words", ["--tiers speed", "--refresh --base HEAD", "--tiers exact timing --write rows.json"])
def test_a_command_that_makes_no_sense_is_an_error(words):
    assert regress.main(words.split()) == regress.NOTHING


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"rows": {"linear',
        "[]",
        '{"rows": {}}',
        '{"machines": []}',
        '{"machines": [7]}',
        '{"rows": {"a": {"position": [NaN]}}}',
        '{"rows": 7}',
    ],
)
def test_a_broken_baseline_is_an_error_that_says_so(monkeypatch, tmp_path, capsys, content):
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    for tier in TIERS:
        (tmp_path / f"{tier}.json").write_text(content)
        assert regress.main(["--tiers", tier]) == regress.NOTHING
        assert f"{tier}.json is broken" in capsys.readouterr().err


def test_a_timing_baseline_of_another_processor_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: {"a": {"ratio": 2.0}})
    origin = baselines.origin()
    for cpu, is_named in ((origin["cpu"], False), ("Other 9000", True)):
        content = {"rows": {"a": timed([2.0] * 10)}, **origin, "cpu": cpu}
        (tmp_path / "timing.json").write_text(json.dumps({"machines": [content]}))
        assert regress.main(["--tiers", "timing"]) == 0
        assert ("Other 9000" in capsys.readouterr().err) == is_named


def test_timings_are_compared_with_those_of_the_same_processor_or_of_all_others(monkeypatch, tmp_path):
    """A ratio of 3 is slow where 1.8 is usual, and neither where 1.8 and 3.2 are."""
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: {"a": {"ratio": 3.0}})
    origin = baselines.origin()
    usual = {"One 1": 1.8, "Two 2": 3.2}
    machines = [{**origin, "rows": {"a": timed([ratio] * 10)}, "cpu": cpu} for cpu, ratio in usual.items()]
    (tmp_path / "timing.json").write_text(json.dumps({"machines": machines}))
    for cpu, code in {"One 1": TIERS["timing"].code, "Two 2": 0, "Three 3": 0}.items():
        monkeypatch.setattr(baselines, "origin", lambda cpu=cpu: origin | {"cpu": cpu})
        assert regress.main(["--tiers", "timing"]) == code


def test_a_refresh_keeps_the_timings_of_other_processors(monkeypatch, tmp_path):
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: {"a": {"ratio": 3.0}})
    origin = baselines.origin()
    machines = [{**origin, "rows": {"a": timed([2.0] * 10)}, "cpu": cpu} for cpu in ("Other 9000", origin["cpu"])]
    (tmp_path / "timing.json").write_text(json.dumps({"machines": machines}))
    assert regress.main(["--tiers", "timing", "--refresh"]) == 0
    other, here = json.loads((tmp_path / "timing.json").read_text())["machines"]
    assert other == machines[0]
    assert (here["cpu"], here["rows"]["a"]["ratio"]) == (origin["cpu"], 3.0)
    # A broken one may have something to keep.
    (tmp_path / "timing.json").write_text('{"machines": [7]}')
    assert regress.main(["--tiers", "timing", "--refresh"]) == regress.NOTHING
    assert (tmp_path / "timing.json").read_text() == '{"machines": [7]}'
    (tmp_path / "timing.json").unlink()
    assert regress.main(["--tiers", "timing", "--refresh"]) == 0


def test_rows_that_come_and_go_need_a_refresh_on_one_processor_only(monkeypatch, tmp_path):
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: {"a": {"ratio": 2.0}, "new": {"ratio": 2.0}})
    origin = baselines.origin()
    rows = {"a": timed([2.0] * 10), "gone": timed([2.0] * 10)}
    (tmp_path / "timing.json").write_text(json.dumps({"machines": [{**origin, "rows": rows, "cpu": "Other 9000"}]}))
    assert regress.main(["--tiers", "timing", "--refresh"]) == 0
    for cpu in (origin["cpu"], "Other 9000", "Third 3"):
        monkeypatch.setattr(baselines, "origin", lambda cpu=cpu: origin | {"cpu": cpu})
        assert regress.main(["--tiers", "timing"]) == 0


def test_what_was_slow_once_is_measured_again(monkeypatch):
    monkeypatch.setattr(baselines, "read_baseline", lambda tier: {"a": timed([2.0] * 10), "b": timed([2.0] * 10)})
    runs = [{"a": {"ratio": 9.0}, "b": {"ratio": 9.0}}, {"a": {"ratio": 2.0}, "b": {"ratio": 8.0}}]
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: runs.pop(0))
    count, (complaint,) = regress.check("timing", None)
    assert count == 2
    assert complaint.startswith("b: ratio 9")


def test_a_refresh_that_would_not_pass_its_own_gate_writes_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(baselines, "BASELINES", tmp_path)
    rows = {"linear mala jax-cpu": {"variance": [1.0, 0.01]}}
    monkeypatch.setattr(processes, "in_fresh_process", lambda tier, root: rows)
    assert regress.main(["--refresh", "--tiers", "statistical"]) == 0
    written = (tmp_path / "statistical.json").read_text()
    assert json.loads(written)["rows"] == rows
    for value in (1.2, np.nan):
        rows["linear mala jax-cpu"] = {"variance": [value, 0.01]}
        assert regress.main(["--refresh", "--tiers", "statistical"]) == TIERS["statistical"].code
        assert "exactly 1" in capsys.readouterr().err
    rows.clear()
    assert regress.main(["--refresh", "--tiers", "statistical"]) == regress.NOTHING
    assert (tmp_path / "statistical.json").read_text() == written


def test_an_unknown_base_commit_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(baselines, "read_baseline", lambda tier: {"a": timed([2.0] * 10)})
    assert regress.main(["--tiers", "timing", "--base", "no-such-commit"]) == regress.NOTHING
    assert "no-such-commit" in capsys.readouterr().err


def test_a_base_that_the_benchmarks_cannot_run_on_is_named_in_one_line(monkeypatch, capsys):
    measure = processes.in_fresh_process

    def in_fresh_process(tier, root):
        if root == processes.ROOT:
            return {"a": {"ratio": 2.0}}
        shutil.rmtree(root / "implementations" / "backends")
        return measure(tier, root)

    monkeypatch.setattr(baselines, "read_baseline", lambda tier: {"a": timed([2.0] * 10)})
    monkeypatch.setattr(processes, "in_fresh_process", in_fresh_process)
    assert regress.main(["--tiers", "timing", "--base", "HEAD"]) == regress.NOTHING
    (line,) = capsys.readouterr().err.splitlines()
    assert "--base HEAD: older than the benchmarks can measure" in line
    assert "No module named 'implementations.backends'" in line


def test_the_ratio_is_per_unit_and_of_the_same_round():
    row = comparison(Work(print, 10), [1.0, 2.0, 3.0], Work(print, 20), [1.0, 2.0, 3.0])
    assert row["ratio"] == row["ratio_low"] == row["ratio_high"] == 2.0
    assert row["microseconds"] == 2e5


def test_four_times_the_work_takes_about_four_times_the_time():
    def make(units):
        return lambda: [np.sort(numbers) for _ in range(units)]

    numbers = np.random.default_rng(0).normal(size=10_000)
    work = sized(make, seconds=0.02)
    assert work.units > 16
    # Wide bounds: beside another process on the same core even processor time varies.
    assert 2.5 < alternate(Work(make(4 * work.units), work.units), work, rounds=9)["ratio"] < 6


def test_benchmarks_are_not_collected_with_the_tests():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    listed = subprocess.run(
        [*command, "tests/benchmarks/test_summary.py", "benchmarks"], cwd=processes.ROOT, capture_output=True, text=True
    ).stdout
    assert "test_summary.py" in listed
    assert "bench_" not in listed.replace("test_benchmarks_are", "")
