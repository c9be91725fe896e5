"""What a person sees before and while a study runs."""

import io
import json
import os
from pathlib import Path

import pytest
import yaml

from workflows.progress import Progress, draw_bytes, in_words, plan_lines
from workflows.study import load_study

STUDY = """
study: tiny
description: some runs
seeds: [0, 1]
backends: [jax-cpu]
chains: 2
defaults: {num_steps: 200, num_warmup: 50, thin: 4}
tasks:
  - task: linear
    methods:
      full_mh: {}
      pbnn: {batch_size: 2, num_steps: 400000}
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return load_study(path)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def finish(results: Path, run, seconds: float, at: int, status: str = "ok", reason: str | None = None) -> None:
    folder = results / "runs" / run.path
    folder.mkdir(parents=True, exist_ok=True)
    times = {"started_at": "2026-01-01T00:00:00+00:00", "ended_at": f"2026-01-01T00:00:{seconds:09.6f}+00:00"}
    (folder / "run.json").write_text(json.dumps({"status": status, "reason": reason, **times}))
    os.utime(folder / "run.json", (at, at))


def test_a_finished_run_is_a_line_with_how_many_are_done(study, tmp_path):
    first, second, *_ = study.runs
    finish(tmp_path, first, 3.0, at=1)
    stream = io.StringIO()
    progress = Progress(study.runs, tmp_path, stream, clock=Clock())
    progress.update()
    assert stream.getvalue() == "", "what was there before is not reported"
    finish(tmp_path, second, 5.0, at=2)
    progress.update()
    progress.update()
    assert stream.getvalue() == f"2 of 4 runs · ok: {second.path} · 5.0 s\n", "less than a minute is left"


@pytest.mark.parametrize("num_cores", [1, 2])
def test_the_time_left_begins_as_planned_and_follows_what_runs_take(study, tmp_path, num_cores):
    first, *others = study.runs
    stream, clock = io.StringIO(), Clock()
    progress = Progress(study.runs, tmp_path, stream, num_cores, clock)
    assert progress.left() is None
    progress.expected = {first.path: 100.0} | dict.fromkeys((run.path for run in others), 1000.0)
    # Data and networks come before the first run, and do not count.
    clock.now = 5000.0
    finish(tmp_path, first, 30.0, at=1)
    progress.update()
    planned = 0.1 * 3100
    assert progress.left() == pytest.approx(3000 * (30 + planned / num_cores) / (100 + planned))
    assert stream.getvalue().endswith(f"· {in_words(progress.left())} left\n")
    # A run that took twenty times as long as expected moves it by less.
    clock.now = 5000.0 + 2000.0
    assert 4 < progress.left() / (3000 / num_cores) < 20
    for number, run in enumerate(others):
        finish(tmp_path, run, 2.0, at=2 + number)
    progress.update()
    assert progress.left() is None


def test_a_run_that_did_not_end_well_says_why_and_half_a_file_waits(study, tmp_path):
    stream = io.StringIO()
    progress = Progress(study.runs, tmp_path, stream)
    finish(tmp_path, study.runs[0], 0.0, 1, "skipped", "no CUDA device")
    path = tmp_path / "runs" / study.runs[0].path / "run.json"
    whole = path.read_text()
    path.write_text(whole[:20])
    progress.update()
    assert stream.getvalue() == ""
    path.write_text(whole)
    progress.update()
    assert stream.getvalue() == f"1 of 4 runs · skipped: {study.runs[0].path} · no CUDA device\n"


def test_the_watch_tells_the_last_run_before_it_stops(study, tmp_path):
    stream = io.StringIO()
    progress = Progress(study.runs, tmp_path, stream)
    progress.start()
    finish(tmp_path, study.runs[0], 1.0, 1)
    progress.stop()
    assert stream.getvalue().startswith("1 of 4 runs")
    assert not progress.thread.is_alive()


@pytest.mark.parametrize(
    ("seconds", "words"), [(3, "less than a minute"), (170, "about 3 min"), (3 * 3600, "about 3.0 h")]
)
def test_times_are_told_in_words(seconds, words):
    assert in_words(seconds) == words


def test_a_plan_says_runs_time_disk_and_downloads(study, tmp_path):
    finish(tmp_path, study.runs[0], 1.0, 1)
    lines = plan_lines(study, tmp_path, 2)
    assert lines[0] == "runs: 3 to do, 1 of 4 done"
    assert "on 2 cores" in lines[1]
    # 2 chains, 400,000 / 4 draws, of slope and intercept, 4 bytes each.
    assert draw_bytes(study.runs[2]) == 2 * 100_000 * 2 * 4
    assert lines[2].startswith("disk: about 3.2 MB")
    assert lines[3] == "downloads: none"
    content = yaml.safe_load(STUDY)
    content["tasks"].append({"task": "mnist", "methods": {"sgld": {"batch_size": 100}}})
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(content))
    lines = plan_lines(load_study(tmp_path / "more.yaml"), tmp_path, 2)
    assert lines[3] == "downloads: the data of mnist (55 MB), unless they are in data/ already"
    for run in study.runs:
        finish(tmp_path, run, 1.0, 1)
    assert plan_lines(study, tmp_path) == ["runs: 0 to do, 4 of 4 done"]
