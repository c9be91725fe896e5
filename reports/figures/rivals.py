"""Every method on one picture: what an effective draw costs, and how far from its target it is."""

from collections.abc import Iterable, Sequence

from records.display import estimate_parts, format_estimate, format_name, format_rounded, format_value, method_name
from records.methods import facts_of
from records.study import StudyResults
from reports.claims.rivals import best_pairs, lost_targets, target_of
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.cost import Offer, bias_caption, bias_panels, compared, counted_lines, marks_of, offers_of
from reports.figures.marks import SMALL, blank, whole_decades, wrapped
from reports.leaderboard import CRITERION, target_text
from reports.style import EXACT, is_narrow, look_of
from reports.types import Drawing, NothingToShow


def draw_best(results: StudyResults) -> Drawing:
    """Effective draws per evaluation, by target: the best mini-batch chain and the best full-data chain."""
    pairs = best_pairs(results)
    if not pairs:
        raise NothingToShow("on no target both a mini-batch chain and a full-data chain are within the bias bound")
    figure = blank(1.0 + (0.95 if is_narrow() else 0.75) * len(pairs))
    axes = figure.add_subplot()
    axes.set_xscale("log")
    labels, numbers, ratios = [], [], []
    for row, (ours, theirs) in enumerate(pairs):
        ratio = ours.ratio(theirs, CRITERION)
        ratios.append(ratio.mean or 0.0)
        axes.plot([theirs.mean(CRITERION), ours.mean(CRITERION)], [row, row], color=EXACT, linewidth=1.4, zorder=1)
        # Ours above the line and theirs below it: however near, their names do not meet.
        for one, offset, side in ((ours, 7, "bottom"), (theirs, -7, "top")):
            colour, marker = look_of(one["method"])
            axes.plot([one.mean(CRITERION)], [row], color=colour, marker=marker, markersize=9, zorder=3)
            axes.annotate(
                method_name(one["method"]),
                (one.mean(CRITERION), row),
                (0, offset),
                textcoords="offset points",
                ha="center",
                va=side,
                fontsize=SMALL,
            )
        labels.append(f"{wrapped(target_text(*target_of(ours)), 40, 12)}\n× {estimate_parts(ratio)[0]}")
        numbers.append(
            f"{target_text(*target_of(ours))}: {format_name(ours, 'preconditioner')} "
            f"{format_value(ours, CRITERION)}, {format_name(theirs, 'preconditioner')} "
            f"{format_value(theirs, CRITERION)}, ratio {format_estimate(ratio)}."
        )
    left, right = axes.get_xlim()
    # Room for the names at both ends.
    room = 30 if is_narrow() else 4
    axes.set_xlim(left / room, right * room)
    whole_decades(axes, "x")
    axes.set(ylim=(len(pairs) - 0.4, -0.6), yticks=range(len(pairs)))
    axes.set_xlabel(wrapped("effective draws per million evaluations", 40, 24))
    axes.set_yticklabels(labels)
    axes.grid(axis="y", visible=False)
    times = " to ".join(dict.fromkeys(format_rounded(end(ratios)) for end in (min, max)))
    title = f"Per evaluation, mini-batches give {times} times the effective draws of full data"
    caption = (
        "Above each line, the best mini-batch chain, below it the best full-data chain, of those with a small bias. An "
        "evaluation is of one data point."
    )
    if lost := lost_targets(results):
        caption += f" Not shown: {', '.join(lost)}, where no mini-batch chain qualifies."
    used = [one for pair in pairs for one in pair]
    return Drawing(figure, caption, runs_of(used), title if min(ratios) > 1 else "", tuple(numbers))


def draw_frontier(results: StudyResults) -> Drawing:
    """Error of the band against the evaluations of an effective draw, one panel per target."""
    unit = "evaluations of single data points"
    offers = compared(offers_of(results.ran(), "evaluations_per_draw"))
    if not offers:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    figure, sentences = bias_panels(offers, unit)
    shown = [one for part in offers.values() for one in part]
    used = [one.setting for one in shown]
    numbers = (
        *counted_lines(shown),
        "Every method was allowed the same number of evaluations to tune its step.",
        *sentences,
        *unconverged_lines(used),
    )
    return Drawing(figure, bias_caption(), runs_of(used), _message(offers.values()), numbers, marks_of(offers, unit))


def _message(parts: Iterable[Sequence[Offer]]) -> str:
    """On how many targets the cheapest chain within the bound reads mini-batches, of those where both kinds entered."""
    cheapest = []
    for part in parts:
        # Draws that cost nothing are of no chain.
        chains = [one for one in part if one.price]
        right = [one for one in chains if one.is_right]
        # Where mini-batches alone are right there is nothing to be cheaper than.
        is_contest = any(not _is_minibatch(one) for one in right) and any(map(_is_minibatch, chains))
        if is_contest:
            cheapest.append(min(right, key=lambda one: one.price))
    if not cheapest:
        return ""
    return (
        f"The cheapest right chain reads mini-batches on {sum(map(_is_minibatch, cheapest))} of {len(cheapest)} targets"
    )


def _is_minibatch(offer: Offer) -> bool:
    return facts_of(offer.setting["method"]).is_minibatch
