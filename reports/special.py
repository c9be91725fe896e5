"""Functions for claims that ``claims.yaml`` cannot say as data; an entry names the one that finds its numbers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from implementations.infrastructure.files import Damaged
from implementations.kernels.estimates import skewness_of_mean
from metrics.fidelity import mean_error, sd_ratio, squared_bias
from metrics.seeds import Estimate, mean_over_seeds, paired_difference, root_of_mean, with_shared_error
from records.setting_runs import SettingRuns, sweeps
from records.study import StudyResults
from reports.answers import NO, Answer, Evidence, Judged, Part, all_hold, any_holds, held, judged_parts, part
from reports.calibrate import batch_settings, choose
from reports.claim_file import Claim
from reports.evidence import (
    CONTROLLED,
    contests,
    ended_well,
    fastest,
    full_data_of,
    network_of,
    networks,
    settings,
)
from reports.leaderboard import CRITERION
from reports.types import NotAsked, NothingToShow

#: Methods on all data, the rivals of CONTROLLED.
FULL_DATA = ("full_mh", "mala", "blackjax_hmc", "blackjax_nuts")
#: Images of MNIST: those to test with, those to train with, and how many of the latter each seed keeps for validation.
NUM_TEST, NUM_TRAIN, NUM_VALIDATION = 10_000, 60_000, 5_000
#: The batch sizes at which targets are compared: the paper's, and one at which they lie apart.
COMPARED = (5, 200)
#: What PBNN with and without another proposal or the correction have in common.
SAME_CHAIN = ("variant", "target_weight", "batch_size", "num_batches", "variance", "preconditioner")
RESIDUAL = "audit_balance_residual"


def _minus(one: SettingRuns, other: SettingRuns, column: str, label: str) -> Evidence:
    return Evidence(label, one.difference(other, column), settings=(one, other), kind="difference")


def _overconfident(full: SettingRuns, claim: Claim) -> Part:
    gap = Evidence("confidence gap", full.estimate("confidence_gap"), settings=(full,))
    return part("", [held(gap, "above", claim.margins["overconfident"], looks=claim.num_looks)], settings=(full,))


# Calibration


def regression_calibrated_by_n(study: StudyResults, claim: Claim) -> Judged:
    """Claim 6: PBNN at the paper's n, and at the n chosen on validation points, against full data."""
    full = full_data_of(study, "regression")
    choice = choose(batch_settings(study, "regression", "pbnn"))
    of_paper = next((one for one in choice.candidates if one["batch_size"] == claim.margins["paper_n"]), None)
    if of_paper is None or len(choice.candidates) < 2:
        raise NothingToShow(f"Missing runs: PBNN on regression at n = {claim.margins['paper_n']} and at another n")
    parts = [
        part(f"for the {label}, {origin}", [held(_minus(one, full, column, label), "below", 0)], settings=(one,))
        for one, origin in ((choice.best, "n chosen on validation points"), (of_paper, "the paper's n"))
        for column, label in (("ece", "ECE"), ("nll", "NLL"), ("crps", "CRPS"))
    ]
    return Judged(parts, [full, *choice.candidates], _overconfident(full, claim))


def held_out_accuracy_is_close(study: StudyResults, claim: Claim) -> Judged:
    """Claim 7: accuracies on all images that trained nothing, in percentage points."""
    (ours,) = settings(study, variant="mnist", method="pbnn", batch_size=100, num_batches=10, weight="batch")[:1]
    theirs = full_data_of(study, "mnist")
    difference = _held_out(study, ours, theirs).scaled(100)
    gap = Evidence("accuracy on held-out images", difference, "percentage points", (), (ours, theirs), "difference")
    margin = claim.margins["same_accuracy"]
    return Judged([part("", [held(gap, "within", -margin, margin)])], [ours, theirs])


def _held_out(study: StudyResults, ours: SettingRuns, theirs: SettingRuns) -> Estimate:
    """Paired difference of the accuracies on images that trained nothing, each of which weighs the same.

    These are the test set, which all seeds share, and the images that each seed draws for validation. Seeds differ in
    the latter, so that their spread has that part of the sampling error in it; the rest is added. With d the share of
    images that one has right and the other wrong it is sqrt(d / n) for n images that all seeds share; those of
    validation come from one pool, which as many seeds as one likes do not leave.
    """
    both = ours.present("accuracy").keys() & theirs.present("accuracy").keys()
    num_drawn = NUM_VALIDATION * len(both)
    drawn = num_drawn / (num_drawn + NUM_TEST)

    def accuracy(setting: SettingRuns) -> dict[int, float | None]:
        test, validation = setting.values("accuracy"), setting.values("validation_accuracy")
        return {
            seed: None if one is None or other is None else (1 - drawn) * one + drawn * other
            for (seed, one), other in zip(test.items(), validation.values(), strict=True)
        }

    found = ours.behind(paired_difference(accuracy(ours), accuracy(theirs)), theirs)
    share = _share_of_different(study, ours, theirs)
    return with_shared_error(found, math.sqrt(share * (drawn**2 / NUM_TRAIN + (1 - drawn) ** 2 / NUM_TEST)))


