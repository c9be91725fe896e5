"""Figures as SVG: panels as wide as a phone, which a page lays out in rows, in colours that its style sheet can change.

A panel holds shapes in the units of its data, so that a test reads the numbers from the panel that a reader sees. Every
colour is a CSS variable with the light colour as its fallback: ``figure_css`` gives a page the dark ones.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, NamedTuple, TypeVar

import numpy.typing as npt

from metrics.seeds import Estimate
from records.display import estimate_parts
from records.methods import facts_of

#: Units of a panel's width, and of the height of its letters. On a phone a unit is a pixel.
WIDTH, FONT = 360, 11
#: Of a line of text, and between the panels of a file.
LINE, GAP = 14, 16
#: Colours that every page has a variable for, with their light and dark values.
INK, SOFT, GRID, PAPER = "ink", "soft", "line", "paper"
PAGE_COLOURS = {
    INK: ("#1c1b19", "#e8e6e1"),
    SOFT: ("#67635c", "#a5a19a"),
    GRID: ("#dcd8d0", "#3a3b3e"),
    PAPER: ("#fdfcfa", "#17181a"),
}
#: Contrast with the paper that WCAG asks of a mark, and of letters.
MIN_CONTRAST, TEXT_CONTRAST = 3.0, 4.5
FONTS = '"DejaVu Sans", Verdana, "Bitstream Vera Sans", Geneva, Roboto, sans-serif'
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Colours and shapes


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2)."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def _luminance(colour: str) -> float:
    parts = [value / 255 for value in _rgb(colour)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def on_dark(colour: str) -> str:
    """The same hue, as much lighter as letters on dark paper need."""
    while contrast(colour, PAGE_COLOURS[PAPER][1]) < TEXT_CONTRAST:
        colour = "#{:02x}{:02x}{:02x}".format(*(value + math.ceil((255 - value) / 10) for value in _rgb(colour)))
    return colour


def on_white(colour: str, least: float = MIN_CONTRAST) -> str:
    """The same hue, as much darker as the outline of a mark on white paper needs."""
    while contrast(colour, "#ffffff") < least:
        colour = "#{:02x}{:02x}{:02x}".format(*(9 * value // 10 for value in _rgb(colour)))
    return colour


def paint(colour: str) -> str:
    """A colour as an attribute's value: the variable of a page's colour, or the one named after its digits."""
    if colour in PAGE_COLOURS:
        return f"var(--{colour}, {PAGE_COLOURS[colour][0]})"
    return colour if colour == "none" else f"var(--c{colour[1:]}, {colour})"


#: Paper behind letters, so that they can be read on a line.
HALO = f' stroke="{paint(PAPER)}" stroke-width="3" paint-order="stroke"'


def _outline(colour: str) -> str:
    return colour if colour in PAGE_COLOURS else on_white(colour)


#: Corners of a mark in per cent of its square; of a circle there are none.
Corners = tuple[tuple[float, float], ...]


def _corners(text: str) -> Corners:
    return tuple((float(x), float(y)) for x, y in (one.split() for one in text.split(",")))


CIRCLE: Corners = ()
SQUARE = _corners("6 6, 94 6, 94 94, 6 94")
UP, DOWN = _corners("50 0, 100 100, 0 100"), _corners("0 0, 100 0, 50 100")
DIAMOND = _corners("50 0, 100 50, 50 100, 0 50")
CROSS = _corners("25 0, 50 25, 75 0, 100 25, 75 50, 100 75, 75 100, 50 75, 25 100, 0 75, 25 50, 0 25")
PLUS = _corners("33 0, 67 0, 67 33, 100 33, 100 67, 67 67, 67 100, 33 100, 33 67, 0 67, 0 33, 33 33")
STAR = _corners("50 0, 61 35, 98 35, 68 57, 79 91, 50 70, 21 91, 32 57, 2 35, 39 35")
THIN_DIAMOND = _corners("50 0, 80 50, 50 100, 20 50")
PENTAGON = _corners("50 0, 100 38, 81 100, 19 100, 0 38")
TICK = _corners("40 -40, 60 -40, 60 140, 40 140")
#: A shape for each rule of acceptance, which tells families of methods apart.
SHAPES = {
    **{"exact": SQUARE, "penalty": CIRCLE, "penalty_corrected": CIRCLE, "always": UP, "naive": CROSS},
    **{"sequential": DIAMOND, "poisson": PLUS, "barker": THIN_DIAMOND, "pseudo-marginal": STAR},
}
#: Shapes for tasks, or other things that are no methods.
MARKERS = (CIRCLE, SQUARE, DIAMOND, UP, DOWN, PLUS, CROSS)


class Look(NamedTuple):
    """A colour, in digits or by the name of a page's colour, and a shape."""

    colour: str
    corners: Corners = CIRCLE


