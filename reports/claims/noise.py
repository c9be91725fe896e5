"""The noise of the loss difference: what n and M do to it, and what it costs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from implementations.estimates import skewness_of_mean
from metrics.seeds import Estimate
from records.display import (
    SYMBOLS,
    format_differing,
    format_estimate,
    format_number,
    format_range,
    format_setting,
    format_settings,
    task_name,
)
from records.setting import Setting, sweeps
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.evidence import required_sweeps, settings
from reports.questions import lies_above, lies_below, lies_within
from reports.types import NOT_REPRODUCED, REPRODUCED, Claim, Evidence, NothingToShow, Verdict
from reports.verdicts import Part, guarded, judge_parts, verdict

#: What a sweep over n or M holds fixed; the target among them.
TARGET_AND_PROPOSAL = ("variant", "target_weight", "step_size", "preconditioner")


def _steps(sweep: Sequence[Setting], over: str, column: str, name: str) -> Iterator[Evidence]:
    """The change of a column from each setting of a sweep to the next."""
    for smaller, larger in pairwise(sweep):
        where = f"{task_name(larger)}, {format_setting(smaller, over)} to {larger[over]}"
        yield Evidence(f"change of {name}, {where}", larger.difference(smaller, column))


def _course(sweep: Sequence[Setting], over: str, column: str) -> str:
    """``linear: 0.31, 0.45, 0.60 for n = 2, 5, 10``"""
    means = ", ".join(format_number(one.mean(column), 2) for one in sweep)
    return f"{task_name(sweep[0])}: {means} for {SYMBOLS[over]} = {', '.join(str(one[over]) for one in sweep)}"


def _courses(found: Iterable[Sequence[Setting]], over: str, column: str) -> str:
    return "; ".join(_course(sweep, over, column) for sweep in found)


@guarded
def _acceptance_rises_with_n(study: StudyResults) -> Verdict:
    candidates = settings(study, method="pbnn")
    same = (*TARGET_AND_PROPOSAL, "num_batches", "variance")
    found = required_sweeps(candidates, "batch_size", same)
    acceptance = [
        lies_above(step, 0) for sweep in found for step in _steps(sweep, "batch_size", "acceptance_rate", "acceptance")
    ]
    variance = [
        lies_below(step, 0) for sweep in found for step in _steps(sweep, "batch_size", "log_variance", "log σ²")
    ]
    # With w = n the target moves with n. The claim is not about that; what happens then is shown beside it.
    moving = sweeps(
        [one for one in candidates if one["weight"] == "batch" and one["variance"] == "batches"],
        "batch_size",
        ("variant", "step_size", "preconditioner", "num_batches"),
    )
    numbers = _courses(found, "batch_size", "acceptance_rate")
    return verdict(
        [*acceptance, *variance],
        [one for sweep in found for one in sweep],
        alpha=RULES[3].alpha(study),
        conclusions={
            True: f"Acceptance rises and σ² falls at every increase of n ({numbers}).",
            False: f"Acceptance or σ² goes the other way somewhere (acceptance {numbers}).",
        },
        more=[
            Evidence(
                f"acceptance where the target moves with n, {task_name(one)}, "
                f"{format_setting(one, 'batch_size')}, {format_setting(one, 'num_batches')}",
                one.estimate("acceptance_rate"),
            )
            for sweep in moving
            for one in sweep
        ],
    )


def _batch_sweeps(study: StudyResults) -> list[list[Setting]]:
    """PBNN with the paper's estimate of the variance, M alone varied."""
    same = (*TARGET_AND_PROPOSAL, "batch_size")
    return required_sweeps(settings(study, method="pbnn", variance="batches"), "num_batches", same)


