"""The noise of the loss difference: what n and M do to it, and what it costs."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from implementations.kernels.estimates import skewness_of_mean
from metrics.seeds import Estimate, paired_difference
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
from records.setting_runs import SettingRuns, sweeps
from records.study import StudyResults
from reports.claims.rules import RULES, Rule
from reports.evidence import required_sweeps, settings
from reports.questions import Question, lies_above, lies_below, lies_within
from reports.types import NOT_REPRODUCED, REPRODUCED, Claim, Evidence, NothingToShow, Verdict
from reports.verdicts import Part, guarded, judge_parts, verdict

#: What a sweep over n or M holds fixed; the target among them.
TARGET_AND_PROPOSAL = ("variant", "target_weight", "step_size", "preconditioner")


def _task(sweep: Sequence[SettingRuns], found: Sequence[Sequence[SettingRuns]]) -> str:
    """The task of a sweep, with the step where others of these differ in it: ``linear, η=0.0002``."""
    one = sweep[0]
    steps = {other[0]["step_size"] for other in found if other[0]["variant"] == one["variant"]}
    return ", ".join([task_name(one), *([format_setting(one, "step_size")] if len(steps) > 1 else [])])


def _steps(found: Sequence[Sequence[SettingRuns]], over: str, column: str, name: str) -> Iterator[Evidence]:
    """The change of a column from each setting of each sweep to the next."""
    for sweep in found:
        for smaller, larger in pairwise(sweep):
            where = f"{_task(sweep, found)}, {format_setting(smaller, over)} to {larger[over]}"
            yield Evidence(f"change of {name}, {where}", larger.difference(smaller, column))


def _courses(found: Sequence[Sequence[SettingRuns]], over: str, column: str) -> str:
    """``linear: 0.31, 0.45, 0.60 for n = 2, 5, 10; …``"""
    texts = []
    for sweep in found:
        means = ", ".join(format_number(one.mean(column), 2) for one in sweep)
        sizes = ", ".join(str(one[over]) for one in sweep)
        texts.append(f"{_task(sweep, found)}: {means} for {SYMBOLS[over]} = {sizes}")
    return "; ".join(texts)


@guarded
def _acceptance_rises_with_n(study: StudyResults) -> Verdict:
    candidates = settings(study, method="pbnn")
    same = (*TARGET_AND_PROPOSAL, "num_batches", "variance")
    found = required_sweeps(candidates, "batch_size", same)
    acceptance = [lies_above(step, 0) for step in _steps(found, "batch_size", "acceptance_rate", "acceptance")]
    variance = [lies_below(step, 0) for step in _steps(found, "batch_size", "log_variance", "log σ²")]
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


def _batch_sweeps(study: StudyResults) -> list[list[SettingRuns]]:
    """PBNN with the paper's estimate of the variance, M alone varied."""
    same = (*TARGET_AND_PROPOSAL, "batch_size")
    return required_sweeps(settings(study, method="pbnn", variance="batches"), "num_batches", same)


@guarded
def _variance_falls_with_m(study: StudyResults) -> Verdict:
    found = _batch_sweeps(study)
    questions = [lies_below(step, 0) for step in _steps(found, "num_batches", "log_variance", "log σ²")]
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
                f"change of log σ² per log M, {_task(sweep, found)}; the mean of M independent batches has −1",
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
        where = f"{_task(sweep, found)}, {format_setting(fewest, 'num_batches')}"
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


def _pairs(study: StudyResults) -> list[tuple[SettingRuns, SettingRuns]]:
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
    rule = RULES[12]
    falls = [lies_below(step, 0) for step in _steps(found, "num_batches", "log_skewness", "log skewness")]
    slopes = [
        Evidence(
            f"slope of log skewness over log M, {_task(sweep, found)}; the mean of M independent batches has −1/2",
            _per_log(sweep, "log_skewness"),
        )
        for sweep in found
    ]
    # Without replacement it is steeper, by what counting says.
    theory = [math.log(_skewness_kept(sweep)) / _folds(sweep) for sweep in found]
    as_expected = [
        lies_within(one, expected - rule["slope"], expected + rule["slope"])
        for one, expected in zip(slopes, theory, strict=True)
    ]
    numbers = f"RMS skewness {_courses(found, 'num_batches', 'audit_delta_skewness')}; slope over log M " + ", ".join(
        f"{format_estimate(one.value)} ({_task(sweep, found)}; theory {format_number(expected, 2)})"
        for one, sweep, expected in zip(slopes, found, theory, strict=True)
    )
    return judge_parts(
        [Part.of("in that it falls with M", *falls), Part.of("in how fast it falls", *as_expected)],
        [one for sweep in found for one in sweep],
        numbers=numbers,
        conclusions={
            REPRODUCED: "The noise is nearer to normal at every increase of M, by as much as theory says",
            NOT_REPRODUCED: "The noise is not nearer to normal at every increase of M",
        },
        more=[
            *(_at_the_same_moves(sweep, found) for sweep in found),
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
        alpha=rule.alpha(study),
    )


def _skewness_kept(sweep: Sequence[SettingRuns]) -> float:
    """Skewness at the largest M over that at the smallest, at the same moves."""
    few, many = (
        skewness_of_mean(one["num_batches"] * one["batch_size"], one["num_points"]) for one in (sweep[0], sweep[-1])
    )
    return abs(many / few) if few else 1.0


def _at_the_same_moves(sweep: Sequence[SettingRuns], found: Sequence[Sequence[SettingRuns]]) -> Evidence:
    """What the skewness comes to from the smallest M to the largest where nothing but M changes: a matter of counting.

    Each chain is audited at its own moves, whose skewness differs a little.
    """
    label = (
        f"RMS skewness at the moves of {format_setting(sweep[0], 'num_batches')}, worked out for "
        f"{format_setting(sweep[-1], 'num_batches')}, {_task(sweep, found)}"
    )
    return Evidence(label, sweep[0].estimate("audit_delta_skewness").scaled(_skewness_kept(sweep)))


def _folds(sweep: Sequence[SettingRuns]) -> float:
    return math.log(sweep[-1]["num_batches"] / sweep[0]["num_batches"])


def _per_log(sweep: Sequence[SettingRuns], column: str) -> Estimate:
    """Change of a logarithm for each e-fold of M, from the smallest to the largest."""
    return sweep[-1].difference(sweep[0], column).scaled(1 / _folds(sweep))


# The estimate of the variance


@guarded
def _variance_varies_more_than_its_estimate(study: StudyResults) -> Verdict:
    rule = RULES[14]
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
                rule["more"],
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
            REPRODUCED: "σ² varies clearly more over moves than its estimate is uncertain",
            NOT_REPRODUCED: "σ² does not vary clearly more over moves than its estimate is uncertain",
        },
        alpha=rule.alpha(study),
    )