def _share_of_different(study: StudyResults, ours: SettingRuns, theirs: SettingRuns) -> float:
    """The share of test images that one has right and the other wrong.

    Without the runs' files it is that of independent errors, which is more.
    """
    shares = []
    partners = {row["seed"]: row for row in theirs.evidence}
    for row in (one for one in ours.evidence if one["seed"] in partners):
        pair = row, partners[row["seed"]]
        try:
            first, second = (study.curves(one["run"])["is_right"] for one in pair)
        except (Damaged, KeyError, OSError):
            shares.append(sum(one["accuracy"] * (1 - one["accuracy"]) for one in pair))
        else:
            shares.append(float((first != second).mean()))
    return sum(shares) / len(shares) if shares else 0.0


def networks_calibrated_by_n(study: StudyResults, claim: Claim) -> Judged:
    """Claim 13: every network that was trained for longer than its task asks, and is overconfident for it."""
    longer = {one["variant"]: None for one in study.settings(task="mnist") if one["num_epochs"] is not None}
    if not longer:
        raise NotAsked("Missing runs: no network of the study was trained for longer than its task asks")
    found = [network_of(study, variant) for variant in longer]
    judged = [one for one in found if _overconfident(one.full, claim).holds] or found[:1]
    parts = [
        part(
            f"for the {label}, {origin}", [held(_minus(one, network.full, column, label), "below", 0)], settings=(one,)
        )
        for network in judged
        for one, origin, column, label in (
            (network.chosen, "n chosen on validation images", "ece", "ECE"),
            (network.chosen, "n chosen on validation images", "nll", "NLL"),
            *((one, "the paper's n", "ece", "ECE") for one in network.of_paper),
        )
    ]
    used = [setting for one in judged for setting in (one.full, *one.candidates)]
    return Judged(parts, used, _overconfident(judged[0].full, claim))


def n_beats_temperature(study: StudyResults, claim: Claim) -> Judged:
    """Claim 54: the n chosen on validation images against temperature scaling of the same network."""
    found = [network_of(study, variant) for variant in networks(study)]
    judged = [one for one in found if _overconfident(one.full, claim).holds] or found[:1]
    parts, used = [], []
    for network in judged:
        # A single draw, to which no gate applies.
        scaled = settings(study, ended_well, variant=network.full["variant"], method="temperature")[0]
        nll = held(_minus(network.chosen, scaled, "nll", "NLL"), "below", 0, looks=claim.num_looks)
        parts.append(part("", [nll], settings=(network.full,)))
        used += [network.full, network.chosen, scaled]
    return Judged(parts, used, _overconfident(judged[0].full, claim))


# Targets


def tempering_differs(study: StudyResults, claim: Claim) -> Judged:
    """Claim 10: two settings, each right about its own.

    Averaged over the mini-batches of a data set, the loss at w = n is the tempered loss: PBNN on a data set has the
    tempered posterior for its target. Averaged over mini-batches of fresh points it is the expected loss of the
    population, whose posterior is another one, and farther away for a larger n. The second part also asks whether PBNN
    samples that one.
    """
    wanted: dict[str, Any] = {"method": "pbnn", "batch_size": list(COMPARED), "weight": "batch"}
    within = _least_noisy(settings(study, variant="regression", **wanted))
    fresh_variant = next((one for one in study.variants if one.startswith("regression-fresh")), None)
    try:
        fresh = _least_noisy(settings(study, variant=fresh_variant, **wanted))
    except NothingToShow:
        fresh = []
    differ = [
        number for one in within for number in _apart(claim, one, one.estimate("sd_ratio"), one.bias(), is_right=False)
    ]
    parts = [part("within a data set", differ, "some")]
    if fresh:
        differ = [number for one in fresh for number in _apart(claim, one, *_from_tempered(study, one), is_right=False)]
        right = [
            number
            for one in fresh
            for number in _apart(claim, one, one.estimate("sd_ratio"), one.bias(), is_right=True)
        ]
        answers = [any_holds(_answers(differ)), all_hold(_answers(right))]
        parts.append(Part("with fresh points in every mini-batch", all_hold(answers), (*differ, *right)))
    return Judged(parts, [*within, *fresh])


