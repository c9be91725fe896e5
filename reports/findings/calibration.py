"""What the study `calibration` found: which networks are overconfident, and what is the cure."""

from collections.abc import Sequence

from records.display import format_given, format_number
from records.study import StudyResults
from reports.claims.calibration import PAPER_N, Network, network_of
from reports.claims.overconfidence import network_text, networks, scaled_of, training_of
from reports.claims.rules import RULES
from reports.evidence import require
from reports.types import Finding

#: The gap from which a network is called overconfident.
MARGIN = RULES[51]["overconfident"]


def _gap(network: Network) -> float:
    return network.full.mean("confidence_gap")


def _groups(study: StudyResults) -> tuple[list[Network], list[Network]]:
    """Networks that were trained for longer than their task asks, and the others."""
    found = [network_of(study, variant) for variant in networks(study)]
    longer = [one for one in found if one.full["num_epochs"] is not None]
    usual = [one for one in found if one.full["num_epochs"] is None]
    require(bool(longer) and bool(usual))
    return longer, usual


def _training_decides(study: StudyResults) -> Finding:
    longer, usual = _groups(study)
    require(min(map(_gap, longer)) > MARGIN > max(map(_gap, usual)))
    low, high = (format_number(end(map(_gap, longer)), 2) for end in (min, max))
    most = max(map(_gap, usual))
    usually = "it does not" if most <= 0 else f"by at most {format_number(most, 2)}"
    return Finding(
        "Training decides whether the posterior of all data is overconfident.",
        f"In networks trained to overfit, the posterior's confidence exceeds its accuracy by {low} to {high}, whatever "
        f"the prior; with the task's default training {usually}.",
    )


def _prior_moves_n(study: StudyResults) -> Finding:
    """The n with the least validation ECE, from the narrowest prior to the widest."""
    longer, _ = _groups(study)
    by_training: dict[str, list[Network]] = {}
    for one in sorted(longer, key=lambda one: float(one.full["prior_scale"])):
        by_training.setdefault(training_of(one.full), []).append(one)
    ends = [(family[0], family[-1]) for family in by_training.values() if len(family) > 1]
    require(bool(ends) and all(wide.chosen["target_weight"] < narrow.chosen["target_weight"] for narrow, wide in ends))
    texts = [
        f"n = {format_given(narrow.chosen['target_weight'])} with prior sd {narrow.full['prior_scale']:g} and "
        f"{format_given(wide.chosen['target_weight'])} with {wide.full['prior_scale']:g} for {training_of(narrow.full)}"
        for narrow, wide in ends
    ]
    return Finding(
        "Which mini-batch size n calibrates depends on the prior: the wider the prior, the smaller n.",
        f"Chosen on validation images: {'; '.join(texts)}. {_of_the_paper(longer)}",
    )


def _of_the_paper(networks: Sequence[Network]) -> str:
    """On how many overconfident networks the paper's n lowers the calibration error, on how many it raises it."""
    judged = [one for one in networks if _gap(one) > MARGIN and one.of_paper]
    changes = [(one, one.of_paper[0].difference(one.full, "ece")) for one in judged]
    lower = [one for one, change in changes if change.high is not None and change.high < 0]
    higher = [one for one, change in changes if change.low is not None and change.low > 0]
    return (
        f"Of {len(judged)} overconfident networks, the paper's n = {PAPER_N} lowers the calibration error of "
        f"{_counted(lower)} and raises that of {_counted(higher)}."
    )


def _counted(networks: Sequence[Network]) -> str:
    """``4 (prior sd 3 and 10)``"""
    scales = sorted({float(one.full["prior_scale"]) for one in networks})
    return f"{len(networks)} (prior sd {' and '.join(f'{one:g}' for one in scales)})" if networks else "none"


def _price(study: StudyResults) -> Finding:
    """ECE and NLL of overconfident networks with full data, at the chosen n, and scaled by a temperature."""
    longer, _ = _groups(study)
    cured = [one for one in longer if _gap(one) > MARGIN]
    require(bool(cured))
    scaled = [scaled_of(study, one) for one in cured]
    better = [one for one in cured if one.chosen.mean("nll") < one.full.mean("nll")]
    require(len(better) == len(cured))
    losses = sum(one.chosen.mean("nll") > other.mean("nll") for one, other in zip(cured, scaled, strict=True))
    worst = max(cured, key=_gap)
    numbers = [format_number(one.mean("nll"), 2) for one in (worst.full, worst.chosen, scaled[cured.index(worst)])]
    return Finding(
        "That n also lowers the negative log likelihood (NLL), but temperature scaling has a lower mean NLL on "
        f"{losses} of {len(cured)} overconfident networks.",
        f"For {network_text(worst.full)}, the most overconfident, the NLL is {numbers[0]} with full data, {numbers[1]} "
        f"at n = {format_given(worst.chosen['target_weight'])} and {numbers[2]} with temperature scaling, which "
        "needs no chain.",
    )


OF_CALIBRATION = (_training_decides, _prior_moves_n, _price)
