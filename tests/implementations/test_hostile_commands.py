"""Whatever is typed after ``python -m implementations``, the answer is a run or a line that says what is wrong."""

import io
import time
from contextlib import redirect_stderr

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from implementations import __main__ as command
from implementations.backends import BACKENDS
from implementations.methods import ALL_SETTINGS, METHODS
from implementations.tasks import TASKS

#: Of the processor, on a machine that may be busy.
MAX_SECONDS = 10.0
#: What a process can be given: no NUL, and bytes that are no text as Python writes them.
TEXT = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    st.binary(max_size=10).map(lambda content: content.replace(b"\0", b"").decode("utf-8", "surrogateescape")),
)
NUMBERS = st.floats().map(str) | st.integers().map(str) | st.sampled_from(["1e30", "1_0", "１０", "0x10", "-0", ""])
NAMES = [*TASKS, *METHODS, *BACKENDS, "all", "laplace", "data", "batch", "antigravity:CARD", "a.py:CARD", ":", "="]
VALUES = st.sampled_from(NAMES) | NUMBERS | TEXT
OPTIONS = [
    *("--task", "--method", "--backend", "--seed", "--out", "--stochastic", "--prior", "--prior-scale"),
    *("--num-points", "--data", "--checkpoint-seconds", "--overwrite", "--no-audit"),
]
PAIRS = TEXT | st.tuples(st.sampled_from(list(ALL_SETTINGS)) | TEXT, VALUES).map("=".join)


class Reached(Exception):
    """All was checked: what follows is a run."""


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The command up to where its run begins, in an empty folder."""

    def begin(*arguments, **options):
        raise Reached

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("typed"))
        patch.setattr(command, "_problem", begin)
        yield command.main


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@FUZZ
@given(
    words=st.dictionaries(st.sampled_from(OPTIONS), VALUES, max_size=4),
    pairs=st.lists(PAIRS, max_size=3),
    more=st.lists(TEXT, max_size=1),
)
@example(words={"--method": "antigravity:CARD"}, pairs=[], more=[])
@example(words={"--out": "a/\udcff"}, pairs=["chains=1e30"], more=[])
@example(words={}, pairs=["weight=𝟙"], more=[])
def test_anything_typed_is_answered(checked, words, pairs, more):
    usual = {"--task": "linear", "--method": "pbnn", "--out": "out"}
    # As one word, so that a value may begin with a dash.
    typed = [f"{name}={value}" for name, value in (usual | words).items()] + [f"--set={pair}" for pair in pairs]
    # As Python opens it.
    errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    started = time.process_time()
    try:
        with redirect_stderr(errors):
            assert checked([*typed, *more]) == 2
        errors.seek(0)
        (line,) = errors.read().splitlines()
        assert line.startswith("error: ") and len(line) < 1000
    except SystemExit as stopped:
        # What argparse refuses, or its help.
        assert stopped.code in (0, 2)
    except Reached:
        pass
    assert time.process_time() - started < MAX_SECONDS
