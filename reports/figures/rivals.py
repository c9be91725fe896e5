"""Every method on one picture: what an effective draw costs, and how far from its target it is."""

from collections.abc import Sequence

from records.methods import facts_of
from records.study import StudyResults
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.cost import Offer, bias_panels, marks_of, offers_of
from reports.tables import why_not
from reports.types import Drawing, NothingToShow


def draw_frontier(results: StudyResults) -> Drawing:
    """Error of predictive means, each in its own sd, against the evaluations of an effective draw.

    By predictions, which networks with several stochastic layers have too.
    """
    unit = "evaluations of single data points"
    offers = offers_of(results.ran(), "evaluations_per_draw", "point_error")
    if not offers:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    figure, sentences = bias_panels(offers, unit)
    shown = [one for part in offers.values() for one in part]
    used = [one.setting for one in shown]
    bounds = sum(not one.is_resolved for one in shown)
    caption = (
        "Down is right, left is cheap; steps tuned on the same number of evaluations. An arrow is a bound "
        f"({bounds} of {len(shown)}): the distance is within Monte Carlo error. "
        "Steps join settings that nothing beats in both."
    )
    numbers = (*(f"Not beaten: {sentence}." for sentence in sentences), *unconverged_lines(used))
    return Drawing(figure, caption, runs_of(used), _message(shown), numbers, marks_of(offers, unit))


def _message(offers: Sequence[Offer]) -> str:
    """On how many targets the cheapest draws within the bias bound come from mini-batches, where others are too."""
    targets: dict[tuple[str, float], list[Offer]] = {}
    for one in offers:
        if why_not(one.setting) is None:
            targets.setdefault((one.setting["variant"], one.setting["target_weight"]), []).append(one)
    cheapest = [min(found, key=lambda one: one.price) for found in targets.values() if len(_kinds(found)) == 2]
    if not cheapest:
        return ""
    won = sum(facts_of(one.setting["method"]).is_minibatch for one in cheapest)
    return f"The cheapest right draws come from mini-batches on {won} of {len(cheapest)} targets"


def _kinds(offers: Sequence[Offer]) -> set[bool]:
    return {facts_of(one.setting["method"]).is_minibatch for one in offers}
