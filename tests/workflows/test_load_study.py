"""What a study's file expands to, where its runs go, and what is said about a mistake in it."""

import copy
import itertools
import json
import math
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from implementations.backends import BACKENDS
from implementations.infrastructure.errors import SettingError
from implementations.methods import METHODS
from implementations.settings import SETTINGS
from implementations.tasks import TASKS
from tests.workflows.snakemake import Workdir
from workflows.runs import Variant, read_description, read_runs, runs_path
from workflows.study import MAX_BYTES, SCHEMA, Study, load_study, main

# No deadline: a busy machine is no mistake of the code.
REPEATABLE = settings(derandomize=True, deadline=None)

STUDIES = sorted((SCHEMA.parents[1] / "studies").glob("*.yaml"))

TRIAL = """\
study: trial
description: a trial
seeds: [0, 1]
backends: [jax-cpu, torch-cpu]
chains: 4
defaults: {num_steps: 100, num_warmup: 10, thin: 2}
tasks:
  - task: linear
    methods:
      full_mh: {}
      pbnn: {batch_size: [2, 5], num_batches: 5, step_size: [0.001, 0.01], weight: data}
      naive:
        - {batch_size: 2}
        - {batch_size: 10, weight: batch}
  - task: regression
    stochastic: all
    prior: laplace
    defaults: {thin: 5}
    methods:
      sgld: {batch_size: 5}
"""


@pytest.fixture
def load(tmp_path: Path):
    """Load a study from its text."""

    def load_text(text: str | bytes) -> Study:
        path = tmp_path / "trial.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_study(path)

    return load_text


@pytest.fixture
def mistakes(load, tmp_path: Path):
    """The lines about a study's text, without the file's name that every line starts with."""

    def mistakes_of(text: str | bytes) -> list[str]:
        with pytest.raises(SettingError) as caught:
            load(text)
        prefix = f"{tmp_path / 'trial.yaml'}: "
        lines = str(caught.value).splitlines()
        assert all(line.startswith(prefix) and len(line) < 700 + len(prefix) for line in lines)
        return [line.removeprefix(prefix) for line in lines]

    return mistakes_of


def changed(old: str, new: str) -> str:
    assert TRIAL.count(old) == 1
    return TRIAL.replace(old, new)


# Expansion


def test_lists_expand_to_every_combination_with_every_backend_and_seed(load):
    study = load(TRIAL)
    assert (study.name, study.description) == ("trial", "a trial")
    combinations = [
        "linear/full_mh",
        "linear/pbnn+batch_size=2+num_batches=5+step_size=0.001+weight=data",
        "linear/pbnn+batch_size=2+num_batches=5+step_size=0.01+weight=data",
        "linear/pbnn+batch_size=5+num_batches=5+step_size=0.001+weight=data",
        "linear/pbnn+batch_size=5+num_batches=5+step_size=0.01+weight=data",
        "linear/naive+batch_size=2",
        "linear/naive+batch_size=10+weight=batch",
        "regression-all-laplace/sgld+batch_size=5",
    ]
    copies = ["jax-cpu/seed0", "jax-cpu/seed1", "torch-cpu/seed0", "torch-cpu/seed1"]
    assert [run.path for run in study.runs] == [f"{a}/{b}" for a, b in itertools.product(combinations, copies)]
    assert load(TRIAL) == study


def test_a_run_carries_what_its_path_says_and_the_defaults(load):
    run = load(TRIAL).runs[9]
    assert run.path == "linear/pbnn+batch_size=2+num_batches=5+step_size=0.01+weight=data/jax-cpu/seed1"
    assert (run.variant, run.method, run.backend, run.seed) == (Variant("linear"), "pbnn", "jax-cpu", 1)
    assert run.settings.as_dict() == {
        "batch_size": 2,
        "num_batches": 5,
        "step_size": 0.01,
        "weight": "data",
        "variance": "batches",
        "preconditioner": "full",
        "num_steps": 100,
        "num_warmup": 10,
        "thin": 2,
        "chains": 4,
        "dtype": "float32",
    }


