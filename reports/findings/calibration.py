"""What the study `calibration` found: networks on MNIST, overconfident and not, and the n that calibrates each."""

from collections.abc import Sequence

from records.display import format_number
from records.setting import Setting
from records.study import StudyResults
from reports.claims.calibration import PAPER_N, Network, network_of
from reports.claims.rules import RULES
from reports.evidence import require
from reports.types import Finding, NothingToShow

OVERCONFIDENT = RULES[13]["overconfident"]


def _networks(study: StudyResults) -> list[Network]:
    """Those whose chains have converged, at the paper's n too."""
    found = []
    for variant in study.variants:
        try:
            network = network_of(study, variant)
        except NothingToShow:
            continue
        if network.of_paper:
            found.append(network)
    return found


def _overconfident(study: StudyResults) -> Finding:
    """What becomes of them at an n chosen for each, and at the paper's."""
    networks = [one for one in _networks(study) if (one.full.estimate("confidence_gap").low or 0.0) > OVERCONFIDENT]
    require(bool(networks))
    full, chosen, paper = (
        [one.full for one in networks],
        [one.chosen for one in networks],
        [one.of_paper[0] for one in networks],
    )
    cured, as_in_paper = (
        sum((one.difference(of_all, "ece").high or 0.0) < 0 for one, of_all in zip(found, full, strict=True))
        for found in (chosen, paper)
    )
    return Finding(
        f"An n chosen on validation images calibrates {cured} of {len(networks)} overconfident networks better; the "
        f"paper's n = {PAPER_N} does so for {as_in_paper}.",
        f"The calibration error is {_errors(full)} with full data, {_errors(chosen)} at the chosen n "
        f"({_range([one['target_weight'] for one in chosen], 4)}) and {_errors(paper)} at n = {PAPER_N}.",
    )


def _not_overconfident(study: StudyResults) -> Finding:
    all_networks = _networks(study)
    networks = [one for one in all_networks if one.full.mean("confidence_gap") <= OVERCONFIDENT]
    require(bool(networks))
    require(all((one.of_paper[0].difference(one.full, "ece").low or 0.0) > 0 for one in networks))
    return Finding(
        "A small n spoils networks that full data do not make overconfident.",
        f"For {len(networks)} of {len(all_networks)} networks, n = {PAPER_N} raises the calibration error from "
        f"{_errors([one.full for one in networks])} to {_errors([one.of_paper[0] for one in networks])}.",
    )


def _errors(found: Sequence[Setting]) -> str:
    return _range([one.mean("ece") for one in found], 2)


def _range(values: Sequence[float], digits: int) -> str:
    low, high = (format_number(end(values), digits) for end in (min, max))
    return low if low == high else f"{low} to {high}"


OF_CALIBRATION = (_overconfident, _not_overconfident)
