"""What a person sees before and while a study runs."""

import io
import json
import logging
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from workflows.batches import expected_seconds
from workflows.plan import draw_bytes, plan_lines
from workflows.progress import PLANNED, Progress, Quiet, hush, in_words
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


def test_a_finished_run_is_a_line_with_how_many_are_done_and_how_long_the_others_take(study, tmp_path):
    first, second, *others = study.runs
    finish(tmp_path, first, 3.0, at=1)
    stream, clock = io.StringIO(), Clock()
    progress = Progress(study.runs, tmp_path, stream, clock=clock)
    progress.look()
    assert stream.getvalue() == "", "what was there before is not reported"
    # What went before it, data and networks, is not made again for the others.
    clock.now = 1000.0
    finish(tmp_path, second, 5.0, at=2)
    progress.look()
    progress.look()
    ratio = (5.0 + PLANNED) / (expected_seconds(second) + PLANNED)
    left = ratio * sum(map(expected_seconds, others))
    assert progress.left() == pytest.approx(left)
    assert stream.getvalue() == f"2 of 4 runs · ok: {second.path} · 5.0 s · {in_words(left)} left\n"
    # Half the time since it began went into the run: the others take up to twice what they take themselves.
    clock.now += 5.0
    assert progress.left() == pytest.approx((10.0 + PLANNED) / (5.0 + PLANNED) * left)


def test_a_run_of_the_same_kind_tells_more_than_any_other(study, tmp_path):
    full, _, penalised, last = study.runs
    clock = Clock()
    progress = Progress(study.runs, tmp_path, io.StringIO(), clock=clock)
    assert progress.left() is None
    for run, seconds in ((full, 4.0), (study.runs[1], 4.0), (penalised, 2.0)):
        finish(tmp_path, run, seconds, at=3)
        clock.now += seconds
        progress.look()
    assert last.method == penalised.method
    assert progress.left() == pytest.approx(2.0), "what its other seed took, ten seconds having been spent in ten"
    finish(tmp_path, last, 2.0, at=4)
    progress.look()
    assert progress.left() is None


def test_a_first_run_that_mostly_compiled_does_not_multiply_the_plan_and_many_such_runs_do(study, tmp_path):
    first, *others = study.runs
    plan, clock = sum(map(expected_seconds, others)) / 2, Clock()
    progress = Progress(study.runs, tmp_path, io.StringIO(), num_cores=2, clock=clock)
    finish(tmp_path, first, 20.0, at=1)
    # Its twin is of the same kind, and the only one that is taken to need as long.
    progress.kinds[others[0]] = ("another", "kind", "altogether")
    clock.now = 20.0
    progress.look()
    assert expected_seconds(first) < 20.0 / 15
    assert plan < progress.left() < 2 * plan
    progress.seconds[first], clock.now = 500.0, 500.0
    assert progress.left() > 5 * plan


def test_the_first_runs_of_a_long_study_do_not_speak_for_all(study, tmp_path):
    first, *others = study.runs
    progress = Progress(study.runs, tmp_path, io.StringIO(), clock=Clock())
    progress.expected |= dict.fromkeys(others, 1000.0)
    progress.kinds |= dict.fromkeys(others, ("another", "kind", "altogether"))
    finish(tmp_path, first, 30.0, at=1)
    progress.clock.now = 30.0
    progress.look()
    assert 3000 < progress.left() < 1.2 * 3000, "thirty times what was expected, of one in a hundred"


def test_a_run_that_did_not_end_well_says_why_and_half_a_file_waits(study, tmp_path):
    stream = io.StringIO()
    progress = Progress(study.runs, tmp_path, stream)
    finish(tmp_path, study.runs[0], 0.0, 1, "skipped", "no CUDA device")
    path = tmp_path / "runs" / study.runs[0].path / "run.json"
    whole = path.read_text()
    path.write_text(whole[:20])
    progress.look()
    assert stream.getvalue() == ""
    path.write_text(whole)
    progress.look()
    assert stream.getvalue() == f"1 of 4 runs · skipped: {study.runs[0].path} · no CUDA device\n"


def test_runs_that_a_look_asks_for_are_told_of_too(study, tmp_path):
    first, second, *others = study.runs
    finish(tmp_path, second, 1.0, at=1)
    stream = io.StringIO()
    progress = Progress([first], tmp_path, stream)
    progress.add([first, second, *others])
    for run in (first, others[0]):
        finish(tmp_path, run, 1.0, at=2)
    progress.look()
    assert [line.partition(" runs")[0] for line in stream.getvalue().splitlines()] == ["2 of 4", "3 of 4"]


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


def record(message: str, event: str | None = None, **values: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": message, "levelno": logging.INFO, **values})
    if event:
        made.event = SimpleNamespace(value=event)
    return made


def test_talk_of_jobs_stays_in_the_log_file_and_errors_do_not():
    terminal, kept = io.StringIO(), io.StringIO()
    logger = logging.Logger("made up")
    screen, file = logging.StreamHandler(terminal), logging.StreamHandler(kept)
    screen.set_name("DefaultStreamHandler")
    logger.addHandler(screen)
    logger.addHandler(file)
    hush(logger, terminal)
    records = [
        record("Select jobs to execute..."),
        record("Execute 1 jobs...", "job_started"),
        record("Finished", "job_finished"),
        record("1 of 30 steps", "progress"),
        record("Rule: network", "job_info", rule_msg="network of linear, seed 0", rule_name="network"),
        record("Rule: sample", "job_info", rule_msg="linear/jax-cpu/part0", rule_name="sample"),
        record("Error in rule sample", "job_error"),
        record("Job stats", "run_info"),
    ]
    for one in records:
        logger.handle(one)
    assert terminal.getvalue().splitlines() == ["network of linear, seed 0", "Error in rule sample", "Job stats"]
    assert len(kept.getvalue().splitlines()) == len(records)


def test_the_events_and_the_handler_are_those_of_snakemake():
    from snakemake.logging import LoggerManager
    from snakemake_interface_logger_plugins.common import LogEvent

    names = {"job_info", "job_started", "job_finished", "progress", "resources_info"}
    assert names <= {event.value for event in LogEvent}
    settings = SimpleNamespace(
        skip_plugin_handlers=True, nocolor=True, stdout=False, quiet=set(), debug_dag=False, verbose=False,
        dryrun=False, printshellcmds=False, show_failed_logs=False, log_level_override=None,
    )  # fmt: skip
    logger = logging.Logger("made up")
    LoggerManager(logger, settings)
    hush(logger, None)
    assert any(isinstance(one, Quiet) for handler in logger.handlers for one in handler.filters)


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
