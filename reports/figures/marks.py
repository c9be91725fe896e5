"""What several figures draw alike: panels, a mean with its interval, a series over a setting, a legend."""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.typing import LineStyleType

from metrics.seeds import Estimate
from records.display import format_name, format_setting, format_value
from records.methods import facts_of
from records.setting import Setting
from reports.style import EXACT, LABELS

#: Inches. On a page 700 pixels wide, text of 8 points is then 10 pixels high.
WIDTH = 8.0
#: One for each of the tasks or backends of a figure.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
LINE_STYLES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
#: Two numbers on an axis collide below this share of its length.
TICK_DISTANCE = 0.16


def panels(count: int, columns: int = 2, height: float = 3.2, width: float | None = None) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels in rows of ``columns``, and its axes; a single column is narrower by default."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    width = width or (WIDTH if columns > 1 else 0.75 * WIDTH)
    figure = Figure(figsize=(width, height * rows), layout="constrained")
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
    family: Sequence[Setting],
    x: Callable[[Setting], float],
    column: str,
    colour: str,
    marker: str = "o",
    linestyle: LineStyleType = "-",
) -> None:
    """A column over a family of settings; the line goes through what has converged."""
    through = []
    for setting in family:
        for value, is_converged in setting.parts(column):
            draw_mark(axes, x(setting), value, is_converged, colour, marker)
            if is_converged:
                through.append((x(setting), value.mean))
    if len(through) > 1:
        axes.plot(*zip(*through, strict=True), color=colour, linestyle=linestyle, linewidth=1.4, alpha=0.8, zorder=2)


def draw_sweeps(axes: Axes, families: Sequence[Sequence[Setting]], axis: str, column: str) -> list[Line2D]:
    """One line per family of ``sweeps``: colours show methods, markers tasks; returns the legend's entries."""
    variants = list(dict.fromkeys(family[0]["variant"] for family in families))
    looks: list[tuple[str, str]] = []
    handles = []
    for family in families:
        first = family[0]
        look = facts_of(first["method"]).colour, MARKERS[variants.index(first["variant"]) % len(MARKERS)]
        linestyle = LINE_STYLES[looks.count(look) % len(LINE_STYLES)]
        looks.append(look)
        draw_series(axes, family, lambda setting: float(setting[axis]), column, *look, linestyle)
        handles.append(handle(family_text(first, axis), *look, linestyle))
    log_ticks(axes, [float(setting[axis]) for family in families for setting in family])
    axes.set_xlabel(LABELS[axis])
    return handles + hollow_handles([setting for family in families for setting in family])


def family_text(setting: Setting, axis: str) -> str:
    """``regression: PBNN n=5``: what the settings of a family share."""
    return f"{setting['variant']}: {format_name(setting, axis, 'preconditioner')}"


def sweep_text(family: Sequence[Setting], axis: str, column: str) -> str:
    """What a column is at both ends of a family."""
    first, last = (
        f"{format_value(setting, column)} at {format_setting(setting, axis)}" for setting in (family[0], family[-1])
    )
    return f"{family_text(family[0], axis)}: {first}, {last}"


def handle(
    label: str, colour: str, marker: str = "o", linestyle: LineStyleType = "-", *, is_hollow: bool = False
) -> Line2D:
    """A legend entry that looks like what it stands for."""
    face = "white" if is_hollow else colour
    return Line2D([], [], label=label, color=colour, marker=marker, linestyle=linestyle, markerfacecolor=face)


def hollow_handles(settings: Sequence[Setting]) -> list[Line2D]:
    """The entry that explains hollow marks, where there are any."""
    is_needed = any(not setting.is_converged for setting in settings)
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


def whole_decades(axes: Axes, name: str) -> None:
    """A logarithmic axis that ends at powers of ten, each with its number."""
    low, high = getattr(axes, f"get_{name}lim")()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    getattr(axes, f"set_{name}lim")(10.0 ** powers[0], 10.0 ** powers[-1])
    # Of many, every other.
    getattr(axes, f"set_{name}ticks")([10.0**power for power in powers[:: 1 + len(powers) // 7]])
    getattr(axes, f"{name}axis").set_minor_formatter(NullFormatter())


def say(axes: Axes, text: str) -> None:
    """A panel that has nothing to show says why."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=EXACT)