def _answers(evidence: Sequence[Evidence]) -> list[Answer]:
    return [one.answer for one in evidence]


def _least_noisy(found: Sequence[SettingRuns]) -> list[SettingRuns]:
    """At each n the setting nearest to its theory: the variance known if there is such a run, then least σ²."""
    usual = [one for one in found if one["variance"] != "literal"]
    nearest = sorted(usual, key=lambda one: (one["variance"] != "oracle", one.mean("mean_variance"), one["label"]))
    return [
        next(one for one in nearest if one["batch_size"] == n)
        for n in COMPARED
        if n in {one["batch_size"] for one in usual}
    ]


def _apart(claim: Claim, one: SettingRuns, width: Estimate, place: Estimate, *, is_right: bool) -> list[Evidence]:
    """Width and place of PBNN's predictive band next to that of its own target, or of the tempered posterior."""
    target = "its own target" if is_right else "the tempered posterior"
    margin = claim.margins["width"]
    return [
        held(
            Evidence(f"sd ratio to {target}", width, settings=(one,)),
            "within" if is_right else "outside",
            1 - margin,
            1 + margin,
        ),
        held(
            Evidence(f"distance of the mean from that of {target}", place, "sd", settings=(one,)),
            "below" if is_right else "above",
            claim.margins["place"],
        ),
    ]


def _from_tempered(study: StudyResults, setting: SettingRuns) -> tuple[Estimate, Estimate]:
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
    return setting.behind(mean_over_seeds(widths)), setting.behind(root_of_mean(squares, with_noise))


# Noise and decisions


def skewness_falls_as_expected(study: StudyResults, claim: Claim) -> Judged:
    """Claim 12: the entry's part, and the slope of log skewness over log M within a margin of what counting says."""
    judged = judged_parts(study, claim)
    found = sweeps(settings(study, method="pbnn", variance="batches"), "num_batches", claim.entry["same"])
    slopes = []
    for sweep in found:
        first, last = sweep[0], sweep[-1]
        folds = math.log(last["num_batches"] / first["num_batches"])
        value = last.difference(first, "log_skewness").scaled(1 / folds)
        few, many = (
            skewness_of_mean(one["num_batches"] * one["batch_size"], one["num_points"]) for one in (first, last)
        )
        expected = math.log(abs(many / few) if few else 1.0) / folds
        slope = Evidence("slope of log skewness over log M", value, "", (), tuple(sweep), "slope", over="num_batches")
        margin = claim.margins["slope"]
        slopes.append(held(slope, "within", expected - margin, expected + margin))
    return judged._replace(parts=[part("in how fast it falls", slopes), *judged.parts])


def langevin_mixes_faster(study: StudyResults, claim: Claim) -> Judged:
    """Claim 15: on each task the best Langevin step within the bias budget over the best such step of the walk."""
    parts, used, also = [], [], []
    for grids in _langevin_and_walk(study, int(claim.margins["steps"])):
        fair = [[one for one in grid if abs(one.mean(RESIDUAL)) <= claim.margins["budget"]] for grid in grids]
        if not all(fair):
            continue
        langevin, walk = (max(grid, key=lambda one: (one.mean("ess_per_step"), one["label"])) for grid in fair)
        per_step, per_evaluation = (
            Evidence(label, langevin.ratio(walk, column), settings=(langevin, walk), kind="ratio")
            for column, label in (
                ("ess_per_step", "effective draws per step"),
                ("ess_per_million_evaluations", "effective draws per evaluation"),
            )
        )
        parts.append(part("", [held(per_step, "above", 1)], settings=(langevin,)))
        also.append(per_evaluation)
        used += [one for grid in grids for one in grid]
    if not parts:
        raise NothingToShow("On no task has either proposal a step with a residual within the budget")
    return Judged(parts, used, also=also)


