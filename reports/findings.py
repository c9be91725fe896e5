"""What a study found, in plain words and with its numbers: the first thing that its report, and the README, say."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from records.display import format_estimate, format_name, format_number
from records.setting import Setting, sweeps
from records.study import StudyResults
from reports.calibration_findings import OF_CALIBRATION
from reports.claims.calibration import network_of, trained_longer
from reports.claims.cost import growth
from reports.claims.rules import RULES
from reports.evidence import ended_well, full_data_of, require, settings
from reports.rivals_findings import OF_RIVALS
from reports.tall_findings import OF_TALL
from reports.types import Finding, NothingToShow

#: How far a band may be from the exact one, in width and place, and a posterior overconfident.
RULE, OVERCONFIDENT = RULES[2], RULES[6]["overconfident"]
#: What a chain on mini-batches with the penalty may be.
PENALISED = ["pbnn", "pbnn_mala"]


def findings(study: StudyResults) -> list[Finding]:
    """Those that the study has the runs for, and whose words its numbers bear out; numbers do not choose words."""
    of_paper = (
        _penalty,
        _target,
        _calibration,
        _cure,
        _cost,
        _stuck_at_the_papers_step,
        _to_the_letter,
        _noise_grows,
        _all_layers,
    )
    rules: dict[str, tuple[Callable[[StudyResults], Finding], ...]] = {
        "tall": OF_TALL,
        "rivals": OF_RIVALS,
        "calibration": OF_CALIBRATION,
    }
    found = []
    for rule in rules.get(study.name, of_paper):
        try:
            found.append(rule(study))
        except NothingToShow:
            continue
    return found


def _first(candidates: Iterable[Setting]) -> Setting:
    """The first in the order of their labels, so that the same study always gives the same sentence."""
    found = sorted(candidates, key=lambda one: one["label"])
    require(bool(found))
    return found[0]


def _is_right(setting: Setting) -> bool:
    return abs(setting.mean("sd_ratio") - 1) <= RULE["width"] and setting.mean("mean_error") <= RULE["place"]


def _noise(setting: Setting) -> float:
    return setting.mean("mean_variance")


def _penalty(study: StudyResults) -> Finding:
    line: dict[str, Any] = {"variant": "linear", "batch_size": 2, "weight": "data", "step_size": 2e-4}
    naive = _first(settings(study, **line, method="naive"))
    known = _first(settings(study, **line, method="pbnn", variance="oracle"))
    estimated = settings(study, **line, method="pbnn", variance="batches")
    many = max(estimated, key=lambda one: one["num_batches"])
    few = min(estimated, key=lambda one: one["num_batches"])
    require(_is_right(known) and _is_right(many) and not _is_right(naive))
    widths = [format_number(one.mean("sd_ratio")) for one in (naive, known, many, few)]
    return Finding(
        "The penalty works.",
        f"Without it, mini-batches of two points make the predictive band {widths[0]} times as wide as it should be. "
        f"With it: {widths[1]} times with the variance known, {widths[2]} times with it estimated from "
        f"{many['num_batches']} mini-batches, {widths[3]} times from {few['num_batches']}. Acceptance falls from "
        f"{format_number(naive.mean('acceptance_rate'), 2)} to {format_number(known.mean('acceptance_rate'), 2)}.",
    )


def _target(study: StudyResults) -> Finding:
    usual: dict[str, Any] = {"method": "pbnn", "variance": "batches", "weight": "batch", "preconditioner": "full"}
    found = settings(study, variant="regression", batch_size=5, **usual)
    quiet, loud = min(found, key=_noise), max(found, key=_noise)
    require(_is_right(quiet))
    within = (
        "With mini-batches of n points of a data set it finds what a full-data chain with the likelihood tempered to n "
        f"finds: {format_number(quiet.mean('sd_ratio'))} of its width where the noise is least, "
        f"{format_number(loud.mean('sd_ratio'))} where it is largest."
    )
    fresh = [
        one
        for variant in study.variants
        if variant.startswith("regression-fresh")
        for one in settings(study, variant=variant, **usual)
        if _is_right(one)
    ]
    if not fresh:
        return Finding("What PBNN samples is the tempered posterior.", within)
    far = max(fresh, key=lambda one: (one["batch_size"], one["label"]))
    return Finding(
        "Within a data set PBNN samples the tempered posterior, and on fresh data the expected one.",
        f"{within} Where every mini-batch is fresh from the population it finds the posterior of the expected loss: "
        f"{format_number(far.mean('sd_ratio'))} of its width at n = {far['batch_size']}, its mean off by "
        f"{format_number(far.bias().mean, 2)} sd. Both sides of the question are right, each about its own setting.",
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
        "A small n calibrates an overconfident posterior and spoils a calibrated one.",
        f"On the regression the calibration error falls from {numbers[0]} with full data to {numbers[1]} at n = 10. On "
        f"MNIST it is {numbers[2]} with full data, and n = 100 makes it {numbers[3]}, by too little confidence.",
    )


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
    return Finding(
        f"An overfitted network is cured by a smaller n, and n = {paper['target_weight']:g} is too small for it.",
        f"On MNIST with {full['num_points']:,} images and {full['num_epochs']} epochs the calibration error falls from "
        f"{numbers[0]} with full data to {numbers[1]} at n = {chosen['target_weight']:g}, chosen on validation images, "
        f"and is {numbers[2]} at n = {paper['target_weight']:g}; "
        f"the NLL is {numbers[3]}, {numbers[4]} and {numbers[5]}.",
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
        f"Preconditioned, and within a tenth of the right width, it needs {times} times fewer evaluations for an "
        "effective draw than the cheapest penalised chain.",
    )


def _stuck_at_the_papers_step(study: StudyResults) -> Finding:
    wanted: dict[str, Any] = {"method": "pbnn", "step_size": 0.1, "preconditioner": "none", "batch_size": 5}
    found = _first(settings(study, ended_well, variant="regression", **wanted))
    require(found.mean("acceptance_rate") < 1e-3)
    return Finding(
        "At the step that the paper names, without a preconditioner, the chain does not move.",
        f"{format_name(found)} accepts {format_number(found.mean('acceptance_rate'), 2)} of its moves.",
    )


def _to_the_letter(study: StudyResults) -> Finding:
    """The paper's variance of one mini-batch: deviations from that mini-batch itself, or from the mean of all."""
    found = _first(settings(study, variant="regression", method="pbnn", variance="literal"))
    width, factor = found.estimate("sd_ratio"), found.mean("audit_variance_ratio_mean")
    require(width.high is not None and width.high < 1 and factor > 1.5)
    return Finding(
        "Read to the letter, the paper's variance of one mini-batch is twice what it should be.",
        "Its deviations are from the mini-batch itself, not from the mean of all: the estimate is "
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
        "Plain PBNN on the posterior of all data needs n M in proportion to N.",
        "With n M fixed its σ² grows " + "; ".join(map(_grows, wide)) + ".",
    )


def _all_layers(study: StudyResults) -> Finding:
    found = _first(settings(study, variant="regression-all", method="pbnn"))
    require(_is_right(found))
    return Finding(
        "The penalty works where all layers are stochastic.",
        f"On a network of {found['num_parameters']} parameters its predictive band is "
        f"{format_estimate(found.estimate('sd_ratio'))} times as wide as that of long Hamiltonian chains, and its mean "
        f"is off by {format_estimate(found.bias())} sd.",
    )


def _grows(sweep: Sequence[Setting]) -> str:
    sizes = f"from N = {sweep[0]['num_points']:,} to {sweep[-1]['num_points']:,}"
    return f"as N to the power of {format_estimate(growth(sweep, 'log_variance'))} on {sweep[0]['task']}, {sizes}"
