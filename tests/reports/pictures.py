"""A figure as a picture: what a reader would see is wrong with it, found in matplotlib's own boxes."""

from itertools import chain, combinations, pairwise, product

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

#: The panels of a row fill at least this much of the figure's width, those of a column of its height.
MIN_SHARE = 0.5
#: No panel is narrower or lower than so many inches: a number of an axis has room, and a mark.
MIN_INCHES = 0.35
#: Letters beside a claim and on a phone are then at least 10.5 pixels high.
MIN_POINTS = 9.0
#: Boxes of text may touch by as many pixels: they are higher and wider than the letters in them.
TOUCH = 2.0
#: Numbers of two axes on one line are at least so many pixels apart, or they are read as one.
GAP = 8.0


def flaws(figure: Figure) -> list[str]:
    """What is squeezed, empty, cut by the edge, or written over something else."""
    # Texts are placed, and nothing is painted.
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    legends = [*figure.legends, *(legend for axes in panels if (legend := axes.get_legend()))]
    ticks = [[text for text in _ticks(axes, name) if _is_shown(text)] for axes in panels for name in ("x", "y")]
    names = [text for text in _names(figure, panels) if _is_shown(text)]
    notes = [text for axes in panels for text in axes.texts if _is_shown(text) and not _is_arrow(text)]
    of_legends = [text for legend in legends for text in legend.get_texts()]
    found = [*_squeezed(panels), *_small(figure, panels), *_empty(panels), *_misaligned(panels)]
    for text in [*chain.from_iterable(ticks), *names, *notes, *of_legends]:
        if not _holds(figure.bbox, text.get_window_extent(renderer)):
            found.append(f"{text.get_text()!r} is cut by the edge of the figure")
        if text.get_fontsize() < MIN_POINTS:
            found.append(f"{text.get_text()!r} is {text.get_fontsize():.1f} points high")
    for group in ticks:
        found += [
            f"{first.get_text()!r} and {second.get_text()!r} overlap on an axis"
            for first, second in pairwise(group)
            if _overlap(first.get_window_extent(renderer), second.get_window_extent(renderer))
        ]
    for group, other in combinations(ticks, 2):
        found += [
            f"{first.get_text()!r} and {second.get_text()!r} of two axes run together"
            for first, second in product(group, other)
            if _overlap(first.get_window_extent(renderer).padded(GAP, 0), second.get_window_extent(renderer))
        ]
    for first, second in combinations([*names, *notes, *legends], 2):
        if _overlap(first.get_window_extent(renderer), second.get_window_extent(renderer)):
            found.append(f"{_name(first)!r} and {_name(second)!r} overlap")
    for name in [*names, *notes]:
        box = name.get_window_extent(renderer)
        others = [text for text in chain.from_iterable(ticks) if _overlap(box, text.get_window_extent(renderer))]
        found += [f"{name.get_text()!r} and the number {text.get_text()!r} overlap" for text in others]
    return [*found, *_twins(legends)]


def _squeezed(panels: list[Axes]) -> list[str]:
    """The fullest row and column count: the last row of seven panels has one, beside which nothing stands."""
    boxes = [panel.get_position() for panel in panels]
    found = []
    for side, other in (("width", "height"), ("height", "width")):
        shares = []
        for box in boxes:
            middle = sum(_ends(box, other)) / 2
            beside = [one for one in boxes if _ends(one, other)[0] <= middle <= _ends(one, other)[1]]
            shares.append(sum(getattr(one, side) for one in beside))
        if max(shares) < MIN_SHARE:
            found.append(f"panels fill {max(shares):.2f} of the figure's {side}")
    return found


def _small(figure: Figure, panels: list[Axes]) -> list[str]:
    found = []
    for place, panel in enumerate(panels, start=1):
        box = panel.get_window_extent()
        sides = {"wide": box.width / figure.dpi, "high": box.height / figure.dpi}
        found += [f"panel {place} is {size:.2f} inches {side}" for side, size in sides.items() if size < MIN_INCHES]
    return found


def _empty(panels: list[Axes]) -> list[str]:
    """A panel with nothing in it says at least why."""
    return [
        f"panel {place} is empty"
        for place, panel in enumerate(panels, start=1)
        if not panel.has_data() and not any(map(_is_shown, panel.texts))
    ]


def _misaligned(panels: list[Axes]) -> list[str]:
    """Panels above each other that share an axis begin and end at the same place."""
    found = []
    for first, second in combinations(panels, 2):
        one, other = first.get_window_extent(), second.get_window_extent()
        is_above = min(one.x1, other.x1) - max(one.x0, other.x0) > 0.5 * min(one.width, other.width)
        is_shared = first.get_shared_x_axes().joined(first, second)
        if is_shared and is_above and max(abs(one.x0 - other.x0), abs(one.x1 - other.x1)) > TOUCH:
            found.append(
                f"panels {panels.index(first) + 1} and {panels.index(second) + 1} share an axis and do not align"
            )
    return found


def _twins(legends: list[Legend]) -> list[str]:
    """Two entries of a legend that look alike cannot be told apart."""
    found = []
    for legend in legends:
        looks: dict[tuple[object, ...], str] = {}
        for entry, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            properties = entry.properties()
            look = tuple(
                str(properties.get(name))
                for name in (
                    "color",
                    "facecolor",
                    "marker",
                    "markerfacecolor",
                    "markersize",
                    "linestyle",
                    "hatch",
                    "alpha",
                )
            )
            if look in looks:
                found.append(f"{looks[look]!r} and {text.get_text()!r} look alike in a legend")
            looks[look] = text.get_text()
    return found


def _names(figure: Figure, panels: list[Axes]) -> list[Text]:
    """Titles and labels of axes and of the whole figure."""
    of_panels = [
        text
        for axes in panels
        for text in (axes.title, axes._left_title, axes._right_title, axes.xaxis.label, axes.yaxis.label)
    ]
    of_figure = [getattr(figure, name) for name in ("_suptitle", "_supxlabel", "_supylabel")]
    return [*of_panels, *(text for text in of_figure if text is not None)]


def _ends(box: Bbox, side: str) -> tuple[float, float]:
    return (box.x0, box.x1) if side == "width" else (box.y0, box.y1)


def _ticks(axes: Axes, name: str) -> list[Text]:
    axis = getattr(axes, f"{name}axis")
    low, high = sorted(getattr(axes, f"get_{name}lim")())
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 for tick in sorted(ticks, key=lambda tick: tick.get_loc()) if tick.label1.get_visible()]


def _is_shown(text: Text) -> bool:
    return bool(text.get_text()) and text.get_visible()


def _is_arrow(text: Text) -> bool:
    return getattr(text, "arrow_patch", None) is not None


def _holds(outer: Bbox, inner: Bbox) -> bool:
    return (
        outer.x0 - TOUCH <= inner.x0
        and inner.x1 <= outer.x1 + TOUCH
        and outer.y0 - TOUCH <= inner.y0
        and inner.y1 <= outer.y1 + TOUCH
    )


def _overlap(first: Bbox, second: Bbox) -> bool:
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > TOUCH and height > TOUCH


def _name(artist: object) -> str:
    return artist.get_text() if isinstance(artist, Text) else "a legend"
