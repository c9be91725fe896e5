"""The same step at every N of a study, and the bare reading of its rows, timed in interleaved rounds in one process.

Runs of a study follow each other, and whatever else the machine does meanwhile falls on some of them and not on others.
Their own times therefore say little of how a step's cost grows with the data; ratios of interleaved work do.
Rows of a large data set come from memory and those of a small one from the cache, whatever reads them: that part of
the growth is the machine's, and the bare reading of as many random rows measures it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.stopwatch import Work, by_turns
from benchmarks.work import draw_rows, steps_of
from implementations.backends import BACKENDS, build_sampler, use_one_thread
from implementations.infrastructure.artefact import write_record
from implementations.infrastructure.provenance import git_state, machine
from records.artefacts import load_problem, reason_of
from records.layout import timing_path
from records.usage import metered
from workflows.runs import Run, read_runs

#: Methods whose cost a claim is about.
TIMED = ("pbnn",)
#: Rounds of one step at every N: the median of eleven ratios is not moved by a few that were disturbed.
ROUNDS = 11


class Size(NamedTuple):
    """One of the N at which a step is timed: the run whose step that is, and all runs whose steps are the same."""

    run: Run
    paths: tuple[str, ...]


def timed_sizes(runs: Iterable[Run]) -> dict[str, list[list[Size]]]:
    """What there is to time on each backend: for each step and seed the sizes of the data, ascending, two at least.

    A GPU's work does not show in processor time, and what a pilot run chooses is not known before it.
    """
    families: dict[tuple[object, ...], dict[int, list[Run]]] = {}
    for run in runs:
        if run.method in TIMED and BACKENDS[run.backend][1] == "cpu" and not run.settings.automatic:
            families.setdefault(_step_of(run), {}).setdefault(run.variant.size.num_points, []).append(run)
    found: dict[str, list[list[Size]]] = {}
    for family in families.values():
        if len(family) > 1:
            sizes = [Size(same[0], tuple(run.path for run in same)) for _, same in sorted(family.items())]
            found.setdefault(sizes[0].run.backend, []).append(sizes)
    return found


def _step_of(run: Run) -> tuple[object, ...]:
    """All that a step's cost depends on besides N; and the seed."""
    names = ("batch_size", "num_batches", "variance", "preconditioner", "chains", "dtype")
    work = tuple(getattr(run.settings, name) for name in names)
    return replace(run.variant, num_points=None), run.method, run.backend, run.seed, work


def timed(steps: Mapping[int, Work], readings: Mapping[int, Work]) -> dict[int, dict[str, float]]:
    """Microseconds of a step at each N, and over that at the smallest: the median of the rounds and its quartiles.

    The microseconds are those of the smallest N times the ratio, so that all of them together keep the ratios.
    ``reading`` is what the bare reading of its rows takes longer than at the smallest N, in microseconds.
    """
    seconds = by_turns([*steps.values(), *readings.values()], ROUNDS)
    of_steps, of_readings = seconds[:, : len(steps)], seconds[:, len(steps) :]
    first = 1e6 * float(np.median(of_steps[:, 0]))
    quartiles = np.percentile(of_steps / of_steps[:, :1], [25, 50, 75], axis=0).T
    more = 1e6 * np.median(of_readings - of_readings[:, :1], axis=0)
    return {
        size: {"microseconds": first * ratio, "ratio": ratio, "ratio_low": low, "ratio_high": high, "reading": reading}
        for size, (low, ratio, high), reading in zip(steps, quartiles.tolist(), more.tolist(), strict=True)
    }


def main(results: Path, backend: str) -> None:
    """Write what was measured; where that fails, the reason, and the claim that asks for it says so."""
    with metered(results, "timing"):
        runs: dict[str, dict[str, float]] = {}
        failure = None
        try:
            use_one_thread(backend)
            for sizes in timed_sizes(read_runs(results))[backend]:
                works = [works_of(size.run, results) for size in sizes]
                found = timed(*(dict(enumerate(kind)) for kind in zip(*works, strict=True)))
                runs |= {path: found[number] for number, size in enumerate(sizes) for path in size.paths}
        except Exception as error:
            failure, runs = reason_of(error), {}
        content = {"backend": backend, "runs": runs, **git_state(), **machine()}
        write_record(timing_path(results, backend), "timing", content, failure=failure)


def works_of(run: Run, results: Path) -> tuple[Work, Work]:
    """The step of a run, and the bare reading of as many rows."""
    problem, settings = load_problem(results, run.variant.label, run.seed), run.settings
    sampler = build_sampler(run.backend, problem, run.card, settings)
    start = sampler.start(np.tile(problem.map, (settings.chains, 1)), run.seed)
    sampler.compile(start)
    return steps_of(sampler, start, settings.chains), draw_rows(problem, settings.batch_size * settings.num_batches)
