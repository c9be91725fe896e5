"""Figures of cost: bias against the price of an effective draw, and prices as N grows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from records.display import (
    estimate_parts,
    format_estimate,
    format_name,
    format_number,
    format_rounded,
    format_value,
    method_name,
    task_name,
)
from records.methods import facts_of, in_order
from records.setting_runs import SettingRuns, of_usual_size, one_backend
from records.study import StudyResults
from reports.drawing import INK, SOFT, Axis, Drawing, Guide, Key, Line, Look, Mark, Panel, Point, Words, look_of
from reports.evidence import CONTROLLED, by_size, contests
from reports.figures.series import (
    DASHES,
    LABELS,
    draw_series,
    figure_of,
    listed,
    point,
)
from reports.leaderboard import CRITERION, target_text
from reports.tables import MARGIN
from reports.types import NothingToShow

# Bias against the price of an effective draw

#: Errors of 0 have no place on a logarithmic axis: it ends here.
FLOOR = 1e-3
#: Of a single seed, which has no interval: so many Monte Carlo errors to either side.
ERRORS = 2.0
RING = 13.0


@dataclass(frozen=True, eq=False)
class Offer:
    """A setting, the price of an effective draw of it, and the interval of the error of its predictive band."""

    setting: SettingRuns
    price: float
    #: In sd of the reference.
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


def offers_of(settings: Sequence[SettingRuns], price: str) -> dict[tuple[str, str], list[Offer]]:
    """Offers by variant and target, of targets that several methods have, or else of all targets."""
    found: dict[tuple[str, str], list[Offer]] = {}
    # An oracle looks at all data for its variance, which no cheap method does.
    priced = [one for one in one_backend(settings) if one.has(price) and one.has("mean_error")]
    order = list(dict.fromkeys(one["variant"] for one in priced))
    # The posterior of all data first.
    for one in sorted(priced, key=lambda one: (order.index(one["variant"]), -float(one["target_weight"]))):
        if one["variance"] != "oracle":
            offer = Offer(one, one.mean(price), *error_of(one))
            found.setdefault((one["variant"], offer.target), []).append(offer)
    several = {key: part for key, part in found.items() if len({one.setting["method"] for one in part}) > 1}
    return several or found


def error_of(setting: SettingRuns) -> tuple[float, float]:
    """Interval of the largest of three errors, in sd of the reference: their RMS, or each prediction's own.

    That of the mean, its Monte Carlo part taken off; that of the width, as a chain can have the right mean and a band
    that is far too wide; and that of single predictions, whose means can be off where their average is not.
    """
    place, width = setting.bias(), setting.estimate("sd_ratio")
    ends = [(place.low, place.high) if place.low is not None else _of_one_seed(setting, "mean_error", 0.0)]
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


def draw_bias_against_evaluations(results: StudyResults) -> Drawing:
    """Error of the band against likelihood and gradient evaluations for an effective draw."""
    return _draw_bias(of_usual_size(results.ran()), "evaluations_per_draw", "evaluations of single points")


def draw_bias_against_seconds(results: StudyResults) -> Drawing:
    """Error of the band against seconds of sampling for an effective draw."""
    return _draw_bias(of_usual_size(results.ran()), "seconds_per_draw", "seconds of sampling")


def draw_bias_cost(results: StudyResults) -> Drawing:
    """The same with w = N; of a task at several N the smallest and the largest."""
    ran = results.ran(weight="data")
    sizes: dict[str, set[int]] = {}
    for one in ran:
        sizes.setdefault(one["task"], set()).add(one["num_points"])
    ends = [one for one in ran if one["num_points"] in (min(sizes[one["task"]]), max(sizes[one["task"]]))]
    return _draw_bias(ends, "seconds_per_draw", "seconds of sampling")


def draw_frontier(results: StudyResults) -> Drawing:
    """The same for the study of all methods, whatever the size of a task."""
    return _draw_bias(results.ran(), "evaluations_per_draw", "evaluations of single points")


def _draw_bias(settings: Sequence[SettingRuns], price: str, unit: str) -> Drawing:
    """A panel for each target, all on the same axes; only methods of the frontier have their colours."""
    offers = offers_of(settings, price)
    shown = [offer for part in offers.values() for offer in part]
    if not shown:
        raise NothingToShow("no run that ended well has both an effective sample size and a distance from a reference")
    prices, errors = [one.price for one in shown if one.price], [MARGIN, *(one.high for one in shown)]
    # Draws that cost nothing, for which a logarithmic axis has no place, are on its left edge.
    edge = min(prices, default=1) / 2
    x = Axis(f"{unit} for an effective draw", "log", edge, max(prices, default=1) * 2)
    y = Axis("error at most (RMS or own sd)", "log", min(errors) / 2, 1.5 * max(errors))
    panels = []
    won: Counter[str] = Counter()
    for (variant, target), part in offers.items():
        panel = Panel(f"{task_name(variant)}, {target}", x, y, shapes=[Guide("y", MARGIN)])
        best = frontier(part)
        corners = [(max(one.price, edge), one.high) for one in best]
        # Down from each mark to the height of the next one.
        steps = [corner for (_, high), (price, low) in pairwise(corners) for corner in ((price, high), (price, low))]
        panel.add(Line([x for x, _ in corners[:1] + steps], [y for _, y in corners[:1] + steps], SOFT))
        if best and best[-1].is_right:
            won[method_name(best[-1].setting["method"])] += 1
            panel.add(Point(*corners[-1], Look(SOFT), is_hollow=True, size=RING))
        panel.add(*(_offered(one, edge, one in best, unit) for one in sorted(part, key=lambda one: one in best)))
        panel.add(*(Words(method_name(one.setting["method"]), *at) for one, at in zip(best, corners, strict=True)))
        panels.append(panel)
    used = [one.setting for one in shown]
    method, times = won.most_common(1)[0] if won else ("", 0)
    return figure_of(
        panels,
        "A mark is the upper end of the error's 95 % interval (of mean or width); a line leads to the lower "
        f"end. Ringed: the cheapest surely below {MARGIN} sd (dotted); draws without cost: left edge.",
        used,
        f"{method} is the cheapest right method on {times} of the {won.total()} targets that have one" if won else "",
        notes=(_counted(shown),),
    )


def _offered(offer: Offer, edge: float, is_best: bool, unit: str) -> Point:
    setting = offer.setting
    look = look_of(setting["method"])
    error = f"{format_number(offer.low)} to " if offer.is_resolved else "at most "
    text = (
        f"{format_name(setting)} on {task_name(setting)}, {offer.target}; error of the band, in RMS or own sd: {error}"
        f"{format_number(offer.high)}; {format_number(offer.price)} {unit} for an effective draw; {len(setting.ok)} "
        f"seed{'s' * (len(setting.ok) > 1)}{'' if setting.is_converged else ', not converged'}"
    )
    return Point(
        max(offer.price, edge),
        offer.high,
        look if is_best else Look(SOFT, look.corners),
        not setting.is_converged,
        y_ends=(offer.low, offer.high),
        size=8 if is_best else 5,
        mark=Mark(text, setting.runs[0]),
    )


def _counted(offers: Sequence[Offer]) -> str:
    right, others = [one for one in offers if one.is_right], [one for one in offers if not one.is_right]
    small, large = (sum(one.is_resolved for one in part) for part in (right, others))
    return (
        f"Of {len(offers)} settings, {len(right)} are surely within {MARGIN} sd ({small} with a small error that is "
        f"more than chance); of the others, the error of {large} is more than chance, and {len(others) - large} would "
        "need longer chains or more seeds."
    )


# The best chain on mini-batches, and the best on all data


def draw_best(results: StudyResults) -> Drawing:
    """Effective draws per evaluation, by target: the best mini-batch chain and the best full-data chain."""
    found = contests(results)
    pairs = [(one.ours, one.theirs) for one in found if one.ours is not None]
    if not pairs:
        raise NothingToShow("on no target both a mini-batch chain and a full-data chain are within the bias bound")
    ratios = [ours.ratio(theirs, CRITERION) for ours, theirs in pairs]
    targets = [target_text(*one.target) for one in found if one.ours is not None]
    rows = [f"{target}: × {estimate_parts(ratio)[0]}" for target, ratio in zip(targets, ratios, strict=True)]
    draws = [one.mean(CRITERION) for pair in pairs for one in pair]
    x = Axis("effective draws per million evaluations", "log", min(draws) / 100, max(draws) * 30)
    panel = Panel(x=x, rows=rows, height=40)
    for row, pair in enumerate(pairs):
        panel.add(Line([one.mean(CRITERION) for one in pair], [row, row], SOFT))
        left = min(pair, key=lambda one: one.mean(CRITERION))
        for one in pair:
            mark = Mark(f"{format_name(one)}: {format_value(one, CRITERION)}", one.runs[0])
            panel.add(Point(one.mean(CRITERION), row, look_of(one["method"]), size=9, mark=mark))
            panel.add(Words(method_name(one["method"]), one.mean(CRITERION), row, is_left=one is left))
    means = [ratio.mean or 0.0 for ratio in ratios]
    times = " to ".join(dict.fromkeys(format_rounded(end(means)) for end in (min, max)))
    lost = [target_text(*one.target) for one in found if one.ours is None]
    return figure_of(
        [panel],
        "On each line the best mini-batch chain and the best full-data chain, of those with a small bias. An "
        "evaluation is of one data point."
        + (f" Not shown: {', '.join(lost)}, where no mini-batch chain qualifies." if lost else ""),
        [one for pair in pairs for one in pair],
        f"Per evaluation, mini-batches give {times} times the effective draws of full data" if min(means) > 1 else "",
        notes=tuple(
            f"{target}: ratio {format_estimate(ratio)}." for target, ratio in zip(targets, ratios, strict=True)
        ),
    )


# Prices as N grows


def draw_cost_of_a_draw(results: StudyResults) -> Drawing:
    """Evaluations, and seconds, for an effective draw against N; a line for each method, at the most N."""
    found = by_size([one for one in one_backend(results.ran(weight="data")) if one.has("seconds_per_draw")])
    longest = {family[0]["method"]: family for family in sorted(found, key=len)}
    families = {method: longest[method] for method in in_order(family[0]["method"] for family in found)}
    if not families:
        raise NothingToShow("no method has an effective sample size at two numbers of training points")
    # Broken lines are of full-data methods.
    dashes = {method: "" if facts_of(method).is_minibatch else DASHES[1] for method in families}
    panels = []
    for column, unit in {"evaluations_per_draw": "evaluations", "seconds_per_draw": "seconds of sampling"}.items():
        panels.append(Panel("", Axis(LABELS["num_points"], "log"), Axis(f"{unit} for an effective draw", "log"), 230))
        for method, family in families.items():
            look = look_of(method)
            draw_series(panels[-1], family, _num_points, column, look, dashes[method], method_name(method))
    used = [one for family in families.values() for one in family]
    smallest, largest = (end(one["num_points"] for one in used) for end in (min, max))
    times = "A thousand times the data" if largest == 1000 * smallest else f"From N = {smallest:,} to {largest:,}"
    ends = [(families[method][0], families[method][-1]) for method in CONTROLLED if method in families]
    growths = [last.mean("evaluations_per_draw") / first.mean("evaluations_per_draw") for first, last in ends]
    most = f"{max(growths, default=0):.2g}"
    return figure_of(
        panels,
        "The price of an effective draw at w = N, without warm-up; means over seeds, 95 % intervals. Broken lines: "
        "full-data methods.",
        used,
        f"{times}: with control variates an effective draw takes at most {most} times the evaluations" if ends else "",
        keys=[Key(method_name(method), look_of(method), dash) for method, dash in dashes.items()],
    )


def _num_points(setting: SettingRuns) -> float:
    return float(setting["num_points"])


def _time(setting: SettingRuns) -> float:
    return setting.mean("step_microseconds")


def draw_step_cost(results: StudyResults) -> Drawing:
    """The time of a step against the number of training points, a line for each method and backend."""
    # Points drawn afresh are another task's. A step reads as much whatever the weight of its target.
    grown = by_size([one for one in results.ran() if one["fresh_points"] is None])
    if not grown:
        raise NothingToShow("no setting was run at two numbers of training points; the study 'scaling' does that")
    longest = {(one[0]["method"], one[0]["backend"]): one for one in sorted(grown, key=len)}
    backends = list(dict.fromkeys(backend for _, backend in longest))
    panel = Panel(x=Axis(LABELS["num_points"], "log"), y=Axis("µs for a step of one chain", "log"), height=260)
    keys, growths = [], dict[str, float]()
    methods = in_order(method for method, _ in longest)
    for method, backend in (pair for pair in product(methods, backends) if pair in longest):
        family = longest[method, backend]
        look, dash = look_of(method), DASHES[backends.index(backend) % len(DASHES)]
        name = f"{format_name(family[0], 'step_size', 'preconditioner')}, {backend}"
        panel.add(Line([_num_points(one) for one in family], [_time(one) for one in family], look.colour, dash))
        for one in family:
            panel.add(*point(_num_points(one), one.estimate("step_microseconds"), look, name=name))
        keys.append(Key(name, look, dash))
        growths.setdefault(method, _time(family[-1]) / _time(family[0]))
    used = [one for family in longest.values() for one in family]
    smallest, costliest = min(map(_num_points, used)), max(used, key=_time)
    slope = [_time(costliest) * size / _num_points(costliest) for size in (smallest, _num_points(costliest))]
    panel.add(Line([smallest, _num_points(costliest)], slope, INK, DASHES[2]))
    panel.keys = keys
    # One method that reads mini-batches, and one that reads everything.
    named = {facts_of(method).is_minibatch: method for method in reversed(growths)}.values()
    takes = [f"{format_number(growths[method], 2)} times as long ({method_name(method)})" for method in named]
    times = max(map(_num_points, used)) / smallest
    return figure_of(
        [panel],
        "Time of a step, without warm-up and compilation; means over seeds with 95 % intervals. Dotted, a time that "
        "grows as N. These chains are short and need not have converged.",
        used,
        f"On {times:,.0f} times the data a step takes, in elapsed time, {listed(takes)}",
    )
