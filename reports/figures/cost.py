"""What an answer costs: bias against the price of an effective draw, and the time of a step against N."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from records.display import format_name, format_number, method_name, task_name
from records.methods import facts_of, in_order
from records.setting_runs import SettingRuns, of_usual_size, one_backend
from records.study import StudyResults
from reports.figures.captions import listed, runs_of, unconverged_lines
from reports.figures.marks import LINE_STYLES, SMALL, handle, hollow_handles, legend, panels, whole_decades
from reports.style import EXACT, LABELS, is_narrow, look_of
from reports.tables import MARGIN
from reports.types import Drawing, Mark, NothingToShow

#: Entries of a legend that would keep a reader from the picture.
MANY = 16
#: Panels of one or two rows.
FEW_PANELS = 4
#: An arrow ends about here: its bound over this.
ARROW = 2.0
#: Points across the ring round the cheapest that is right.
RING = 14
#: Where a log axis ends, as errors of 0 have no place on it.
FLOOR = 1e-3
#: Of a single seed, which has no interval: so many Monte Carlo errors to either side.
ERRORS = 2.0


# Bias against the price of an effective draw


@dataclass(frozen=True, eq=False)
class Offer:
    """A setting, what an effective draw of it costs, and between what ends its error lies."""

    setting: SettingRuns
    price: float
    #: Interval of the error of its predictive band, in sd of the reference.
    low: float
    high: float

    @property
    def target(self) -> str:
        weight = self.setting["target_weight"]
        return "w = N" if weight == self.setting["num_points"] else f"w = {weight:,g}"

    @property
    def is_resolved(self) -> bool:
        """Is the error more than chance? If not its upper end is a bound."""
        return self.low > 0

    @property
    def is_right(self) -> bool:
        """Is the error surely within the bound? Of two that are, the cheaper one is better."""
        return self.setting.is_converged and self.high <= MARGIN


def draw_bias_against_evaluations(results: StudyResults) -> Drawing:
    """Error of the band against likelihood and gradient evaluations for an effective draw."""
    return _draw_bias(results, "evaluations_per_draw", "evaluations of single data points")


def draw_bias_against_seconds(results: StudyResults) -> Drawing:
    """Error of the band against seconds of sampling for an effective draw."""
    return _draw_bias(results, "seconds_per_draw", "seconds of sampling")


def offers_of(settings: Sequence[SettingRuns], price: str) -> dict[str, list[Offer]]:
    """Those of the settings that have a price and a reference, by variant."""
    offers: dict[str, list[Offer]] = {}
    for setting in one_backend(settings):
        # An oracle looks at all data for its variance, which no cheap method does.
        if setting.has(price) and setting.has("mean_error") and setting["variance"] != "oracle":
            offer = Offer(setting, setting.mean(price), *error_of(setting))
            offers.setdefault(setting["variant"], []).append(offer)
    return offers


def error_of(setting: SettingRuns) -> tuple[float, float]:
    """Interval of the largest of three errors, in sd of the reference: their RMS, or each prediction's own.

    That of the mean, its Monte Carlo part taken off; that of the width, as a chain can have the right mean and a band
    that is far too wide; and that of single predictions, whose means can be off where their average is not.
    """
    place = setting.bias()
    ends = [(place.low, place.high) if place.low is not None else _of_one_seed(setting, "mean_error", 0.0)]
    width = setting.estimate("sd_ratio")
    if width.low is not None and width.high is not None:
        ends.append(_from(width.low, width.high, 1.0))
    else:
        ends.append(_of_one_seed(setting, "sd_ratio", 1.0))
    # This one has its Monte Carlo error in it: it counts where it is more.
    if all(row["point_error_resolved"] for row in setting.evidence):
        points = setting.estimate("point_error")
        ends.append((points.low or 0.0, points.high or points.mean))
    return max(low or 0.0 for low, _ in ends), max(FLOOR, *(high or 0.0 for _, high in ends))


def _of_one_seed(setting: SettingRuns, column: str, right: float) -> tuple[float, float]:
    errors = [row[f"{column}_mc"] or 0.0 for row in setting.evidence]
    value, spread = setting.mean(column), ERRORS * max(errors)
    return _from(value - spread, value + spread, right)


def _from(low: float, high: float, right: float) -> tuple[float, float]:
    """The interval of a value's distance from the right one."""
    ends = abs(low - right), abs(high - right)
    return (0.0 if low <= right <= high else min(ends)), max(ends)