def look_of(method: str) -> Look:
    """The same in every figure; a rule of acceptance of a method's own has a pentagon."""
    facts = facts_of(method)
    if facts.always_accepts and not facts.is_minibatch:
        return Look(facts.colour, DOWN)
    return Look(facts.colour, SHAPES.get(facts.acceptance, PENTAGON))


def clip_of(corners: Corners) -> str:
    """The shape as a style sheet cuts it out of a square."""
    return f"polygon({', '.join(f'{x:g}% {y:g}%' for x, y in corners)})" if corners else "circle()"


# Shapes of a panel, in the units of its data

Values = Sequence[float] | npt.NDArray[Any]


class Mark(NamedTuple):
    """The setting that a point stands for, in words, and one of its runs (the summary's column ``run``)."""

    text: str
    run: str


@dataclass(frozen=True)
class Line:
    x: Values
    y: Values
    colour: str = INK
    #: As in SVG: ``4 3``.
    dash: str = ""
    width: float = 1.5


@dataclass(frozen=True)
class Band:
    """The area between two curves."""

    x: Values
    low: Values
    high: Values
    colour: str
    opacity: float = 0.25

    @property
    def y(self) -> Values:
        return [*self.low, *self.high]


@dataclass(frozen=True)
class Bar:
    """A rectangle; an infinite end is that of the panel."""

    x: tuple[float, float] = (-math.inf, math.inf)
    y: tuple[float, float] = (-math.inf, math.inf)
    colour: str = SOFT
    opacity: float = 0.15
    is_hollow: bool = False


@dataclass(frozen=True)
class Guide:
    """A line across the panel at one value of an axis."""

    axis: Literal["x", "y"]
    value: float
    dash: str = "2 3"
    colour: str = SOFT


@dataclass(frozen=True)
class Point:
    """A mark, with an interval along one of the axes; hollow where runs have not converged."""

    x: float
    y: float
    look: Look
    is_hollow: bool = False
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    size: float = 7.0
    #: Of its series, for the list of the numbers behind a figure.
    name: str = ""
    mark: Mark | None = None


@dataclass(frozen=True)
class Dots:
    """Many small points of one colour."""

    x: Values
    y: Values
    colour: str
    is_hollow: bool = False
    size: float = 3.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Words:
    """A text next to a point of the data, on a side that has room."""

    text: str
    x: float
    y: float
    colour: str = INK
    #: Rather on the left, as where a line leads to the right.
    is_left: bool = False


Shape = Line | Band | Bar | Guide | Point | Dots | Words
S = TypeVar("S", Line, Band, Bar, Guide, Point, Dots, Words)
#: What lies below comes first.
LAYERS = (Bar, Band, Guide, Line, Dots, Point)


def values_of(shape: Shape, axis: Literal["x", "y"]) -> list[float]:
    """What an axis has to reach."""
    if isinstance(shape, Words) or (isinstance(shape, Guide) and shape.axis != axis):
        return []
    if isinstance(shape, Guide):
        return [shape.value]
    if isinstance(shape, Point):
        ends = shape.x_ends if axis == "x" else shape.y_ends
        return [shape.x if axis == "x" else shape.y, *(ends or ())]
    return list(map(float, shape.x if axis == "x" else shape.y))


class Key(NamedTuple):
    """An entry of a legend: a mark, a line, or a piece of a band."""

    label: str
    look: Look
    #: Of its line: ``4 3``, empty for a solid one; None has no line.
    dash: str | None = None
    has_mark: bool = True
    is_hollow: bool = False
    #: Opacity of a band; 0 has none.
    band: float = 0.0


# Axes


def tick_name(value: float) -> str:
    """``0.01``, ``1,000``, ``10⁵``, ``2×10⁻⁵``"""
    if value and not 1e-3 <= abs(value) < 1e5:
        exponent = math.floor(math.log10(abs(value)) + 1e-9)
        mantissa, power = value / 10.0**exponent, f"10{str(exponent).translate(SUPERSCRIPTS)}"
        return power if abs(mantissa - 1) < 1e-9 else f"{mantissa:.3g}×{power}".replace("-", "−")
    return f"{value:,.6g}".replace("-", "−")


