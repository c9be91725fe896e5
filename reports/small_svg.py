"""Line charts written straight as SVG: a page for each of hundreds of runs cannot wait for a drawing library."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike

#: Pixels of a chart, and what its numbers and labels take of them.
WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 560, 220, 72, 40, 12
#: Points of a line: more cannot be told apart at this width.
MAX_POINTS = 150


@dataclass(frozen=True)
class Line:
    """A line of a chart; the style sheet has a look for each ``style``."""

    x: ArrayLike
    y: ArrayLike
    style: str


def chart(lines: Sequence[Line], x_label: str, y_label: str, y_range: tuple[float, float] | None = None) -> str:
    """A chart of these lines as SVG, with a grid; what is not finite is left out."""
    kept = [(line.style, *_finite(line)) for line in lines]
    x = _range(np.concatenate([found for _, found, _ in kept]))
    y = y_range or _range(np.concatenate([found for *_, found in kept]))
    right, low = WIDTH - 24, HEIGHT - BELOW

    def across(value: float) -> float:
        return LEFT + (right - LEFT) * (value - x[0]) / (x[1] - x[0])

    def up(value: float) -> float:
        return low - (low - ABOVE) * (value - y[0]) / (y[1] - y[0])

    parts = [
        f'<line class="grid" x1="{across(tick):.1f}" x2="{across(tick):.1f}" y1="{ABOVE}" y2="{low}"/>'
        f'<text x="{across(tick):.1f}" y="{low + 16}" text-anchor="middle">{_text(tick)}</text>'
        for tick in ticks(*x)
    ]
    parts += [
        f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{_text(tick)}</text>'
        for tick in ticks(*y)
    ]
    for style, xs, ys in kept:
        points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in zip(xs, ys, strict=True))
        parts.append(f'<polyline class="{style}" points="{points}"/>')
    middle = (ABOVE + low) / 2
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    label = escape(f"{y_label} against {x_label}")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def thinned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of at most MAX_POINTS, evenly spaced, of a line; the last one among them."""
    places = np.unique(np.linspace(0, len(values) - 1, MAX_POINTS).astype(int))
    return places, values[places]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two, at most so many."""
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _finite(line: Line) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(line.x, float), np.asarray(line.y, float)
    is_kept = np.isfinite(x) & np.isfinite(y)
    return x[is_kept], y[is_kept]


def _range(values: np.ndarray) -> tuple[float, float]:
    """The ends of an axis; some room around a single value."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = 0.5 * max(abs(low), 1e-9)
    return (low, high) if high - low > 1e-12 * max(abs(low), abs(high)) else (low - room, high + room)


def _text(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")
