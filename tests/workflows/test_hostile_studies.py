"""Whatever a study's file holds, the answer is a study or a line that names the file and the fault, in a moment."""

import gc
import os
import shlex
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from implementations.infrastructure.errors import SettingError
from implementations.settings import SETTINGS
from workflows.grid import load_study
from workflows.study_file import MAX_BYTES, MAX_RUNS

STUDY = {
    "study": "hostile",
    "description": "a trial",
    "seeds": [0],
    "backends": ["jax-cpu"],
    "tasks": [{"task": "linear", "methods": {"full_mh": {}}}],
}
HEAD = "study: hostile\ndescription: a trial\nseeds: [0]\nbackends: [jax-cpu]\n"
#: Of the processor. A file of the largest size that is nothing but brackets takes a tenth of it, on a busy machine a
#: fifth; work that grows faster than the file would take minutes.
MAX_SECONDS = 10.0


@pytest.fixture(scope="module", autouse=True)
def no_burden():
    """What other tests have left in the process is not looked through while these are timed."""
    gc.freeze()
    yield
    gc.unfreeze()


def answer(path: Path, content: bytes) -> list[str]:
    """What is said about a file, without its name; nothing of a good one."""
    path.write_bytes(content)
    started = time.process_time()
    try:
        runs = load_study(path).runs
    except SettingError as error:
        lines = str(error).splitlines()
        assert lines and all(line.startswith(f"{path}: ") for line in lines)
        assert max(map(len, lines)) < 700 + len(str(path)) and len(lines) <= 21
        return [line.removeprefix(f"{path}: ") for line in lines]
    else:
        assert runs and all(shlex.quote(run.path) == run.path and len(run.path) < 1000 for run in runs)
        return []
    finally:
        assert time.process_time() - started < MAX_SECONDS


@pytest.fixture
def said(tmp_path):
    """What is said about a study with these keys beside or over the usual ones, or about a text."""

    def said(content: object) -> list[str]:
        text = content if isinstance(content, str | bytes) else yaml.safe_dump(STUDY | content)
        return answer(tmp_path / "study.yaml", text if isinstance(text, bytes) else text.encode())

    return said


def aliases(width: int, depth: int) -> str:
    """Lists of lists, each of ``width`` times the one before: width^depth values on a page."""
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, depth)]
    return "\n".join(lines)