@guarded
def _variance_falls_with_m(study: StudyResults) -> Verdict:
    found = _batch_sweeps(study)
    questions = [
        lies_below(step, 0) for sweep in found for step in _steps(sweep, "num_batches", "log_variance", "log σ²")
    ]
    numbers = _courses(found, "num_batches", "mean_variance")
    return verdict(
        questions,
        [one for sweep in found for one in sweep],
        alpha=RULES[4].alpha(study),
        conclusions={
            True: f"σ² falls at every increase of M ({numbers}).",
            False: f"σ² does not fall at every increase of M ({numbers}).",
        },
        more=[
            Evidence(
                f"change of log σ² per log M, {task_name(sweep[0])}; the mean of M independent batches has −1",
                _per_log(sweep, "log_variance"),
            )
            for sweep in found
        ],
    )


@guarded
def _penalty_costs_acceptance(study: StudyResults) -> Verdict:
    found = _batch_sweeps(study)
    costs = []
    for sweep in found:
        fewest, most = sweep[0], sweep[-1]
        where = f"{task_name(fewest)}, {format_setting(fewest, 'num_batches')}"
        costs.append(lies_above(Evidence(f"acceptance lost, {where}", fewest.estimate("acceptance_cost")), 0))
        more = f"acceptance lost, {where} more than {format_setting(most, 'num_batches')}"
        costs.append(lies_above(Evidence(more, fewest.difference(most, "acceptance_cost")), 0))
    with_and_without = _pairs(study)
    pairs = [
        lies_above(
            Evidence(
                f"Acceptance without the penalty minus with it, {task_name(naive)}, {format_settings(naive)}",
                naive.difference(penalised, "acceptance_rate"),
            ),
            0,
        )
        for naive, penalised in with_and_without
    ]
    questions = [*costs, *pairs]
    numbers = _courses(found, "num_batches", "acceptance_cost")
    return verdict(
        questions,
        [one for group in [*found, *with_and_without] for one in group],
        alpha=RULES[5].alpha(study),
        conclusions={
            True: f"Acceptance is lost against the exact rule, most of it where σ² is largest ({numbers})."
            + _accepted_without([pair.evidence for pair in pairs]),
            False: f"Acceptance is not always lost to the noise and its penalty (lost: {numbers}).",
        },
        more=[
            Evidence(f"{name}, {task_name(one)}, {format_settings(one)}", value)
            for sweep in found
            for one in sweep
            for name, value in (
                ("acceptance over that of the exact rule", one.estimate("acceptance_kept")),
                ("2Φ(−σ/2), which theory has where nothing else decides", one.estimate("acceptance_in_theory")),
                ("acceptance on audited moves", one.estimate("audit_acceptance")),
                ("the same integrated over normal noise of known variance", one.estimate("audit_averaged_acceptance")),
            )
            if value.mean is not None
        ],
    )


def _accepted_without(pairs: Sequence[Evidence]) -> str:
    """By how much more naive accepts."""
    if not pairs:
        return ""
    more = format_range((pair.value.mean or 0.0 for pair in pairs), 2)
    return f" Without the penalty, the acceptance is higher by {more}."


def _pairs(study: StudyResults) -> list[tuple[Setting, Setting]]:
    """naive and PBNN at one mini-batch, the same but for the penalty; none where the study lacks one of them."""
    try:
        penalised = settings(study, method="pbnn", num_batches=1)
        naive = settings(study, method="naive", num_batches=1)
    except NothingToShow:
        return []
    return [
        (one, other)
        for one in naive
        for other in penalised
        if all(one[name] == other[name] for name in (*TARGET_AND_PROPOSAL, "batch_size"))
    ]


# Normality