def test_an_entry_overrides_its_tasks_defaults_and_those_the_studys(load):
    text = changed("sgld: {batch_size: 5}", "sgld: [{batch_size: 5}, {batch_size: 5, thin: 10, chains: 2}]")
    thinning = {run.label: (run.settings.thin, run.settings.chains) for run in load(text).runs}
    assert thinning["full_mh"] == (2, 4)
    assert thinning["sgld+batch_size=5"] == (5, 4)
    assert thinning["sgld+batch_size=5+thin=10+chains=2"] == (10, 2)


def test_a_default_reaches_only_the_methods_that_have_the_setting(load):
    text = changed("thin: 2}", "thin: 2, num_batches: 3, decay: 0.5}")
    by_label = {run.label: run.settings for run in load(text).runs}
    assert (by_label["full_mh"].num_batches, by_label["full_mh"].decay) == (None, None)
    assert by_label["naive+batch_size=2"].num_batches == 3
    assert by_label["sgld+batch_size=5"].decay == 0.5


def test_the_default_step_follows_the_number_of_stochastic_parameters(load):
    text = changed("sgld: {batch_size: 5}", "full_mh:")
    # A weight and a bias for each of 20 hidden units, then 21 of the last layer; the optimal scale is 2.38 / sqrt(d).
    assert load(text).runs[-1].settings.step_size == pytest.approx(2.38**2 / (2 * (20 * 2 + 21)))


def test_the_nearest_seeds_and_backends_win(load):
    text = changed("stochastic: all", "seeds: [7]\n    stochastic: all")
    text += "      ula: {seeds: [8, 9], backends: [jax-gpu]}\n"
    paths = [run.path.split("/", 1)[1] for run in load(text).runs if run.variant.task == "regression"]
    assert paths == [
        "sgld+batch_size=5/jax-cpu/seed7",
        "sgld+batch_size=5/torch-cpu/seed7",
        "ula/jax-gpu/seed8",
        "ula/jax-gpu/seed9",
    ]


def test_a_task_or_a_whole_study_may_do_without_references(load):
    assert all(run.has_reference for run in load(TRIAL).runs)
    of_a_task = load(changed("stochastic: all", "reference: none\n    stochastic: all")).runs
    assert {run.variant.task for run in of_a_task if not run.has_reference} == {"regression"}
    assert not any(run.has_reference for run in load(f"reference: none\n{TRIAL}").runs)
    # Where its files are does not depend on it.
    assert [run.path for run in of_a_task] == [run.path for run in load(TRIAL).runs]


#: What is written instead of what in TRIAL, and means the same.
SAME = {
    "keys of an entry in another order": ("{batch_size: 10, weight: batch}", "{weight: batch, batch_size: 10}"),
    "no settings at all": ("full_mh: {}", "full_mh:"),
    "the same number of chains twice": ("thin: 2}", "thin: 2, chains: 4}"),
    "a merged key": ("{batch_size: 10, weight: batch}", "{<<: {weight: batch}, batch_size: 10}"),
    **{f"a number as {one}": ("[0.001,", f"[{one},") for one in ("1E-3", "1.e-3", "'0.001'", ".001", "+1e-3")},
}


@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same_is_the_same_study(load, name):
    assert load(changed(*SAME[name])) == load(TRIAL)


@REPEATABLE
@given(
    axes=st.dictionaries(
        st.sampled_from(["batch_size", "step_size", "thin", "weight"]),
        st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    ),
    seeds=st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True),
)
def test_the_number_of_runs_is_the_product_of_the_lists_and_the_paths_distinguish_them(tmp_path_factory, axes, seeds):
    path = tmp_path_factory.mktemp("grid") / "trial.yaml"
    content = yaml.safe_load(TRIAL) | {"seeds": seeds, "tasks": [{"task": "regression", "methods": {"sgld": axes}}]}
    path.write_text(yaml.safe_dump(content))
    study = load_study(path)
    assert (
        len(study.runs) == len({run.path for run in study.runs}) == 2 * len(seeds) * math.prod(map(len, axes.values()))
    )
    for run in study.runs:
        assert all(run.settings.as_dict()[name] in values for name, values in axes.items())


