"""Seeds as needed: after each look at a study, what its undecided claims rest on gets more seeds, until the last look.

A look is a file that says which settings get more; the runs of a study follow from its own file and from these. The
chance of a wrong verdict is shared by all looks (metrics.looks), so that looking often costs nothing.
"""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from records.layout import read_outcome
from records.study import StudyResults
from reports.judging import verdicts_of
from reports.types import Claim
from workflows.parts import Part, in_parts
from workflows.study import Run, Study


def look_path(results: Path, number: int) -> Path:
    """What the look of this number, from 1, has decided."""
    return results / "looks" / f"look{number}.json"


def added_runs(study: Study, results: Path) -> list[tuple[Run, ...]]:
    """The runs that each look on file has added, one look after the other."""
    found: list[tuple[Run, ...]] = []
    for number in range(1, len(study.looks)):
        content = read_outcome(look_path(results, number))
        if content is None:
            break
        found.append(_added(study, tuple(found), tuple(content["settings"])))
        # Later looks on file are then of an earlier call.
        if not found[-1]:
            break
    return found


@functools.cache
def _added(study: Study, before: tuple[tuple[Run, ...], ...], settings: tuple[str, ...]) -> tuple[Run, ...]:
    """Runs that bring these settings to the seeds of the next look."""
    assert study.plan is not None
    made = Counter(run.setting for runs in (study.runs, *before) for run in runs)
    firsts = {run.setting: run for run in reversed(study.runs) if run.setting in study.growing}
    num_seeds = study.looks[len(before) + 1]
    return tuple(
        replace(firsts[setting], seed=seed)
        for setting in settings
        if setting in firsts
        for seed in study.plan.seeds(made[setting], num_seeds)
    )


def runs_so_far(study: Study, results: Path) -> tuple[Run, ...]:
    """All runs of a study, as far as its looks have been taken."""
    return tuple(run for runs in (study.runs, *added_runs(study, results)) for run in runs)


def later_parts(study: Study, results: Path) -> list[list[Part]]:
    """The parts that each look on file has added."""
    return [in_parts(runs, look) if runs else [] for look, runs in enumerate(added_runs(study, results), start=2)]


def wanting(claims: Sequence[Claim], study: StudyResults) -> tuple[list[int], list[str]]:
    """The claims of which something is not decided for want of seeds, and the settings behind those numbers.

    One without runs needs other things than seeds.
    """
    judged = verdicts_of(claims, study)
    undecided = {claim.id: set(verdict.undecided) for claim, verdict in judged if verdict.undecided}
    used = set().union(*undecided.values())
    settings = (f"{row['variant']}/{row['label']}/{row['backend']}" for row in study.rows if row["run"] in used)
    return list(undecided), list(dict.fromkeys(settings))
