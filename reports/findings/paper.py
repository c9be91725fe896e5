"""What the study `paper` found; a user's own study is asked the same."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from records.display import (
    format_estimate,
    format_given,
    format_name,
    format_number,
    format_range,
    format_rounded,
    method_name,
)
from records.setting_runs import SettingRuns, sweeps
from records.study import StudyResults
from reports.claims.calibration import network_of, trained_longer
from reports.claims.cost import growth
from reports.claims.rules import RULES
from reports.evidence import ended_well, full_data_of, require, settings
from reports.types import Finding

#: How far a band may be from the exact one, in width and place, and a posterior overconfident.
RULE, OVERCONFIDENT = RULES[2], RULES[6]["overconfident"]
#: What a chain on mini-batches with the penalty may be.
PENALISED = ["pbnn", "pbnn_mala"]


def _first(candidates: Iterable[SettingRuns]) -> SettingRuns:
    """The first in the order of their labels, so that the same study always gives the same sentence."""
    found = sorted(candidates, key=lambda one: one["label"])
    require(bool(found))
    return found[0]


def _is_right(setting: SettingRuns) -> bool:
    return abs(setting.mean("sd_ratio") - 1) <= RULE["width"] and setting.mean("mean_error") <= RULE["place"]


def _noise(setting: SettingRuns) -> float:
    return setting.mean("mean_variance")


def _penalty(study: StudyResults) -> Finding:
    line: dict[str, Any] = {"variant": "linear", "batch_size": 2, "weight": "data", "step_size": 2e-4}
    naive = _first(settings(study, **line, method="naive"))
    known = _first(settings(study, **line, method="pbnn", variance="oracle"))
    estimated = settings(study, **line, method="pbnn", variance="batches")
    many = max(estimated, key=lambda one: one["num_batches"])
    few = min(estimated, key=lambda one: one["num_batches"])
    # These many points are a good part of the data, and the paper's estimate, which takes them for none, is too large.
    finite = study.settings(**line, method="pbnn", variance="batches_finite", num_batches=many["num_batches"])
    in_finite = "".join(
        f" ({format_number(one.mean('sd_ratio'))} if the estimate allows for the size of the data set)"
        for one in finite[:1]
        if one.is_converged
    )
    require(_is_right(known) and _is_right(many) and not _is_right(naive))
    widths = [format_rounded(naive.mean("sd_ratio")), *(format_number(one.mean("sd_ratio")) for one in (many, few))]
    del line["step_size"]
    steps = settings(study, **line, method="pbnn", variance="oracle")
    off = max(abs(one.mean("sd_ratio") - 1) for one in steps)
    places = format_range((one.bias().mean or 0.0 for one in steps), 2)
    at_steps = f"This holds at {len(steps)} step sizes, with the mean" if len(steps) > 1 else "The mean is"
    return Finding(
        "The penalty removes most of the bias of mini-batches.",
        f"Without the penalty, mini-batches of two points make the predictive band {widths[0]} times as wide as it "
        f"should be; with it, and the variance of the noise known, the width is right to within "
        f"{format_rounded(100 * off)} %. "
        f"{at_steps} off by {places} sd. With the variance estimated from {many['num_batches']} "
        f"mini-batches the band is {widths[1]} times as wide{in_finite}, from {few['num_batches']} it is still "
        f"{widths[2]} times. Acceptance falls from {format_number(naive.mean('acceptance_rate'), 2)} to "
        f"{format_number(known.mean('acceptance_rate'), 2)}.",
    )


def _target(study: StudyResults) -> Finding:
    usual: dict[str, Any] = {"method": "pbnn", "variance": "batches", "weight": "batch", "preconditioner": "full"}
    found = settings(study, variant="regression", batch_size=5, **usual)
    quiet, worst = min(found, key=_noise), max(found, key=lambda one: abs(one.mean("sd_ratio") - 1))
    require(_is_right(quiet))
    within = (
        "With mini-batches of n points PBNN's band is as wide as that of the posterior tempered to n: "
        f"{format_number(quiet.mean('sd_ratio'))} times where the noise is smallest, and "
        f"{format_number(worst.mean('sd_ratio'))} times where it is farthest off, at M = {worst['num_batches']}."
    )
    fresh = [
        one
        for variant in study.variants
        if variant.startswith("regression-fresh")
        for one in settings(study, variant=variant, **usual)
    ]
    if not fresh or not all(map(_is_right, fresh)):
        return Finding("PBNN, the paper's sampler, draws from the tempered posterior.", within)
    far = max(fresh, key=lambda one: (one["batch_size"], one["label"]))
    return Finding(
        "With the paper's weight (w = n), PBNN draws from the tempered posterior on a fixed data set; on fresh data, "
        "from that of the expected loss.",
        f"{within} On a stream of fresh points, n = {far['batch_size']}, its band is "
        f"{format_number(far.mean('sd_ratio'))} times as wide as that of the expected loss, and its mean is off by "
        f"{format_number(far.bias().high, 2)} sd at most. Both views of what PBNN samples are right, each in its own "
        "setting.",
    )


def _calibration(study: StudyResults) -> Finding:
    full, images_full = full_data_of(study, "regression"), full_data_of(study, "mnist")
    small = _first(settings(study, variant="regression", method="pbnn", batch_size=10, weight="batch"))
    images = _first(settings(study, variant="mnist", method="pbnn", batch_size=100, weight="batch"))
    errors = [one.mean("ece") for one in (full, small, images_full, images)]
    require(full.mean("confidence_gap") > OVERCONFIDENT and errors[1] < errors[0])
    require(images_full.mean("confidence_gap") < OVERCONFIDENT and errors[3] > errors[2])
    numbers = [format_number(error, 2) for error in errors]
    return Finding(
        "Small mini-batches lower the calibration error of an overconfident posterior, and raise that of a calibrated "
        "one.",
        "The regression is overconfident with full data, and mini-batches of n = 10 lower its calibration error from "
        f"{numbers[0]} to {numbers[1]}{_price(full, small)}; MNIST is not, and n = 100 raises its error from "
        f"{numbers[2]} to {numbers[3]}.",
    )


def _price(full: SettingRuns, small: SettingRuns) -> str:
    """What it does to the CRPS and the NLL; nothing is said of a score that was not measured."""
    words = []
    for column, name in (("crps", "CRPS"), ("nll", "NLL")):
        change = small.difference(full, column)
        if change.low is None or change.high is None:
            continue
        # Three digits where two are the same.
        two, three = ([format_number(one.mean(column), digits) for one in (full, small)] for digits in (2, 3))
        ends = " to ".join(two if two[0] != two[1] else three)
        moved = f"its {name} {'falls' if change.high < 0 else 'rises'} from {ends}"
        words.append(moved if change.excludes_zero else f"its {name} is too close to call")
    return f" ({' and '.join(words)})" if words else ""


def _cure(study: StudyResults) -> Finding:
    """Where a network on MNIST is overconfident; of several the one that was trained on most images."""
    networks = [one for one in map(partial(network_of, study), trained_longer(study)) if one.of_paper]
    require(bool(networks))
    network = max(networks, key=lambda one: (one.full["num_points"], one.full["variant"]))
    full, chosen, paper = network.full, network.chosen, network.of_paper[0]
    require(full.mean("confidence_gap") > OVERCONFIDENT and chosen["target_weight"] != paper["target_weight"])
    better = [chosen.difference(full, column).high for column in ("ece", "nll")]
    worse = paper.difference(full, "ece").low
    require(all(end is not None and end < 0 for end in better) and worse is not None and worse > 0)
    errors, losses = ([one.mean(column) for one in (full, chosen, paper)] for column in ("ece", "nll"))
    numbers = [format_number(value, 2) for value in (*errors, *losses)]
    by = "" if chosen["method"] == "pbnn" else f", sampled by {method_name(chosen['method'])}"
    return Finding(
        "A smaller n calibrates an overfitted network; with our prior, the paper's "
        f"n = {format_given(paper['target_weight'])} is too small.",
        f"On MNIST with {full['num_points']:,} images and {full['num_epochs']} epochs the calibration error is "
        f"{numbers[0]} with full data, {numbers[1]} at n = {format_given(chosen['target_weight'])} (chosen on "
        f"validation images{by}) and {numbers[2]} at n = {format_given(paper['target_weight'])}. The NLL is "
        f"{numbers[3]}, {numbers[4]} and {numbers[5]}.",
    )


def _cost(study: StudyResults) -> Finding:
    """Evaluations for an effective draw, over those of preconditioned SGLD, on one target."""
    gradient = [one for one in settings(study, method="sgld", preconditioner=["full", "diagonal"]) if _is_right(one)]
    penalised = [one for one in settings(study, method=PENALISED) if _is_right(one) and one["variance"] != "oracle"]
    ratios = []
    for target in sorted({(one["variant"], one["target_weight"]) for one in gradient}):
        both = [
            [one for one in kind if (one["variant"], one["target_weight"]) == target] for kind in (penalised, gradient)
        ]
        if all(both):
            ours, theirs = (min(one.mean("evaluations_per_draw") for one in kind) for kind in both)
            ratios.append(ours / theirs)
    require(bool(ratios) and min(ratios) > 2)
    low, high = (format_number(ratio, 2) for ratio in (min(ratios), max(ratios)))
    times = low if low == high else f"{low} to {high}"
    return Finding(
        "Where a small bias is good enough, SGLD is far cheaper.",
        f"With a preconditioner, and within a tenth of the right width, it needs {times} times fewer evaluations per "
        "effective draw than the cheapest penalised chain.",
    )


def _stuck_at_the_papers_step(study: StudyResults) -> Finding:
    wanted: dict[str, Any] = {"method": "pbnn", "step_size": 0.1, "preconditioner": "none", "batch_size": 5}
    found = _first(settings(study, ended_well, variant="regression", **wanted))
    require(found.mean("acceptance_rate") < 1e-3)
    return Finding(
        "At the paper's step size, without a preconditioner, the chain does not move.",
        f"On our network {format_name(found, 'preconditioner')} accepts "
        f"{format_number(found.mean('acceptance_rate'), 2)} of its moves. The paper gives no units for its step.",
    )


def _to_the_letter(study: StudyResults) -> Finding:
    """The paper's variance of one mini-batch: deviations from that mini-batch itself, or from the mean of all."""
    found = _first(settings(study, variant="regression", method="pbnn", variance="literal"))
    width, factor = found.estimate("sd_ratio"), found.mean("audit_variance_ratio_mean")
    require(width.high is not None and width.high < 1 and factor > 1.5)
    return Finding(
        "Read literally, the paper's variance of one mini-batch is twice what it should be.",
        "It takes deviations from that mini-batch, not from the mean of all. The estimate is "
        f"{format_number(factor, 2)} times the true variance, and the band "
        f"{format_number(found.mean('sd_ratio'))} times as wide as the exact one.",
    )


