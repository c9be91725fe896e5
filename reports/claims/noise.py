"""The noise of the loss difference: what n and M do to it, and what it costs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from metrics.seeds import Estimate, mean_over_seeds
from reports.evidence import (
    Setting,
    difference,
    estimate,
    every,
    guarded,
    interval,
    lies_above,
    lies_below,
    required_sweeps,
    settings,
    sweeps,
    verdict,
    widened,
)
from reports.parts import Claim, Evidence, NothingToShow, Verdict
from reports.study import StudyResults

#: What a sweep over n or M holds fixed; the target among them.
TARGET_AND_PROPOSAL = ("variant", "target_weight", "step_size", "preconditioner")


def _steps(sweep: Sequence[Setting], over: str, symbol: str, column: str, name: str) -> Iterator[Evidence]:
    """The change of a column from each setting of a sweep to the next."""
    for smaller, larger in pairwise(sweep):
        where = f"{larger['variant']}, {symbol} = {smaller[over]} to {larger[over]}"
        yield Evidence(f"change of {name}, {where}", difference(larger, smaller, column))


def _course(sweep: Sequence[Setting], over: str, symbol: str, column: str) -> str:
    """``linear: 0.31, 0.45, 0.60 for n = 2, 5, 10``"""
    means = ", ".join(f"{estimate(one, column).mean:.2g}" for one in sweep)
    return f"{sweep[0]['variant']}: {means} for {symbol} = {', '.join(str(one[over]) for one in sweep)}"


def _courses(found: Iterable[Sequence[Setting]], over: str, symbol: str, column: str) -> str:
    return "; ".join(_course(sweep, over, symbol, column) for sweep in found)


@guarded
def _acceptance_rises_with_n(study: StudyResults) -> Verdict:
    candidates = settings(study, method="pbnn")
    same = (*TARGET_AND_PROPOSAL, "num_batches", "variance")
    found = required_sweeps(candidates, "batch_size", same)
    acceptance = [
        lies_above(step, 0)
        for sweep in found
        for step in _steps(sweep, "batch_size", "n", "acceptance_rate", "acceptance")
    ]
    variance = [
        lies_below(step, 0) for sweep in found for step in _steps(sweep, "batch_size", "n", "log_variance", "log σ²")
    ]
    # With w = n the target moves with n. The claim is not about that; what happens then is shown beside it.
    moving = sweeps(
        [one for one in candidates if one["weight"] == "batch" and one["variance"] == "batches"],
        "batch_size",
        ("variant", "step_size", "preconditioner", "num_batches"),
    )
    numbers = _courses(found, "batch_size", "n", "acceptance_rate")
    return verdict(
        [*acceptance, *variance],
        [one for sweep in found for one in sweep],
        holds=every(question.holds for question in [*acceptance, *variance]),
        conclusions={
            True: f"Acceptance rises and σ² falls at every increase of n ({numbers}).",
            False: f"Acceptance or σ² goes the other way somewhere (acceptance {numbers}).",
        },
        more=[
            Evidence(
                f"acceptance where the target moves with n, {one['variant']}, n = {one['batch_size']}, "
                f"M = {one['num_batches']}",
                estimate(one, "acceptance_rate"),
            )
            for sweep in moving
            for one in sweep
        ],
    )


def _batch_sweeps(study: StudyResults) -> list[list[Setting]]:
    """pbnn with the paper's estimate of the variance, M alone varied."""
    same = (*TARGET_AND_PROPOSAL, "batch_size")
    return required_sweeps(settings(study, method="pbnn", variance="batches"), "num_batches", same)


@guarded
def _variance_falls_with_m(study: StudyResults) -> Verdict:
    found = _batch_sweeps(study)
    questions = [
        lies_below(step, 0) for sweep in found for step in _steps(sweep, "num_batches", "M", "log_variance", "log σ²")
    ]
    numbers = _courses(found, "num_batches", "M", "mean_variance")
    return verdict(
        questions,
        [one for sweep in found for one in sweep],
        holds=every(question.holds for question in questions),
        conclusions={
            True: f"σ² falls at every increase of M ({numbers}).",
            False: f"σ² does not fall at every increase of M ({numbers}).",
        },
        more=[
            Evidence(
                f"change of log σ² per log M, {sweep[0]['variant']}; the mean of M independent batches has -1",
                _over(
                    difference(sweep[-1], sweep[0], "log_variance"),
                    math.log(sweep[-1]["num_batches"] / sweep[0]["num_batches"]),
                ),
            )
            for sweep in found
        ],
    )