def _langevin_and_walk(study: StudyResults, steps: int) -> list[tuple[list[SettingRuns], list[SettingRuns]]]:
    """For each task both proposals over their steps, on one target with equal mini-batches; of several the first."""
    langevin, walks = (
        {tuple(sweep[0][name] for name in SAME_CHAIN): sweep for sweep in sweeps(found, "step_size", SAME_CHAIN)}
        for found in (settings(study, method="pbnn_mala"), settings(study, method="pbnn"))
    )
    both: dict[str, tuple[list[SettingRuns], list[SettingRuns]]] = {}
    for key, sweep in langevin.items():
        if key in walks and min(len(sweep), len(walks[key])) >= steps:
            both.setdefault(key[0], (sweep, walks[key]))
    if not both:
        raise NothingToShow(
            f"Missing runs: on no task have pbnn_mala and pbnn {steps} converged steps each, at one target and n M"
        )
    return list(both.values())


def correction_restores_balance(study: StudyResults, claim: Claim) -> Judged:
    """Claim 16: residuals with the correction against those without, wherever PBNN needs it."""
    plain = settings(study, method="pbnn", variance="batches")
    same = (*(name for name in SAME_CHAIN if name != "variance"), "step_size")
    pairs = [
        (one, other)
        for one in settings(study, method="pbnn_corrected")
        for other in plain
        if all(one[name] == other[name] for name in same)
    ]
    if not pairs:
        raise NothingToShow("Missing runs: no setting of pbnn_corrected has its like without the correction")
    margin = claim.margins["balanced"]
    shown = {
        one: Evidence("detailed-balance residual", one.estimate(RESIDUAL), settings=(one,))
        for pair in pairs
        for one in pair
    }
    needs = [pair for pair in pairs if not held(shown[pair[1]], "within", -margin, margin).holds]
    if not needs:
        raise NothingToShow("PBNN keeps detailed balance at every setting that has its like with the correction")
    parts = [part("", [held(_farther_off(one, other), "below", 0)], settings=(one,)) for one, other in needs]
    return Judged(parts, [one for pair in pairs for one in pair], also=tuple(shown.values()))


def _farther_off(one: SettingRuns, other: SettingRuns) -> Evidence:
    """Paired difference of the residuals' absolute values."""
    ours, theirs = (
        {seed: None if value is None else abs(value) for seed, value in each.values(RESIDUAL).items()}
        for each in (one, other)
    )
    value = one.behind(paired_difference(ours, theirs), other)
    return Evidence("distance of the detailed-balance residual from 0", value, "", (), (one, other), "difference")


# Speed


def faster_than_full_data(study: StudyResults, claim: Claim) -> Judged:
    """Claim 24: time to 400 effective draws, the fastest on all data over the fastest with control variates."""
    numbers, used = [], []
    for variant in ("mnist", "flights"):
        rival = fastest(settings(study, variant=variant, method=list(FULL_DATA)))
        ours = [
            one
            for one in settings(study, variant=variant, method=list(CONTROLLED))
            if abs(one.mean("sd_ratio") - 1) <= claim.margins["exact_width"]
            and one.mean("mean_error") <= claim.margins["exact_place"]
        ]
        if not ours:
            raise NothingToShow(f"No mini-batch chain on {variant} has an sd ratio and a mean within the bounds")
        best = fastest(ours)
        ratio = rival.ratio(best, "seconds_to_400")
        time = Evidence("processor time to 400 effective draws", ratio, settings=(rival, best), kind="ratio")
        numbers.append(held(time, "above", claim.margins[variant]))
        used += [best, rival]
    anchors = [
        Evidence("processor time for the mode and its curvature", one.estimate("anchor_cpu_s"), "s", (), (one,))
        for one in used[::2]
    ]
    return Judged([part("", numbers)], used, also=anchors)


def mini_batches_pay(study: StudyResults, claim: Claim) -> Judged:
    """Claim 42: on each target the best on mini-batches within the bias bound over the best on all data."""
    found = contests(study)
    if not found:
        raise NothingToShow("On no target a method on all data is within the bias bound and a mini-batch method ran")
    parts = []
    for _, ours, theirs in found:
        if ours is None:
            none = Estimate(0.0, 0.0, 0.0, len(theirs.ok), 0, 0.0, 0.0)
            number = Evidence("mini-batch methods within the bias bound", none, settings=(theirs,), kind="count")
            parts.append(Part("", NO, (replace(number, margins=(0.0,), side="above", answer=NO),), (theirs,)))
        else:
            ratio = ours.ratio(theirs, CRITERION)
            number = Evidence("effective draws per evaluation", ratio, settings=(ours, theirs), kind="ratio")
            parts.append(part("", [held(number, "above", 1)], settings=(ours,)))
    return Judged(parts, [one for _, *pair in found for one in pair if one is not None])
