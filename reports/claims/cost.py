"""What a step costs as the data grow."""

from collections.abc import Sequence

import numpy as np

from metrics.seeds import Estimate, mean_over_seeds
from records.display import format_estimate, format_name, method_name
from records.setting_runs import SettingRuns, sweeps
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.evidence import ended_well, settings
from reports.questions import Question, lies_below
from reports.types import NOT_REPRODUCED, REPRODUCED, Claim, Evidence, NotAsked, NothingToShow, Verdict
from reports.verdicts import Part, guarded, judge_parts

#: All that a step's cost depends on besides N.
SAME_WORK = (
    "task",
    "num_epochs",
    "fresh_points",
    "stochastic",
    "prior",
    "prior_scale",
    "method",
    "backend",
    "batch_size",
    "num_batches",
    "variance",
    "preconditioner",
    "chains",
    "dtype",
)


def growth(sweep: Sequence[SettingRuns], column: str) -> Estimate:
    """Exponent b of cost ~ N^b, seed by seed: the slope of the log cost over log N."""
    slopes: dict[int, float | None] = {}
    values = [(np.log(float(one["num_points"])), one.values(column)) for one in sweep]
    for seed in sorted(set().union(*(value for _, value in values))):
        points = [(x, value.get(seed)) for x, value in values]
        complete = np.array([point for point in points if point[1] is not None], dtype=float)
        slopes[seed] = float(np.polyfit(complete[:, 0], complete[:, 1], 1)[0]) if len(complete) == len(values) else None
    return sweep[0].behind(mean_over_seeds(slopes), *sweep[1:])


def _over_data(found: Sequence[SettingRuns]) -> list[list[SettingRuns]]:
    wide = sweeps(found, "num_points", SAME_WORK)
    return [sweep for sweep in wide if sweep[-1]["num_points"] >= RULES[11]["min_range"] * sweep[0]["num_points"]]


@guarded
def _step_does_not_grow(study: StudyResults) -> Verdict:
    rule = RULES[11]
    found = _over_data([one for one in settings(study, ended_well, method="pbnn") if one["variance"] != "oracle"])
    if not found:
        raise NotAsked(
            "Asked in the studies paper and scaling: this one has no PBNN setting at two N that differ by a factor of "
            f"{rule['min_range']:g}"
        )
    evaluations = [_asked(sweep, "log_step_evaluations", "evaluations") for sweep in found]
    seconds = [_asked(sweep, "log_step_without_reading", "processor time beyond bare reading") for sweep in found]
    plain = [_asked(sweep, "log_step_by_turns", "processor time").evidence for sweep in found]
    contrast = _full_data(study)
    first, sizes = found[0], [one["num_points"] for one in found[0]]
    powers = [one for one in seconds if one.evidence.value.mean is not None]
    time = "; ".join(
        f"{format_estimate(one.evidence.value)} ({format_estimate(whole.value)} with the reading)"
        for one, whole in zip(seconds, plain, strict=True)
        if one in powers
    )
    numbers = (
        f"from N = {sizes[0]:,} to {sizes[-1]:,} on {first[0]['task']}, evaluations grow as N to the power of "
        f"{format_estimate(evaluations[0].evidence.value)}, processor time beyond the bare reading of the rows "
        + (f"to the power of {time}" if powers else "was not measured at several N by turns")
        + "".join(f"; {one.label} {format_estimate(one.value)}" for one in contrast[:1])
    )
    return judge_parts(
        [Part.of("in evaluations", *evaluations), Part.of("in processor time", *seconds)],
        [one for sweep in found for one in sweep],
        numbers=numbers,
        conclusions={
            REPRODUCED: "A step costs nearly the same however large the data set is",
            NOT_REPRODUCED: "A step costs more with more data",
        },
        effect=seconds[0].evidence,
        more=[*plain, *contrast],
        alpha=rule.alpha(study),
    )


def _asked(sweep: Sequence[SettingRuns], column: str, name: str) -> Question:
    one = sweep[0]
    label = f"growth exponent of a step's {name}, {format_name(one, 'step_size', 'preconditioner')}, {one['backend']}"
    return lies_below(Evidence(label, growth(sweep, column)), RULES[11]["flat"])


def _full_data(study: StudyResults) -> list[Evidence]:
    """The same for full-data methods, where the study has them: of runs that followed each other, which is near enough
    for an exponent of 1."""
    try:
        found = _over_data(settings(study, ended_well, method=["full_mh", "mala"]))
    except NothingToShow:
        return []
    return [
        Evidence(
            f"growth exponent of a step's processor time, {method_name(sweep[0]['method'])}, {sweep[0]['backend']}",
            growth(sweep, "log_step_cpu"),
        )
        for sweep in found
    ]


COST = (
    Claim(
        id=11,
        short="The cost of a step does not grow with the data",
        statement="A step of the penalty method reads n M points, so its cost does not grow with the data.",
        place='Abstract; Introduction; Section "Penalty Bayesian Neural Network Posterior Sampling Algorithm"',
        rule=RULES[11].text,
        judge=_step_does_not_grow,
        registered=RULES[11],
    ),
)