SAID = {
    "an alias bomb": (aliases(9, 9), "has more than 10,000 keys and values, counting what aliases stand for"),
    "a list that holds itself": ("a: &a [*a]", "is nested deeper than 20 levels"),
    "brackets": ("[" * MAX_BYTES, "is nested deeper than 20 levels"),
    "many keys": ("".join(f"k{n}: 1\n" for n in range(10_000)), "has more than 10,000 keys and values"),
    "a large file": (b"#" * (MAX_BYTES + 1), "is larger than 100,000 bytes"),
    "Latin-1": ("study: café".encode("latin-1"), "line 1: is not UTF-8 text; save it as UTF-8"),
    "UTF-16": (HEAD.encode("utf-16"), "line 1: is not UTF-8 text; save it as UTF-8"),
    "a bool that is none": ("chains: !!bool abc", "line 1, column 9: 'abc' is not a valid bool"),
    "a timestamp that is none": ("chains: !!timestamp abc", "line 1, column 9: 'abc' is not a valid timestamp"),
    "an int that is none": ("chains: !!int ''", "line 1, column 9: '' is not a valid int"),
    "a number of 5,000 digits": (f"chains: {'9' * 5000}", "is not a valid int"),
    "an object": ("chains: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "10,000 seeds": ({"seeds": list(range(10_000))}, "has more than 10,000 keys and values"),
    "millions of combinations": (
        {
            "tasks": [
                {
                    "task": "linear",
                    "methods": {"mala": {name: list(range(1, 101)) for name in ("step_size", "thin", "num_steps")}},
                }
            ]
        },
        f"tasks[0].methods.mala: more than {MAX_RUNS:,} runs up to here; split the study, or drop values",
    ),
    "many chains": ({"chains": 1e30}, "chains: chains = 1e+30 must be at most 1e+12"),
    "a blank description": ({"description": "  "}, "description: '  ' is not one line of text"),
    "underscores": ({"chains": "1_0"}, "chains: chains = '1_0' is not a whole number"),
    "full-width digits": ({"chains": "１０"}, "chains: chains = '１０' is not a whole number"),
    "base sixty": (HEAD.replace("[0]", "[1:30]") + "tasks: []", "seeds[0]: '1:30' is not a whole number"),
    "another base": (HEAD.replace("[0]", "[0x10]") + "tasks: []", "seeds[0]: '0x10' is not a whole number"),
    "two numbers of chains": (
        {"chains": 4, "defaults": {"chains": 2}},
        "chains: differs from defaults.chains, 2; drop one",
    ),
    "a huge prior": (
        {"tasks": [{"task": "linear", "prior_scale": 1e308, "methods": {"full_mh": {}}}]},
        "tasks[0].prior_scale: prior_scale = 1e+308 must be at most 1e+18",
    ),
    "a key of control characters": ({"\x1b[2J": 1}, r"'.\x1b[2J': no key '\x1b[2J'"),
    "a method of no file": (
        {"tasks": [{"task": "linear", "methods": {"\x00:CARD": {}}}]},
        r"no method '\x00:CARD'",
    ),
    "a long value": ({"backends": ["x" * 50_000]}, "backends[0]: no backend 'xxxx"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_hostile_study_is_answered_in_a_line(said, name):
    content, expected = SAID[name]
    assert any(expected in line for line in said(content)), said(content)


def test_the_same_number_of_chains_twice_is_no_mistake(said):
    assert said({"chains": 4, "defaults": {"chains": 4}}) == []


def test_short_aliases_and_merged_keys_are_fine(said):
    methods = "{mala: &grid {thin: 2}, ula: {<<: *grid, chains: 3}}"
    assert said(HEAD + f"tasks: [{{task: linear, methods: {methods}}}]") == []


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "study.yaml")
    with pytest.raises(SettingError, match=r"study\.yaml: is not a file"):
        load_study(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    "piece",
    ["[0, ", "a: ", "- ", "? ", "&a ", "!", "'", "x\n", "{a: ", "|\n", "%", "*a ", "k: 1\n", "\t", "#\n", "[]\n"],
)
def test_a_file_full_of_anything_is_answered_in_a_moment(said, piece):
    said((piece * MAX_BYTES)[:MAX_BYTES])


# Fuzzing: structures near those of a study, text near YAML, and bytes

WORDS = [
    "linear",
    "full_mh",
    "pbnn",
    "jax-cpu",
    "data",
    "last",
    "all",
    *STUDY,
    *SETTINGS,
    "defaults",
    "methods",
    "task",
]
SCALARS = st.one_of(
    st.sampled_from(WORDS), st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | SCALARS, inner, max_size=4),
    max_leaves=20,
)
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "study.yaml"


@FUZZ
@given(content=VALUES)
def test_any_structure_is_answered(path, content):
    answer(path, yaml.dump(content, Dumper=yaml.Dumper).encode("utf-8", "surrogatepass"))


@FUZZ
@given(
    keys=st.dictionaries(st.sampled_from([*STUDY, "chains", "defaults"]), VALUES, max_size=2),
    entry=st.dictionaries(
        st.sampled_from(["task", "methods", "seeds", "defaults", "prior", "prior_scale", "num_points"]),
        VALUES,
        max_size=2,
    ),
    grid=st.dictionaries(st.sampled_from([*SETTINGS, "seeds"]), VALUES, max_size=3),
)
def test_a_study_with_anything_in_a_place_is_answered(path, keys, entry, grid):
    usual = {"task": "linear", "methods": {"pbnn": grid}}
    content = STUDY | {"tasks": [usual | entry]} | keys
    answer(path, yaml.dump(content, Dumper=yaml.Dumper).encode("utf-8", "surrogatepass"))


@FUZZ
@given(text=st.text(alphabet="abc01:-[]{}&*!|>%@`'\"#,?. \n\t\\~<=é１\u2028\x00", max_size=300))
@example(text="!!python/name:os.system")
@example(text="a: !!binary é")
@example(text="!!omap [a: 1, a: 2]")
@example(text="!!set {[]: 1}")
def test_any_text_is_answered(path, text):
    answer(path, text.encode())


@FUZZ
@given(content=st.binary(max_size=500))
def test_any_bytes_are_answered(path, content):
    answer(path, content)
