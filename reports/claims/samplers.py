"""What the paper says of other proposals, schedules and priors, and of networks that are stochastic throughout."""

from records.display import (
    format_differing,
    format_estimate,
    format_name,
    format_number,
    format_range,
    format_setting,
    format_settings,
    format_value,
    method_name,
    task_name,
)
from records.setting_runs import SettingRuns, sweeps
from records.study import StudyResults
from reports.claims.bias import is_right
from reports.claims.cost import growth
from reports.claims.rules import RULES, Rule
from reports.evidence import by_size, settings
from reports.questions import lies_above, lies_below
from reports.types import NOT_REPRODUCED, REPRODUCED, Claim, Evidence, NotAsked, NothingToShow, Verdict
from reports.verdicts import Part, guarded, judge_parts, verdict


@guarded
def _langevin_mixes_better(study: StudyResults) -> Verdict:
    rule = RULES[15]
    grids = _langevin_and_walk(study, int(rule["steps"]))
    grids = [grid for grid in grids if all(_within_budget(one, rule) for one in grid)]
    if not grids:
        raise NothingToShow(f"On no task has either proposal a step with a residual within {rule['budget']:g}")
    pairs = [(_best(langevin, rule), _best(walk, rule)) for langevin, walk in grids]
    ratios = [
        (
            one,
            Evidence(f"effective draws per step, {_against(one, other)}", one.ratio(other, "ess_per_step")),
            Evidence(
                f"effective draws per evaluation, {_against(one, other)}",
                one.ratio(other, "ess_per_million_evaluations"),
            ),
        )
        for one, other in pairs
    ]
    return judge_parts(
        [Part.of(f"on {task_name(one)}", lies_above(per_step, 1), topic="on") for one, per_step, _ in ratios],
        [one for grid in grids for kind in grid for one in kind],
        numbers="effective draws over those of the random walk, each at the best of its steps within the bias budget: "
        + "; ".join(
            f"{format_estimate(per_step.value)} per step and {format_number(per_evaluation.value.mean, 2)} per "
            f"evaluation on {task_name(one)} ({', '.join(map(_chosen, (one, other), grid))})"
            for (one, per_step, per_evaluation), (_, other), grid in zip(ratios, pairs, grids, strict=True)
        ),
        conclusions={
            REPRODUCED: "With a Langevin proposal the penalty method mixes faster than with a random walk",
            NOT_REPRODUCED: "A Langevin proposal does not mix faster",
        },
        more=[
            *(per_evaluation for *_, per_evaluation in ratios),
            *(
                Evidence(f"{name}, {task_name(one)}, {format_name(one)}", one.estimate(column))
                for grid in grids
                for kind in grid
                for one in kind
                for column, name in (
                    ("ess_per_step", "effective draws per step"),
                    ("audit_balance_residual", "detailed-balance residual"),
                )
            ),
        ],
        alpha=rule.alpha(study),
    )


#: The settings of one proposal, ascending in the step.
Grid = list[SettingRuns]


def _langevin_and_walk(study: StudyResults, steps: int) -> list[tuple[Grid, Grid]]:
    """For each task both proposals over their steps, on one target with equal mini-batches; of several the first."""
    same = ("variant", "target_weight", "batch_size", "num_batches", "variance", "preconditioner")
    langevin, walks = (
        {tuple(sweep[0][name] for name in same): sweep for sweep in sweeps(found, "step_size", same)}
        for found in (settings(study, method="pbnn_mala"), settings(study, method="pbnn"))
    )
    both: dict[str, tuple[Grid, Grid]] = {}
    for key, sweep in langevin.items():
        if key in walks and min(len(sweep), len(walks[key])) >= steps:
            both.setdefault(key[0], (sweep, walks[key]))
    if not both:
        raise NothingToShow(
            f"Missing runs: on no task have pbnn_mala and pbnn {steps} converged steps each, at one target and n M"
        )
    return list(both.values())


