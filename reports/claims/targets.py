"""Figure 4: does the answer depend on the step, and which target does the penalty sample?"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from implementations.infrastructure.files import Damaged
from metrics.fidelity import mean_error, sd_ratio, squared_bias
from metrics.seeds import Estimate, mean_over_seeds, root_of_mean, widened
from records.display import (
    format_estimate,
    format_name,
    format_number,
    format_range,
    format_setting,
    format_settings,
    task_name,
)
from records.setting_runs import SettingRuns, sweeps
from records.study import StudyResults
from reports.claims.bias import is_right
from reports.claims.rules import RULES, Rule
from reports.evidence import ended_well, required_sweeps, settings
from reports.questions import Answer, Question, all_hold, any_holds, lies_above, lies_within, negated
from reports.types import NOT_REPRODUCED, REPRODUCED, Claim, Evidence, NothingToShow, Verdict
from reports.verdicts import Part, guarded, judge_parts

#: What a sweep over the step holds fixed.
ALL_BUT_THE_STEP = ("batch_size", "num_batches", "target_weight", "variance", "preconditioner")
#: The batch sizes at which targets are compared: the paper's, and one at which they lie apart.
COMPARED = (5, 200)


def _change(sweep: Sequence[SettingRuns]) -> Evidence:
    """What the sd ratio changes by from the smallest step to the largest."""
    small, large = sweep[0], sweep[-1]
    label = (
        f"sd ratio of {format_name(small, 'step_size')}, {format_setting(large, 'step_size')} minus "
        f"{format_setting(small, 'step_size')}"
    )
    return Evidence(label, large.difference(small, "sd_ratio"))


def _stays(sweep: Sequence[SettingRuns], margin: float) -> Question:
    return lies_within(_change(sweep), -margin, margin)


@guarded
def _only_sgld_depends_on_the_step(study: StudyResults) -> Verdict:
    rule = RULES[9]
    wanted: dict[str, Any] = {"variant": "regression", "batch_size": 5, "weight": "batch"}
    gradient = required_sweeps(
        [one for one in settings(study, method="sgld", **wanted) if not one["decay"]], "step_size", ALL_BUT_THE_STEP
    )
    estimated = required_sweeps(
        settings(study, method="pbnn", variance="batches", **wanted), "step_size", ALL_BUT_THE_STEP
    )
    known = sweeps(_known_variance(study, 5), "step_size", ALL_BUT_THE_STEP)
    moves = [negated(_stays(sweep, rule["width"])) for sweep in gradient]

    def alone(name: str, found: Sequence[Sequence[SettingRuns]], margin: float) -> Part:
        """SGLD moves in one sweep at least, and PBNN in none."""
        stays = [_stays(sweep, margin) for sweep in found]

        def both(answers: Sequence[Answer]) -> Answer:
            return all_hold([any_holds(answers[len(stays) :]), all_hold(answers[: len(stays)])])

        return Part(name, (*stays, *moves), both)

    parts = [
        *([alone("with σ² known", known, rule["known_width"])] if known else []),
        alone("with σ² estimated", estimated, rule["width"]),
    ]
    numbers = [
        f"{format_number(small.mean('sd_ratio'))} to {format_number(large.mean('sd_ratio'))} ({_swept(small)})"
        for small, *_, large in [*gradient, *known, *estimated]
    ]
    at_paper_step = _paper_step(study)
    stuck = [
        Evidence(f"acceptance at the paper's step, {format_name(one)}", one.estimate("acceptance_rate"))
        for one in at_paper_step
    ]
    step = "".join(
        f". At the paper's own step, without a preconditioner, acceptance is {format_number(one.value.mean, 1)}"
        for one in stuck
    )
    return judge_parts(
        parts,
        [one for sweep in [*gradient, *known, *estimated] for one in sweep] + at_paper_step,
        numbers=f"from the smallest step to the largest the sd over the exact one goes from {'; '.join(numbers)}{step}",
        conclusions={
            REPRODUCED: f"SGLD's answer moves with the step; PBNN's by less than {rule['known_width']:g} of the sd "
            f"with σ² known; with it estimated as in Algorithm 1 it moves by "
            f"{format_estimate(_change(estimated[0]).value)}, which is less than {rule['width']:g}",
            NOT_REPRODUCED: _what_failed(moves),
        },
        effect=moves[0].evidence,
        more=[
            *stuck,
            *(
                Evidence(f"sd ratio of {format_name(one)}", one.estimate("sd_ratio"))
                for sweep in [*gradient, *known, *estimated]
                for one in sweep
            ),
        ],
        alpha=rule.alpha(study),
    )


def _swept(setting: SettingRuns) -> str:
    """``SGLD without a preconditioner``: who, without what the sweep is over."""
    plain = setting["preconditioner"] == "none"
    text = format_name(setting, "step_size", "batch_size", "preconditioner")
    return f"{text} without a preconditioner" if plain else text


def _what_failed(moves: Sequence[Question]) -> str:
    if any(question.holds for question in moves):
        return "PBNN's answer moves with the step as well"
    return "SGLD's answer does not move with the step"


def _known_variance(study: StudyResults, batch_size: int) -> list[SettingRuns]:
    """PBNN with the variance known; none where the study lacks it."""
    wanted: dict[str, Any] = {"variant": "regression", "batch_size": batch_size, "weight": "batch"}
    try:
        return settings(study, method="pbnn", variance="oracle", **wanted)
    except NothingToShow:
        return []


@guarded
def _tempering_differs(study: StudyResults) -> Verdict:
    """Two settings, each right about its own.

    Averaged over the mini-batches of a data set, the loss at w = n is the tempered loss: PBNN on a data set has the
    tempered posterior for its target. Averaged over mini-batches of fresh points it is the expected loss of the
    population, whose posterior lies elsewhere, the farther the larger n is. That PBNN samples it there is a part too.
    """
    rule = RULES[10]
    penalised = settings(study, variant="regression", method="pbnn", batch_size=list(COMPARED), weight="batch")
    within = [one for n in COMPARED for one in _least_noisy([one for one in penalised if one["batch_size"] == n])]
    parts = [_differs("within a data set", [_from_target(one) for one in within], rule)]
    fresh = [one for n in COMPARED for one in _least_noisy(_penalised(study, _fresh_variant(study), n))]
    apart = [(one, _from_tempered(study, one)) for one in fresh]
    if apart:
        other = _differs("with fresh points in every mini-batch", [evidence for _, evidence in apart], rule)
        parts.append(_and_is_right(other, fresh, rule))
    texts = [_distances([(one, *_from_target(one)) for one in within], "within a data set")]
    if apart:
        texts.append(_distances([(one, *evidence) for one, evidence in apart], "with fresh points"))
        own = _distances([(one, *_from_target(one)) for one in fresh], "with fresh points")
        from_own = f". From the posterior of the expected loss: {own}"
    else:
        from_own = ""
    return judge_parts(
        parts,
        [*within, *fresh],
        numbers=f"distance of the mean from the tempered posterior: {'; '.join(texts)}{from_own}",
        conclusions={
            REPRODUCED: "PBNN does not sample the tempered posterior",
            NOT_REPRODUCED: "PBNN samples the tempered posterior",
        },
        effect=(apart[-1][1] if apart else _from_target(within[-1]))[1],
        more=[*_limits(study), *_other_distances(study)],
        alpha=rule.alpha(study),
    )


def _penalised(study: StudyResults, variant: str | None, batch_size: int) -> list[SettingRuns]:
    """PBNN at w = n on a variant; none where the study lacks it."""
    wanted: dict[str, Any] = {"variant": variant, "method": "pbnn", "batch_size": batch_size, "weight": "batch"}
    try:
        return settings(study, **wanted)
    except NothingToShow:
        return []


def _fresh_variant(study: StudyResults) -> str | None:
    """The regression whose chains read fresh points."""
    return next((one for one in study.variants if one.startswith("regression-fresh")), None)


def _least_noisy(found: Sequence[SettingRuns]) -> list[SettingRuns]:
    """The one nearest to its theory: the variance known if there is such a run, then least σ²."""
    usual = [one for one in found if one["variance"] != "literal"]
    known = [one for one in usual if one["variance"] == "oracle"]
    return sorted(known or usual, key=lambda one: (one.mean("mean_variance"), one["label"]))[:1]


#: Width and place of a predictive band beside another.
Apart = tuple[Evidence, Evidence]


def _differs(name: str, found: Sequence[Apart], rule: Rule) -> Part:
    """At some n the width or the place is another; Holm over all of them."""
    questions = [
        question
        for width, place in found
        for question in (
            negated(lies_within(width, 1 - rule["width"], 1 + rule["width"])),
            lies_above(place, rule["place"]),
        )
    ]
    return Part(name, tuple(questions), any_holds)


def _and_is_right(differs: Part, found: Sequence[SettingRuns], rule: Rule) -> Part:
    """The same part, which holds only if PBNN samples its own target besides: that of the expected loss."""
    own = [question for one in found for question in is_right(one, _with_fresh_points(one), rule)]

    def both(answers: Sequence[Answer]) -> Answer:
        return all_hold([any_holds(answers[len(own) :]), all_hold(answers[: len(own)])])

    return Part(differs.name, (*own, *differs.questions), both)


def _evidence(setting: SettingRuns, width: Estimate, place: Estimate, where: str) -> Apart:
    name = f"{where}, {_named(setting)}"
    return (
        Evidence(f"sd of PBNN over that of the tempered posterior, {name}", width),
        Evidence(f"distance of PBNN's mean from the tempered posterior's, {name}", place, "sd"),
    )


def _with_fresh_points(setting: SettingRuns) -> str:
    return f"PBNN against the posterior of the expected loss, with fresh points, {_named(setting)}"


def _from_target(setting: SettingRuns) -> Apart:
    """On a data set the tempered posterior is the run's own reference."""
    return _evidence(setting, setting.estimate("sd_ratio"), setting.bias(), "within a data set")