def _over(value: Estimate, divisor: float) -> Estimate:
    """An estimate in another, positive, unit."""
    mean, low, high = (None if end is None else end / divisor for end in (value.mean, value.low, value.high))
    return Estimate(mean, low, high, value.num_seeds, value.num_missing)


@guarded
def _penalty_costs_acceptance(study: StudyResults) -> Verdict:
    found = _batch_sweeps(study)
    costs = []
    for sweep in found:
        fewest, most = sweep[0], sweep[-1]
        where = f"{fewest['variant']}, M = {fewest['num_batches']}"
        costs.append(lies_above(Evidence(f"acceptance lost, {where}", estimate(fewest, "acceptance_cost")), 0))
        more = f"acceptance lost, {where} more than M = {most['num_batches']}"
        costs.append(lies_above(Evidence(more, difference(fewest, most, "acceptance_cost")), 0))
    with_and_without = _pairs(study)
    pairs = [
        lies_above(
            Evidence(
                f"Acceptance without the penalty minus with it, {naive['variant']}, "
                f"n = {naive['batch_size']}, M = 1, step {naive['step_size']:.2g}",
                difference(naive, penalised, "acceptance_rate"),
            ),
            0,
        )
        for naive, penalised in with_and_without
    ]
    questions = [*costs, *pairs]
    numbers = _courses(found, "num_batches", "M", "acceptance_cost")
    return verdict(
        questions,
        [one for group in [*found, *with_and_without] for one in group],
        holds=every(question.holds for question in questions),
        conclusions={
            True: f"Acceptance is lost against the exact rule, most of it where σ² is largest ({numbers})."
            + "".join(f" {pair.evidence.label}: {interval(pair.evidence.value)}." for pair in pairs),
            False: f"Acceptance is not always lost to the noise and its penalty (lost: {numbers}).",
        },
    )


def _pairs(study: StudyResults) -> list[tuple[Setting, Setting]]:
    """naive and pbnn at one mini-batch, the same but for the penalty; none where the study lacks one of them."""
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


class Departure(NamedTuple):
    """How far noise is from normal, with the standard error that the audited steps leave."""

    value: float
    error: float


def _departures(pooled: Sequence[Setting]) -> dict[int, Departure]:
    """Departure from normality of the noise of these runs, by seed.

    skewness²/6 + excess kurtosis²/24, what the test of Jarque and Bera multiplies with the number of steps S. That
    product, summed over runs, follows χ² with 2 degrees of freedom a run, with the non-centrality S × departure: so
    chance can be taken off.
    """
    columns = ("audit_noise_skewness", "audit_noise_excess_kurtosis", "audit_num_steps")
    found = {}
    for seed in sorted({row["seed"] for setting in pooled for row in setting.rows}):
        statistic, freedom, steps = 0.0, 0, 0
        for setting in pooled:
            skewness, kurtosis, count = (setting.values(column).get(seed) for column in columns)
            if skewness is not None and kurtosis is not None and count is not None:
                statistic += count * (skewness**2 / 6 + kurtosis**2 / 24)
                freedom, steps = freedom + 2, steps + int(count)
        if steps:
            spread = math.sqrt(2 * (freedom + 2 * max(0.0, statistic - freedom)))
            found[seed] = Departure((statistic - freedom) / steps, spread / steps)
    return found


def _mean(found: Sequence[dict[int, Departure]]) -> Estimate:
    """Mean over tasks and seeds; the interval is that over them or that of the audited steps, whichever is wider.

    Data sets differ in their noise, which the steps of a few of them cannot tell. One seed gets no interval.
    """
    every_one = dict(enumerate(one for by_seed in found for one in by_seed.values()))
    seeds = {seed for by_seed in found for seed in by_seed}
    if not seeds:
        raise NothingToShow("Missing runs: the audit has no loss differences to look at")
    over_all = mean_over_seeds({place: one.value for place, one in every_one.items()})
    value = widened(over_all, {place: one.error for place, one in every_one.items()})
    if len(seeds) == 1:
        value = replace(value, low=None, high=None)
    return replace(value, num_seeds=len(seeds))


def _fall(far: dict[int, Departure], near: dict[int, Departure]) -> dict[int, Departure]:
    return {
        seed: Departure(far[seed].value - near[seed].value, math.hypot(far[seed].error, near[seed].error))
        for seed in sorted(far.keys() & near.keys())
    }


