"""What an answer costs: bias against the price of an effective draw, and the time of a step against N."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from matplotlib.typing import LineStyleType

from implementations.methods import METHODS
from metrics.seeds import Estimate, mean_over_seeds
from reports.figures.groups import (
    Group,
    groups_of,
    name_text,
    of_usual_size,
    one_backend,
    runs_of,
    unconverged_text,
)
from reports.figures.marks import LINE_STYLES, MARKERS, WIDTH, handle, hollow_handles, panels
from reports.parts import Drawing, NothingToShow
from reports.study import StudyResults, by_seed
from reports.style import COLOURS, EXACT, LABELS
from reports.tables import with_evaluations

#: Marker and frontier of a target: the posterior of all data, or a tempered one. They are different questions.
TARGETS: dict[str, tuple[str, LineStyleType]] = {"w = N": ("o", "-"), "w < N": ("s", "--")}


# Bias against the price of an effective draw

#: The price of an effective draw of each run.
Price = Callable[[pd.DataFrame], pd.Series]


@dataclass(frozen=True, eq=False)
class Offer:
    """A setting, what an effective draw of it costs, and how far from its target it is."""

    group: Group
    price: float
    bias: float

    @property
    def target(self) -> str:
        return "w = N" if self.group["target_weight"] == self.group["num_points"] else "w < N"

    @property
    def is_resolved(self) -> bool:
        """Is the bias of some seed more than Monte Carlo error? If not it is a bound."""
        return bool(self.group.rows["sliced_w2_resolved"].fillna(False).any())


def draw_bias_against_evaluations(results: StudyResults) -> Drawing:
    """Sliced W2 against likelihood and gradient evaluations for an effective draw."""
    return _draw_bias(
        results,
        lambda rows: 1e6 / with_evaluations(rows)["ess_per_million_evaluations"],
        "evaluations of single data points",
    )


def draw_bias_against_seconds(results: StudyResults) -> Drawing:
    """Sliced W2 against seconds of sampling for an effective draw."""
    return _draw_bias(results, lambda rows: 1 / rows["ess_per_second"], "seconds of sampling")


def _offers(results: StudyResults, price: Price) -> list[Offer]:
    offers = []
    for group in one_backend(groups_of(of_usual_size(results.ok))):
        prices = price(group.shown()).dropna()
        bias = group.mean("sliced_w2")
        # An oracle looks at all data for its variance, which no cheap method does.
        if len(prices) and not math.isnan(bias) and group["variance"] != "oracle":
            offers.append(Offer(group, float(prices.mean()), bias))
    return offers


def _draw_bias(results: StudyResults, price: Price, unit: str) -> Drawing:
    offers: dict[str, list[Offer]] = {}
    for offer in _offers(results, price):
        offers.setdefault(offer.group["variant"], []).append(offer)
    if not offers:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    figure, all_axes = panels(len(offers), height=2.9)
    sentences = []
    for axes, (variant, part) in zip(all_axes, offers.items(), strict=True):
        for offer in part:
            _draw_offer(axes, offer)
        for target, (_, linestyle) in TARGETS.items():
            best = frontier([offer for offer in part if offer.target == target and offer.group.is_converged])
            steps = [one.price for one in best], [one.bias for one in best]
            axes.plot(*steps, drawstyle="steps-post", color=EXACT, linestyle=linestyle, linewidth=1.2, zorder=1)
            names = ", ".join(dict.fromkeys(one.group["method"] for one in best))
            sentences += [f"{variant}, {target}: {names}"] if best else []
        axes.set(xscale="log", yscale="log", title=variant)
        axes.margins(0.12)
        # Within one decade the numbers between would run into each other.
        axes.xaxis.set_minor_formatter(NullFormatter())
    figure.supxlabel(f"{unit}, for an effective draw", fontsize=10)
    figure.supylabel(LABELS["sliced_w2"], fontsize=10)
    everything = [offer for part in offers.values() for offer in part]
    used = [offer.group for offer in everything]
    methods = [method for method in METHODS if any(group["method"] == method for group in used)]
    handles = [handle(method, COLOURS[method], linestyle="") for method in methods]
    handles += [handle(f"target {name}, and its frontier", EXACT, *look) for name, look in TARGETS.items()]
    figure.legend(handles=handles + hollow_handles(used), loc="outside upper center", ncols=4, fontsize=8)
    bounds = sum(not offer.is_resolved for offer in everything)
    caption = (
        "Down is right, left is cheap: distance from the setting's own target against the price of an effective draw "
        "of the slowest prediction, means over seeds. An arrow is a bound: the distance is within twice the Monte "
        f"Carlo error ({bounds} of {len(everything)} settings), so longer chains would move it down. Steps join what "
        "no converged setting with the same kind of target beats in both, though between two arrows chance decides: "
        f"{'; '.join(sentences) or 'none'}. Chains that need a known variance are left out.{unconverged_text(used)}"
    )
    return Drawing(figure, caption, runs_of(used))


def _draw_offer(axes: Axes, offer: Offer) -> None:
    colour = COLOURS[offer.group["method"]]
    marker, _ = TARGETS[offer.target]
    face = colour if offer.group.is_converged else "white"
    axes.plot([offer.price], [offer.bias], marker=marker, color=colour, markerfacecolor=face, linestyle="", zorder=3)
    if not offer.is_resolved:
        # The tail is at the mark; the text, which there is none of, would be at the head.
        arrow = {"arrowstyle": "<|-", "color": colour, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (offer.price, offer.bias), (0, -13), textcoords="offset points", arrowprops=arrow)


def frontier(offers: Sequence[Offer]) -> list[Offer]:
    """The offers that no other beats in both price and bias, from the cheapest on."""
    best: list[Offer] = []
    for offer in sorted(offers, key=lambda offer: (offer.price, offer.bias)):
        if not best or offer.bias < best[-1].bias:
            best.append(offer)
    return best


# The time of a step against N


def step_microseconds(group: Group) -> Estimate:
    """Microseconds of sampling for a step of one chain, over the seeds of a group whose runs ended well."""
    steps = float(group["num_steps"]) * float(group["chains"])
    seconds = by_seed(group.rows, "wall_clock_s")
    return mean_over_seeds({seed: None if s is None else 1e6 * s / steps for seed, s in seconds.items()})


def draw_step_cost(results: StudyResults) -> Drawing:
    """The time of a step against the number of training points, a line for each method and backend."""
    families: dict[tuple[str, ...], list[Group]] = {}
    for group in groups_of(results.ok):
        # The same task and setting, whatever N.
        key = ("task", "stochastic", "prior", "prior_scale", "label", "backend")
        families.setdefault(tuple(str(group[name]) for name in key), []).append(group)
    grown = [sorted(one, key=lambda group: int(group["num_points"])) for one in families.values() if len(one) > 1]
    if not grown:
        raise NothingToShow("no setting was run at two numbers of training points; the study 'scaling' does that")
    figure, (axes,) = panels(1, height=5.2)
    figure.set_figwidth(WIDTH)
    backends = list(dict.fromkeys(family[0]["backend"] for family in grown))
    handles, sentences = [], []
    for family in grown:
        look = backends.index(family[0]["backend"])
        style = COLOURS[family[0]["method"]], MARKERS[look], LINE_STYLES[look]
        times = [step_microseconds(group) for group in family]
        sizes = [int(group["num_points"]) for group in family]
        axes.plot(sizes, [time.mean or math.nan for time in times], color=style[0], marker=style[1], linestyle=style[2])
        for size, time in zip(sizes, times, strict=True):
            if time.low is not None and time.high is not None:
                axes.plot([size, size], [time.low, time.high], color=style[0], linewidth=1.2, alpha=0.6)
        name = name_text(family[0], "step_size", "preconditioner")
        handles.append(handle(f"{name}, {family[0]['backend']}", *style))
        first, last = times[0].mean or math.nan, times[-1].mean or math.nan
        sentences.append(
            f"{name} on {family[0]['backend']} {_short(first)} to {_short(last)} µs (× {_short(last / first)})"
        )
    used = [group for family in grown for group in family]
    _draw_slope(axes, used)
    smallest, largest = (int(find(group["num_points"] for group in used)) for find in (min, max))
    axes.set(xscale="log", yscale="log", xlabel=LABELS["num_points"], ylabel="µs for a step of one chain")
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    caption = (
        f"Time of a step as the data grow from N = {smallest:,} to {largest:,} ({largest / smallest:,.0f} times), "
        f"without warm-up and compilation; means over seeds with 95 % intervals: {'; '.join(sentences)}. Dotted, a "
        "time that grows as N. What a step costs does not depend on convergence, and these chains are short."
    )
    return Drawing(figure, caption, runs_of(used))


def _short(value: float) -> str:
    """``5.25``, ``210,000``"""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw_slope(axes: Axes, groups: Sequence[Group]) -> None:
    """A line of slope 1 through the costliest step."""
    costliest = max(groups, key=lambda group: step_microseconds(group).mean or 0.0)
    time, size = step_microseconds(costliest).mean or 0.0, int(costliest["num_points"])
    smallest = min(int(group["num_points"]) for group in groups)
    axes.plot([smallest, size], [time * smallest / size, time], color="black", linestyle=":", linewidth=1.2)