def _from_tempered(study: StudyResults, setting: SettingRuns) -> Apart:
    """Predictions of chains on fresh points against the exact tempered posterior of the seed's own data."""
    widths: dict[int, float | None] = {row["seed"]: None for row in setting.rows}
    squares: dict[int, float | None] = dict(widths)
    with_noise: dict[int, float | None] = dict(widths)
    for row in setting.evidence:
        try:
            curves = study.curves(row["run"])
            tempered = study.reference(dict(row) | {"variant": "regression"})
        except (Damaged, OSError) as error:
            raise NothingToShow(f"Missing files of {row['run']}: {error}") from None
        if isinstance(tempered, str):
            raise NothingToShow(f"Missing reference of regression at n = {setting['batch_size']}: {tempered}")
        shape = tempered.predictive_mean.shape
        moments = tempered.predictive_mean, tempered.predictive_sd, tempered.predictive_mcse
        means, sd = curves["chain_means"].reshape(-1, *shape), curves["predictive_sd"].reshape(shape)
        squares[row["seed"]] = squared_bias(means, *moments)
        with_noise[row["seed"]] = mean_error(means.mean(axis=0), sd, *moments[:2], None).value
        widths[row["seed"]] = sd_ratio(sd, tempered.predictive_sd, None).value
    width, place = (setting.behind(value) for value in (mean_over_seeds(widths), root_of_mean(squares, with_noise)))
    return _evidence(setting, width, place, "with fresh points")


