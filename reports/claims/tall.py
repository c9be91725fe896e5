"""The posterior of all data from mini-batches: is its cost flat in N, is it right, is it fast, is it needed?"""

from collections.abc import Callable, Sequence

from records.display import format_estimate, format_name, format_range, method_name, task_name
from records.setting_runs import Row, SettingRuns
from records.study import StudyResults
from reports.claims.cost import growth
from reports.claims.rules import RULES
from reports.evidence import CONTROLLED, by_size, ended_well, have_converged, settings
from reports.questions import Question, lies_above, lies_below, lies_within
from reports.types import Claim, Evidence, NotAsked, NothingToShow, Verdict
from reports.verdicts import guarded, verdict

FULL_DATA = ("full_mh", "mala", "blackjax_hmc", "blackjax_nuts")
#: What the error of a prediction is measured in here, and where it is measured otherwise.
OWN_SD = (
    "Each prediction is measured in its own sd; errors in RMS sd, as under 'Who won' and on leaderboards, divide by "
    "the root mean square of all and are smaller where sure predictions are off."
)
#: The task whose N can be chosen.
SYNTHETIC = "logistic"


def widest(
    study: StudyResults, method: str, evidence: Callable[[SettingRuns], Sequence[Row]] = have_converged
) -> list[SettingRuns]:
    """The setting of a method that ran at most N, at each of them, ascending."""
    found = by_size(settings(study, evidence, task=SYNTHETIC, method=method))
    if not found:
        raise NothingToShow(f"Missing runs: no setting of {method} ran at two N on {SYNTHETIC}")
    return max(found, key=len)


@guarded
def _draws_do_not_grow(study: StudyResults) -> Verdict:
    sweeps = [widest(study, method) for method in CONTROLLED]
    questions = [
        lies_below(Evidence(_grown(sweep), sweep[-1].ratio(sweep[0], "evaluations_per_draw")), RULES[21]["growth"])
        for sweep in sweeps
    ]
    numbers = ", ".join(
        f"{format_estimate(one.evidence.value)} for {method_name(sweep[0]['method'])}"
        for one, sweep in zip(questions, sweeps, strict=True)
    )
    smallest, largest = (sweeps[0][end]["num_points"] for end in (0, -1))
    return verdict(
        questions,
        [one for sweep in sweeps for one in sweep],
        conclusions={
            True: f"From N = {smallest:,} to {largest:,} an effective draw takes {numbers} times the evaluations.",
            False: f"An effective draw takes more evaluations at N = {largest:,} than at {smallest:,}: {numbers}.",
        },
        alpha=RULES[21].alpha(study),
    )


def _grown(sweep: Sequence[SettingRuns]) -> str:
    smallest, largest = sweep[0]["num_points"], sweep[-1]["num_points"]
    name = format_name(sweep[0], "preconditioner")
    return f"evaluations of an effective draw at N = {largest:,} over those at {smallest:,}, {name}"


@guarded
def _steps_do_not_grow(study: StudyResults) -> Verdict:
    sweeps = [widest(study, method, ended_well) for method in CONTROLLED]
    questions = [
        lies_below(
            Evidence(
                f"growth exponent of a step's processor time, {format_name(sweep[0], 'preconditioner')}",
                growth(sweep, "log_step_cpu"),
            ),
            RULES[22]["flat"],
        )
        for sweep in sweeps
    ]
    numbers = "; ".join(format_estimate(one.evidence.value) for one in questions)
    # While a step waits for its rows no processor time passes.
    times = [sweep[-1].mean("step_microseconds") / sweep[0].mean("step_microseconds") for sweep in sweeps]
    folds = max(sweep[-1]["num_points"] / sweep[0]["num_points"] for sweep in sweeps)
    wall = f"In wall time a step takes {format_range(times, 2)} times as long on {folds:,.0f} times the data."
    return verdict(
        questions,
        [one for sweep in sweeps for one in sweep],
        conclusions={
            True: f"Its processor time grows as N to the power of {numbers}: rows lie farther apart in memory. {wall}",
            False: f"Its processor time grows with the data, as N to the power of {numbers}. {wall}",
        },
        alpha=RULES[22].alpha(study),
    )


def _exactness(setting: SettingRuns) -> list[Question]:
    rule, name = RULES[23], f"{format_name(setting, 'preconditioner')} on {task_name(setting)}"
    width = Evidence(f"sd ratio to the gold standard, {name}", setting.estimate("sd_ratio"))
    place = Evidence(f"error of the mean, {name}", setting.estimate("mean_error"), "RMS sd")
    return [
        lies_within(width, 1 - rule["exact_width"], 1 + rule["exact_width"]),
        lies_below(place, rule["exact_place"]),
    ]


def is_right(setting: SettingRuns) -> bool:
    """By its means over seeds."""
    rule = RULES[24]
    is_wide_enough = abs(setting.mean("sd_ratio") - 1) <= rule["exact_width"]
    return is_wide_enough and setting.mean("mean_error") <= rule["exact_place"]


def fastest(candidates: Sequence[SettingRuns]) -> SettingRuns:
    return min(candidates, key=lambda one: (one.mean("seconds_to_400"), one["label"]))