def _noise_grows(study: StudyResults) -> Finding:
    """How σ² of plain PBNN grows with the data at w = N and a fixed number of points per step."""
    same = ("task", "batch_size", "num_batches", "variance", "step_size", "preconditioner", "backend")
    wide = [
        sweep
        for sweep in sweeps(settings(study, ended_well, method="pbnn", weight="data"), "num_points", same)
        if sweep[-1]["num_points"] >= RULES[11]["min_range"] * sweep[0]["num_points"]
    ]
    exponents = [growth(sweep, "log_variance") for sweep in wide]
    require(bool(wide) and min(exponent.mean or 0.0 for exponent in exponents) > 0.5)
    return Finding(
        "On the posterior of all data, plain PBNN needs n M in proportion to N.",
        f"With n M fixed, its σ² grows {'; '.join(map(_grows, wide))}. Control variates remove this growth, which is "
        "what the study tall is about.",
    )


def _grows(sweep: Sequence[SettingRuns]) -> str:
    sizes = f"from N = {sweep[0]['num_points']:,} to {sweep[-1]['num_points']:,}"
    return f"as N to the power of {format_estimate(growth(sweep, 'log_variance'))} on {sweep[0]['task']}, {sizes}"


OF_PAPER = (_penalty, _target, _calibration, _cure, _cost, _stuck_at_the_papers_step, _to_the_letter, _noise_grows)
