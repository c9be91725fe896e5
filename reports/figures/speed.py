"""What a step costs in the suite's benchmarks: over its bare evaluations, over other libraries, and as problems grow.

A study's runs have no part in it.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.typing import LineStyleType

from implementations.backends import BACKENDS
from records.display import method_name
from records.methods import in_order
from reports.benchmarks import Benchmarks, Row, is_met, named, ratio_text
from reports.figures.backends import LOOKS
from reports.figures.marks import SMALL, blank, handle, legend, log_ticks, panels, say, whole_decades, wrapped
from reports.style import EXACT, LABELS, is_narrow, look_of
from reports.types import Drawing, NothingToShow

#: A performance target, in a colour that is no method's and no library's.
TARGET: dict[str, Any] = {
    "color": "#a3261b",
    "marker": "|",
    "markersize": 13.0,
    "markeredgewidth": 2.0,
    "linestyle": "",
}
#: What the rows call the bare likelihoods and gradients of a step.
BARE = "its bare"
STEP_TIME = "µs for a step of one chain"
#: What stands for a method where the rows of a step are read and nothing else is done.
ROWS = "rows"


def _some(rows: list[Row], what: str, test: str) -> list[Row]:
    """The rows, of which there must be some; ``test`` is the benchmark that measures them."""
    if not rows:
        raise NothingToShow(f"the kept benchmarks have none {what} ({test}); a whole make bench runs them.")
    return rows


# A step over something else


def draw_steps(benchmarks: Benchmarks) -> Drawing:
    """Steps over their bare likelihoods and gradients, a panel for each shape of the problem."""
    rows = _some(_over_bare_work(benchmarks), "of steps over their bare likelihoods and gradients", "bench_step")
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    methods = _methods(rows)
    stacked = len(shapes) if is_narrow() else 1
    figure = blank(1.2 + stacked * (0.4 + 0.42 * len(methods)))
    all_axes = figure.subplots(stacked, len(shapes) // stacked, sharey=True, squeeze=False).flatten()
    for axes, shape in zip(all_axes, shapes, strict=True):
        _draw_steps(axes, [row for row in rows if row["shape"] == shape], methods)
        axes.set_title(shape)
    figure.supxlabel("a step, over its bare likelihoods and gradients", fontsize=10)
    legend(figure, _step_handles(rows), most=3)
    caption = (
        "Time of a step over that of the arithmetic it cannot avoid: the likelihoods and gradients of its points, "
        "already gathered and compiled. Medians, with quartiles as lines."
    )
    numbers = (*(_extremes(rows, shape) for shape in shapes), *_targets_text(rows))
    typical = median(row["ratio"] for row in rows if row["shape"] == shapes[-1])
    title = f"Half of all steps take less than {typical:.2g} times their likelihoods and gradients ({shapes[-1]} shape)"
    return Drawing(figure, caption, title=title, numbers=numbers)


def _over_bare_work(benchmarks: Benchmarks) -> list[Row]:
    return [row for row in benchmarks.of_kind("step") if row["baseline"].startswith(BARE)]


def _methods(rows: Sequence[Row]) -> list[str]:
    return in_order(row["method"] for row in rows)


def _combinations(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """The backends and numbers of chains there are."""
    return sorted(
        {(row["backend"], row["chains"]) for row in rows}, key=lambda one: (list(BACKENDS).index(one[0]), one[1])
    )


def _draw_steps(axes: Axes, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """One line per method: colour and marker show the backend, larger with more chains, one below the other."""
    combinations = _combinations(rows)
    for row in rows:
        combination = row["backend"], row["chains"]
        place = methods.index(row["method"]) + 0.2 * (combinations.index(combination) - (len(combinations) - 1) / 2)
        _draw_ratio(axes, place, row, *LOOKS[row["backend"]], size=_size(row["chains"]))
    axes.set_yticks(range(len(methods)), map(method_name, methods))
    axes.set_ylim(len(methods) - 0.5, -0.5)
    _ratio_axis(axes, rows)


def _size(chains: int) -> float:
    """Of a mark, in points."""
    return 4.0 if chains == 1 else 7.0


def _draw_ratio(axes: Axes, place: float, row: Row, colour: str, marker: str, size: float) -> None:
    """A ratio with its quartiles, and its performance target."""
    axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=colour, linewidth=1.3, alpha=0.7, zorder=3)
    axes.plot([row["ratio"]], [place], color=colour, marker=marker, markersize=size, linestyle="", zorder=4)
    if row.get("target") is not None:
        axes.plot([row["target"]], [place], **TARGET, zorder=5)


def _ratio_axis(axes: Axes, rows: Sequence[Row]) -> None:
    """A logarithmic axis of ratios that names as many numbers as have room, with a line where both sides are equal."""
    axes.axvline(1, color=EXACT, linewidth=1, zorder=1)
    ends = [1.0, *(row[name] for row in rows for name in ("ratio_low", "ratio_high", "target") if row.get(name))]
    span = max(ends) / min(ends)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5) if span < 8 else (1, 2, 5) if span < 60 else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _step_handles(rows: Sequence[Row]) -> list[Line2D]:
    handles = []
    for backend, chains in _combinations(rows):
        entry = handle(f"{backend}, {chains} chain{'s' * (chains > 1)}", *LOOKS[backend], linestyle="")
        entry.set_markersize(_size(chains))
        handles.append(entry)
    return handles + _target_handles(rows)


def _target_handles(rows: Sequence[Row]) -> list[Line2D]:
    is_needed = any(row.get("target") is not None for row in rows)
    return [Line2D([], [], label="target: at most", **TARGET)] if is_needed else []


def _extremes(rows: Sequence[Row], shape: str) -> str:
    """Between which ratios the steps of a shape are, for each backend."""
    parts = []
    for backend in dict.fromkeys(row["backend"] for row in rows if row["shape"] == shape):
        ranked = sorted(
            (row for row in rows if (row["shape"], row["backend"]) == (shape, backend)), key=lambda row: row["ratio"]
        )
        ends = (
            f"{row['ratio']:.2f} ({method_name(row['method'])}, {_chains_text(row['chains'])})"
            for row in (ranked[0], ranked[-1])
        )
        parts.append(f"{backend} {' to '.join(ends)}")
    return f"{shape}: {'; '.join(parts)}."


def _chains_text(chains: int) -> str:
    return "1 chain" if chains == 1 else f"{chains} chains"


def _targets_text(rows: Sequence[Row]) -> tuple[str, ...]:
    """Which performance targets among them are met; nothing where there are none."""
    return tuple(
        f"Performance target, at most {row['target']:g}: {named(row['what'])} ({'met' if is_met(row) else 'missed'})"
        for row in rows
        if row.get("target") is not None
    )


def draw_peers(benchmarks: Benchmarks) -> Drawing:
    """Our step over that of the same algorithm in other libraries."""
    rows = _some(benchmarks.of_kind("peer"), "against other libraries", "bench_peer")
    figure, (axes,) = panels(1, height=1.3 + (0.6 if is_narrow() else 0.42) * len(rows), share=1.0)
    for place, row in enumerate(rows):
        _draw_ratio(axes, place, row, *LOOKS[row["backend"]], size=6.0)
    names = [f"{method_name(row['method'])}, {row['backend']} / {named(row['baseline'])}" for row in rows]
    axes.set_yticks(range(len(rows)), [wrapped(name, 60, 22) for name in names])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    _ratio_axis(axes, rows)
    axes.set_xlabel(wrapped("our step, over the other library's", 40, 22))
    handles = [handle(name, *LOOKS[name], linestyle="") for name in dict.fromkeys(row["backend"] for row in rows)]
    handles += _target_handles(rows)
    legend(figure, handles)
    numbers = (
        f"{method_name(row['method'])} on {row['backend']} over {named(row['baseline'])} {ratio_text(row)}"
        for row in rows
    )
    caption = (
        "Left of 1, ours is faster. The same algorithm, model and data, timed after both had given the same moments; "
        "medians, with quartiles as lines."
    )
    slowest = max(row["ratio"] for row in rows)
    title = f"Our steps take at most {slowest:.2g} of the time of other libraries'" if slowest < 1 else ""
    return Drawing(figure, caption, title=title, numbers=(*numbers, *_targets_text(rows)))


# As something grows


@dataclass(frozen=True, eq=False)
class Growth:
    """Rows that differ in one number alone, each timed by turns with the same baseline.

    Their times are shown as ratio times the baseline's median time: the machine is not equally fast at all times, and
    what it does beside falls on both sides of a ratio.
    """

    #: The number in which they differ, and the rows in its order.
    axis: str
    rows: Sequence[Row]
    #: The baseline's number, and its time.
    baseline: int
    microseconds: float

    @classmethod
    def of(cls, rows: Sequence[Row], axis: str) -> Self:
        # Only its name says where the baseline stands: ``pbnn, N = 10,000``.
        (baseline,) = {int(re.findall(r"\d[\d,]*", row["baseline"])[0].replace(",", "")) for row in rows}
        ordered = sorted(rows, key=lambda row: int(row[axis]))
        return cls(axis, ordered, baseline, median(row["baseline_microseconds"] for row in rows))

    @property
    def points(self) -> list[tuple[int, float]]:
        """Number and microseconds of each, the baseline among them."""
        ratios = [(self.baseline, 1.0), *((int(row[self.axis]), row["ratio"]) for row in self.rows)]
        return [(number, ratio * self.microseconds) for number, ratio in sorted(ratios)]

    def draw(self, axes: Axes, colour: str, marker: str, linestyle: LineStyleType, size: float) -> None:
        axes.plot(*zip(*self.points, strict=True), color=colour, marker=marker, linestyle=linestyle, markersize=size)
        for row in self.rows:
            ends = [row[name] * self.microseconds for name in ("ratio_low", "ratio_high")]
            axes.plot([row[self.axis]] * 2, ends, color=colour, linewidth=1.3, alpha=0.7)


def _growths(rows: Sequence[Row], axis: str) -> dict[str, Growth]:
    """One per method."""
    return {method: Growth.of([row for row in rows if row["method"] == method], axis) for method in _methods(rows)}


BY_TURNS = "Each was timed by turns with the step of {}; shown is its ratio times the median time of that step."


def draw_points(benchmarks: Benchmarks) -> Drawing:
    """The cost of a step as the data grow, and the memory that goes with it."""
    rows = _some(benchmarks.of_kind("points"), "with more data", "bench_points")
    growths = _growths(rows, "num_points")
    measured = [row for row in rows if row.get("other_mb") is not None]
    figure, all_axes = panels(2 if measured else 1, height=4.2)
    _draw_points(all_axes[0], growths)
    if measured:
        _draw_memory(all_axes[1], measured)
    entries = _growth_handles(growths)
    if measured:
        entries.append(handle("the data themselves", EXACT, "", ":"))
    legend(figure, entries, most=3)
    smallest = next(iter(growths.values())).baseline
    numbers = (
        f"Over that at N = {smallest:,}: {_growth_name(method)} × {ratio_text(growth.rows[-1])} at N = "
        f"{growth.rows[-1]['num_points']:,}"
        for method, growth in growths.items()
    )
    caption = f"Time of a step of one chain as the data grow. {BY_TURNS.format('the fewest points')}"
    return Drawing(
        figure,
        caption,
        title=_points_message(growths),
        numbers=(*numbers, *_memory_text(measured), *_targets_text(rows)),
    )


def _points_message(growths: dict[str, Growth]) -> str:
    """What more data do to a step on mini-batches, and to one on all of them."""
    if "pbnn" not in growths:
        return ""
    last = growths["pbnn"].rows[-1]
    factor = last["num_points"] / growths["pbnn"].baseline
    return f"With {factor:,.0f} times the data a step of PBNN takes {last['ratio']:.2g} times as long"


def _growth_name(method: str) -> str:
    return "reading the rows of a PBNN step" if method == ROWS else method_name(method)


def _draw_points(axes: Axes, growths: dict[str, Growth]) -> None:
    for (method, growth), size in zip(growths.items(), _sizes(growths), strict=True):
        growth.draw(axes, *_growth_look(method), size)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["num_points"], ylabel=STEP_TIME)


def _growth_look(method: str) -> tuple[str, str, LineStyleType]:
    return (EXACT, "x", "--") if method == ROWS else (*look_of(method), "-")


def _sizes(methods: Collection[str]) -> list[float]:
    """Marks that get smaller, so that one that lies on another hides nothing."""
    return [4.5 + 1.3 * number for number in reversed(range(len(methods)))]


def _growth_handles(growths: dict[str, Growth]) -> list[Line2D]:
    return [handle(_growth_name(method), *_growth_look(method)) for method in growths]


def _draw_memory(axes: Axes, rows: Sequence[Row]) -> None:
    # Methods keep the data in different forms; the largest stands for them.
    data = {count: max(row["data_mb"] for row in rows if row["num_points"] == count) for count in _counts(rows)}
    axes.plot(list(data), list(data.values()), color=EXACT, linestyle=":", linewidth=1.6)
    methods = _methods(rows)
    for method, size in zip(methods, _sizes(methods), strict=True):
        used = sorted((row["num_points"], row["other_mb"]) for row in rows if row["method"] == method)
        axes.plot(*zip(*used, strict=True), color=look_of(method)[0], marker=look_of(method)[1], markersize=size)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["num_points"], ylabel="MB: the data (dotted), and the rest")


def _memory_text(rows: Sequence[Row]) -> tuple[str, ...]:
    if not rows:
        return ()
    largest = max(row["num_points"] for row in rows)
    listed = [f"{method_name(row['method'])} {row['other_mb']:,.3g} MB" for row in rows if row["num_points"] == largest]
    sizes = sorted({row["data_mb"] for row in rows if row["num_points"] == largest})
    data = " to ".join(f"{size:,.3g}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    return (f"At N = {largest:,} the data are {data} MB, and a step uses beside them: {', '.join(listed)}.",)


def _counts(rows: Sequence[Row]) -> list[int]:
    return sorted({row["num_points"] for row in rows})


def draw_chains(benchmarks: Benchmarks) -> Drawing:
    """The cost of a step of one chain against the number of chains that run side by side."""
    rows = _some(benchmarks.of_kind("chains"), "with more chains", "bench_chains")
    growths = _growths(rows, "chains")
    figure, axes = _draw_growths(growths, "chains")
    axes.set_ylim(bottom=0)
    caption = f"Time for a step of one of the chains. {BY_TURNS.format('one chain')}"
    return Drawing(
        figure, caption, title=_growth_message(growths, _chains_text), numbers=_growths_text(growths, _chains_text)
    )


def draw_batch_size(benchmarks: Benchmarks) -> Drawing:
    """The cost of a step against the size of its mini-batches."""
    rows = _some(benchmarks.of_kind("batch_size"), "with other mini-batches", "bench_batch_size")
    growths = _growths(rows, "batch_size")
    figure, axes = _draw_growths(growths, "batch_size")
    for growth in growths.values():
        sizes = [size for size, _ in growth.points]
        line = [growth.microseconds * size / growth.baseline for size in sizes]
        axes.plot(sizes, line, color="black", linestyle=":", linewidth=1.2)
    axes.set_yscale("log")
    whole_decades(axes, "y")
    baseline = _size_text(next(iter(growths.values())).baseline)
    caption = f"Time of a step. Dotted, one that grows as n. {BY_TURNS.format(baseline)}"
    return Drawing(
        figure, caption, title=_growth_message(growths, _size_text), numbers=_growths_text(growths, _size_text)
    )


def _size_text(size: int) -> str:
    return f"n = {size:,}"


def _growth_message(growths: dict[str, Growth], name: Callable[[int], str]) -> str:
    """What the largest number costs the first method."""
    method, growth = next(iter(growths.items()))
    last = growth.rows[-1]
    largest, baseline = name(last[growth.axis]), name(growth.baseline)
    return f"With {largest} a step of {method_name(method)} takes {last['ratio']:.2g} times that with {baseline}"


def _draw_growths(growths: dict[str, Growth], axis: str) -> tuple[Figure, Axes]:
    figure, (axes,) = panels(1, height=3.6)
    for (method, growth), size in zip(growths.items(), _sizes(growths), strict=True):
        growth.draw(axes, *_growth_look(method), size)
    log_ticks(axes, [float(number) for growth in growths.values() for number, _ in growth.points])
    axes.set(xlabel=LABELS[axis], ylabel=STEP_TIME)
    legend(figure, _growth_handles(growths))
    return figure, axes


def _growths_text(growths: dict[str, Growth], name: Callable[[int], str]) -> tuple[str, ...]:
    """Every ratio, and what it is to."""
    baseline = name(next(iter(growths.values())).baseline)
    listed = (
        f"Over that with {baseline}: {_growth_name(method)} "
        + ", ".join(f"× {ratio_text(row)} with {name(row[growth.axis])}" for row in growth.rows)
        for method, growth in growths.items()
    )
    rows = [row for growth in growths.values() for row in growth.rows]
    return (*listed, *_targets_text(rows))


# The two that the documentation shows


def draw_overview(benchmarks: Benchmarks) -> Figure:
    """Steps over their bare likelihoods and gradients on the mnist shape, and their cost as the data grow."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    legend: dict[str, Any] = {"fontsize": SMALL, "loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 2}
    bare = [row for row in _over_bare_work(benchmarks) if row["shape"] == "mnist"]
    if bare:
        _draw_steps(left, bare, _methods(bare))
        left.set_xlabel("a step over its bare likelihoods and gradients (mnist shape)")
        left.legend(handles=_step_handles(bare), **legend)
    else:
        say(left, "steps were not measured")
    growths = _growths(benchmarks.of_kind("points"), "num_points")
    if growths:
        _draw_points(right, growths)
        right.legend(handles=_growth_handles(growths), **legend)
    else:
        say(right, "growing data were not measured")
    return figure