def _other_distances(study: StudyResults) -> list[Evidence]:
    """Every other PBNN run at these n: what comes on top as the step grows or M falls is the noise's."""
    return [
        Evidence(f"{name} of PBNN against its own target, {task_name(one)}, {_named(one)}", one.estimate(column), unit)
        for column, name, unit in (
            ("sd_ratio", "sd ratio", ""),
            ("mean_error", "error of the mean", "sd"),
            ("sliced_w2", "sliced W2", "sd"),
        )
        for n in COMPARED
        for variant in ("regression", _fresh_variant(study))
        for one in _penalised(study, variant, n)
    ]


def _distances(found: Sequence[tuple[SettingRuns, Evidence, Evidence]], where: str) -> str:
    """``0.064 sd (n=5) and 0.44 sd (n=200) with fresh points, sd 1.01 to 1.02 of it``"""
    places = " and ".join(
        f"{format_number(place.value.mean, 2)} sd ({format_setting(one, 'batch_size')})" for one, _, place in found
    )
    return f"{places} {where}, sd ratio {format_range(width.value.mean or 0.0 for _, width, _ in found)}"


def _named(setting: SettingRuns) -> str:
    """``n=5, M=5, η=0.034, σ² = 0.6``"""
    return f"{format_settings(setting)}, σ² = {format_number(setting.mean('mean_variance'), 2)}"


