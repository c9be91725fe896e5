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
from records.setting import Setting, of_usual_size, one_backend
from records.study import StudyResults
from reports.figures.captions import SAME_WIDTH, listed, runs_of, unconverged_lines
from reports.figures.marks import LINE_STYLES, SMALL, handle, hollow_handles, legend, panels, whole_decades
from reports.style import EXACT, LABELS, is_narrow, look_of
from reports.types import Drawing, Mark, NothingToShow

#: Entries of a legend that would keep a reader from the picture.
MANY = 16
#: An arrow ends about here: its bound over this.
ARROW = 2.0
#: The posterior of all data, or a tempered one: different questions, and so each has a panel.
TARGETS = ("w = N", "w < N")


# Bias against the price of an effective draw


@dataclass(frozen=True, eq=False)
class Offer:
    """A setting, what an effective draw of it costs, and how far from its target it is."""

    setting: Setting
    price: float
    bias: float
    #: The column that its bias is in.
    column: str = "sliced_w2"

    @property
    def target(self) -> str:
        return "w = N" if self.setting["target_weight"] == self.setting["num_points"] else "w < N"

    @property
    def is_resolved(self) -> bool:
        """Is the bias of some seed more than Monte Carlo error? If not it is a bound."""
        return any(row[f"{self.column}_resolved"] for row in self.setting.ok)


def draw_bias_against_evaluations(results: StudyResults) -> Drawing:
    """Sliced W2 against likelihood and gradient evaluations for an effective draw."""
    return _draw_bias(results, "evaluations_per_draw", "evaluations of single data points")


def draw_bias_against_seconds(results: StudyResults) -> Drawing:
    """Sliced W2 against seconds of sampling for an effective draw."""
    return _draw_bias(results, "seconds_per_draw", "seconds of sampling")


def offers_of(settings: Sequence[Setting], price: str, bias: str = "sliced_w2") -> dict[str, list[Offer]]:
    """Those of the settings that have both columns, by variant."""
    offers: dict[str, list[Offer]] = {}
    for setting in one_backend(settings):
        # An oracle looks at all data for its variance, which no cheap method does.
        if setting.has(price) and setting.has(bias) and setting["variance"] != "oracle":
            offer = Offer(setting, setting.mean(price), setting.mean(bias), bias)
            offers.setdefault(setting["variant"], []).append(offer)
    return offers


def _draw_bias(results: StudyResults, price: str, unit: str) -> Drawing:
    offers = offers_of(of_usual_size(results.ran()), price)
    if not offers:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    figure, sentences = bias_panels(offers, unit)
    everything = [offer for part in offers.values() for offer in part]
    used = [offer.setting for offer in everything]
    bounds = sum(not offer.is_resolved for offer in everything)
    caption = (
        "Down is right, left is cheap: distance from the own target against the price of an effective draw. An arrow "
        "is a bound, within Monte Carlo error. Steps join settings that no converged one of the same target beats."
    )
    numbers = (
        f"{bounds} of {len(everything)} distances are within twice the Monte Carlo error; longer chains would move "
        "them down, and between two arrows chance decides.",
        *(f"Not beaten: {sentence}." for sentence in sentences),
        "Means over seeds; chains that need a known variance are left out.",
        *unconverged_lines(used),
    )
    return Drawing(figure, caption, runs_of(used), _message(offers.values(), unit), numbers, marks_of(offers, unit))


def bias_panels(offers: Mapping[str, Sequence[Offer]], unit: str) -> tuple[Figure, list[str]]:
    """One panel per variant and kind of target with its frontier, and who is on each frontier."""
    parts = _by_target(offers)
    figure, all_axes = panels(len(parts), height=2.9)
    sentences = []
    numbers = count()
    for axes, ((variant, target), part) in zip(all_axes, parts.items(), strict=True):
        _draw_offers(axes, part, numbers)
        best = frontier([offer for offer in part if offer.setting.is_converged])
        steps = [one.price or axes.get_xlim()[0] for one in best], [one.bias for one in best]
        axes.plot(*steps, drawstyle="steps-post", color=EXACT, linewidth=1.2, zorder=1)
        names = ", ".join(dict.fromkeys(method_name(one.setting["method"]) for one in best))
        sentences += [f"{task_name(variant)}, {target}: {names}"] if best else []
        axes.set_title(f"{task_name(variant)}, {target}")
    everything = [offer for part in parts.values() for offer in part]
    # Not labels of the whole figure, which would stand where the legend does, or beside it.
    columns = 1 if is_narrow() else 2
    for axes in all_axes[-columns:]:
        axes.set_xlabel(f"{unit},\nfor an effective draw", fontsize=SMALL)
    for axes in all_axes[::columns]:
        axes.set_ylabel(LABELS[everything[0].column].replace(", ", ",\n"), fontsize=SMALL)
    used = [offer.setting for offer in everything]
    free = {offer.setting["method"] for offer in everything if not offer.price}
    handles = [
        handle(method_name(method) + (" (0: left edge)" if method in free else ""), *look_of(method), "")
        for method in in_order(setting["method"] for setting in used)
    ]
    handles += [handle("frontier", EXACT, ""), *hollow_handles(used)]
    # What all methods are called comes after what they do.
    legend(figure, handles, is_below=len(handles) > MANY)
    return figure, sentences


