"""The gate lets the code as it is through, and stops a wrong or slow one; a gate that measures nothing is no gate."""

import json

import jax
import numpy as np
import pytest
from scipy import integrate

from benchmarks import regress, statistical, tiers
from benchmarks.explicit_noise import METROPOLIS, parts_of
from benchmarks.known_problems import known_problem, log_odds_posterior
from benchmarks.regress import NOTHING, NothingMeasured, main, origin, read_baseline
from benchmarks.tiers import TIERS, judge_exact, judge_timing, together
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


def complaints_about(problem, method, backend):
    return statistical.judge(statistical.measure([(problem, method)], [backend]), read_baseline("statistical"))


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
    for expected in (read_baseline("statistical"), rows):
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
    """By far: the most that a busy machine does to a ratio is nothing compared with it."""

    def shuffle(key, shape, count, num_points):
        keys = jax.random.split(key, shape)
        flat = jax.vmap(lambda key: jax.random.permutation(key, num_points)[:count])(keys.reshape(-1))
        return flat.reshape(*shape, count)

    # Two steps per block, or the shuffles of a whole block would fill the memory.
    monkeypatch.setattr(jax_chain, "block_steps", lambda *arguments: 2)
    monkeypatch.setattr(jax_minibatch, "draw_indices", shuffle)
    (complaint,) = judge_timing(tiers.measure_timing([STEP]), read_baseline("timing"))
    assert complaint.startswith(STEP)


#: One draw and no chain: it has no moments to compare.
UNGATED = {"temperature"}


def test_both_known_problems_meet_every_kind_of_part():
    assert set().union(*statistical.LIVELY.values()) == METHODS.keys() - UNGATED
    of_classes = [parts_of(method) for method in statistical.LIVELY["two_classes"] if method in METROPOLIS]
    for axis in ("estimate", "proposal", "gradient"):
        assert {getattr(parts, axis) for parts in of_classes} == {getattr(parts_of(name), axis) for name in METROPOLIS}


@pytest.mark.parametrize("tier", TIERS)
def test_a_baseline_passes_its_own_gate(tier):
    rows = read_baseline(tier)
    assert TIERS[tier].judge(rows, rows) == []


def test_one_other_decision_or_evaluation_is_stopped():
    expected = read_baseline("exact")
    name = next(iter(expected))
    row = expected[name]
    flipped = [("-" if row["decisions"][0][0] == "+" else "+") + row["decisions"][0][1:], *row["decisions"][1:]]
    for change in ({"decisions": flipped}, {"losses": row["losses"] + 1}):
        (complaint,) = judge_exact({name: row | change}, expected)
        assert complaint.startswith(name)


def test_a_bias_of_an_exact_method_is_stopped_even_when_the_baseline_has_it():
    row = {"acceptance": [0.3, 0.01], "shift": [0.0, 0.01], "variance": [1.1, 0.01], "confidence_gap": [0.0, 0.01]}
    (complaint,) = statistical.judge({"linear mala jax-cpu": row}, {"linear mala jax-cpu": row})
    assert "exactly 1 ±" in complaint


def timed(ratios):
    (row,) = together([{"a": {"ratio": ratio}} for ratio in ratios]).values()
    return row


@pytest.mark.parametrize("value", [[np.nan, 0.01], [1.0, np.nan], [1.0, np.inf], [np.inf, np.inf]])
def test_what_is_not_a_number_is_stopped(value):
    right = {"linear pbnn jax-cpu": {"variance": [1.0, 0.01]}}
    assert statistical.judge(right, right) == []
    wrong = {"linear pbnn jax-cpu": {"variance": value}}
    assert statistical.judge(wrong, right) != []
    assert statistical.judge(right, wrong) != []
    assert judge_exact({"a": {"position": value}}, {"a": {"position": value}}) != []
    steady = {"a": timed([2.0] * 10)}
    assert judge_timing({"a": {"ratio": np.nan}}, steady) != []
    assert judge_timing(steady, {"a": {"ratio": 2.0, "ratios": [2.0, *value]}}) != []