def _briefly(setting: SettingRuns, among: Sequence[SettingRuns]) -> str:
    """``linear with M=2``: the task, and what tells the setting from the others on it."""
    return " with ".join(filter(None, [task_name(setting), format_differing(setting, among)]))


@guarded
def _correction_restores_balance(study: StudyResults) -> Verdict:
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
    residuals = {
        one: Evidence(f"detailed-balance residual {_with(one)} the correction, {_where(one)}", _residual(one))
        for pair in pairs
        for one in pair
    }
    needs = [pair for pair in pairs if not _is_balanced(residuals[pair[1]], rule).answer.at(rule.alpha(study))]
    if not needs:
        raise NothingToShow("PBNN keeps detailed balance at every setting that has its like with the correction")
    corrected = [one for one, _ in pairs]
    numbers = "; ".join(
        f"{format_number(residuals[one].value.mean, 2)} and {format_number(residuals[other].value.mean, 2)} on "
        f"{_briefly(one, corrected)}"
        for one, other in pairs
    )
    unneeded = [_briefly(one, corrected) for one, other in pairs if (one, other) not in needs]
    return judge_parts(
        [
            Part.of(
                f"on {_briefly(one, corrected)} (σ² = {format_number(one.mean('mean_variance'), 2)})",
                lies_below(
                    Evidence(
                        f"|detailed-balance residual| with the correction minus without, {_where(one)}",
                        _further_off(one, other),
                    ),
                    0,
                ),
                topic=f"on {task_name(one)}",
            )
            for one, other in needs
        ],
        [one for pair in pairs for one in pair],
        numbers=f"detailed-balance residual with the correction and without it: {numbers}"
        + (f". PBNN needs none on {', '.join(unneeded)}" if unneeded else ""),
        conclusions={
            REPRODUCED: "The correction brings the chain nearer to detailed balance wherever PBNN needs it",
            NOT_REPRODUCED: "The correction does not bring the chain nearer to detailed balance",
        },
        more=residuals.values(),
        alpha=rule.alpha(study),
    )


def _with(setting: SettingRuns) -> str:
    return "with" if setting["method"] == "pbnn_corrected" else "without"


def _residual(setting: SettingRuns) -> Estimate:
    return setting.estimate("audit_balance_residual")


def _is_balanced(residual: Evidence, rule: Rule) -> Question:
    return lies_within(residual, -rule["balanced"], rule["balanced"])


def _further_off(one: SettingRuns, other: SettingRuns) -> Estimate:
    """Paired difference of the residuals' absolute values."""
    ours, theirs = (
        {seed: None if value is None else abs(value) for seed, value in each.values("audit_balance_residual").items()}
        for each in (one, other)
    )
    return one.behind(paired_difference(ours, theirs), other)


def _where(setting: SettingRuns) -> str:
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
        short="The noise becomes nearer to normal with more mini-batches",
        statement="The averaged loss difference becomes normally distributed as the number of mini-batches grows.",
        place='Section "Large Number Of Mini-Batches M Scenario", equation: empirical average over the loss difference',
        rule=RULES[12].text,
        judge=_difference_becomes_normal,
        registered=RULES[12],
    ),
    Claim(
        id=14,
        short="The variance of the noise varies more than its estimate errs",
        statement="The variance of the loss difference varies clearly more from move to move than its estimate is "
        "uncertain.",
        place='Section "Large Number Of Mini-Batches M Scenario", below equation: chi-squared',
        rule=RULES[14].text,
        judge=_variance_varies_more_than_its_estimate,
        registered=RULES[14],
    ),
    Claim(
        id=16,
        short="Ceperley and Dewing's correction brings PBNN nearer to balance",
        statement="Ceperley and Dewing's correction of the penalty, which the paper cites and does not explore, brings "
        "PBNN nearer to detailed balance where a variance from few mini-batches breaks it.",
        place='Section "Noise Penalty Theory", last paragraph, and Section "Large Number Of Mini-Batches M Scenario", '
        "which leave it aside: the claim is Ceperley and Dewing's",
        rule=RULES[16].text,
        judge=_correction_restores_balance,
        registered=RULES[16],
    ),
)
