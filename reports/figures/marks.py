"""What several figures draw alike: panels, a mean with its interval, a series over a setting, a legend."""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.typing import LineStyleType

from metrics.seeds import Estimate
from reports.figures.groups import SYMBOLS, Group, settings_text, told
from reports.style import COLOURS, EXACT, LABELS

#: Inches. On a page 700 pixels wide, text of 8 points is then 10 pixels high.
WIDTH = 8.0
#: One for each of the tasks or backends of a figure.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
LINE_STYLES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
#: Two numbers on an axis collide below this share of its length.
TICK_DISTANCE = 0.16


def panels(count: int, columns: int = 2, height: float = 3.2) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels in rows of ``columns``, and its axes."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(WIDTH if columns > 1 else 0.75 * WIDTH, height * rows), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, number + 1) for number in range(count)]


def draw_mark(axes: Axes, x: float, value: Estimate, is_converged: bool, colour: str, marker: str = "o") -> None:
    """A mean over seeds with its interval: filled where the runs have converged, hollow where not."""
    if value.mean is None:
        return
    if value.low is not None and value.high is not None:
        axes.plot([x, x], [value.low, value.high], color=colour, linewidth=1.3, alpha=0.7, zorder=3)
    face = colour if is_converged else "white"
    axes.plot([x], [value.mean], color=colour, marker=marker, markerfacecolor=face, linestyle="", zorder=4)


def draw_series(
    axes: Axes,
    family: Sequence[Group],
    x: Callable[[Group], float],
    column: str,
    colour: str,
    marker: str = "o",
    linestyle: LineStyleType = "-",
) -> None:
    """A column over a family of settings; the line goes through what has converged."""
    through = []
    for group in family:
        for value, is_converged in group.parts(column):
            draw_mark(axes, x(group), value, is_converged, colour, marker)
            if is_converged:
                through.append((x(group), value.mean))
    if len(through) > 1:
        axes.plot(*zip(*through, strict=True), color=colour, linestyle=linestyle, linewidth=1.4, alpha=0.8, zorder=2)


def draw_sweeps(axes: Axes, families: Sequence[Sequence[Group]], axis: str, column: str) -> list[Line2D]:
    """A line a family of ``groups.sweeps``: colour a method, marker a task; returns what a legend says of them."""
    variants = list(dict.fromkeys(family[0]["variant"] for family in families))
    looks: list[tuple[str, str]] = []
    handles = []
    for family in families:
        first = family[0]
        look = COLOURS[first["method"]], MARKERS[variants.index(first["variant"]) % len(MARKERS)]
        linestyle = LINE_STYLES[looks.count(look) % len(LINE_STYLES)]
        looks.append(look)
        draw_series(axes, family, lambda group: float(group[axis]), column, *look, linestyle)
        handles.append(handle(family_text(first, axis), *look, linestyle))
    log_ticks(axes, [float(group[axis]) for family in families for group in family])
    axes.set_xlabel(LABELS[axis])
    return handles + hollow_handles([group for family in families for group in family])


def family_text(group: Group, axis: str) -> str:
    """``regression: pbnn, n = 5``: what the groups of a family share."""
    return f"{group['variant']}: {group['method']}, {settings_text(group, axis, 'preconditioner')}".removesuffix(", ")


def sweep_text(family: Sequence[Group], axis: str, column: str) -> str:
    """What a column is at both ends of a family."""
    first, last = (f"{told(group, column)} at {SYMBOLS[axis]} = {group[axis]:.3g}" for group in (family[0], family[-1]))
    return f"{family_text(family[0], axis)}: {first}, {last}"


def handle(
    label: str, colour: str, marker: str = "o", linestyle: LineStyleType = "-", *, is_hollow: bool = False
) -> Line2D:
    """A legend entry that looks like what it stands for."""
    face = "white" if is_hollow else colour
    return Line2D([], [], label=label, color=colour, marker=marker, linestyle=linestyle, markerfacecolor=face)


def hollow_handles(groups: Sequence[Group]) -> list[Line2D]:
    """The entry that explains hollow marks, where there are any."""
    is_needed = any(not group.is_converged for group in groups)
    return [handle("not converged", EXACT, linestyle="", is_hollow=True)] if is_needed else []


def log_ticks(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic x axis that names the values there are: settings come in few values, not in decades."""
    distinct = sorted(set(values))
    length = math.log(distinct[-1] / distinct[0]) or 1.0
    ticks = distinct[:1]
    for value in distinct[1:]:
        if math.log(value / ticks[-1]) >= TICK_DISTANCE * length:
            ticks.append(value)
    axes.set_xscale("log")
    axes.set_xticks(ticks)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}" if value < 1 else f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def say(axes: Axes, text: str) -> None:
    """A panel that has nothing to show says why."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=EXACT)