def _within_budget(grid: Grid, rule: Rule) -> Grid:
    return [one for one in grid if abs(one.mean("audit_balance_residual")) <= rule["budget"]]


def _best(grid: Grid, rule: Rule) -> SettingRuns:
    """The best-mixing of those whose bias is within the budget."""
    return max(_within_budget(grid, rule), key=lambda one: (one.mean("ess_per_step"), one["label"]))


def _chosen(best: SettingRuns, grid: Grid) -> str:
    """``MALA η=0.03, of 5``: at which step it mixes best, and whether that is the smallest or the largest tried."""
    place = {grid[0]: ", the smallest", grid[-1]: ", the largest"}.get(best, "")
    step = format_setting(best, "step_size")
    return f"{method_name(best['method'])} {step} of {len(grid)} steps{place}"


def _against(one: SettingRuns, other: SettingRuns) -> str:
    return f"{task_name(one)}, {format_name(one)} over {format_name(other)}"


@guarded
def _laplace_prior(study: StudyResults) -> Verdict:
    return _is_the_posterior(
        study,
        "regression-laplace",
        RULES[17],
        yes="The penalty method samples the posterior of a Laplace prior too",
        no="With a Laplace prior some bias is left",
    )


@guarded
def _all_layers(study: StudyResults) -> Verdict:
    if not study.settings(variant="regression-all"):
        raise NotAsked("Asked in the study layers: no network of this study has all its layers stochastic")
    return _is_the_posterior(
        study,
        "regression-all",
        RULES[20],
        yes="The penalty method samples the posterior of a network whose layers are all stochastic",
        no="Where all layers are stochastic some bias is left",
    )


def _is_the_posterior(study: StudyResults, variant: str, rule: Rule, *, yes: str, no: str) -> Verdict:
    """Has PBNN the band of the gold standard? Nobody can tell where that did not pass its own gate."""
    converged = settings(study, variant=variant, method="pbnn")
    found = [one for one in converged if one.has("sd_ratio")]
    if not found:
        reasons = dict.fromkeys(one["reference_reason"] or "it is not there" for one in converged)
        raise NothingToShow(f"No gold standard of {variant} to judge by: {'; '.join(reasons)}")
    questions = [question for one in found for question in is_right(one, format_name(one), rule)]
    numbers = "; ".join(
        f"{format_settings(one)}: sd {format_value(one, 'sd_ratio')} of the gold standard's, mean off by "
        f"{format_estimate(one.bias())} sd"
        for one in found
    )
    return verdict(
        questions,
        found,
        conclusions={True: f"{yes}: {numbers}.", False: f"{no}: {numbers}."},
        alpha=rule.alpha(study),
    )


@guarded
def _annealing_helps(study: StudyResults) -> Verdict:
    found = settings(study, variant="regression", method="sgld", batch_size=5, weight="batch")
    same = ("step_size", "preconditioner")
    pairs = [
        (one, other)
        for one in found
        for other in found
        if one["decay"] and not other["decay"] and all(one[name] == other[name] for name in same)
    ]
    if not pairs:
        raise NothingToShow("Missing runs: no SGLD with a decaying step has its like with a constant one")
    questions = [
        lies_below(
            Evidence(
                f"|sd ratio − 1| with a decaying step minus constant, {format_settings(one)}",
                one.difference(other, "sd_error"),
            ),
            0,
        )
        for one, other in pairs
    ]
    numbers = "; ".join(
        f"{format_settings(one)}: sd {format_value(one, 'sd_ratio')} of the exact one with a decaying step, "
        f"{format_value(other, 'sd_ratio')} with a constant one"
        for one, other in pairs
    )
    return verdict(
        questions,
        [one for pair in pairs for one in pair],
        conclusions={
            True: f"A step that decays takes SGLD nearer to its target: {numbers}.",
            False: f"A step that decays does not take SGLD nearer to its target: {numbers}.",
        },
        alpha=RULES[18].alpha(study),
    )


