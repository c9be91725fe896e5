"""How a study is cut into parts, and how long they are expected to take."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from records.summary import read_rows
from workflows.batches import LONGEST, SHORTEST, expected_seconds, in_batches
from workflows.study import SCHEMA, load_study

STUDIES = SCHEMA.parents[1] / "studies"
PUBLISHED = Path(__file__).parents[2] / "reports" / "published" / "paper" / "summary.csv"


@pytest.mark.parametrize("name", ["smoke", "paper", "scaling"])
def test_every_run_is_in_one_part_of_its_task_and_backend(name):
    runs = load_study(STUDIES / f"{name}.yaml").runs
    parts = in_batches(runs)
    assert Counter(run for part in parts for run in part.runs) == Counter(runs)
    assert all((run.variant.label, run.backend) == (part.variant, part.backend) for part in parts for run in part.runs)
    assert len({part.name for part in parts}) == len(parts)
    assert parts == in_batches(runs)
    for part in parts:
        longest_run = max(map(expected_seconds, part.runs))
        assert part.seconds <= 1.5 * LONGEST + longest_run
    assert len(parts) < len(runs) / 3


def test_a_small_study_of_one_task_keeps_several_cores_busy_and_a_tiny_one_is_one_part():
    runs = [run for run in load_study(STUDIES / "paper.yaml").runs if run.variant.task == "mnist"]
    of_one = [run for run in runs if run.backend == "jax-cpu"][:12]
    parts = in_batches(of_one)
    assert len(parts) >= 4
    assert max(part.seconds for part in parts) < sum(part.seconds for part in parts) / 3
    tiny = of_one[:1]
    assert [part.runs for part in in_batches(tiny)] == [tuple(tiny)]
    assert SHORTEST < LONGEST


def test_a_number_that_a_pilot_run_will_choose_is_expected_to_be_the_default():
    run = next(run for run in load_study(STUDIES / "smoke.yaml").runs if run.settings.num_batches == 5)
    automatic = replace(run, settings=replace(run.settings, num_batches="auto", step_size="auto"))
    assert expected_seconds(automatic) == expected_seconds(run)


def test_somebody_elses_method_shares_no_process_with_others():
    runs = load_study(STUDIES / "smoke.yaml").runs[:4]
    strange = [replace(run, source="/their/file.py:CARD", label=f"theirs{number}") for number, run in enumerate(runs)]
    parts = in_batches_of_known_cost([*runs, *strange])
    assert all(len({run.source for run in part.runs}) == 1 for part in parts)
    assert sum(len(part.runs) for part in parts) == 8


def in_batches_of_known_cost(runs):
    """A made-up file has no card to ask."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workflows.batches.expected_seconds", lambda run: 1.0)
        return in_batches(runs)


def test_expected_times_are_those_of_the_published_study_within_a_factor():
    """Recorded times are of one machine, so their ratio to what is expected has to be about the same for all runs."""
    rows = {
        (row["variant"], row["label"], row["backend"]): row for row in read_rows(PUBLISHED) if row["status"] == "ok"
    }
    # Whatever their seeds, which take as long as each other.
    runs = {(run.variant.label, run.label, run.backend): run for run in load_study(STUDIES / "paper.yaml").runs}
    both = sorted(rows.keys() & runs.keys())
    assert len(both) > 30
    ratios = []
    for key in both:
        run, row = runs[key], rows[key]
        # What is expected of torch includes compilation, and a run that found its loop compiled did not pay for it.
        if run.backend.startswith("torch") and float(row["compile_s"]) < 2:
            continue
        # Its audit, which has no column, is most of a run on tall data.
        began, ended = (datetime.fromisoformat(row[name]) for name in ("started_at", "ended_at"))
        ratios.append((1.0 + (ended - began).total_seconds()) / expected_seconds(run))
    ratios.sort()
    assert ratios[len(ratios) // 20] > 0.4 and ratios[-len(ratios) // 20] < 2.5
    assert ratios[0] > 0.25 and ratios[-1] < 4
