"""How much of the suite a run goes through: what a reader has to follow, from ``sample`` to its draws."""

import sys
from pathlib import Path

from implementations import backends
from implementations.sampling import sample

ROOT = Path(__file__).parents[2]
#: Functions with a name, and the files that they stand in. To be lowered, not raised.
MOST_FUNCTIONS, MOST_FILES = 145, 21


def test_a_run_goes_through_few_functions_in_few_files(problem, compiled_soon):
    linear, codes = problem("linear"), set()
    # With the library imported and nothing compiled yet, as in a new process.
    backends.import_library("jax-cpu").loop_of.cache_clear()
    sys.setprofile(lambda frame, event, _: codes.add(frame.f_code))
    try:
        sample(linear, "pbnn", {"num_steps": 20, "num_warmup": 10, "chains": 2})
    finally:
        sys.setprofile(None)
    of_suite = str(ROOT / "implementations")
    seen = {
        (code.co_filename, code.co_qualname)
        for code in codes
        if code.co_filename.startswith(of_suite) and not code.co_name.startswith("<")
    }
    assert len(seen) <= MOST_FUNCTIONS
    assert len({path for path, _ in seen}) <= MOST_FILES