@guarded
def _difference_becomes_normal(study: StudyResults) -> Verdict:
    found = _batch_sweeps(study)
    questions = [
        lies_below(step, 0) for sweep in found for step in _steps(sweep, "num_batches", "log_skewness", "log skewness")
    ]
    numbers = _courses(found, "num_batches", "audit_delta_skewness")
    slopes = [
        Evidence(
            f"slope of log skewness over log M, {task_name(sweep[0])}; the mean of M independent batches has −1/2",
            _per_log(sweep, "log_skewness"),
        )
        for sweep in found
    ]
    return verdict(
        questions,
        [one for sweep in found for one in sweep],
        conclusions={
            True: f"The noise is nearer to normal at every increase of M: RMS skewness {numbers}; slope over log M "
            + ", ".join(
                f"{format_estimate(one.value)} ({task_name(sweep[0])})"
                for one, sweep in zip(slopes, found, strict=True)
            )
            + ".",
            False: f"The noise is not nearer to normal at every increase of M: RMS skewness {numbers}.",
        },
        more=[
            *slopes,
            *map(_at_the_same_moves, found),
            *(
                Evidence(f"{name}, {task_name(one)}, {format_settings(one)}", one.estimate(column))
                for column, name in (
                    ("audit_delta_skewness", "RMS skewness of the loss difference"),
                    ("audit_delta_excess_kurtosis", "RMS excess kurtosis of the loss difference"),
                )
                for sweep in found
                for one in sweep
            ),
        ],
        effect=slopes[0],
        alpha=RULES[12].alpha(study),
    )


def _at_the_same_moves(sweep: Sequence[Setting]) -> Evidence:
    """What the skewness comes to from the smallest M to the largest where nothing but M changes: a matter of counting.

    Each chain is audited at its own moves, whose skewness differs a little.
    """
    ends = sweep[0], sweep[-1]
    few, many = (skewness_of_mean(one["num_batches"] * one["batch_size"], one["num_points"]) for one in ends)
    ratio = abs(many / few) if few else 1.0
    label = (
        f"RMS skewness at the moves of {format_setting(sweep[0], 'num_batches')}, worked out for "
        f"{format_setting(sweep[-1], 'num_batches')}, {task_name(sweep[0])}"
    )
    return Evidence(label, sweep[0].estimate("audit_delta_skewness").scaled(ratio))


def _per_log(sweep: Sequence[Setting], column: str) -> Estimate:
    """Change of a logarithm for each e-fold of M, from the smallest to the largest."""
    folds = math.log(sweep[-1]["num_batches"] / sweep[0]["num_batches"])
    return sweep[-1].difference(sweep[0], column).scaled(1 / folds)


# The estimate of the variance


@guarded
def _variance_varies_more_than_its_estimate(study: StudyResults) -> Verdict:
    found = [one for sweep in _batch_sweeps(study) for one in sweep if one.has("variance_dominance")]
    if not found:
        raise NothingToShow("Missing runs: no audit tells the spread of σ² from the noise of its estimate")
    parts = [
        Part.of(
            f"on {_briefly(one, found)}",
            lies_above(
                Evidence(
                    f"relative spread of σ² minus that of its estimate, {task_name(one)}, {format_settings(one)}",
                    one.estimate("variance_dominance"),
                ),
                0,
            ),
            topic=f"on {task_name(one)}",
        )
        for one in found
    ]
    return judge_parts(
        parts,
        found,
        numbers="relative spread of σ² over moves "
        f"{format_range((one.mean('audit_spread_variance') for one in found), 2)}, and of its estimate "
        + _courses(_batch_sweeps(study), "num_batches", "audit_spread_noise"),
        conclusions={
            REPRODUCED: "σ² varies more over moves than its estimate is uncertain",
            NOT_REPRODUCED: "The estimate of σ² is more uncertain than σ² varies over moves",
        },
        alpha=RULES[14].alpha(study),
    )


def _briefly(setting: Setting, among: Sequence[Setting]) -> str:
    """``linear with M=2``: the task, and what tells the setting from the others on it."""
    return " with ".join(filter(None, [task_name(setting), format_differing(setting, among)]))


