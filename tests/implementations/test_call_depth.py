"""How much of the suite a run goes through: what a reader has to follow, from ``sample`` to its draws."""

import sys
from pathlib import Path

from implementations import backends
from implementations.sampling import sample

ROOT = Path(__file__).parents[2]
#: Functions with a name, and the files that they stand in. To be lowered, not raised.
MOST_FUNCTIONS, MOST_FILES = 145, 21


def test_a_run_goes_through_few_functions_in_few_files(problem):
    linear, seen = problem("linear"), set()

    def note(frame, event, _):
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "implementations") and not code.co_name.startswith("<"):
            seen.add((path, code.co_qualname))

    # With the library imported and nothing compiled yet, as in a new process.
    backends.import_library("jax-cpu").loop_of.cache_clear()
    sys.setprofile(note)
    try:
        sample(linear, "pbnn", {"num_steps": 20, "num_warmup": 10, "chains": 2})
    finally:
        sys.setprofile(None)
    assert len(seen) <= MOST_FUNCTIONS
    assert len({path for path, _ in seen}) <= MOST_FILES