def _draw_bias(results: StudyResults, price: str, unit: str) -> Drawing:
    offers = compared(offers_of(of_usual_size(results.ran()), price))
    if not offers:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    figure, sentences = bias_panels(offers, unit)
    everything = [offer for part in offers.values() for offer in part]
    used = [offer.setting for offer in everything]
    numbers = (
        *counted_lines(everything),
        *sentences,
        "Means over seeds; chains that need a known variance, and targets that one method alone samples, are left out.",
        *unconverged_lines(used),
    )
    return Drawing(
        figure, bias_caption(), runs_of(used), _message(offers.values(), unit), numbers, marks_of(offers, unit)
    )


def bias_caption() -> str:
    """How to read ``bias_panels``."""
    return (
        "A mark is the upper end of the error's 95 % interval (mean or width, the larger); a line leads to its lower "
        f"end, an arrow says it may be 0. Ringed: the cheapest surely below {MARGIN} sd (dotted)."
    )


def counted_lines(offers: Sequence[Offer]) -> tuple[str, ...]:
    """What the picture tells apart."""
    right, others = [one for one in offers if one.is_right], [one for one in offers if not one.is_right]
    small, large = (sum(one.is_resolved for one in part) for part in (right, others))
    return (
        f"Of {len(offers)} settings, {len(right)} are surely within {MARGIN} sd ({small} with a small error that is "
        f"more than chance); of the others, the error of {large} is more than chance, and {len(others) - large} would "
        "need longer chains or more seeds.",
    )


def compared(offers: Mapping[str, Sequence[Offer]]) -> dict[tuple[str, str], list[Offer]]:
    """By variant and target, as draws of different targets do not compete: those of several methods, or else all."""
    found: dict[tuple[str, str], list[Offer]] = {}
    for variant, part in offers.items():
        # The posterior of all data first.
        for offer in sorted(part, key=lambda one: -float(one.setting["target_weight"])):
            found.setdefault((variant, offer.target), []).append(offer)
    several = {key: part for key, part in found.items() if len({one.setting["method"] for one in part}) > 1}
    return several or found


def bias_panels(offers: Mapping[tuple[str, str], Sequence[Offer]], unit: str) -> tuple[Figure, list[str]]:
    """One panel per target with its frontier, and who is within the bound there, the cheapest first."""
    # The legend, and labels below the last row, take their part of a figure of few rows.
    figure, all_axes = panels(len(offers), height=2.6 if len(offers) > FEW_PANELS else 3.1)
    sentences = []
    numbers = count()
    for axes, ((variant, target), part) in zip(all_axes, offers.items(), strict=True):
        _draw_offers(axes, part, numbers)
        best = frontier(part)
        left = axes.get_xlim()[0]
        steps = [one.price or left for one in best], [one.high for one in best]
        axes.plot(*steps, drawstyle="steps-post", color=EXACT, linewidth=1.2, zorder=1)
        for one in best[-1:]:
            if one.is_right:
                look: dict[str, Any] = {"facecolors": "none", "edgecolors": EXACT, "linewidths": 1.4, "clip_on": False}
                axes.scatter([one.price or left], [one.high], RING**2, zorder=2, **look)
        sentences.append(f"{task_name(variant)}, {target}, within {MARGIN} sd by price: {_by_price(part)}.")
        axes.set_title(f"{task_name(variant)}, {target}")
    everything = [offer for part in offers.values() for offer in part]
    # Not labels of the whole figure, which would stand where the legend does, or beside it.
    columns = 1 if is_narrow() else 2
    for axes in all_axes[-columns:]:
        axes.set_xlabel(f"{unit},\nfor an effective draw", fontsize=SMALL)
    for axes in all_axes[::columns]:
        axes.set_ylabel("upper bound on the error\n(RMS or own sd)", fontsize=SMALL)
    used = [offer.setting for offer in everything]
    free = {offer.setting["method"] for offer in everything if not offer.price}
    handles = [
        handle(method_name(method) + (" (0: left edge)" if method in free else ""), *look_of(method), "")
        for method in in_order(setting["method"] for setting in used)
    ]
    ring_handle = handle("cheapest right", EXACT, linestyle="", is_hollow=True)
    ring_handle.set_markersize(RING)
    handles += [handle("frontier", EXACT, ""), ring_handle, *hollow_handles(used)]
    # What all methods are called comes after what they do.
    legend(figure, handles, is_below=len(handles) > MANY)
    return figure, sentences