def tall_variants(study: StudyResults) -> list[str]:
    """The data sets of the study with many points for each parameter: mnist, flights, and the largest synthetic one."""
    sizes = {one["variant"]: one["num_points"] for one in study.all_settings if one["task"] == SYNTHETIC}
    largest = [max(sizes, key=lambda variant: sizes[variant])] if sizes else []
    return [variant for variant in ("mnist", "flights") if variant in study.variants] + largest


@guarded
def _is_the_posterior(study: StudyResults) -> Verdict:
    variants = tall_variants(study)
    if not variants:
        raise NotAsked(f"Missing runs: the study has none of mnist, flights and {SYNTHETIC}")
    chosen = [fastest(settings(study, variant=variant, method=list(CONTROLLED))) for variant in variants]
    questions = [question for one in chosen for question in _exactness(one)]
    few = [one for one in study.settings(variant="digits", method=list(CONTROLLED)) if one.converged]
    numbers = "; ".join(
        f"{task_name(one)} ({method_name(one['method'])}) sd {format_estimate(one.estimate('sd_ratio'))} and mean off "
        f"by {format_estimate(one.estimate('mean_error'))} RMS sd"
        for one in chosen
    )
    return verdict(
        questions,
        chosen,
        conclusions={
            True: f"It is the posterior itself: {numbers}.",
            False: f"It is another distribution: {numbers}.",
        },
        more=[question.evidence for one in few for question in _exactness(one)],
        alpha=RULES[23].alpha(study),
    )


@guarded
def _is_faster(study: StudyResults) -> Verdict:
    questions, used, numbers = [], [], []
    for variant in ("mnist", "flights"):
        rivals = settings(study, variant=variant, method=list(FULL_DATA))
        ours = [one for one in settings(study, variant=variant, method=list(CONTROLLED)) if is_right(one)]
        if not ours:
            raise NothingToShow(
                f"No mini-batch chain on {task_name(variant)} has an sd ratio and a mean within the bounds"
            )
        best, rival = fastest(ours), fastest(rivals)
        ratio = rival.ratio(best, "seconds_to_400")
        names = method_name(rival["method"]), method_name(best["method"])
        evidence = Evidence(f"{task_name(variant)}: time to 400 effective draws, {names[0]} over {names[1]}", ratio)
        questions.append(lies_above(evidence, RULES[24][variant]))
        used += [best, rival]
        numbers.append(
            f"{format_estimate(ratio)} times on {task_name(variant)} ({best.mean('seconds_to_400'):.2g} s against "
            f"{rival.mean('seconds_to_400'):.2g} s of {names[0]}, after {best.mean('anchor_cpu_s'):.2g} s for the mode "
            "and its curvature)"
        )
    return verdict(
        questions,
        used,
        conclusions={
            True: f"Faster than the best full-data sampler: {'; '.join(numbers)}.",
            False: f"Not as much faster as was aimed at: {'; '.join(numbers)}.",
        },
        alpha=RULES[24].alpha(study),
    )


@guarded
def _chain_is_needed(study: StudyResults) -> Verdict:
    questions, used, numbers = [], [], []
    for variant in ("digits", *tall_variants(study)):
        (one,) = settings(study, variant=variant, method="laplace")[:1]
        evidence = Evidence(
            f"error of Laplace's predictive mean, {task_name(variant)}", one.estimate("point_error"), "own sd"
        )
        is_near = variant not in ("digits", "mnist")
        questions.append((lies_below if is_near else lies_above)(evidence, RULES[25]["exact_place"]))
        used.append(one)
        numbers.append(f"{format_estimate(evidence.value)} own sd on {task_name(variant)}")
    found = ", ".join(numbers)
    return verdict(
        questions,
        used,
        conclusions={
            True: f"The Gaussian at the mode predicts with a mean that is off by {found}. {OWN_SD}",
            False: f"Not as expected: the Gaussian at the mode predicts with a mean off by {found}. {OWN_SD}",
        },
        alpha=RULES[25].alpha(study),
    )


TALL = tuple(
    Claim(
        id=number,
        short=short,
        statement=statement,
        place="",
        rule=RULES[number].text,
        judge=judge,
        registered=RULES[number],
    )
    for number, short, statement, judge in (
        (
            21,
            "With control variates the cost of a draw does not grow with N",
            "With control variates an effective draw of the posterior takes as many evaluations at any N.",
            _draws_do_not_grow,
        ),
        (
            22,
            "The processor time of such a step hardly grows with N",
            "The processor time of such a step hardly grows with N either.",
            _steps_do_not_grow,
        ),
        (
            23,
            "Chains with control variates sample the posterior of all data",
            "These chains sample the posterior of all data.",
            _is_the_posterior,
        ),
        (
            24,
            "Such chains beat full data 20 times on mnist, 500 on flights",
            "They are twenty times as fast as the best full-data sampler on mnist, and five hundred on flights.",
            _is_faster,
        ),
        (
            25,
            "Digits and mnist need a chain, flights do not",
            "A chain is needed on digits and mnist; on flights the Gaussian at the mode is enough.",
            _chain_is_needed,
        ),
    )
)
