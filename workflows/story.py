"""What to remember of the published studies, two sentences each: the findings of README and start page.

The report of a study has all its findings, with intervals. Here numbers have two digits, and a finding that they do
not bear out is left out.
"""

import json
from collections.abc import Callable
from typing import Any

from records.display import format_number, method_name
from records.study import StudyResults
from reports.claims.calibration import PAPER_N, network_of
from reports.claims.overconfidence import networks
from reports.claims.rivals import best_pairs, lost_targets
from reports.claims.rules import RULES
from reports.claims.tall import FULL_DATA, fastest, is_right, widest
from reports.claims.targets import COMPARED
from reports.evidence import CONTROLLED, require, settings
from reports.leaderboard import CRITERION
from reports.types import Finding, NothingToShow


def rounded(value: float | None) -> str:
    """To two digits, 248 as 250."""
    return format_number(None if value is None else float(f"{value:.1e}"), 2)


def _penalty(study: StudyResults) -> Finding:
    line: dict[str, Any] = {"variant": "linear", "batch_size": 2, "weight": "data", "step_size": 2e-4}
    naive = settings(study, **line, method="naive")[0]
    known = settings(study, **line, method="pbnn", variance="oracle")[0]
    estimated = settings(study, **line, method="pbnn", variance="batches", num_batches=2)[0]
    widths = [one.mean("sd_ratio") for one in (naive, known, estimated)]
    require(abs(widths[1] - 1) < 0.05 < widths[2] - 1 < widths[0] - 1)
    wide, right, left = map(rounded, widths)
    return Finding(
        "Mini-batches bias a chain, and the penalty removes most of the bias.",
        f"When a line is fitted with two points per mini-batch, the predictive band is {wide} times as wide as it "
        f"should be; with the penalty it is {right} times as wide if the variance of the noise is known, and {left} "
        "times if it is estimated from only two mini-batches.",
    )


def _target(study: StudyResults) -> Finding:
    """What mini-batches of n points have for their target: of claim 10, at the n at which the two lie apart."""
    rule, num = RULES[10], COMPARED[-1]
    wanted: dict[str, Any] = {"method": "pbnn", "batch_size": num, "weight": "batch"}
    fresh = next((one for one in study.variants if one.startswith("regression-fresh")), None)
    within, streamed = (settings(study, variant=variant, **wanted)[0] for variant in ("regression", fresh))
    # Each has its own target for reference: the tempered posterior, and the posterior of the expected loss.
    for one in (within, streamed):
        off = one.bias().high
        require(abs(one.mean("sd_ratio") - 1) < rule["width"] and off is not None and off < rule["place"])
    # That takes the draws; the judge of the claim has seen them.
    claims = json.loads((study.folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    apart: dict[str, Any] = next(claim["effect"] for claim in claims if claim["id"] == rule.id) or {"label": ""}
    require("with fresh points" in apart["label"] and f"n={num}," in apart["label"])
    require((apart["low"] or 0.0) > rule["place"])
    return Finding(
        "Within a data set PBNN samples the tempered posterior; with fresh data in every mini-batch, the posterior of "
        "the expected loss.",
        f"Both views are right, each about its own setting: at n = {num}, PBNN's mean is within "
        f"{rounded(within.bias().high)} standard deviations of that of the tempered posterior within a data set, and "
        f"{rounded(apart['mean'])} away from it with fresh data.",
    )


def _calibration(study: StudyResults) -> Finding:
    """On networks that were trained until they are overconfident, and on one that is not."""
    found = [network_of(study, variant) for variant in networks(study)]
    margin = RULES[51]["overconfident"]
    over = [one for one in found if one.full.mean("confidence_gap") > margin]
    others = [one for one in found if one not in over and one.of_paper]
    require(bool(over) and bool(others))
    changes = [one.chosen.difference(one.full, score).high for one in over for score in ("ece", "nll")]
    require(all(high is not None and high < 0 for high in changes))
    wide = max(over, key=lambda one: (one.full["prior_scale"], one.full["num_points"]))
    usual = min(others, key=lambda one: one.full["prior_scale"])
    worse = usual.of_paper[0].difference(usual.full, "ece").low
    require(wide.chosen["target_weight"] == PAPER_N and worse is not None and worse > 0)
    ece, nll = ([rounded(one.mean(score)) for one in (wide.full, wide.chosen)] for score in ("ece", "nll"))
    harm = [rounded(one.mean("ece")) for one in (usual.full, usual.of_paper[0])]
    return Finding(
        "A smaller n, the weight that PBNN gives the data, repairs overconfident networks and harms calibrated ones.",
        f"On MNIST, the n chosen on validation images lowers the calibration error (ECE) and the negative log "
        f"likelihood (NLL) of {_all(len(over))} overfitted networks (under a wide prior it is the paper's own "
        f"n = {PAPER_N}: ECE {ece[0]} to {ece[1]}, NLL {nll[0]} to {nll[1]}); a network that is not overconfident "
        f"gets worse at n = {PAPER_N} (ECE {harm[0]} to {harm[1]}).",
    )


def _all(number: int) -> str:
    return f"all {number}" if number > 1 else "the"


def _large_data(study: StudyResults) -> Finding:
    sweeps = [widest(study, method) for method in CONTROLLED]
    growths = [sweep[-1].ratio(sweep[0], "evaluations_per_draw").mean or 0.0 for sweep in sweeps]
    ours = [one for one in settings(study, variant="mnist", method=list(CONTROLLED)) if is_right(one)]
    require(bool(ours) and min(growths) > 0 and max(growths) < 1.2)
    rival = fastest(settings(study, variant="mnist", method=list(FULL_DATA)))
    speed = rival.ratio(fastest(ours), "seconds_to_400")
    require(speed.low is not None and speed.low > 1)
    smallest, largest = (sweeps[0][end]["num_points"] for end in (0, -1))
    return Finding(
        "On large data, mini-batches with control variates beat the best full-data sampler.",
        f"An effective draw takes about as many evaluations with {largest:,} points as with {smallest:,}, and on MNIST "
        f"they get 400 effective draws {rounded(speed.mean)} times as fast as {method_name(rival['method'])}.",
    )


def _rivals(study: StudyResults) -> Finding:
    ratios = [ours.ratio(theirs, CRITERION) for ours, theirs in best_pairs(study)]
    wins = [one for one in ratios if one.low is not None and one.low > 1]
    lost = lost_targets(study)
    require(len(wins) > len(lost))
    low, high = (rounded(end(one.mean or 0.0 for one in wins)) for end in (min, max))
    return Finding(
        f"Where a small bias is acceptable, mini-batches are cheaper than full data on {len(wins)} of "
        f"{len(ratios) + len(lost)} targets.",
        f"There the best mini-batch method needs {low} to {high} times fewer evaluations per effective draw than the "
        "best full-data method.",
    )


#: In this order, each from the study that shows it.
STORY: tuple[tuple[str, Callable[[StudyResults], Finding]], ...] = (
    ("paper", _penalty),
    ("paper", _target),
    ("calibration", _calibration),
    ("tall", _large_data),
    ("rivals", _rivals),
)


def story(studies: dict[str, StudyResults]) -> list[Finding]:
    """The findings that the studies, by name, have the runs for and bear out."""
    found = []
    for name, finding in STORY:
        if name not in studies:
            continue
        try:
            found.append(finding(studies[name]))
        except NothingToShow:
            continue
    return found
