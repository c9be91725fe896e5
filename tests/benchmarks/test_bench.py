"""All that ``make bench`` times can be run, peers go on from where they were, and one with another law is noticed."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.signal import lfilter

from benchmarks import bench
from benchmarks.peers import NUM_STEPS, NUM_STEPS_IN_LOOP, PEERS, check_same_moments
from benchmarks.stopwatch import Work, alternate, ratios_of, sized
from benchmarks.work import synthetic
from reports.benchmarks import load
from tests.workflows.snakemake import ROOT

#: So small that nearly all moves are accepted, and that their noise is all there is to them.
STEP_SIZE = 1e-10


@pytest.mark.slow
def test_every_benchmark_runs(tmp_path):
    out = tmp_path / "benchmarks.json"
    options = [
        "-o",
        "python_functions=bench_*",
        "-p",
        "no:xdist",
        "-W",
        "default",
        f"--benchmark-json={out}",
        "--quick",
    ]
    command = [sys.executable, "-m", "pytest", "benchmarks/bench.py", *options]
    # pytest-benchmark times nothing in a process that xdist has started.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
    rows = bench.read_rows(out)
    assert len(rows) == len(list(bench.benchmarks(is_quick=True)))
    assert all(row["ratio"] > 0 for row in rows)


def test_the_quick_benchmarks_are_one_of_every_kind():
    full, quick = ([one.row for one in bench.benchmarks(is_quick)] for is_quick in (False, True))
    for name in ("kind", "method", "backend"):
        assert {row.get(name) for row in quick} == {row.get(name) for row in full}
    assert {row["baseline"] for row in quick} >= set(PEERS)
    names = [one.name for one in bench.benchmarks()]
    assert len(names) == len(set(names))


def test_a_measurement_can_be_kept_and_says_what_is_met(tmp_path, monkeypatch):
    row = {"kind": "step", "what": "pbnn, mnist", "baseline": "other work", "target": 100}
    row |= {"ratio": 1.5, "ratio_low": 1.4, "ratio_high": 1.6, "microseconds": 2.0, "baseline_microseconds": 1.0}
    monkeypatch.setattr(bench, "plot", lambda kept, path: None)
    bench.keep([row], tmp_path / "kept.json")
    assert load(tmp_path / "kept.json").rows == [row]
    assert "≤ 100 met" in bench.line(row)
    assert "≤ 1 not met" in bench.line(row | {"target": 1})


def test_kept_benchmarks_have_a_plot(tmp_path):
    bench.plot(load(), tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()


def test_the_ratio_is_per_unit_and_of_the_same_round():
    seconds = np.array([[1.0, 0.5], [2.0, 1.0], [30.0, 15.0]])
    row = ratios_of(seconds)
    assert row["ratio"] == row["ratio_low"] == row["ratio_high"] == 2.0
    assert row["microseconds"] == 2e6
    assert ratios_of(np.hstack([seconds, [[3.0, 2.0]] * 3]))["ratio"] == pytest.approx(4 / 3, rel=1e-3)


def test_four_times_the_work_takes_about_four_times_the_time():
    def make(units):
        return lambda: [np.sort(numbers) for _ in range(units)]

    numbers = np.random.default_rng(0).normal(size=10_000)
    work = sized(make, seconds=0.02)
    assert work.units > 16
    # Wide bounds: next to another process on the same core even processor time varies.
    assert 2.5 < alternate(Work(make(4 * work.units), work.units), work, rounds=9)["ratio"] < 6


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_returns_every_position_and_goes_on_from_the_last(name):
    problem = synthetic("mnist", 500)
    run = PEERS[name].build(problem, STEP_SIZE, 50)
    first, second = run(5), run(5)
    assert first.shape == second.shape == (5, problem.num_parameters)
    assert first.dtype == second.dtype == np.float32
    # In units of the noise's sd, sqrt(2 eta). A chain that began again would make a move of sqrt(6) between the runs.
    moves = np.diff(np.concatenate([problem.map[None], first, second]), axis=0) / np.sqrt(2 * STEP_SIZE)
    lengths = np.sqrt((moves**2).mean(axis=1))
    assert (lengths > 0).sum() >= 8, lengths
    assert np.all(abs(lengths[lengths > 0] - 1) < 0.2), lengths
    # The second run has random numbers of its own.
    assert abs((moves[:5] * moves[5:]).mean()) < 0.2


#: How long the chains remember a step, as the ratio of successive covariances, and how many steps they have: the random
#: walk on the regression, and the Langevin methods, whose peer may be a Python loop. The rest are easier to tell apart.
CHAINS = {"random walk": (0.984, NUM_STEPS), "Python loop": (0.87, NUM_STEPS_IN_LOOP)}


def autoregression(seed, memory, num_steps, sd=1.0, mean=0.0):
    """A chain of 21 independent parameters with this law."""
    noise = np.random.default_rng(seed).standard_normal((num_steps, 21)) * np.sqrt(1 - memory**2)
    noise[0] /= np.sqrt(1 - memory**2)
    return mean + sd * lfilter([1], [1, -memory], noise, axis=0)


@pytest.mark.parametrize("chains", CHAINS)
def test_two_chains_of_one_law_have_the_same_moments_and_of_two_laws_have_not(chains):
    memory, num_steps = CHAINS[chains]
    changes = [{"sd": np.sqrt(1.3)}, {"sd": np.sqrt(1 / 1.3)}, {"mean": 0.3}]
    for seed in range(0, 20, 2):
        one, other = autoregression(seed, memory, NUM_STEPS), autoregression(seed + 1, memory, num_steps)
        assert 0 < check_same_moments(one, other) < 5
        for change in changes:
            with pytest.raises(ValueError, match="Monte Carlo errors"):
                check_same_moments(one, autoregression(seed + 1, memory, num_steps, **change))


def test_one_parameter_of_another_law_is_noticed():
    memory, num_steps = CHAINS["Python loop"]
    one, other = autoregression(0, memory, NUM_STEPS), autoregression(1, memory, num_steps)
    other[:, 3] += 0.8
    with pytest.raises(ValueError, match="a moment differs"):
        check_same_moments(one, other)