def _by_price(offers: Sequence[Offer]) -> str:
    """``SGLD 12, PBNN 340``: each method once, by its cheapest."""
    right = sorted((one for one in offers if one.is_right), key=lambda one: one.price)
    cheapest = {one.setting["method"]: one for one in reversed(right)}
    ordered = sorted(cheapest.values(), key=lambda one: one.price)
    return "; ".join(f"{method_name(one.setting['method'])} {format_number(one.price)}" for one in ordered) or "none"


def _draw_offers(axes: Axes, offers: Sequence[Offer], numbers: Iterator[int]) -> None:
    """Draws that cost nothing, for which a logarithmic axis has no place, stand on its left edge."""
    axes.set(xscale="log", yscale="log")
    cheapest = min((offer.price for offer in offers if offer.price), default=1.0)
    places = [(offer.price or cheapest, offer.high) for offer in offers]
    # Below a bound, room for its arrow.
    axes.update_datalim([*places, *((price, high / ARROW) for price, high in places), (cheapest, MARGIN)])
    axes.margins(0.12)
    axes.autoscale_view()
    for name in ("x", "y"):
        whole_decades(axes, name)
    axes.axhline(MARGIN, color=EXACT, linestyle=":", linewidth=1.2, zorder=1)
    for offer in offers:
        _draw_offer(axes, offer, offer.price or axes.get_xlim()[0], _gid(next(numbers)))


def _message(parts: Iterable[Sequence[Offer]], unit: str) -> str:
    """The method that is the cheapest within the bound on most targets with w < N, among several methods."""
    cheapest: Counter[str] = Counter()
    entered: Counter[str] = Counter()
    for part in parts:
        right = [offer for offer in part if offer.is_right and offer.target != "w = N"]
        if len({offer.setting["method"] for offer in right}) > 1:
            cheapest[min(right, key=lambda offer: offer.price).setting["method"]] += 1
            entered.update({offer.setting["method"] for offer in part})
    if not cheapest:
        return ""
    ((method, won),) = cheapest.most_common(1)
    of_all = "all" if won == entered[method] else f"{won} of the"
    where = f"{of_all} {entered[method]} targets that it ran on" if entered[method] > 1 else "one target"
    return f"At w < N, {method_name(method)} needs the fewest {unit} for a right answer, on {where}"


def marks_of(offers: Mapping[tuple[str, str], Sequence[Offer]], unit: str) -> dict[str, Mark]:
    """What each mark of ``bias_panels`` stands for."""
    drawn = chain.from_iterable(offers.values())
    return {_gid(number): _mark(offer, unit) for number, offer in enumerate(drawn)}


def _gid(number: int) -> str:
    return f"mark-{number}"


def _mark(offer: Offer, unit: str) -> Mark:
    setting = offer.setting
    seeds = f"{len(setting.ok)} seed{'' if len(setting.ok) == 1 else 's'}"
    error = (
        f"{format_number(offer.low)} to {format_number(offer.high)}"
        if offer.is_resolved
        else (f"at most {format_number(offer.high)}")
    )
    parts = [
        f"{format_name(setting)} on {task_name(setting)}, {offer.target}",
        f"error of the band, in RMS or own sd: {error}",
        f"{format_number(offer.price)} {unit} for an effective draw",
        seeds + ("" if setting.is_converged else ", not converged"),
    ]
    return Mark("; ".join(parts), setting.runs[0])


def _draw_offer(axes: Axes, offer: Offer, price: float, gid: str) -> None:
    colour, marker = look_of(offer.setting["method"])
    style: dict[str, Any] = {"markerfacecolor": colour if offer.setting.is_converged else "white", "clip_on": False}
    axes.plot([price], [offer.high], marker=marker, color=colour, linestyle="", zorder=3, gid=gid, **style)
    if offer.is_resolved:
        low = max(offer.low, axes.get_ylim()[0])
        axes.plot([price, price], [low, offer.high], color=colour, linewidth=1.3, alpha=0.7, zorder=2)
    else:
        # The tail is at the mark; the text, which there is none of, would be at the head.
        arrow = {"arrowstyle": "<|-", "color": colour, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (price, offer.high), (0, -13), textcoords="offset points", arrowprops=arrow)


