"""Steps timed by turns: which, what is made of their times, and where that is kept."""

from pathlib import Path

import pytest

from benchmarks import stopwatch
from benchmarks.stopwatch import Work
from implementations.infrastructure.artefact import write_arrays
from records.artefacts import read_outcome
from records.layout import problem_path, timing_path
from workflows.preflight import inspect
from workflows.steps import timing
from workflows.steps.__main__ import main
from workflows.steps.summary import rows_of
from workflows.steps.timing import ROUNDS, timed, timed_sizes
from workflows.study import load_study

STUDY = """
study: sizes
description: the same steps at several N
seeds: [0, 1]
backends: [jax-cpu, jax-gpu]
tasks:
  - {task: linear, num_points: 1000, methods: &methods {
      pbnn: [{batch_size: 2}, {batch_size: 2, weight: data}, {batch_size: 2, step_size: auto, num_warmup: 1000}],
      full_mh: {}, sgld: {batch_size: 2}}}
  - {task: linear, num_points: 20000, methods: *methods}
  - {task: linear, num_points: 5000, methods: {pbnn: {batch_size: [2, 3]}}}
  - {task: regression, num_points: 5000, methods: {pbnn: {batch_size: 2}}}
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "sizes.yaml").write_text(STUDY)
    return load_study(tmp_path / "sizes.yaml")


def test_a_step_is_timed_at_every_n_for_each_seed_and_stands_for_all_runs_that_make_it(study):
    found = timed_sizes(study.runs)
    assert found.keys() == {"jax-cpu"}, "a GPU's work is not processor time"
    # n = 3 and the regression are there at one N alone.
    assert [[size.run.variant.num_points for size in sizes] for sizes in found["jax-cpu"]] == [[1000, 5000, 20000]] * 2
    assert [{size.run.seed for size in sizes} for sizes in found["jax-cpu"]] == [{0}, {1}]
    paths = {path for sizes in found["jax-cpu"] for size in sizes for path in size.paths}
    # The target's weight changes nothing about a step's work; what a pilot run chooses may.
    wanted = [run for run in study.runs if run.method == "pbnn" and run.backend == "jax-cpu"]
    wanted = [run for run in wanted if run.variant.task == "linear" and run.settings.batch_size == 2]
    assert paths == {run.path for run in wanted if not run.settings.automatic}


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for the work, on a machine that is slower in every round: by 1, 2, 3, …"""
    now, calls = [0.0], [0]
    monkeypatch.setattr(stopwatch, "clock", lambda: now[0])

    def work(seconds: float, units: int, works_in_a_round: int) -> Work:
        def call() -> None:
            now[0] += seconds * (1 + calls[0] // works_in_a_round)
            calls[0] += 1

        return Work(call, units)

    return work


def test_ratios_are_of_times_by_turns_so_that_a_machine_that_slows_down_changes_none(clock):
    steps = {10: clock(1e-3, 100, 4), 20: clock(6e-3, 200, 4)}
    times = timed(steps, {10: clock(2e-4, 100, 4), 20: clock(1.4e-3, 200, 4)})
    middle = (ROUNDS + 1) // 2
    one, three = ({f"ratio{end}": ratio for end in ("", "_low", "_high")} for ratio in (1, 3))
    assert times[10] == pytest.approx({"microseconds": 10.0 * middle, "reading": 0.0, **one})
    # 6 ms for 200 steps are three times 1 ms for 100, in every round; 7 us to read the rows are 5 more than 2.
    assert times[20] == pytest.approx({"microseconds": 30.0 * middle, "reading": 5.0 * middle, **three})


def time_steps(study, results: Path) -> Path:
    study.write(results)
    assert main(["timing", str(results), "jax-cpu"]) == 0
    return timing_path(results, "jax-cpu")


def test_the_summary_has_the_times_of_the_runs_whose_steps_were_timed(study, tmp_path, clock, monkeypatch):
    results = tmp_path / "results" / "sizes"
    sizes = {1000: 1, 5000: 2, 20000: 3}
    monkeypatch.setattr(
        timing,
        "works_of",
        lambda run, results: (clock(1e-3 * sizes[run.variant.num_points], 100, 6), clock(1e-4, 100, 6)),
    )
    time_steps(study, results)
    assert {row["reading_by_turns_us"] for row in rows_of(study.runs, results)} == {0.0, None}
    rows = {row["run"]: row["step_by_turns_us"] for row in rows_of(study.runs, results)}
    middle = 10.0 * (ROUNDS + 1) // 2
    cell = "linear-points{}/pbnn+batch_size=2{}/jax-cpu/seed0"
    assert rows[cell.format(1000, "")] == pytest.approx(middle)
    assert rows[cell.format(20000, "+weight=data")] == pytest.approx(3 * middle)
    assert rows["linear-points1000/full_mh/jax-cpu/seed1"] is None
    assert rows["linear-points1000/pbnn+batch_size=2/jax-gpu/seed1"] is None


def test_a_measurement_that_failed_says_why_and_is_made_again(study, tmp_path):
    results = tmp_path / "results" / "sizes"
    identity = {"variant": "linear-points1000", "seed": 0}
    write_arrays(problem_path(results, *identity.values()), "problem", {}, identity, failure="no such data")
    out = time_steps(study, results)
    assert "no such data" in read_outcome(out, "timing")["failure"]
    assert {row["step_by_turns_us"] for row in rows_of(study.runs, results)} == {None}
    assert inspect(results, study) == [] and not out.exists()