def test_missing_values_are_stopped():
    whole = {"linear pbnn jax-cpu": {"variance": [1.0, 0.01], "shift": [0.0, 0.01]}}
    part = {"linear pbnn jax-cpu": {"variance": [1.0, 0.01]}}
    for judge in (judge_exact, statistical.judge):
        assert len(judge(part, whole)) == 1


def test_a_slowdown_counts_from_the_threshold_on():
    spread = np.exp(0.1 * np.array([1, -1] * 5) * np.sqrt(9 / 10))
    expected = {"a": timed([2.0] * 10), "b": timed(2.0 * spread)}
    # Of Student's t with nine degrees of freedom, 0.5 % are above 3.25.
    least, wide = 2.0 * tiers.LEAST_SLOWDOWN, 2.0 * np.exp(3.25 * np.sqrt(1.1) * 0.1)
    assert judge_timing({"a": {"ratio": least - 0.01}, "b": {"ratio": wide - 0.01}}, expected) == []
    complaints = judge_timing({"a": {"ratio": least + 0.01}, "b": {"ratio": wide + 0.01}}, expected)
    assert [complaint[0] for complaint in complaints] == ["a", "b"]


def test_unchanged_timings_exceed_their_bound_at_the_stated_rate_and_a_doubling_does_nearly_always():
    """Five rows; a spread so wide that the least slow-down plays no part, and one as it is."""
    random = np.random.default_rng(0)

    def share_stopped(spread, slowdown, count):
        """Of simulated runs, by any of their rows, the first of which is slower."""
        num_stopped = 0
        for _ in range(count):
            *repeats, last = np.exp(spread * random.normal(size=(regress.NUM_REPEATS + 1, 5)))
            last[0] *= slowdown
            kept = {name: timed(ratios) for name, ratios in zip("abcde", np.transpose(repeats), strict=True)}
            rows = {name: {"ratio": ratio} for name, ratio in zip("abcde", last, strict=True)}
            num_stopped += judge_timing(rows, kept) != []
        return num_stopped / count

    rate = tiers.FALSE_ALARMS
    assert abs(share_stopped(0.3, 1.0, 3000) - rate) < 3 * np.sqrt(rate / 3000)
    assert share_stopped(0.08, 1.0, 500) <= rate
    assert share_stopped(0.08, 2.0, 500) > 0.98


