"""Seeds as needed: which runs a look adds, for which claims, and how a study goes on from there."""

import json
from collections import Counter
from pathlib import Path

import pytest
from snakemake_interface_executor_plugins.utils import TargetSpec

from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import sealed, write_json
from reports.claims import CLAIMS
from tests.reports.test_claims import changed, study, world
from tests.workflows.snakemake import Workdir
from tests.workflows.test_cluster_jobs import planned_on_a_node
from workflows.grid import describe, load_study
from workflows.looks import added_runs, later_parts, look_path, runs_so_far, wanting
from workflows.study import Study

SMALL = """
study: needed
description: seeds as needed
seeds: {start: 2, at_most: 7, until: decided, first: 10}
backends: [jax-cpu]
tasks:
  - task: linear
    methods: {naive: {batch_size: [2, 5]}, full_mh: {seeds: [0, 1, 2]}}
"""
#: One whose first claim is decided by the second look.
GROWING = {
    "study": "needed",
    "description": "seeds as needed",
    "seeds": {"start": 2, "at_most": 5, "until": "decided", "first": 10},
    "backends": ["jax-cpu"],
    "chains": 4,
    "tasks": [
        {
            "task": "linear",
            "defaults": {"preconditioner": "none", "step_size": 2e-4, "weight": "data"},
            "methods": {
                "naive": {"batch_size": 2, "num_steps": 100_000, "num_warmup": 2000, "thin": 100},
                # No claim rests on it.
                "ula": {"num_steps": 200, "num_warmup": 10, "thin": 2},
            },
        }
    ],
}
TWO, FIVE, FULL = (f"linear/{label}/jax-cpu" for label in ("naive+batch_size=2", "naive+batch_size=5", "full_mh"))


@pytest.fixture
def small(tmp_path) -> Study:
    return read(tmp_path, SMALL)


def read(folder: Path, text: str) -> Study:
    (folder / "needed.yaml").write_text(text)
    return load_study(folder / "needed.yaml")


def look(results: Path, number: int, *settings: str) -> None:
    path = look_path(results, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, sealed({"failure": None, "look": number, "claims": [1], "settings": list(settings)}))


def seeds_of(runs) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for run in runs:
        found.setdefault(run.setting, []).append(run.seed)
    return found


def test_a_study_begins_with_the_seeds_of_its_first_look_and_lists_stay_as_they_are(small):
    assert small.looks == (2, 4, 7)
    assert seeds_of(small.runs) == {TWO: [10, 11], FIVE: [10, 11], FULL: [0, 1, 2]}
    assert small.growing == {TWO, FIVE}
    assert "as of 2 seeds; undecided claims are looked at again with 4, 7" in describe(small)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("{start: 8, at_most: 4, until: decided}", "seeds: at_most = 4 is below start = 8"),
        ("{start: 1, at_most: 4, until: decided}", "seeds.start: 1 is not a whole number of seeds from 2"),
        ("{start: 2, at_most: 4, until: bored}", "seeds.until: 'bored' is not the word decided"),
        ("{start: 2, at_most: 4}", "seeds: the key 'until' is missing"),
        ("{start: 2, at_most: 4, until: decided, frist: 1}", "seeds.frist: no key 'frist'; did you mean 'first'?"),
        ("[1, 1]", "seeds: [1, 1] is not a list of one or more whole numbers"),
    ],
)
def test_a_wrong_plan_is_named(tmp_path, seeds, message):
    with pytest.raises(SettingError) as error:
        read(tmp_path, SMALL.replace("{start: 2, at_most: 7, until: decided, first: 10}", seeds))
    assert message in str(error.value)


