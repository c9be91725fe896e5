"""The posterior of all data: what a draw of it costs as N grows, and how far it is off."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from matplotlib.typing import LineStyleType

from records.display import method_name
from records.methods import facts_of, in_order
from records.setting_runs import SettingRuns, one_backend
from records.study import StudyResults
from reports.evidence import CONTROLLED, by_size
from reports.figures.captions import runs_of
from reports.figures.cost import Offer, bias_caption, bias_panels, compared, counted_lines, marks_of, offers_of
from reports.figures.marks import draw_series, handle, hollow_handles, legend, panels
from reports.style import LABELS, look_of
from reports.types import Drawing, NothingToShow

# Cost against N


def draw_cost_of_a_draw(results: StudyResults) -> Drawing:
    """Evaluations, and seconds, for an effective draw against N; one line per method."""
    families = _families(results)
    if not families:
        raise NothingToShow("no method has an effective sample size at two numbers of training points")
    figure, all_axes = panels(2, height=3.9)
    for axes, column, label in zip(
        all_axes,
        ("evaluations_per_draw", "seconds_per_draw"),
        ("evaluations of single points", "seconds of sampling"),
        strict=True,
    ):
        for family in families:
            colour, marker, style = _look(family[0])
            draw_series(axes, family, lambda one: float(one["num_points"]), column, colour, marker, style)
        axes.set(xscale="log", yscale="log", xlabel=LABELS["num_points"], ylabel=f"{label}\nfor an effective draw")
    used = [one for family in families for one in family]
    handles = [handle(method_name(family[0]["method"]), *_look(family[0])) for family in families]
    legend(figure, handles + hollow_handles(used), most=3)
    flat = [family for family in families if family[0]["method"] in CONTROLLED]
    smallest, largest = min(one["num_points"] for one in used), max(one["num_points"] for one in used)
    growths = [_growth(family) for family in flat]
    title = f"Cost of an effective draw from N = {smallest:,} to {largest:,}"
    if growths:
        takes = f"an effective draw takes at most {max(growths):.2g} times the evaluations"
        title = f"A thousand times the data: with control variates {takes}"
        if largest != 1000 * smallest:
            title = f"From N = {smallest:,} to {largest:,} {takes}"
    caption = (
        "The price of an effective draw at w = N, without warm-up; means over seeds, 95 % intervals. Broken lines: "
        f"full-data methods. {_largest_gap(families)}"
    )
    return Drawing(figure, caption, runs_of(used), title)


def _families(results: StudyResults) -> list[list[SettingRuns]]:
    """Settings at several N, ascending; of each method the one at most N."""
    found: dict[str, list[list[SettingRuns]]] = {}
    for family in by_size([one for one in one_backend(results.ran(weight="data")) if one.has("seconds_per_draw")]):
        found.setdefault(family[0]["method"], []).append(family)
    return [max(found[method], key=len) for method in in_order(found)]


def _growth(family: Sequence[SettingRuns]) -> float:
    return family[-1].mean("evaluations_per_draw") / family[0].mean("evaluations_per_draw")


def _look(setting: SettingRuns) -> tuple[str, str, LineStyleType]:
    """Broken lines are of full-data methods."""
    return *look_of(setting["method"]), "-" if facts_of(setting["method"]).is_minibatch else "--"


def _largest_gap(families: Sequence[Sequence[SettingRuns]]) -> str:
    """How much more the cheapest full-data sampler takes than the cheapest mini-batch chain, where both ran last."""
    last: dict[bool, dict[int, float]] = {True: {}, False: {}}
    for family in families:
        for one in family:
            # Draws that read no data, those of Laplace, are of no chain.
            if not one.mean("evaluations_per_draw") > 0:
                continue
            sizes = last[facts_of(one["method"]).is_minibatch]
            size = int(one["num_points"])
            sizes[size] = min(sizes.get(size, math.inf), one.mean("seconds_per_draw"))
    common = sorted(last[True].keys() & last[False].keys())
    if not common:
        return ""
    ratio = last[False][common[-1]] / last[True][common[-1]]
    return (
        f"At N = {common[-1]:,} the cheapest full-data sampler takes {float(f'{ratio:.2g}'):,.0f} times as long as the "
        "cheapest mini-batch chain."
    )


# Bias against cost, w = N


def draw_bias_cost(results: StudyResults) -> Drawing:
    """Error of the band against the seconds of an effective draw, with w = N."""
    offers = offers_of(results.ran(weight="data"), "seconds_per_draw")
    if not offers:
        raise NothingToShow("no run with w = N has both an effective sample size and a distance from a reference")
    ends = _ends([one.setting for part in offers.values() for one in part])
    panels_of = compared({variant: part for variant, part in offers.items() if variant in ends})
    figure, sentences = bias_panels(panels_of, "seconds of sampling")
    shown = [one for part in panels_of.values() for one in part]
    numbers = (*counted_lines(shown), *sentences)
    marks = marks_of(panels_of, "seconds of sampling")
    used = runs_of(one.setting for one in shown)
    return Drawing(figure, bias_caption(), used, _fastest(panels_of.values()), numbers, marks)


def _fastest(parts: Iterable[Sequence[Offer]]) -> str:
    """Whose draws are the fastest within the bound on most targets, of those where any are."""
    right = [[one for one in part if one.is_right] for part in parts]
    fastest = Counter(min(part, key=lambda one: one.price).setting["method"] for part in right if part)
    if not fastest:
        return ""
    ((method, won),) = fastest.most_common(1)
    return f"{method_name(method)} has the fastest right draws on {won} of {fastest.total()} posteriors of all data"


def _ends(settings: Sequence[SettingRuns]) -> set[str]:
    """Of a task at several N the variants with the smallest and the largest, and every other task's."""
    sizes: dict[str, dict[int, str]] = {}
    for one in settings:
        sizes.setdefault(one["task"], {})[one["num_points"]] = one["variant"]
    return {variants[size] for variants in sizes.values() for size in (min(variants), max(variants))}