@guarded
def _corrected_sgld_stands_still(study: StudyResults) -> Verdict:
    rule = RULES[19]
    found = [one for one in settings(study, method="sgld") if not one["decay"] and one.has("audit_exact_acceptance")]
    if not found:
        raise NothingToShow("Missing runs: no move of SGLD with a constant step was audited")
    acceptances = {
        one: Evidence(
            f"acceptance of an exact Metropolis test of SGLD's moves, {task_name(one)}, {format_settings(one)}",
            one.estimate("audit_exact_acceptance"),
        )
        for one in found
    }
    sizes = by_size(found)
    exponents = [
        Evidence(
            f"exponent of N in this acceptance, {sweep[0]['task']}, {format_settings(sweep[0])}",
            growth(sweep, "log_exact_acceptance"),
        )
        for sweep in sizes
    ]
    alone = [one for one in found if not any(one in sweep for sweep in sizes)]
    return judge_parts(
        [
            *(
                Part.of(
                    f"on {sweep[0]['task']} as N grows to {sweep[-1]['num_points']:,}",
                    lies_below(exponent, 0),
                    lies_below(acceptances[sweep[-1]], rule["vanishing"]),
                )
                for sweep, exponent in zip(sizes, exponents, strict=True)
            ),
            *(
                Part.of(
                    " with ".join(filter(None, [f"on {task_name(one)}", format_differing(one, found)])),
                    lies_below(acceptances[one], rule["vanishing"]),
                    topic=f"on {task_name(one)}",
                )
                for one in alone
            ),
        ],
        found,
        numbers="of single steps, with the same mini-batch there and back, "
        f"{format_range((one.value.mean or 0.0 for one in acceptances.values()), 2)} would be accepted"
        + "".join(f", falling as N to the power of {format_estimate(one.value)}" for one in exponents[:1]),
        conclusions={
            REPRODUCED: "A Metropolis test would reject nearly all moves of SGLD",
            NOT_REPRODUCED: "A Metropolis test would accept many moves of SGLD",
        },
        more=[*acceptances.values(), *exponents],
        alpha=rule.alpha(study),
    )


SAMPLERS = (
    Claim(
        id=15,
        short="A Langevin proposal mixes faster than a random walk",
        statement="A Langevin proposal mixes faster than a random walk under the penalty.",
        place='Section "Penalized Langevin Dynamics", equation: PBNN MH acceptance',
        rule=RULES[15].text,
        judge=_langevin_mixes_better,
        registered=RULES[15],
    ),
    Claim(
        id=17,
        short="PBNN samples the posterior of a Laplace prior",
        statement="The penalty method samples the posterior of a Laplace prior as well.",
        place='Section "Background": Gaussian and Laplace priors',
        rule=RULES[17].text,
        judge=_laplace_prior,
        registered=RULES[17],
    ),
    Claim(
        id=18,
        short="A step that decays brings SGLD nearer to its target",
        statement="SGLD needs a step that vanishes: one that decays brings it nearer to its target.",
        place='Appendix "SGLD, Safe Bayes and PBNN"; Section "Unadjusted Langevin Algorithm"',
        rule=RULES[18].text,
        judge=_annealing_helps,
        registered=RULES[18],
    ),
    Claim(
        id=19,
        short="A Metropolis test rejects nearly all of SGLD's moves",
        statement="A Metropolis test does not save SGLD (cited by the paper): the acceptance of its moves vanishes.",
        place='Section "Related Work", paragraph "Noisy Posterior Sampling Bias", which cites it; tested here with '
        "single steps and one mini-batch both ways",
        rule=RULES[19].text,
        judge=_corrected_sgld_stands_still,
        registered=RULES[19],
    ),
    Claim(
        id=20,
        short="PBNN samples a network whose layers are all stochastic",
        statement="The penalty method samples the posterior of a network all of whose layers are stochastic.",
        place='Fig. 2; Section "Prediction Calibration Using The Mini-Batch Size n", where only the networks of Fig. 3 '
        "are said to be partly stochastic",
        rule=RULES[20].text,
        judge=_all_layers,
        registered=RULES[20],
    ),
)