@guarded
def _correction_keeps_balance(study: StudyResults) -> Verdict:
    rule = RULES[16]
    plain = settings(study, method="pbnn", variance="batches")
    pairs = [
        (one, other)
        for one in settings(study, method="pbnn_corrected")
        for other in plain
        if all(one[name] == other[name] for name in (*TARGET_AND_PROPOSAL, "batch_size", "num_batches"))
    ]
    if not pairs:
        raise NothingToShow("Missing runs: no setting of pbnn_corrected has its like without the correction")
    corrected = [one for one, _ in pairs]
    parts = [
        Part.of(
            f"on {_briefly(one, corrected)} (σ² = {format_number(one.mean('mean_variance'), 2)})",
            lies_within(
                Evidence(
                    f"detailed-balance residual with the correction, {_where(one)}",
                    one.estimate("audit_balance_residual"),
                ),
                -rule["balanced"],
                rule["balanced"],
            ),
            topic=f"on {task_name(one)}",
        )
        for one, _ in pairs
    ]
    residuals = [[pair[place].mean("audit_balance_residual") for pair in pairs] for place in (0, 1)]
    numbers = "; ".join(
        f"{format_number(with_it, 2)} and {format_number(without, 2)} on {_briefly(one, corrected)}"
        for one, with_it, without in zip(corrected, *residuals, strict=True)
    )
    plain_enough = sum(abs(one) <= rule["balanced"] for one in residuals[1])
    return judge_parts(
        parts,
        [one for pair in pairs for one in pair],
        numbers=f"detailed-balance residual with the correction and without it: {numbers}. Without it, "
        f"{plain_enough} of {len(pairs)} are within ±{rule['balanced']:g} too",
        conclusions={
            REPRODUCED: "The correction keeps detailed balance",
            NOT_REPRODUCED: "The correction does not keep detailed balance",
        },
        more=[
            Evidence(f"detailed-balance residual without it, {_where(other)}", other.estimate("audit_balance_residual"))
            for _, other in pairs
        ],
        alpha=rule.alpha(study),
    )


def _where(setting: Setting) -> str:
    return f"{task_name(setting)}, {format_settings(setting)}"


NOISE = (
    Claim(
        id=3,
        short="Larger mini-batches: less noise, more moves accepted",
        statement="Larger mini-batches make the loss difference less noisy, and so more moves are accepted.",
        place='Section "Noise Penalty Theory", below equation: noisy averaged A',
        rule=RULES[3].text,
        judge=_acceptance_rises_with_n,
        registered=RULES[3],
    ),
    Claim(
        id=4,
        short="More mini-batches: less variance",
        statement="The variance of the averaged loss difference falls as it is averaged over more mini-batches.",
        place='Section "Large Number Of Mini-Batches M Scenario", equation: empirical average over the loss difference',
        rule=RULES[4].text,
        judge=_variance_falls_with_m,
        registered=RULES[4],
    ),
    Claim(
        id=5,
        short="The penalty costs acceptance",
        statement="The penalty is paid for in acceptance, the more the larger the variance of the loss difference.",
        place='Section "Noise Penalty Theory", below equation: random walk penalty acceptance; Conclusion',
        rule=RULES[5].text,
        judge=_penalty_costs_acceptance,
        registered=RULES[5],
    ),
    Claim(
        id=12,
        short="The noise becomes normal as mini-batches are added",
        statement="The averaged loss difference becomes normally distributed as the number of mini-batches grows.",
        place='Section "Large Number Of Mini-Batches M Scenario", equation: empirical average over the loss difference',
        rule=RULES[12].text,
        judge=_difference_becomes_normal,
        registered=RULES[12],
    ),
    Claim(
        id=14,
        short="The variance of the noise differs from move to move",
        statement="The variance of the loss difference varies more from move to move than its estimate is uncertain.",
        place='Section "Large Number Of Mini-Batches M Scenario", below equation: chi-squared',
        rule=RULES[14].text,
        judge=_variance_varies_more_than_its_estimate,
        registered=RULES[14],
    ),
    Claim(
        id=16,
        short="Ceperley and Dewing's correction helps with few mini-batches",
        statement="Ceperley and Dewing's correction of the penalty, which the paper cites and does not explore, "
        "accounts for a variance that is estimated from few mini-batches.",
        place='Section "Noise Penalty Theory", last paragraph, and Section "Large Number Of Mini-Batches M Scenario", '
        "which leave it aside: the claim is Ceperley and Dewing's",
        rule=RULES[16].text,
        judge=_correction_keeps_balance,
        registered=RULES[16],
    ),
)