def _by_target(offers: Mapping[str, Sequence[Offer]]) -> dict[tuple[str, str], list[Offer]]:
    """What each panel shows, by variant and kind of target."""
    found: dict[tuple[str, str], list[Offer]] = {}
    for variant, part in offers.items():
        for target in TARGETS:
            if own := [offer for offer in part if offer.target == target]:
                found[variant, target] = own
    return found


def _draw_offers(axes: Axes, offers: Sequence[Offer], numbers: Iterator[int]) -> None:
    """Draws that cost nothing, for which a logarithmic axis has no place, stand on its left edge."""
    axes.set(xscale="log", yscale="log")
    cheapest = min((offer.price for offer in offers if offer.price), default=1.0)
    places = [(offer.price or cheapest, offer.bias) for offer in offers]
    # Below a bound, room for its arrow.
    axes.update_datalim([*places, *((price, bias / ARROW) for price, bias in places)])
    axes.margins(0.12)
    axes.autoscale_view()
    for name in ("x", "y"):
        whole_decades(axes, name)
    for offer in offers:
        _draw_offer(axes, offer, offer.price or axes.get_xlim()[0], _gid(next(numbers)))


def _message(parts: Iterable[Sequence[Offer]], unit: str) -> str:
    """The method that is the cheapest with the right width at w < N on most tasks."""
    cheapest: Counter[str] = Counter()
    for part in parts:
        right = [
            offer
            for offer in part
            if offer.target == "w < N"
            and offer.setting.is_converged
            and abs(offer.setting.mean("sd_ratio") - 1) <= SAME_WIDTH
        ]
        if len({offer.setting["method"] for offer in right}) > 1:
            cheapest[min(right, key=lambda offer: offer.price).setting["method"]] += 1
    if not cheapest:
        return ""
    ((method, won),) = cheapest.most_common(1)
    where = "every task" if won == cheapest.total() else f"{won} of {cheapest.total()} tasks"
    return f"At w < N, {method_name(method)} needs the fewest {unit} for a right answer, on {where}"


def marks_of(offers: Mapping[str, Sequence[Offer]], unit: str) -> dict[str, Mark]:
    """What each mark of ``bias_panels`` stands for."""
    drawn = chain.from_iterable(_by_target(offers).values())
    return {_gid(number): _mark(offer, unit) for number, offer in enumerate(drawn)}


def _gid(number: int) -> str:
    return f"mark-{number}"


def _mark(offer: Offer, unit: str) -> Mark:
    setting = offer.setting
    seeds = f"{len(setting.ok)} seed{'' if len(setting.ok) == 1 else 's'}"
    parts = [
        f"{format_name(setting)} on {task_name(setting)}, {offer.target}",
        f"{LABELS[offer.column]}: {'' if offer.is_resolved else 'at most '}{format_number(offer.bias)}",
        f"{format_number(offer.price)} {unit} for an effective draw",
        seeds + ("" if setting.is_converged else ", not converged"),
    ]
    return Mark("; ".join(parts), setting.runs[0])


def _draw_offer(axes: Axes, offer: Offer, price: float, gid: str) -> None:
    colour, marker = look_of(offer.setting["method"])
    style: dict[str, Any] = {"markerfacecolor": colour if offer.setting.is_converged else "white", "clip_on": False}
    axes.plot([price], [offer.bias], marker=marker, color=colour, linestyle="", zorder=3, gid=gid, **style)
    if not offer.is_resolved:
        # The tail is at the mark; the text, which there is none of, would be at the head.
        arrow = {"arrowstyle": "<|-", "color": colour, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (price, offer.bias), (0, -13), textcoords="offset points", arrowprops=arrow)


def frontier(offers: Sequence[Offer]) -> list[Offer]:
    """The offers that no other beats in both price and bias, from the cheapest on."""
    best: list[Offer] = []
    for offer in sorted(offers, key=lambda offer: (offer.price, offer.bias)):
        if not best or offer.bias < best[-1].bias:
            best.append(offer)
    return best


# The time of a step against N


def draw_step_cost(results: StudyResults) -> Drawing:
    """The time of a step against the number of training points, a line for each method and backend."""
    families: dict[tuple[str, ...], list[Setting]] = {}
    for setting in results.ran():
        # The same task and setting, whatever N; points drawn afresh are another task's.
        key = ("task", "stochastic", "prior", "prior_scale", "fresh_points", "label", "backend")
        families.setdefault(tuple(str(setting[name]) for name in key), []).append(setting)
    grown = [sorted(one, key=lambda setting: int(setting["num_points"])) for one in families.values() if len(one) > 1]
    if not grown:
        raise NothingToShow("no setting was run at two numbers of training points; the study 'scaling' does that")
    # What a step reads does not depend on the weight of its target: one line per method and backend will do.
    shown: dict[tuple[str, str], list[Setting]] = {}
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
    title = f"On {largest / smallest:,.0f} times the data a step takes " + listed(
        [f"{growths[method]} times as long ({method_name(method)})" for method in named]
    )
    return Drawing(figure, caption, runs_of(used), title, tuple(numbers))


def _draw_slope(axes: Axes, settings: Sequence[Setting]) -> None:
    """A line of slope 1 through the costliest step."""
    costliest = max(settings, key=lambda setting: setting.mean("step_microseconds"))
    time, size = costliest.mean("step_microseconds"), int(costliest["num_points"])
    smallest = min(int(setting["num_points"]) for setting in settings)
    axes.plot([smallest, size], [time * smallest / size, time], color="black", linestyle=":", linewidth=1.2)
