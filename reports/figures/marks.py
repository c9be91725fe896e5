"""What several figures draw alike: panels, a mean with its interval, a series over a setting, names of lines."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.typing import LineStyleType

from metrics.seeds import Estimate
from records.display import format_given, format_name, format_setting, format_value, task_name
from records.setting_runs import SettingRuns
from reports.style import EXACT, LABELS, is_narrow, look_of, on_white, page_width

#: One for each of the tasks, or other things that are no methods, of a figure.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
LINE_STYLES: tuple[LineStyleType, ...] = ("-", "--", ":", "-.")
#: Of a panel's width, what its axis has: the rest is room for names and numbers beside it.
SHARE_OF_AXIS = 0.5
#: Lines of one panel that a reader tells apart; the others are among the numbers below the figure.
MAX_LINES = 4
#: Text of names and legends in points, and what a letter and a line of it take in inches.
SMALL = 9
LETTER, LINE = 0.076, 0.18
#: Letters of a name beside a panel, and of one below it, before it takes a second line.
NAME_LETTERS, LEGEND_LETTERS = 30, 46
#: Rows of a legend for which the height of a figure has room.
LEGEND_ROWS = 4


def blank(height: float, share: float = 1.0) -> Figure:
    """A figure as wide as the page, or as a share of a wide one."""
    return Figure(figsize=(page_width() * (1.0 if is_narrow() else share), height), layout="constrained")


def panels(count: int, columns: int = 2, height: float = 3.2, share: float | None = None) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, each ``height`` high, in rows of ``columns``, and its axes.

    A single column is narrower by default. On a phone they stand below each other.
    """
    columns = 1 if is_narrow() else min(columns, count)
    rows = math.ceil(count / columns)
    figure = blank(height * rows, share or (1.0 if columns > 1 else 0.75))
    return figure, [figure.add_subplot(rows, columns, number + 1) for number in range(count)]


def wrapped(text: str, letters: int, narrow: int | None = None) -> str:
    """A name in lines of so many letters at most; of fewer on a phone."""
    # A sign stays with its word, and a number with its letter.
    whole = text
    for parted in (" = ", "σ² ", " sd "):
        start = " " if parted == " sd " else ""
        whole = whole.replace(parted, start + parted.removeprefix(start).replace(" ", "\u00a0"))
    return textwrap.fill(whole, narrow if narrow and is_narrow() else letters)


def legend(figure: Figure, handles: Sequence[Artist], is_below: bool = False, most: int = 4) -> None:
    """The legend of all panels, above or below them, in as many columns as have room."""
    _wrap_labels(handles)
    longest = max(len(line) for entry in handles for line in str(entry.get_label()).split("\n"))
    columns = int(figure.get_figwidth() / (0.5 + LETTER * longest))
    place: Literal["outside lower center", "outside upper center"] = (
        "outside lower center" if is_below else "outside upper center"
    )
    columns = max(1, min(most, columns, len(handles)))
    # A long legend makes the figure higher, not its panels smaller.
    figure.set_figheight(figure.get_figheight() + LINE * max(0, math.ceil(len(handles) / columns) - LEGEND_ROWS))
    figure.legend(handles=handles, loc=place, ncols=columns, fontsize=SMALL)


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
    family: Sequence[SettingRuns],
    x: Callable[[SettingRuns], float],
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


def draw_sweeps(axes: Axes, families: Sequence[Sequence[SettingRuns]], axis: str, column: str) -> list[Line2D]:
    """One line per family of ``sweeps``, of one method in different strokes; returns a legend's entry for each."""
    looks: list[tuple[str, str]] = []
    handles = []
    for family in families:
        first = family[0]
        look = look_of(first["method"])
        linestyle = LINE_STYLES[looks.count(look) % len(LINE_STYLES)]
        looks.append(look)
        draw_series(axes, family, lambda setting: float(setting[axis]), column, *look, linestyle)
        handles.append(handle(family_text(first, axis), *look, linestyle))
    log_ticks(axes, [float(setting[axis]) for family in families for setting in family])
    axes.set_xlabel(LABELS[axis])
    return handles


def few(families: Sequence[list[SettingRuns]], most: int = MAX_LINES) -> list[list[SettingRuns]]:
    """No more than a panel can show: other tasks and methods before a second line of one, longer lines first."""
    ranked: list[tuple[int, int, int]] = []
    seen: list[tuple[str, str]] = []
    for place in sorted(range(len(families)), key=lambda place: -_num_converged(families[place])):
        kind = families[place][0]["variant"], families[place][0]["method"]
        ranked.append((seen.count(kind), -_num_converged(families[place]), place))
        seen.append(kind)
    return [families[place] for place in sorted(place for *_, place in sorted(ranked)[:most])]


def _num_converged(family: Sequence[SettingRuns]) -> int:
    return sum(setting.is_converged for setting in family)


