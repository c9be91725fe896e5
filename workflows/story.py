"""What to remember of the published studies, a line or two each: the findings of README and start page.

The report of a study has all its findings, with intervals. Here numbers have two digits, and a sentence that they do
not bear out is left out.
"""

from collections.abc import Callable
from typing import Any

from records.display import format_number, method_name
from records.study import StudyResults
from reports.claims.rivals import best_pairs, lost_targets
from reports.claims.tall import FULL_DATA, fastest, is_right, widest
from reports.evidence import CONTROLLED, full_data_of, require, settings
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
        f"should be. With the penalty it is {right} times as wide if the variance of the noise is known, and {left} "
        "times if it is estimated from two mini-batches.",
    )


def _calibration(study: StudyResults) -> Finding:
    full, images_full = full_data_of(study, "regression"), full_data_of(study, "mnist")
    few: dict[str, Any] = {"method": "pbnn", "weight": "batch"}
    small = settings(study, variant="regression", batch_size=10, **few)[0]
    images = settings(study, variant="mnist", batch_size=100, **few)[0]
    low, high = small.difference(full, "crps").low, images.difference(images_full, "ece").low
    require(small.mean("ece") < full.mean("ece") and low is not None and low > 0 and high is not None and high > 0)
    errors = [rounded(one.mean("ece")) for one in (full, small, images_full, images)]
    return Finding(
        "A small n calibrates an overconfident posterior, and makes a calibrated one worse.",
        f"On the regression, which is overconfident, n = {small['batch_size']} lowers the calibration error from "
        f"{errors[0]} to {errors[1]} (the CRPS, which also scores sharpness, gets slightly worse). On MNIST, which "
        f"is not, n = {images['batch_size']} raises it from {errors[2]} to {errors[3]}.",
    )


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
        f"An effective draw takes as many evaluations with {largest:,} points as with {smallest:,}. On MNIST they get "
        f"400 effective draws {rounded(speed.mean)} times as fast as {method_name(rival['method'])}.",
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
    ("paper", _calibration),
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