def test_a_look_brings_only_the_settings_that_it_names_to_the_seeds_of_the_next(small, tmp_path):
    assert runs_so_far(small, tmp_path) == small.runs
    look(tmp_path, 1, TWO)
    assert [seeds_of(runs) for runs in added_runs(small, tmp_path)] == [{TWO: [12, 13]}]
    # One that was content with fewer catches up.
    look(tmp_path, 2, FIVE, TWO)
    assert seeds_of(added_runs(small, tmp_path)[1]) == {FIVE: [12, 13, 14, 15, 16], TWO: [14, 15, 16]}
    assert seeds_of(runs_so_far(small, tmp_path))[TWO] == list(range(10, 17))
    parts = later_parts(small, tmp_path)
    assert [part.name for look in parts for part in look] == [
        "linear/jax-cpu/look2-part0",
        "linear/jax-cpu/look3-part0",
    ]
    assert Counter(run for look in parts for part in look for run in part.runs) == Counter(
        run for runs in added_runs(small, tmp_path) for run in runs
    )
    # A look that is taken again and wants nothing more is the last, whatever an earlier call left.
    look(tmp_path, 1)
    assert runs_so_far(small, tmp_path) == small.runs


def test_settings_of_fixed_seeds_get_none(small, tmp_path):
    look(tmp_path, 1, FULL)
    assert runs_so_far(small, tmp_path) == small.runs


def test_only_what_an_undecided_claim_rests_on_gets_more_seeds():
    assert wanting(CLAIMS, study(world())) == ([], [])
    unsure = changed({"method": "naive"}, sd_ratio=lambda row: (1.0, 1.1, 1.3)[row["seed"]])
    numbers, settings = wanting(CLAIMS, study(unsure))
    assert numbers == [1]
    assert {setting.split("+")[0] for setting in settings} == {"linear/naive"}
    # Of a claim in parts only those that are open, also where it holds in part; what they are compared with, too.
    known = changed({"task": "linear", "method": "pbnn", "variance": "oracle"}, sd_ratio=1.3)
    few = {"task": "linear", "method": "pbnn", "variance": "batches", "batch_size": 2, "num_batches": 2}
    one_open = changed(few, known, sd_ratio=lambda row: (1.0, 1.05, 1.3)[row["seed"]])
    numbers, settings = wanting([claim for claim in CLAIMS if claim.id == 2], study(one_open))
    assert numbers == [2]
    assert len(settings) == 1 and "batch_size=2+num_batches=2" in settings[0]
    regression = {"variant": "regression", "method": "pbnn", "batch_size": 5}
    unsure = changed(regression, nll=lambda row: (0.4, 0.9, 1.5)[row["seed"]])
    numbers, settings = wanting([claim for claim in CLAIMS if claim.id == 6], study(unsure))
    assert numbers == [6]
    assert {setting.split("+")[0] for setting in settings} == {"regression/pbnn", "regression/full_mh"}
    assert not any("batch_size=10" in setting for setting in settings)
    # What is missing, or has not converged, needs other things than seeds.
    absent = changed({"method": "naive"}, r_hat=1.3)
    assert wanting([claim for claim in CLAIMS if claim.id == 1], study(absent)) == ([], [])


@pytest.mark.slow
def test_a_study_goes_on_by_itself_until_it_is_decided_and_then_rests(tmp_path):
    """Two seeds have no say at this level; of naive four have, and the fifth is never made."""
    work = Workdir(tmp_path / "work", GROWING)
    # Neither report nor MLflow; the flag keeps the name apart from those of study files.
    target = ("--nolock", "results/needed/summary.csv")
    code, output = work.run(*target)
    assert code == 0, output
    seeds = Counter(row["method"] for row in work.rows())
    assert seeds == {"naive": 4, "ula": 2}
    looks = [json.loads(look_path(work.results, number).read_text()) for number in (1, 2)]
    assert [one["claims"] for one in looks] == [[1], []]
    code, output = work.run("--dry-run", *target)
    assert code == 0 and "Nothing to be done" in output, output
    # A node of a cluster finds what a look has added from the looks on file.
    part = "linear/jax-cpu/look2-part0"
    (work.results / "parts" / part / "sampled.json").unlink()
    assert f": {part}\n" in planned_on_a_node(work, TargetSpec("sample", {"part": part}))
