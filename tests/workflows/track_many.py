"""How long a study of many runs takes to be tracked: python -m tests.workflows.track_many [number of runs]."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from records.study import StudyResults
from tests.workflows.made_up import STUDY, MadeUp
from workflows.tracking.write import track

NUM_SEEDS = 5


def study_of(num_runs: int) -> dict[str, Any]:
    """Half of them numbers, half of them classes, each with its files and its diagram."""
    steps = [600 + 2 * i for i in range(num_runs // (2 * NUM_SEEDS))]
    return STUDY | {
        "seeds": list(range(NUM_SEEDS)),
        "tasks": [
            {"task": "linear", "methods": {"pbnn": {"batch_size": 2, "num_batches": 5, "num_steps": steps}}},
            {"task": "digits", "methods": {"sgld": {"batch_size": 50, "num_steps": steps}}},
        ],
    }


def main(num_runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = MadeUp(Path(folder), study_of(num_runs)).results
        for what in ("new", "again"):
            wall, cpu = time.perf_counter(), time.process_time()
            rows = StudyResults.load(results).rows
            counts = track(f"sqlite:///{results.parent}/mlflow.db", results.name, rows, results)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{len(rows)} runs, {what}: {wall:.1f} s, {cpu:.1f} s of processor time of this process; {counts}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
