"""A disk that is full in the middle of a study, and has room again for the next call."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.workflows.snakemake import Workdir

#: A run whose draws are small, and one whose draws are larger than a file may be.
STUDY = {
    "study": "full",
    "description": "a run that fits and one that does not",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "chains": 2,
    "defaults": {"preconditioner": "none", "num_steps": 200, "num_warmup": 0, "thin": 1},
    "tasks": [
        {
            "task": "linear",
            "methods": {
                "full_mh": {"step_size": 0.005},
                "naive": {"batch_size": 2, "step_size": 0.0002, "chains": 1000},
            },
        }
    ],
}
FITS = "linear/full_mh+step_size=0.005/torch-cpu/seed0"
LARGE = "linear/naive+batch_size=2+step_size=0.0002+chains=1000/torch-cpu/seed0"
#: 200 draws of 2 parameters in 1000 chains are 1.6 MB, and every other file of the study is well below.
ROOM = 1_000_000
#: What is made of the summary takes its time, and trying once is enough.
PART = "results/full/batches/linear/torch-cpu/batch0/sampled.json"
UP_TO_THE_SUMMARY = ("--retries", "0", PART, "results/full/summary.csv")

pytestmark = pytest.mark.slow


@contextmanager
def little_room() -> Iterator[None]:
    """Processes started in the block cannot write beyond ``ROOM`` bytes of a file.

    The kernel refuses such a write in the middle, as it does on a full disk; unlike a small disk, this takes no
    privileges.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_and_the_next_call_makes_what_did_not_fit_and_nothing_else(tmp_path):
    # What does not fit must not be left to other tests.
    work = Workdir(tmp_path / "work", STUDY, shares_compiled=False)
    with little_room():
        process = work.start(*UP_TO_THE_SUMMARY)
    code, output = work.end(process)

    assert code == 1
    closing = output.partition("full: ")[2]
    # Not a row that failed: a disk says nothing about a method.
    assert closing.startswith("0 of 2 runs ok\n")
    assert "1 missing: not finished; the end of its log: OSError: [Errno 27] File too large" in closing
    assert f"    {LARGE}\n" in closing
    assert closing.rstrip().endswith("the same command makes what is missing or failed once more, and nothing else")
    runs = work.results / "runs"
    assert [path.name for path in (runs / LARGE).iterdir() if "draws" in path.name] == []
    finished_at = (runs / FITS / "draws.npz").stat().st_mtime_ns

    code, output = work.run(*UP_TO_THE_SUMMARY)
    assert code == 0, output
    assert "full: 2 of 2 runs ok" in output
    assert (runs / FITS / "draws.npz").stat().st_mtime_ns == finished_at
    with np.load(runs / LARGE / "draws.npz") as archive:
        assert archive["draws"].shape == (1000, 200, 2)