def frontier(offers: Sequence[Offer]) -> list[Offer]:
    """From the cheapest on, those that no cheaper one is nearer than, up to the first that is right.

    Beyond that one a higher price buys nothing that the numbers could tell. One that is neither right nor surely wrong
    says nothing either.
    """
    best: list[Offer] = []
    told = [one for one in offers if one.setting.is_converged and (one.is_right or one.is_resolved)]
    for offer in sorted(told, key=lambda one: (one.price, one.high)):
        if not best or offer.high < best[-1].high:
            best.append(offer)
        if offer.is_right:
            break
    return best


# The time of a step against N


def draw_step_cost(results: StudyResults) -> Drawing:
    """The time of a step against the number of training points, a line for each method and backend."""
    families: dict[tuple[str, ...], list[SettingRuns]] = {}
    for setting in results.ran():
        # The same task and setting, whatever N; points drawn afresh are another task's.
        key = ("task", "stochastic", "prior", "prior_scale", "fresh_points", "label", "backend")
        families.setdefault(tuple(str(setting[name]) for name in key), []).append(setting)
    grown = [sorted(one, key=lambda setting: int(setting["num_points"])) for one in families.values() if len(one) > 1]
    if not grown:
        raise NothingToShow("no setting was run at two numbers of training points; the study 'scaling' does that")
    # What a step reads does not depend on the weight of its target: one line per method and backend will do.
    shown: dict[tuple[str, str], list[SettingRuns]] = {}
    for family in sorted(grown, key=len, reverse=True):
        shown.setdefault((family[0]["method"], family[0]["backend"]), family)
    figure, (axes,) = panels(1, height=4.4, share=1.0)
    backends = list(dict.fromkeys(family[0]["backend"] for family in grown))
    handles, numbers = [], []
    growths: dict[str, str] = {}
    for family in grown:
        stroke = LINE_STYLES[backends.index(family[0]["backend"])]
        colour, marker = look_of(family[0]["method"])
        times = [setting.estimate("step_microseconds") for setting in family]
        sizes = [int(setting["num_points"]) for setting in family]
        name = format_name(family[0], "step_size", "preconditioner")
        first, last = times[0].mean or math.nan, times[-1].mean or math.nan
        numbers.append(
            f"{name} on {family[0]['backend']}: {format_number(first)} to {format_number(last)} µs "
            f"(× {format_number(last / first)})"
        )
        if family not in shown.values():
            continue
        axes.plot(sizes, [time.mean or math.nan for time in times], color=colour, marker=marker, linestyle=stroke)
        for size, time in zip(sizes, times, strict=True):
            if time.low is not None and time.high is not None:
                axes.plot([size, size], [time.low, time.high], color=colour, linewidth=1.2, alpha=0.6)
        handles.append(handle(f"{name}, {family[0]['backend']}", colour, marker, stroke))
        growths.setdefault(family[0]["method"], format_number(last / first, 2))
    used = [setting for family in grown for setting in family]
    _draw_slope(axes, used)
    smallest, largest = (int(find(setting["num_points"] for setting in used)) for find in (min, max))
    axes.set(xscale="log", yscale="log", xlabel=LABELS["num_points"], ylabel="µs for a step of one chain")
    legend(figure, handles, is_below=True, most=2)
    caption = (
        f"Time of a step from N = {smallest:,} to {largest:,}, without warm-up and compilation; means over seeds with "
        "95 % intervals. Dotted, a time that grows as N. These chains are short and need not have converged."
    )
    # One that reads mini-batches, and one that reads everything.
    named = {facts_of(method).is_minibatch: method for method in reversed(growths)}.values()
    title = f"On {largest / smallest:,.0f} times the data a step takes, in elapsed time, " + listed(
        [f"{growths[method]} times as long ({method_name(method)})" for method in named]
    )
    return Drawing(figure, caption, runs_of(used), title, tuple(numbers))


def _draw_slope(axes: Axes, settings: Sequence[SettingRuns]) -> None:
    """A line of slope 1 through the costliest step."""
    costliest = max(settings, key=lambda setting: setting.mean("step_microseconds"))
    time, size = costliest.mean("step_microseconds"), int(costliest["num_points"])
    smallest = min(int(setting["num_points"]) for setting in settings)
    axes.plot([smallest, size], [time * smallest / size, time], color="black", linestyle=":", linewidth=1.2)