def test_a_task_with_more_points_takes_larger_batches_and_its_own_number_of_points_is_no_variant(load):
    text = changed("task: linear", "task: linear\n    num_points: 1e4").replace("[2, 5], num", "[2, 500], num")
    assert {run.variant.definition.num_points for run in load(text).runs if run.variant.task == "linear"} == {10000}
    runs = load(changed("task: linear", "task: linear\n    num_points: 100")).runs
    assert {run.variant.label for run in runs} == {"linear", "regression-all-laplace"}


# Paths


@pytest.mark.parametrize(
    ("variant", "label"),
    [
        (Variant("regression"), "regression"),
        (Variant("regression", "all"), "regression-all"),
        (Variant("regression", "all", "laplace", 0.5), "regression-all-laplace-scale0.5"),
        (Variant("linear", prior_scale=10.0, num_points=10000), "linear-scale10-points10000"),
        (Variant("mnist", num_points=10000, num_epochs=60), "mnist-points10000-epochs60"),
        (Variant("regression", fresh_points=400), "regression-fresh400"),
    ],
)
def test_a_variant_of_a_task_has_its_own_label(variant, label):
    assert variant.label == label


def test_a_shell_and_snakemake_take_every_path_as_it_is(load):
    text = changed("[0.001, 0.01]", "[1e-7, 0.1, 12345678.5, 1e20]")
    text = text.replace("prior: laplace", "prior: laplace\n    prior_scale: 1e-5")
    runs = load(text).runs
    assert all(shlex.quote(run.path) == run.path and "," not in run.path for run in runs)


# Typed rows


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_what_is_read_from_the_parquet_file_are_the_runs_of_the_study(tmp_path, path):
    study = load_study(path)
    study.write(tmp_path)
    # Types too: a weight of 1.0 is another folder than one of 1.
    assert repr(read_runs(tmp_path)) == repr(list(study.runs))
    assert read_description(tmp_path) == study.description
    batches = [read_runs(tmp_path, batch=batch.name) for batch in study.batches]
    assert batches == [list(batch.runs) for batch in study.batches]


def test_words_and_numbers_of_a_setting_have_columns_of_their_own(tmp_path, load):
    text = changed("weight: batch}", "weight: [1.5, batch], step_size: auto, num_warmup: 100}")
    study = load(text + "      sghmc: {friction: 0.25, batch_size: 5}\n")
    study.write(tmp_path)
    assert read_runs(tmp_path) == list(study.runs)
    rows = {row["run"]: row for row in pq.read_table(runs_path(tmp_path)).to_pylist()}
    row = rows["linear/naive+batch_size=10+step_size=auto+weight=1.5+num_warmup=100/jax-cpu/seed0"]
    assert (row["weight"], row["weight_word"], row["step_size_word"], row["target_weight"]) == (1.5, None, "auto", 1.5)
    assert row["step_size"] is None
    row = rows["regression-all-laplace/sghmc+batch_size=5+friction=0.25/torch-cpu/seed1"]
    assert json.loads(row["own_settings"]) == {"friction": 0.25}
    assert row["reference"] == "references/regression-all-laplace/weight5/seed1/reference.npz"


def test_a_study_that_has_not_changed_is_not_written_again(tmp_path, load):
    load(TRIAL).write(tmp_path)
    written = runs_path(tmp_path).stat().st_mtime_ns
    load(f"# A comment.\n{TRIAL}").write(tmp_path)
    assert runs_path(tmp_path).stat().st_mtime_ns == written
    load(changed("seeds: [0, 1]", "seeds: [0, 2]")).write(tmp_path)
    assert runs_path(tmp_path).stat().st_mtime_ns != written