def test_unchanged_statistics_are_stopped_at_the_stated_rate(monkeypatch):
    """At a rate that a thousand gates can tell, or a little less: comparisons of the same value go together."""
    random = np.random.default_rng(0)
    monkeypatch.setattr(statistical, "FALSE_ALARMS", 0.2)
    truths = {
        name: {key: (value, error) for key, (value, error) in row.items() if error > 0}
        for name, row in read_baseline("statistical").items()
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
    verdicts = {"exact": [], "statistical": ["pbnn: variance"], "timing": None}

    def check(tier):
        if verdicts[tier] is None:
            raise NothingMeasured("no baseline")
        return 3, verdicts[tier]

    monkeypatch.setattr(regress, "check", check)
    assert main(["--tiers", "exact"]) == 0
    assert main(["--tiers", "timing", "statistical"]) == NOTHING
    assert main([]) == 3
    assert "pbnn: variance" in capsys.readouterr().err
    verdicts["timing"] = ["pbnn: ratio"]
    assert main(["--tiers", "timing"]) == 4
    assert main([]) == 3
    for words in ("--tiers speed", "--tiers exact timing --write rows.json"):
        assert main(words.split()) == NOTHING


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with its own folder of baselines, whose measurements are the rows of ``machine.rows``."""

    class Machine:
        def __init__(self):
            self.rows = {"a": {"ratio": 3.0}}
            self.path = tmp_path / "timing.json"
            self.origin = origin()

        def keep(self, ratios):
            """A timing baseline of some processors: the ratio of row ``a`` on each."""
            kept = [{**self.origin, "cpu": cpu, "rows": {"a": timed([ratio] * 10)}} for cpu, ratio in ratios.items()]
            self.path.write_text(json.dumps({"machines": kept}))
            return kept

        def be(self, cpu):
            monkeypatch.setattr(regress, "origin", lambda: self.origin | {"cpu": cpu})

    machine = Machine()
    monkeypatch.setattr(regress, "BASELINES", tmp_path)
    monkeypatch.setattr(regress, "in_fresh_process", lambda tier: machine.rows)
    return machine


def test_no_rows_no_baseline_and_a_broken_baseline_are_errors(machine, tmp_path, capsys):
    assert main(["--tiers", "exact"]) == NOTHING
    for content in ("", "[]", '{"rows": {}}', '{"machines": [7]}', '{"rows": {"a": {"position": [NaN]}}}'):
        for tier in TIERS:
            (tmp_path / f"{tier}.json").write_text(content)
            assert main(["--tiers", tier]) == NOTHING
            assert f"{tier}.json is broken" in capsys.readouterr().err
    (tmp_path / "exact.json").write_text('{"rows": {"a": {"losses": 3}}}')
    machine.rows = {"a": {"losses": 3}}
    assert main(["--tiers", "exact"]) == 0
    machine.rows = {}
    assert main(["--tiers", "exact"]) == NOTHING


def test_timings_are_compared_with_those_of_the_same_processor_or_of_all_others(machine, capsys):
    """A ratio of 3 is slow where 1.8 is usual, and neither where 1.8 and 3.2 are."""
    machine.keep({"One 1": 1.8, "Two 2": 3.2})
    for cpu, code in {"One 1": TIERS["timing"].code, "Two 2": 0, "Three 3": 0}.items():
        machine.be(cpu)
        assert main(["--tiers", "timing"]) == code
        assert ("a baseline is of cpu Two 2" in capsys.readouterr().err) == (cpu == "Three 3")


def test_a_refresh_keeps_the_timings_of_other_processors_and_new_rows_need_it_on_one_only(machine):
    other = machine.keep({"Other 9000": 2.0, "Here 1": 2.0})[0]
    machine.be("Here 1")
    machine.rows = {"a": {"ratio": 3.0}, "new": {"ratio": 2.0}}
    assert main(["--tiers", "timing"]) == NOTHING
    assert main(["--tiers", "timing", "--refresh"]) == 0
    kept, here = json.loads(machine.path.read_text())["machines"]
    assert kept == other
    assert (here["cpu"], here["rows"]["a"]["ratio"]) == ("Here 1", 3.0)
    for cpu in ("Here 1", "Third 3"):
        machine.be(cpu)
        assert main(["--tiers", "timing"]) == 0
    # A broken one may have something to keep.
    machine.path.write_text('{"machines": [7]}')
    assert main(["--tiers", "timing", "--refresh"]) == NOTHING
    assert machine.path.read_text() == '{"machines": [7]}'


def test_what_was_slow_once_is_measured_again(monkeypatch):
    monkeypatch.setattr(regress, "read_baseline", lambda tier: {"a": timed([2.0] * 10), "b": timed([2.0] * 10)})
    runs = [{"a": {"ratio": 9.0}, "b": {"ratio": 9.0}}, {"a": {"ratio": 2.0}, "b": {"ratio": 8.0}}]
    monkeypatch.setattr(regress, "in_fresh_process", lambda tier: runs.pop(0))
    count, (complaint,) = regress.check("timing")
    assert count == 2
    assert complaint.startswith("b: ratio 9")


def test_a_refresh_that_would_not_pass_its_own_gate_writes_nothing(machine, tmp_path, capsys):
    machine.rows = {"linear mala jax-cpu": {"variance": [1.0, 0.01]}}
    assert main(["--refresh", "--tiers", "statistical"]) == 0
    written = (tmp_path / "statistical.json").read_text()
    assert json.loads(written)["rows"] == machine.rows
    for value in (1.2, np.nan):
        machine.rows = {"linear mala jax-cpu": {"variance": [value, 0.01]}}
        assert main(["--refresh", "--tiers", "statistical"]) == TIERS["statistical"].code
        assert "exactly 1" in capsys.readouterr().err
    machine.rows = {}
    assert main(["--refresh", "--tiers", "statistical"]) == NOTHING
    assert (tmp_path / "statistical.json").read_text() == written