@dataclass(frozen=True)
class Axis:
    label: str = ""
    scale: Literal["linear", "log", "symlog"] = "linear"
    #: Its ends, where the data do not set them.
    low: float | None = None
    high: float | None = None
    #: Values that are named, as far as there is room; none are chosen here.
    ticks: Sequence[float] = ()
    name: Callable[[float], str] = tick_name
    #: A symmetric logarithmic scale is linear below this.
    threshold: float = 1.0

    def place(self, value: float) -> float:
        """Where a value is on the axis, before the panel scales it; below a logarithm's reach it is the lower end."""
        if self.scale == "log":
            return math.log10(value) if value > 0 else -math.inf
        return math.asinh(value / self.threshold) if self.scale == "symlog" else value

    def ends(self, values: Iterable[float]) -> tuple[float, float]:
        """The places of its ends: those given, or those of the data with some room."""
        found = [place for value in values if math.isfinite(place := self.place(float(value)))]
        low, high = (min(found), max(found)) if found else (0.0, 1.0)
        room = 0.06 * (high - low) or 0.5 * (abs(low) if self.scale == "linear" else 1.0) or 0.5
        low = low - room if self.low is None else self.place(self.low)
        return low, max(low + 1e-12, high + room if self.high is None else self.place(self.high))

    def named(self, low: float, high: float) -> list[tuple[float, str]]:
        """Values between two places and their names."""
        values = self.ticks or (log_ticks(low, high) if self.scale == "log" else round_ticks(low, high))
        room = 1e-6 * (high - low)
        inside = [value for value in sorted(set(values)) if low - room <= self.place(value) <= high + room]
        return [(value, self.name(value)) for value in inside]


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two, at most so many."""
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two logarithms, every other of many; of few, their multiples too."""
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if len(powers) > 2:
        return [10.0**power for power in powers[:: 1 + (len(powers) - 1) // 6]]
    factors = (1, 2, 5) if high - low > 0.7 else (1, 1.5, 2, 3, 5, 7)
    decades = range(math.floor(low), math.ceil(high) + 1)
    found = [factor * 10.0**power for power in decades for factor in factors]
    inside = [value for value in found if low <= math.log10(value) <= high]
    return inside if len(inside) > 1 else round_ticks(10.0**low, 10.0**high)


# Panels


def text_width(text: str, size: float = FONT) -> float:
    """Units that a text takes in the widest of FONTS, a little more rather than less."""
    return size * sum(0.37 if one in "iljftrI.,:;'|!()[] " else 0.95 if one in "mwMW%=+−×@" else 0.65 for one in text)


def wrapped(text: str, width: float, size: float = FONT) -> list[str]:
    """A text in lines of at most this width; a sign or number stays with its word."""
    for joint in (" = ", "σ² "):
        text = text.replace(joint, joint.replace(" ", "\u00a0"))
    letters = max(8, int(len(text) * width / max(text_width(text, size), 1.0)))
    return textwrap.wrap(text, letters) or [""]


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass
class Panel:
    """One picture of a figure: axes with shapes, or rows, each below its name."""

    title: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    #: Units of the plot, without titles and axes; of each row, where there are rows.
    height: int = 190
    #: Names of rows, each above its own: y counts rows from 0, downwards, and a row reaches from -0.5 to 0.5 about it.
    rows: Sequence[str] = ()
    shapes: list[Shape] = field(default_factory=list)
    #: Entries below the panel for what this panel alone shows.
    keys: Sequence[Key] = ()

    def add(self, *shapes: Shape) -> None:
        self.shapes.extend(shapes)

    def of(self, kind: type[S]) -> list[S]:
        return [shape for shape in self.shapes if isinstance(shape, kind)]

    @property
    def marks(self) -> list[Mark]:
        return [point.mark for point in self.of(Point) if point.mark]

    def numbers(self) -> Iterator[str]:
        """A line for each point that has a row, or the name of its series."""
        for point in self.of(Point):
            name = ", ".join(filter(None, [self.rows[round(point.y)] if self.rows else "", point.name]))
            if point.mark:
                yield point.mark.text
            elif name:
                value, ends = (point.x, point.x_ends) if self.rows else (point.y, point.y_ends)
                low, high = ends or (None, None)
                text = " ".join(estimate_parts(Estimate(value, low, high, 2, 0))).rstrip()
                where = "" if self.rows else f" at {self.x.label.partition(',')[0]} = {self.x.name(point.x)}"
                what = " ".join(filter(None, [self.title, "" if self.rows else self.y.label]))
                yield f"{what or self.x.label}, {name}: {text}{where}{', not converged' if point.is_hollow else ''}"

    @property
    def colours(self) -> set[str]:
        found = {shape.look.colour if isinstance(shape, Point) else shape.colour for shape in self.shapes}
        return found | {key.look.colour for key in self.keys}

    def svg(self, anchors: Mapping[str, str] | None = None) -> tuple[str, float]:
        """The panel's elements and its height; ``anchors`` are the addresses that marks lead to, by run."""
        return _Canvas(self, anchors or {}).drawn()


class _Canvas:
    """Where everything of a panel is."""

    def __init__(self, panel: Panel, anchors: Mapping[str, str]) -> None:
        self.panel, self.anchors = panel, anchors
        self.x_ends = panel.x.ends(value for shape in panel.shapes for value in values_of(shape, "x"))
        self.y_ends = panel.y.ends(value for shape in panel.shapes for value in values_of(shape, "y"))
        self.y_ticks = [] if panel.rows else panel.y.named(*self.y_ends)
        self.parts: list[str] = []
        self.texts: list[Box] = []
        self.marks: list[Box] = []
        title = wrapped(panel.title, WIDTH - 8, FONT + 1) if panel.title else []
        label = wrapped(panel.y.label, WIDTH - 8) if panel.y.label and not panel.rows else []
        for number, text in enumerate((*title, *label)):
            is_title = number < len(title)
            style = f' font-size="{FONT + 1}" font-weight="600"' if is_title else ""
            self._text(4, 13 + LINE * number, text, colour=INK if is_title else SOFT, more=style)
        self.top = 8 + LINE * (len(title) + len(label)) + (0 if panel.rows else 4)
        self.left = 4.0 if panel.rows else 10 + max((text_width(name) for _, name in self.y_ticks), default=0)
        self.right = WIDTH - 12.0
        self.centres: list[float] = []
        self.bottom = self.top
        for name in panel.rows:
            for text in wrapped(name, WIDTH - 8) if name else ():
                self._text(4, self.bottom + 11, text, more=HALO)
                self.bottom += LINE - 1
            self.centres.append(self.bottom + panel.height / 2 + 2)
            self.bottom += panel.height + 6
        self.bottom += 0 if panel.rows else panel.height

    def across(self, value: float) -> float:
        return self.left + (self.right - self.left) * _share(self.panel.x, self.x_ends, value)

    def up(self, value: float) -> float:
        if self.centres:
            value = min(max(value, -0.5), len(self.centres) - 0.51)
            return self.centres[round(value)] + (value - round(value)) * self.panel.height
        return self.bottom - (self.bottom - self.top) * _share(self.panel.y, self.y_ends, value)

    def drawn(self) -> tuple[str, float]:
        names, self.parts = self.parts, []
        height = self._axes()
        points = self.panel.of(Point)
        others = [shape for shape in self.panel.shapes if not isinstance(shape, (Point, Words))]
        inside = "".join(map(self._shape, sorted(others, key=lambda shape: LAYERS.index(type(shape)))))
        # A nested drawing cuts off what lies outside of the axes; marks may reach over them.
        sizes = (self.left, self.top, self.right - self.left, self.bottom - self.top)
        box = _attributes(**dict(zip(("x", "y", "width", "height"), sizes, strict=True)))
        self.parts.append(f'<svg {box} viewBox="{" ".join(map(_short, sizes))}">{inside}</svg>')
        self.parts += map(self._point, points)
        for point in points:
            x, y, half = self.across(point.x), self.up(point.y), point.size / 2
            self.marks.append(Box(x - half, y - half, x + half, y + half))
        for words in self.panel.of(Words):
            self._words(words)
        for key in self.panel.keys:
            lines = wrapped(key.label, WIDTH - 46)
            self.parts.append(f'<g transform="translate(4 {_short(height)})">{swatch(key)}</g>')
            for number, text in enumerate(lines):
                self._text(38, height + 9 + LINE * number, text)
            height += LINE * len(lines) + 1
        return "".join((*self.parts, *names)), height + 4

    def _axes(self) -> float:
        """The grid, and the numbers and names of the axes; how far down they reach."""
        end = -math.inf
        for value, name in self.panel.x.named(*self.x_ends):
            at, half = self.across(value), text_width(name) / 2
            middle = min(max(at, half), WIDTH - half)
            if middle - half > end + 6:
                self._line(at, self.top, at, self.bottom)
                self._text(middle, self.bottom + 16, name, "middle", SOFT)
                end = middle + half
        for value, name in self.y_ticks:
            self._line(self.left, self.up(value), self.right, self.up(value))
            self._text(self.left - 5, self.up(value) + 4, name, "end", SOFT)
        height = self.bottom + 20
        for text in wrapped(self.panel.x.label, WIDTH - 8) if self.panel.x.label else ():
            half = text_width(text) / 2
            height += LINE
            self._text(min(max((self.left + self.right) / 2, half), WIDTH - half), height - 2, text, "middle", SOFT)
        return height + 4

    def _line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(f'<path d="M{_short(x1)} {_short(y1)}L{_short(x2)} {_short(y2)}" stroke="{paint(GRID)}"/>')

    def _text(self, x: float, y: float, text: str, anchor: str = "start", colour: str = INK, more: str = "") -> None:
        place = f'x="{_short(x)}" y="{_short(y)}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
        self.parts.append(f'<text {place} fill="{paint(colour)}"{more}>{escape(text)}</text>')

    def _points(self, x: Values, y: Values) -> list[tuple[float, float]]:
        pairs = ((self.across(a), self.up(b)) for a, b in zip(x, y, strict=True) if math.isfinite(a * 1.0) and b == b)
        return list(pairs)

    def _shape(self, shape: Shape) -> str:
        match shape:
            case Line():
                points = self._points(shape.x, shape.y)
                stroke = _stroke(_outline(shape.colour), shape.width, shape.dash)
                return f'<path d="{_path(points)}" fill="none" {stroke}/>' if points else ""
            case Band():
                there = self._points(shape.x, shape.low)
                back = self._points(shape.x[::-1], shape.high[::-1])
                return f'<path d="{_path([*there, *back])}Z" fill="{paint(shape.colour)}" opacity="{shape.opacity:g}"/>'
            case Bar():
                x, y = sorted(map(self.across, shape.x)), sorted(map(self.up, shape.y))
                box = _attributes(x=x[0], y=y[0], width=x[1] - x[0], height=y[1] - y[0])
                if shape.is_hollow:
                    return f'<rect {box} fill="{paint(PAPER)}" stroke="{paint(_outline(shape.colour))}"/>'
                return f'<rect {box} fill="{paint(shape.colour)}" opacity="{shape.opacity:g}"/>'
            case Guide():
                at = self.across(shape.value) if shape.axis == "x" else self.up(shape.value)
                ends = [(at, self.top), (at, self.bottom)] if shape.axis == "x" else [(self.left, at), (self.right, at)]
                return f'<path d="{_path(ends)}" {_stroke(shape.colour, 1.3, shape.dash)}/>'
            case Dots():
                # A line of no length with round ends is a dot.
                path = "".join(f"M{_short(x)} {_short(y)}h0" for x, y in self._points(shape.x, shape.y))
                style = f'fill="none" stroke-linecap="round" opacity="{shape.opacity:g}"'
                inks = [(_outline(shape.colour), shape.size), *([(PAPER, shape.size - 1.8)] if shape.is_hollow else [])]
                return "".join(f'<path d="{path}" {style} {_stroke(colour, size)}/>' for colour, size in inks)
        raise TypeError(f"{shape!r} is no shape of a panel")

    def _point(self, point: Point) -> str:
        x, y = self.across(point.x), self.up(point.y)
        ends: list[tuple[float, float]] = []
        if point.x_ends:
            ends = [(min(max(self.across(end), self.left), self.right), y) for end in point.x_ends]
        elif point.y_ends:
            ends = [(x, min(max(self.up(end), self.top), self.bottom)) for end in point.y_ends]
        outline = paint(_outline(point.look.colour))
        drawn = f'<path d="{_path(ends)}" stroke="{outline}" stroke-width="1.4" opacity="0.75"/>' if ends else ""
        drawn += marker(point.look, x, y, point.size, point.is_hollow)
        if not point.mark:
            return drawn
        href = f' href="{escape(self.anchors[point.mark.run])}"' if point.mark.run in self.anchors else ""
        return f'<a class="mark"{href}><title>{escape(point.mark.text)}</title>{drawn}</a>'

    def _words(self, words: Words) -> None:
        """On the first side of its point that is free."""
        width, x, y = text_width(words.text), self.across(words.x), self.up(words.y)
        near = [(dx, -7.0) for dx in ((-8 - width, 8) if words.is_left else (8, -8 - width))]
        near += [(-width / 2, dy) for dy in (-20, 6)]
        far = [(dx, dy) for dy in (-20, 6, -34, 20, -48, 34, -62, 48) for dx in (6, -6 - width, -width / 2)]
        boxes = [Box(x + dx, y + dy, x + dx + width, y + dy + 13) for dx, dy in (*near, *far)]
        inside = [one for one in boxes if one.left >= self.left and one.right <= WIDTH and self.top <= one.top]
        inside = [one for one in inside if one.bottom <= self.bottom] or inside or boxes
        # A text on another is worse than one on a mark.
        best = min(inside, key=lambda one: [sum(map(one.overlaps, boxes)) for boxes in (self.texts, self.marks)])
        self.texts.append(best)
        colour = words.colour if words.colour in PAGE_COLOURS else on_white(words.colour, TEXT_CONTRAST)
        self._text(best.left, best.top + 10, words.text, colour=colour, more=HALO)


def _share(axis: Axis, ends: tuple[float, float], value: float) -> float:
    """Where a value is between the ends of an axis, from 0 to 1; not much farther, or a browser would give up."""
    low, high = ends
    return min(max((axis.place(float(value)) - low) / (high - low), -9.0), 9.0)


def _stroke(colour: str, width: float, dash: str = "") -> str:
    return f'stroke="{paint(colour)}" stroke-width="{width:g}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _short(value: float) -> str:
    """A coordinate to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def _attributes(**numbers: float) -> str:
    return " ".join(f'{name}="{_short(value)}"' for name, value in numbers.items())


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " ".join(f"{_short(x)} {_short(y)}" for x, y in points) if points else ""


def marker(look: Look, x: float, y: float, size: float = 7.0, is_hollow: bool = False) -> str:
    """A mark at a place of the drawing."""
    fill = paint(PAPER) if is_hollow else paint(look.colour)
    style = f'fill="{fill}" stroke="{paint(_outline(look.colour))}"'
    if not look.corners:
        return f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_short(size / 2)}" {style}/>'
    corners = [(x + size * (a / 100 - 0.5), y + size * (b / 100 - 0.5)) for a, b in look.corners]
    return f'<path d="{_path(corners)}Z" {style}/>'


def swatch(key: Key) -> str:
    """What a key's entry looks like, 28 units wide and 12 high."""
    drawn = ""
    if key.band:
        drawn += f'<rect x="2" y="1" width="24" height="10" fill="{paint(key.look.colour)}" opacity="{key.band:g}"/>'
    if key.dash is not None:
        drawn += f'<path d="M1 6L27 6" {_stroke(_outline(key.look.colour), 1.5, key.dash)}/>'
    return drawn + (marker(key.look, 14, 6, 8, key.is_hollow) if key.has_mark else "")


# Figures


@dataclass(frozen=True)
class Drawing:
    """A figure as drawn."""

    panels: Sequence[Panel]
    #: What to see in it, in at most MAX_WORDS words.
    caption: str
    #: The runs whose numbers it shows, as in the summary's column ``run``; none where it shows benchmarks.
    runs: tuple[str, ...] = ()
    #: Its message, with numbers, in place of the figure's usual title.
    title: str = ""
    #: Numbers that its points do not show, one line each.
    notes: tuple[str, ...] = ()
    #: The legend of all panels.
    keys: Sequence[Key] = ()

    @property
    def numbers(self) -> list[str]:
        """The numbers behind it, one line each; a reader unfolds them."""
        return list(dict.fromkeys([*self.notes, *(line for panel in self.panels for line in panel.numbers())]))

    @property
    def marks(self) -> list[Mark]:
        return [mark for panel in self.panels for mark in panel.marks]

    @property
    def colours(self) -> set[str]:
        """The colours in digits of marks and lines, and of their outlines and letters."""
        used = {colour for panel in self.panels for colour in panel.colours} | {key.look.colour for key in self.keys}
        own = {colour for colour in used if colour.startswith("#")}
        return own | {on_white(colour, least) for colour in own for least in (MIN_CONTRAST, TEXT_CONTRAST)}

    def html(self, anchors: Mapping[str, str] | None = None) -> str:
        """The legend and the panels for a page that has ``figure_css``; marks lead to the address of their run."""
        entries = "".join(
            f'<li><svg viewBox="0 0 28 12" aria-hidden="true">{swatch(key)}</svg> {escape(key.label)}</li>'
            for key in self.keys
        )
        legend = f'<ul class="figure-keys">{entries}</ul>' if entries else ""
        panels = []
        for panel in self.panels:
            content, height = panel.svg(anchors)
            role = f'role="{"group" if panel.marks else "img"}" aria-label="{escape(panel.title or self.title)}"'
            panels.append(f'<svg viewBox="0 0 {WIDTH} {_short(height)}" font-size="{FONT}" {role}>{content}</svg>')
        return f'{legend}<div class="figure-panels">{"".join(panels)}</div>'

    def svg(self, title: str = "") -> str:
        """The figure as a file of its own, with its title or message, for light and dark pages."""
        title = self.title or title
        columns = min(2, len(self.panels))
        width = columns * (WIDTH + GAP) - GAP
        parts, top = [], 4.0
        for text in wrapped(title, width - 8, FONT + 3) if title else ():
            top += LINE + 4
            style = f'font-size="{FONT + 3}" font-weight="600" fill="{paint(INK)}"'
            parts.append(f'<text x="4" y="{_short(top)}" {style}>{escape(text)}</text>')
        top += 8
        left = 4.0
        for key in self.keys:
            needed = 34 + text_width(key.label)
            if left > 4 and left + needed > width:
                left, top = 4.0, top + LINE + 2
            parts.append(f'<g transform="translate({_short(left)} {_short(top)})">{swatch(key)}')
            parts.append(f'<text x="32" y="10" fill="{paint(INK)}">{escape(key.label)}</text></g>')
            left += needed + 14
        top += LINE + 6 if self.keys else 0
        drawn = [panel.svg() for panel in self.panels]
        for start in range(0, len(drawn), columns):
            row = drawn[start : start + columns]
            for column, (content, _) in enumerate(row):
                place = f"translate({column * (WIDTH + GAP)} {_short(top)})"
                parts.append(f'<g transform="{place}">{content}</g>')
            top += max(height for _, height in row) + 6
        style = f"text {{ font-family: {FONTS} }} {_dark_rules(self.colours, ':root', with_page_colours=True)}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_short(top)}" width="{width}" '
            f'height="{_short(top)}" font-size="{FONT}" role="img" aria-label="{escape(title)}"><style>{style}</style>'
            f'<rect width="100%" height="100%" fill="{paint(PAPER)}"/>{"".join(parts)}</svg>\n'
        )


def figure_css(drawings: Iterable[Drawing]) -> str:
    """Rules for a page with ``Drawing.html``: how its panels flow, and their colours in the dark."""
    colours = {colour for drawing in drawings for colour in drawing.colours}
    return f"""
.figure-panels {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0.75rem 1rem; }}
.figure-panels > svg {{ width: 100%; max-width: 30rem; height: auto; justify-self: center; }}
.figure-panels text {{ font-family: {FONTS}; }}
.figure-keys {{ display: flex; flex-wrap: wrap; gap: 0 1.1rem; justify-content: center; list-style: none; margin: 0 0 0.5rem; padding: 0; font: 0.8125rem/1.6 var(--sans, sans-serif); }}
.figure-keys svg {{ width: 1.75rem; height: 0.75rem; vertical-align: -0.1em; }}
{_dark_rules(colours, ":root")}
"""  # noqa: E501


def _dark_rules(colours: Iterable[str], root: str, with_page_colours: bool = False) -> str:
    rules = [f"--c{colour[1:]}: {dark};" for colour in sorted(colours) if (dark := on_dark(colour)) != colour]
    if with_page_colours:
        rules += [f"--{name}: {dark};" for name, (_, dark) in PAGE_COLOURS.items()]
    return f"@media screen and (prefers-color-scheme: dark) {{ {root} {{ {' '.join(rules)} }} }}"


def thinned(values: Values | range, most: int) -> Iterator[int]:
    """Positions of at most so many of them, evenly spaced, the first and the last among them."""
    count = min(most, len(values))
    return iter(dict.fromkeys(round(place * (len(values) - 1) / max(1, count - 1)) for place in range(count)))