# Mistakes

WORD = "is not a number or word, or a list of one or more of them"
GRID = "is not a grid of settings ({} for none)"
#: What is changed in TRIAL, and the beginning of every line about it.
MISTAKES = [
    ("seeds: [0, 1]", "seed: [0, 1]", "seed: no key 'seed'; did you mean 'seeds'?\nthe key 'seeds' is missing"),
    ("    stochastic: all", "    stochastics: all", "tasks[1].stochastics: no key 'stochastics'; did you mean"),
    ("weight: data}", "wieght: data}", "tasks[0].methods.pbnn.wieght: no setting 'wieght'; did you mean 'weight'?"),
    ("defaults: {thin: 5}", "defaults: {thim: 5}", "tasks[1].defaults.thim: no setting 'thim'; did you mean 'thin'?"),
    ("full_mh: {}", "full_mh: {batch_size: 2}", "tasks[0].methods.full_mh.batch_size: no setting 'batch_size'; valid:"),
    ("task: linear", "task: liner", "tasks[0].task: no task 'liner'; did you mean 'linear'?"),
    ("full_mh: {}", "pbn: {}", "tasks[0].methods.pbn: no method 'pbn'; did you mean 'pbnn'?"),
    ("torch-cpu]", "torch-cup]", "backends[1]: no backend 'torch-cup'; did you mean 'torch-cpu'?"),
    ("prior: laplace", "prior: laplac", "tasks[1].prior: no prior 'laplac'; did you mean 'laplace'?"),
    ("full_mh: {}", "nowhere.stray:CARD: {}", "tasks[0].methods: No module named 'nowhere.stray'"),
    ("task: linear\n", "task: linear\n    stochastic: all\n", "tasks[0].stochastic: 'linear' has one layer"),
    (
        "weight: data}",
        "variance: batch}",
        "tasks[0].methods.pbnn.variance: no variance 'batch'; did you mean 'batches'?",
    ),
    ("[0.001, 0.01]", "[0.01, -1e-3]", "tasks[0].methods.pbnn.step_size[1]: step_size = -0.001 must be positive"),
    ("[0.001, 0.01]", "small", "tasks[0].methods.pbnn.step_size: step_size = 'small' is not 'auto', 'ladder' or a"),
    ("[0.001, 0.01]", "true", f"tasks[0].methods.pbnn.step_size: True {WORD}"),
    ("[0.001, 0.01]", "[0.01, '0.010']", "tasks[0].methods.pbnn.step_size[1]: step_size = '0.010' stands twice"),
    ("[2, 5], num", "2.5, num", "tasks[0].methods.pbnn.batch_size: batch_size = 2.5 is not a whole number"),
    ("{batch_size: 2}", "{batch_size: 101}", "tasks[0].methods.naive[0]: naive: batch_size = 101 exceeds the 100"),
    ("[2, 5], num", "[2, 50], num", "tasks[0].methods.pbnn: pbnn: num_batches × batch_size = 250 exceeds the 100"),
    ("prior: laplace", "prior_scale: 0", "tasks[1].prior_scale: prior_scale = 0 must be positive"),
    ("prior: laplace", "prior_scale: .nan", "tasks[1].prior_scale: prior_scale = '.nan' is not a number"),
    ("task: linear", "task: digits\n    num_points: 50", "tasks[0].num_points: num_points = 50: 'digits' always has"),
    ("task: linear", "task: digits\n    fresh_points: 50", "tasks[0].fresh_points: fresh_points = 50: no distribution"),
    ("thin: 2}", "thin: [2, 3]}", "defaults.thin: [2, 3] is not a single number or word; a list belongs in a method's"),
    ("full_mh: {}", "full_mh: 3", f"tasks[0].methods.full_mh: 3 {GRID}"),
    ("chains: 4", "chains: 4\nreference: exact", "reference: 'exact' is not the word none."),
    ("chains: 4", "chains: 0", "chains: chains = 0 must be at least 1"),
    ("chains: 4", "chains: 1_0", "chains: chains = '1_0' is not a whole number"),
    ("thin: 2}", "thin: 2, chains: 2}", "chains: differs from defaults.chains, 2; drop one"),
    ("seeds: [0, 1]", "seeds: [0, 0]", "seeds: [0, 0] is not a list of one or more whole numbers, each once"),
    ("seeds: [0, 1]", "seeds: [1:30]", "seeds[0]: '1:30' is not a whole number from 0 to 2147483647"),
    ("torch-cpu]", "jax-cpu]", "backends: ['jax-cpu', 'jax-cpu'] is not a list of one or more backends, each once"),
    ("study: trial", "study: a/b", "study: 'a/b' is not the name of a folder below results/"),
    ("description: a trial", "description: |\n  a\n  trial", r"description: 'a\ntrial\n' is not one line of text"),
    ("description: a trial", r'description: "\ud800"', r"description: '\ud800' is not one line of text"),
    (
        "full_mh: {}",
        r'full_mh: {"\ud800": 1}',
        r"tasks[0].methods.full_mh'.\ud800': no setting '\ud800'; valid: step_size",
    ),
    ("chains: 4", "chains: 4\nchains: 5", "line 6, column 1: the key 'chains' stands twice"),
    ("full_mh: {}", "full_mh: {}\n      full_mh: {thin: 1}", "line 11, column 7: the key 'full_mh' stands twice"),
    ("full_mh: {}", "full_mh: {", "line 12, column 7: while parsing a flow mapping, expected ',' or '}'"),
    ("full_mh: {}", "full_mh: !!python/object/apply:os.system ['true']", "line 10, column 16: could not determine a"),
    ("chains: 4", "chains: !!bool abc", "is not YAML: 'abc'"),
    (
        "- {batch_size: 2}\n",
        "- {batch_size: 2}\n        - {batch_size: [1, 2]}\n",
        "tasks[0].methods.naive[1]: shares the path linear/naive+batch_size=2/jax-cpu/seed0 with",
    ),
    (
        "- {batch_size: 2}\n",
        "- {batch_size: 2}\n        - {batch_size: 2, weight: data}\n",
        "tasks[0].methods.naive[1]: linear/naive+batch_size=2+weight=data/jax-cpu/seed0 is the same run as",
    ),
    (
        "pbnn: {batch_size: [2, 5], num_batches: 5, step_size: [0.001, 0.01], weight: data}",
        f"mala: {{step_size: {list(range(1, 101))}, thin: {list(range(1, 101))}, num_steps: {list(range(101, 201))}}}",
        "tasks[0].methods.mala: more than 20,000 runs up to here; split the study, or drop values",
    ),
]