def _batches_in_delta(setting: Setting) -> int:
    """M of the loss difference that decides: ``single`` looks at one mini-batch of its M."""
    return 1 if setting["variance"] == "single" else int(setting["num_batches"])


def _by_batches(study: StudyResults) -> list[dict[int, list[Setting]]]:
    """Settings by the M of their loss difference, for each target, proposal and n, whatever the acceptance rule."""
    groups: dict[tuple[object, ...], dict[int, list[Setting]]] = {}
    for setting in settings(study, method=["pbnn", "pbnn_corrected", "naive"]):
        key = tuple(setting[name] for name in (*TARGET_AND_PROPOSAL, "batch_size"))
        groups.setdefault(key, {}).setdefault(_batches_in_delta(setting), []).append(setting)
    found = [dict(sorted(group.items())) for group in groups.values() if len(group) > 1]
    if not found:
        raise NothingToShow("Missing runs: no two converged settings with a loss difference differ in M alone")
    return sorted(found, key=lambda group: next(iter(group.values()))[0]["run"])


@guarded
def _difference_becomes_normal(study: StudyResults) -> Verdict:
    groups = _by_batches(study)
    far = [_departures(group[min(group)]) for group in groups]
    near = [_departures(group[max(group)]) for group in groups]
    fall = lies_above(
        Evidence("departure from normal, smallest M minus largest", _mean(list(map(_fall, far, near)))), 0
    )
    everywhere = [
        Evidence(
            f"departure from normal, {members[0]['variant']}, n = {members[0]['batch_size']}, M = {num_batches}",
            _mean([_departures(members)]),
        )
        for group in groups
        for num_batches, members in group.items()
    ]
    numbers = (
        f"{interval(_mean(far))} at the smallest M, {interval(_mean(near))} at the largest, paired difference "
        f"{interval(fall.evidence.value)}"
    )
    return verdict(
        [fall],
        [one for group in groups for members in group.values() for one in members],
        holds=fall.holds,
        conclusions={
            True: f"The noise is nearer to normal with more mini-batches: skewness²/6 + kurtosis²/24 is {numbers}.",
            False: f"The noise is no nearer to normal with more mini-batches: skewness²/6 + kurtosis²/24 is {numbers}.",
        },
        more=everywhere,
    )


NOISE = (
    Claim(
        id=3,
        statement="Larger mini-batches make the loss difference less noisy, and so more moves are accepted.",
        place='Section "Noise Penalty Theory", below equation: noisy averaged A',
        rule="pbnn settings that differ in n alone and have the same target, M, step and estimate of the variance: "
        "from each n to the next, the paired difference of the acceptance lies above 0 and that of log σ² "
        "below. Not reproduced if one lies on the other side.",
        judge=_acceptance_rises_with_n,
    ),
    Claim(
        id=4,
        statement="The variance of the averaged loss difference falls as it is averaged over more mini-batches.",
        place='Section "Large Number Of Mini-Batches M Scenario", equation: empirical average over the loss difference',
        rule="pbnn settings that differ in M alone: from each M to the next, the paired difference of log σ² lies "
        "below 0. Not reproduced if one lies above.",
        judge=_variance_falls_with_m,
    ),
    Claim(
        id=5,
        statement="The penalty is paid for in acceptance, the more the larger the variance of the loss difference.",
        place='Section "Noise Penalty Theory", below equation: random walk penalty acceptance; Conclusion',
        rule="Acceptance of the exact rule minus pbnn's on the same audited proposals: at the smallest M of a "
        "sweep it lies above 0, and above that of the largest M; and wherever naive and pbnn differ in the "
        "penalty alone, naive accepts more. Not reproduced if one of these lies on the other side.",
        judge=_penalty_costs_acceptance,
    ),
    Claim(
        id=12,
        statement="The averaged loss difference becomes normally distributed as the number of mini-batches grows.",
        place='Section "Large Number Of Mini-Batches M Scenario", equation: empirical average over the loss difference',
        rule="Audited noise, standardised with its true variance, of runs that differ in M alone (naive and pbnn "
        "alike): skewness²/6 + excess kurtosis²/24, less what chance gives, is larger at the smallest M than at "
        "the largest; the interval is that over tasks and seeds, or that of the audited steps if it is wider. Not "
        "reproduced if it is smaller.",
        judge=_difference_becomes_normal,
    ),
)