def name_lines(
    axes: Axes, families: Sequence[Sequence[SettingRuns]], axis: str, column: str, handles: Sequence[Line2D]
) -> None:
    """The name of each family beside the end of its line; on a phone below the panel. Limits have to be set before."""
    if is_narrow():
        name_below(axes, handles)
        return
    figure = axes.get_figure(root=True)
    assert figure is not None, "panels are in a figure"
    height = figure.get_figheight() / len(figure.axes) - 0.7
    texts = [wrapped(str(entry.get_label()), NAME_LETTERS) for entry in handles]
    ends = [(float(family[-1][axis]), family[-1].mean(column)) for family in families]
    low, high = axes.get_ylim()
    order = sorted(range(len(texts)), key=lambda number: ends[number][1])
    rooms = [(texts[number].count("\n") + 1.3) * LINE / height for number in order]
    wanted = [(ends[number][1] - low) / (high - low) for number in order]
    for number, place in zip(order, spread(wanted, rooms), strict=True):
        colour = handles[number].get_color()
        # Dots, so that nobody takes it for the rest of the line.
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.9, "linestyle": (0, (1, 3)), "shrinkB": 6}
        axes.annotate("", ends[number], (1.03, place), textcoords="axes fraction", arrowprops=leader)
        axes.text(1.04, place, texts[number], transform=axes.transAxes, fontsize=SMALL, va="center")


def _wrap_labels(handles: Sequence[Artist]) -> None:
    for entry in handles:
        entry.set_label(wrapped(str(entry.get_label()), 2 * LEGEND_LETTERS, LEGEND_LETTERS))


def name_below(axes: Axes, handles: Sequence[Artist]) -> None:
    _wrap_labels(handles)
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.15, -0.28), fontsize=SMALL)


def name_beside(axes: Axes, handles: Sequence[Artist]) -> None:
    """The legend of one panel to its right, on a phone below it."""
    if is_narrow():
        name_below(axes, handles)
    else:
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=SMALL)


def spread(wanted: Sequence[float], rooms: Sequence[float]) -> list[float]:
    """Places near those wanted, in the same ascending order, so far apart that things of these heights do not touch."""
    places: list[float] = []
    for number, place in enumerate(wanted):
        least = places[-1] + (rooms[number - 1] + rooms[number]) / 2 if places else -math.inf
        places.append(max(place, least))
    # What was pushed beyond the top pushes the others down.
    ceiling = 1 + rooms[-1] / 2
    for number in reversed(range(len(places))):
        places[number] = min(places[number], ceiling - rooms[number] / 2)
        ceiling = places[number] - rooms[number] / 2
    return places


def family_text(setting: SettingRuns, axis: str) -> str:
    """``regression: PBNN n=5``: what the settings of a family share."""
    return f"{task_name(setting)}: {format_name(setting, axis, 'preconditioner')}"


def sweep_text(family: Sequence[SettingRuns], axis: str, column: str) -> str:
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


def hollow_handles(settings: Sequence[SettingRuns]) -> list[Line2D]:
    """The entry that explains hollow marks, where there are any."""
    is_needed = any(not setting.is_converged for setting in settings)
    return [handle("not converged", EXACT, linestyle="", is_hollow=True)] if is_needed else []


def outline(figure: Figure) -> None:
    """Give every mark whose colour could hardly be seen on white a darker edge; a line is as dark as that edge.

    The lines of a grid are no marks, and stay faint.
    """
    legends = [*figure.legends, *(found for axes in figure.axes if (found := axes.get_legend()))]
    of_legends = (line for found in legends for line in found.findobj(Line2D))
    for line in (*(line for axes in figure.axes for line in axes.lines), *of_legends):
        assert isinstance(line, Line2D)
        colour = to_hex(line.get_markeredgecolor() if _has_mark(line) else line.get_color())
        if (edge := on_white(colour)) == colour:
            continue
        line.set_markeredgecolor(edge)
        if not _has_mark(line):
            line.set_color(edge)


def _has_mark(line: Line2D) -> bool:
    return line.get_marker() not in ("", " ", "None", "none", None)


def log_ticks(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic x axis that names the values there are: settings come in few values, not in decades."""

    def name(value: float, _: object = None) -> str:
        return format_given(value, 2 if value < 1 else 6)

    distinct = sorted(set(values))
    length = math.log(distinct[-1] / distinct[0]) or 1.0
    place, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    assert figure is not None
    inches = figure.get_figwidth() / (place.get_gridspec().ncols if place else 1) * SHARE_OF_AXIS
    ticks = distinct[:1]
    for value in distinct[1:]:
        room = LETTER * (len(name(ticks[-1])) + len(name(value)) + 2) / 2
        if math.log(value / ticks[-1]) / length * inches >= room:
            ticks.append(value)
    axes.set_xscale("log")
    axes.set_xticks(ticks)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(FuncFormatter(name))
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