@pytest.mark.parametrize(("old", "new", "lines"), MISTAKES, ids=lambda text: text[:40])
def test_a_mistake_is_reported_with_its_key_value_and_way_out(mistakes, old, new, lines):
    found, expected = mistakes(changed(old, new)), lines.splitlines()
    assert len(found) == len(expected)
    assert all(one.startswith(beginning) for one, beginning in zip(found, expected, strict=True)), found


@pytest.mark.parametrize("name", ["", "..", "../up", "a b", "Paper", "-x", "x" * 65, "baselines", "x\n", 7])
def test_a_study_name_unfit_for_a_folder_is_refused(mistakes, name):
    (line,) = mistakes(changed("study: trial", f"study: {json.dumps(name)}"))
    assert "is not the name of a folder below results/" in line


@pytest.mark.parametrize("text", ["", "- a", "trial", "42"])
def test_a_file_that_is_no_mapping_is_refused(mistakes, text):
    (line,) = mistakes(text)
    assert line.startswith(f"{yaml.safe_load(text)!r} is not a study, that is a mapping with at least study")


def test_every_mistake_of_a_file_is_reported_at_once_and_a_long_list_is_cut(mistakes):
    text = changed("chains: 4", "chains: -4").replace("task: regression", "task: regresion")
    text = text.replace("[0.001, 0.01]", "[0, x]").replace("batch_size: 10,", "batchsize: 10,")
    assert mistakes(text) == [
        "chains: chains = -4 must be at least 1",
        "tasks[0].methods.pbnn.step_size[0]: step_size = 0 must be positive",
        "tasks[0].methods.pbnn.step_size[1]: step_size = 'x' is not 'auto', 'ladder' or a number",
        "tasks[0].methods.naive[1].batchsize: no setting 'batchsize'; did you mean 'batch_size'?",
        "tasks[1].task: no task 'regresion'; did you mean 'regression'?",
    ]
    lines = mistakes(changed("{batch_size: 2}", f"{{batch_size: {list(range(101, 151))}}}"))
    assert len(lines) == 21
    assert lines[-1] == "and 30 more"


