"""What a step costs as the data grow."""

from collections.abc import Sequence

import numpy as np

from metrics.seeds import Estimate, mean_over_seeds
from reports.evidence import (
    Question,
    Setting,
    ended_well,
    every,
    guarded,
    interval,
    lies_below,
    settings,
    sweeps,
    verdict,
)
from reports.parts import Claim, Evidence, NothingToShow, Verdict
from reports.study import StudyResults

#: A cost that grows as N^0.1 gains a quarter with ten times the data; a pass over the data has the exponent 1.
FLAT = 0.1
#: Data sets closer than this say little about growth.
MIN_RANGE = 10

#: All that a step's cost depends on besides N.
SAME_WORK = (
    "task",
    "stochastic",
    "prior",
    "method",
    "backend",
    "batch_size",
    "num_batches",
    "variance",
    "preconditioner",
    "chains",
    "dtype",
)


def _growth(sweep: Sequence[Setting], column: str) -> Estimate:
    """Exponent b of cost ~ N^b, seed by seed: the slope of the log cost over log N."""
    slopes: dict[int, float | None] = {}
    values = [(np.log(float(one["num_points"])), one.values(column)) for one in sweep]
    for seed in sorted(set().union(*(value for _, value in values))):
        points = [(x, value.get(seed)) for x, value in values]
        complete = np.array([point for point in points if point[1] is not None], dtype=float)
        slopes[seed] = float(np.polyfit(complete[:, 0], complete[:, 1], 1)[0]) if len(complete) == len(values) else None
    return mean_over_seeds(slopes)


def _over_data(found: Sequence[Setting]) -> list[list[Setting]]:
    wide = sweeps(found, "num_points", SAME_WORK)
    return [sweep for sweep in wide if sweep[-1]["num_points"] >= MIN_RANGE * sweep[0]["num_points"]]


@guarded
def _step_does_not_grow(study: StudyResults) -> Verdict:
    found = _over_data([one for one in settings(study, ended_well, method="pbnn") if one["variance"] != "oracle"])
    if not found:
        raise NothingToShow(
            f"Missing runs: {study.name} has no pbnn setting on one task at two N that differ by a factor of "
            f"{MIN_RANGE} or more; the study scaling has such runs"
        )
    evaluations = [_asked(sweep, "log_step_evaluations", "evaluations") for sweep in found]
    seconds = [_asked(sweep, "log_step_seconds", "time") for sweep in found]
    questions = [*evaluations, *seconds]
    contrast = _full_data(study)
    first, sizes = found[0], [one["num_points"] for one in found[0]]
    numbers = (
        f"from N = {sizes[0]:,} to {sizes[-1]:,} on {first[0]['task']}, time grows as N to the power of "
        + "; ".join(interval(one.evidence.value) for one in seconds)
        + f", evaluations to the power of {interval(evaluations[0].evidence.value)}"
        + "".join(f"; {one.label} {interval(one.value)}" for one in contrast[:1])
    )
    return verdict(
        questions,
        [one for sweep in found for one in sweep],
        holds=every(question.holds for question in questions),
        conclusions={
            True: f"A step costs nearly the same however many data there are: {numbers}.",
            False: f"A step costs more with more data: {numbers}.",
        },
        more=contrast,
    )


def _asked(sweep: Sequence[Setting], column: str, name: str) -> Question:
    one = sweep[0]
    label = (
        f"growth exponent of a step's {name}, pbnn n = {one['batch_size']}, M = {one['num_batches']}, {one['backend']}"
    )
    return lies_below(Evidence(label, _growth(sweep, column)), FLAT)


def _full_data(study: StudyResults) -> list[Evidence]:
    """The same for full-data methods, where the study has them."""
    try:
        found = _over_data(settings(study, ended_well, method=["full_mh", "mala"]))
    except NothingToShow:
        return []
    return [
        Evidence(
            f"growth exponent of a step's time, {sweep[0]['method']}, {sweep[0]['backend']}",
            _growth(sweep, "log_step_seconds"),
        )
        for sweep in found
    ]


COST = (
    Claim(
        id=11,
        statement="A step of the penalty method reads n M points, so its cost does not grow with the data.",
        place='Abstract; Introduction; Section "Penalty Bayesian Neural Network Posterior Sampling Algorithm"',
        rule=f"pbnn settings on one task whose N differs by a factor of {MIN_RANGE} or more and all else is equal: "
        f"the exponent of N in the time and in the evaluations of a step lies below {FLAT} (a quarter more for "
        "ten times the data). Not reproduced if one lies above. Chains need not have converged: a step costs the "
        "same wherever it starts.",
        judge=_step_does_not_grow,
    ),
)
