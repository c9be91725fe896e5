"""Before a study runs: how many runs are to do, about how long they take, and what they need of network and disk."""

import os
from collections.abc import Mapping
from pathlib import Path

from workflows.batches import expected_seconds, in_batches
from workflows.progress import in_words
from workflows.runs import Run
from workflows.study import Study

#: Processor seconds that a batch takes besides its runs: imports, compilation and evaluation, in two processes.
OF_A_BATCH = 20.0
#: Bytes of a number of a draw.
NUMBER = 4


def plan_lines(study: Study, results: Path, num_cores: int | None = None) -> list[str]:
    """What a call would do, before it does; ``results`` is the study's folder."""
    cores = num_cores or os.cpu_count() or 1
    waiting = [run for run in study.runs if not (run.folder(results) / "run.json").exists()]
    made = len(study.runs) - len(waiting)
    lines = [f"runs: {len(waiting)} to do" + (f", {made} of {len(study.runs)} done" if made else "")]
    if not waiting:
        return lines
    seconds = sum(map(expected_seconds, waiting)) + OF_A_BATCH * len(in_batches(waiting))
    more = ", references not counted" if any(run.has_reference for run in waiting) else ""
    lines.append(f"time: {in_words(seconds / cores)} on {cores} cores{more}, give or take a factor of three")
    # A device that is missing makes no draws, but that is not known yet.
    lines.append(f"disk: about {_size(sum(map(draw_bytes, waiting)))} of draws in {results}")
    sizes = {run.variant.name: run.variant.definition.fetched_bytes for run in waiting if run.variant.definition.fetch}
    lines.append(f"downloads: {_downloads(sizes)}")
    return lines


def draw_bytes(run: Run) -> int:
    """Of the draws that a run keeps."""
    settings = run.settings
    return settings.chains * (settings.num_steps // settings.thin) * run.variant.size.num_parameters * NUMBER


def _downloads(sizes: Mapping[str, int]) -> str:
    tasks = [f"{name} ({_size(size)})" if size else name for name, size in sorted(sizes.items())]
    return f"the data of {', '.join(tasks)}, unless they are in data/ already" if tasks else "none"


def _size(num_bytes: int) -> str:
    unit, size = next(
        (pair for pair in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)) if num_bytes >= pair[1]), ("bytes", 1)
    )
    return f"{num_bytes / size:.{0 if num_bytes >= 10 * size or size == 1 else 1}f} {unit}"