def test_a_mistyped_file_is_reported_with_the_nearest(tmp_path):
    (tmp_path / "paper.yaml").write_text(TRIAL)
    with pytest.raises(SettingError, match=r"paper\.yml: no study file 'paper\.yml'; did you mean 'paper\.yaml'\?"):
        load_study(tmp_path / "paper.yml")
    with pytest.raises(SettingError, match="cannot be read: Is a directory"):
        load_study(tmp_path)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"#" * (MAX_BYTES + 1), "is larger than 100,000 bytes, which is more than a study needs"),
        ("study: café".encode("latin-1"), "is not UTF-8 text; save it as UTF-8"),
        (TRIAL.encode("utf-16"), "is not UTF-8 text; save it as UTF-8"),
        (b"[" * MAX_BYTES, "is not YAML: maximum recursion depth exceeded"),
        (b"a: &a [*a]", "a: no key 'a'; valid: study"),
    ],
)
def test_a_file_that_is_no_study_at_all_is_answered_in_a_line(mistakes, content, line):
    assert any(line in one for one in mistakes(content))


@pytest.mark.parametrize("text", ["9" * 90_000, "9" * 90_000 + "x", "." * 90_000, "1e" * 45_000, "-" + "0." * 45_000])
def test_a_long_number_is_read_in_a_moment(mistakes, text):
    # Of the processor, because the machine may have other things to do. A pattern that backtracks takes over a minute.
    start = time.process_time()
    mistakes(changed("chains: 4", f"chains: {text}"))
    assert time.process_time() - start < 2


def places(content, place=()):
    yield place
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from places(value, (*place, key))


NUMBERS_AND_WORDS = [None, True, -1, 0, 10**400, math.inf, math.nan, "", "x", "data", b"x", ":", "a.py:X"]
LISTS_AND_MAPPINGS = [[], {}, [[]], [{}], [None, None], ["x", "x"], {"x": 1}, {1: {}}, {None: []}, {"seeds": {}}]
JUNK = st.sampled_from([*NUMBERS_AND_WORDS, *LISTS_AND_MAPPINGS])


@REPEATABLE
@given(place=st.sampled_from(list(places(yaml.safe_load(TRIAL)))), junk=JUNK, is_key=st.booleans())
def test_whatever_is_in_a_study_the_answer_is_a_study_or_a_setting_error(tmp_path_factory, place, junk, is_key):
    content = {"top": copy.deepcopy(yaml.safe_load(TRIAL))}
    *above, last = ("top", *place)
    parent = content
    for key in above:
        parent = parent[key]
    if is_key and isinstance(parent, dict):
        parent["junk"] = junk
    else:
        parent[last] = junk
    path = tmp_path_factory.mktemp("junk") / "trial.yaml"
    path.write_text(yaml.safe_dump(content["top"]))
    try:
        runs = load_study(path).runs
    except SettingError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert all(shlex.quote(run.path) == run.path for run in runs)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="abc01:-[]{}&*!|>%@`'\"#,?. \n\t\\~<=é１\u2028\x00", max_size=300))
