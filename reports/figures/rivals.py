"""Every method on one picture: what an effective draw costs, and how far from its target it is."""

from records.study import StudyResults
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.cost import bias_panels, offers_of
from reports.types import Drawing, NothingToShow


def draw_frontier(results: StudyResults) -> Drawing:
    """Error of predictive means, each in its own sd, against the evaluations of an effective draw.

    By predictions, which networks with several stochastic layers have too.
    """
    offers = offers_of(results.ran(), "evaluations_per_draw", "point_error")
    if not offers:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    figure, sentences = bias_panels(offers, "evaluations of single data points")
    shown = [one for part in offers.values() for one in part]
    used = [one.setting for one in shown]
    bounds = sum(not one.is_resolved for one in shown)
    caption = (
        "Down is right, left is cheap; steps tuned on the same number of evaluations. An arrow is a bound "
        f"({bounds} of {len(shown)}): the distance is within Monte Carlo error. Steps join what nothing beats in both."
    )
    numbers = (*(f"Not beaten: {sentence}." for sentence in sentences), *unconverged_lines(used))
    return Drawing(figure, caption, runs_of(used), numbers=numbers)