def _limits(study: StudyResults) -> list[Evidence]:
    """The sd ratio as the noise goes to 0, along the step and along M, with the paper's estimate of the variance."""
    usual = [one for one in _penalised(study, "regression", COMPARED[0]) if one["variance"] == "batches"]
    along_step = sweeps(usual, "step_size", ALL_BUT_THE_STEP)
    same = tuple(name for name in ALL_BUT_THE_STEP if name != "num_batches")
    along_batches = sweeps(usual, "num_batches", (*same, "step_size"))
    return [
        Evidence(f"sd ratio of PBNN extrapolated to no noise over {len(sweep)} {name}", _at_no_noise(sweep))
        for name, found in (("step sizes", along_step), ("values of M", along_batches))
        for sweep in found
    ]


def _at_no_noise(sweep: Sequence[SettingRuns]) -> Estimate:
    """Intercept, seed by seed, of the line through the sd ratios, weighted by their Monte Carlo errors.

    They stand over σ⁴ / (ν + 2), ν = M - 1: to leading order the penalty of an estimated variance lacks a quarter of it
    (Ceperley and Dewing).
    """
    intercepts: dict[int, float | None] = {}
    errors: dict[int, float] = {}
    for seed in sorted(set().union(*(one.values("sd_ratio") for one in sweep))):
        points = []
        for one in sweep:
            variance, ratio, error = (
                one.values(name).get(seed) for name in ("mean_variance", "sd_ratio", "sd_ratio_mc")
            )
            if variance is not None and ratio is not None and error:
                points.append((variance**2 / (one["num_batches"] + 1), ratio, 1 / error))
        x, y, weights = np.array(points).reshape(-1, 3).T
        intercepts[seed] = None
        if len(points) > 1 and np.ptp(x) > 0:
            line, covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
            intercepts[seed], errors[seed] = float(line[1]), math.sqrt(covariance[1, 1])
    return widened(mean_over_seeds(intercepts), errors)


def _paper_step(study: StudyResults) -> list[SettingRuns]:
    """PBNN at the step that the paper names for Fig. 4d, converged or not; none where the study lacks it."""
    wanted: dict[str, Any] = {
        "variant": "regression",
        "method": "pbnn",
        "batch_size": 5,
        "step_size": 0.1,
        "preconditioner": "none",
    }
    try:
        return settings(study, ended_well, **wanted)
    except NothingToShow:
        return []


TARGETS = (
    Claim(
        id=9,
        short="SGLD's answer depends on its step size, PBNN's hardly",
        statement="What SGLD samples depends on its step size; what the penalty method samples does not.",
        place='Appendix "SGLD, Safe Bayes and PBNN"; Fig. 4 (figure: SGLD)',
        rule=RULES[9].text,
        judge=_only_sgld_depends_on_the_step,
        registered=RULES[9],
    ),
    Claim(
        id=10,
        short="Tempering gives another answer than PBNN",
        statement="Tempering to weight n gives another answer than the penalty method with mini-batches of n, which "
        "samples the posterior of the expected loss.",
        place='Appendix "SGLD, Safe Bayes and PBNN", Fig. 4; Section "Expected Posterior Sampling Using Mini-Batches"',
        rule=RULES[10].text,
        judge=_tempering_differs,
        registered=RULES[10],
    ),
)