def test_any_text_is_answered(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text)
    with pytest.raises(SettingError, match=r"any\.yaml: "):
        load_study(path)


# The schema


def subschemas(schema):
    """Every part of a schema that says of what type a value is."""
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str | list):
            yield schema
        for part in schema.values():
            yield from subschemas(part)


def test_the_schema_is_one_describes_every_key_and_repeats_no_name_of_a_table():
    schema = yaml.safe_load(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    for part in [*subschemas(schema), *schema["$defs"].values()]:
        assert part["description"], part
    keys = {place[-1] for place in places(schema) if place}
    assert "enum" not in keys
    assert keys & {*SETTINGS, *TASKS, *METHODS, *BACKENDS} == {"chains"}


def test_a_new_method_needs_no_change_here(load, monkeypatch):
    monkeypatch.setitem(METHODS, "brand_new", replace(METHODS["pbnn"], name="brand_new"))
    runs = load(changed("full_mh: {}", "brand_new: {batch_size: 3}")).runs
    assert runs[0].path == "linear/brand_new+batch_size=3/jax-cpu/seed0"


# The command, and what it costs


def test_the_command_counts_the_runs_of_each_method_and_task(tmp_path, capsys):
    (tmp_path / "trial.yaml").write_text(TRIAL)
    assert main([str(tmp_path / "trial.yaml")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "trial: a trial",
        "",
        "method   linear  regression-all-laplace  all",
        "full_mh       4                       -    4",
        "naive         8                       -    8",
        "pbnn         16                       -   16",
        "sgld          -                       4    4",
        "all          28                       4   32",
    ]


def test_the_command_reports_a_mistake_without_a_traceback(tmp_path):
    path = tmp_path / "trial.yaml"
    path.write_text(changed("task: linear", "task: liner"))
    result = subprocess.run(
        [sys.executable, "-m", "workflows.study", str(path)], cwd=SCHEMA.parents[2], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"{path}: tasks[0].task: no task 'liner'; did you mean 'linear'?\n"


def test_reading_a_study_imports_nothing_heavy():
    heavy = "{'torch', 'jax', 'pandas', 'scipy', 'sklearn', 'mlflow', 'matplotlib', 'snakemake'}"
    code = f"import sys, workflows.study; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=SCHEMA.parents[2], text=True) == "[]\n"


def test_two_thousand_runs_are_read_in_less_than_two_seconds(load):
    steps = [round(0.0001 * number, 4) for number in range(1, 101)]
    text = changed("seeds: [0, 1]", "seeds: [0, 1, 2, 3, 4]").replace("[0.001, 0.01]", str(steps))
    start = time.process_time()
    runs = load(text).runs
    assert time.process_time() - start < 2
    assert len(runs) == 10 * (1 + 200 + 2 + 1)


# The studies of the suite


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_of_the_suite_is_valid_and_named_like_its_file(path):
    assert load_study(path).name == path.stem


#: Runs at the start of every Python process: notes each time that the suite opens the study's file.
WATCHER = """
import os, sys

def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith("study.yaml"):
        frame = sys._getframe(1)
        while frame and not frame.f_code.co_filename.endswith("workflows/study.py"):
            frame = frame.f_back
        if frame:
            with open(os.environ["NOTES"], "a") as file:
                file.write(f"{frame.f_code.co_name}\\n")

sys.addaudithook(note)
"""


@pytest.mark.slow
def test_one_call_of_snakemake_reads_the_study_once_with_all_its_jobs(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(WATCHER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    study = yaml.safe_load(TRIAL) | {
        "backends": ["torch-cpu"],
        "tasks": [{"task": "linear", "methods": {"full_mh": {}}}],
    }
    code, output = Workdir(tmp_path / "work", study).run()
    assert code == 0, output
    assert (tmp_path / "notes").read_text().split() == ["read_yaml"]
