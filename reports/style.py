"""How figures look: one colour and shape per method everywhere, labels that readers know, the theme of all figures."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from records.methods import facts_of

#: Inches. Beside a claim, and on a phone, the smallest text, of 9 points, is then 10.6 pixels high.
WIDTH, NARROW = 8.0, 4.1
#: How the file of a drawing for a phone ends.
PHONE = "-phone.svg"
_width: ContextVar[float] = ContextVar("width", default=WIDTH)

#: The colour of the exact answer.
EXACT = "#555555"

#: Axis labels of the columns that figures show.
LABELS = {
    "acceptance_rate": "acceptance rate",
    "confidence_gap": "confidence gap (+ is overconfident)",
    "sd_ratio": "predictive sd / exact sd",
    "mean_error": "error of the mean, in RMS sd",
    "point_error": "error of a predictive mean, in its own sd",
    "sliced_w2": "sliced W2 to the target, in its sd",
    "batch_size": "n, points in a mini-batch",
    "num_batches": "M, mini-batches per step",
    "step_size": "step size η",
    "num_points": "N, training points",
    "chains": "chains, side by side",
}


class Shape(NamedTuple):
    """What a mark looks like: in a figure, and beside a name in a table."""

    #: As matplotlib calls it.
    marker: str
    #: As a style sheet cuts it out of a square.
    clip: str


def _polygon(corners: str) -> str:
    """From corners in per cent: ``50 0, 100 100, 0 100``."""
    return "polygon(" + ", ".join(" ".join(f"{number}%" for number in one.split()) for one in corners.split(",")) + ")"


CIRCLE = Shape("o", "circle()")
#: By rule of acceptance, which is what tells families of methods apart.
SHAPES = {
    "exact": Shape("s", "inset(6%)"),
    "penalty": CIRCLE,
    "penalty_corrected": CIRCLE,
    "always": Shape("^", _polygon("50 0, 100 100, 0 100")),
    "naive": Shape("X", _polygon("25 0, 50 25, 75 0, 100 25, 75 50, 100 75, 75 100, 50 75, 25 100, 0 75, 25 50, 0 25")),
    "sequential": Shape("D", _polygon("50 0, 100 50, 50 100, 0 50")),
    "poisson": Shape(
        "P", _polygon("33 0, 67 0, 67 33, 100 33, 100 67, 67 67, 67 100, 33 100, 33 67, 0 67, 0 33, 33 33")
    ),
    "barker": Shape("d", _polygon("50 0, 80 50, 50 100, 20 50")),
    "pseudo-marginal": Shape("*", _polygon("50 0, 61 35, 98 35, 68 57, 79 91, 50 70, 21 91, 32 57, 2 35, 39 35")),
}
#: A test of its own: everything else, and most methods of users.
OWN_TEST = Shape("p", _polygon("50 0, 100 38, 81 100, 19 100, 0 38"))
#: Without a test, but on all data.
UNTESTED_ON_ALL = Shape("v", _polygon("0 0, 100 0, 50 100"))


def shape_of(method: str) -> Shape:
    facts = facts_of(method)
    if facts.always_accepts and not facts.is_minibatch:
        return UNTESTED_ON_ALL
    return SHAPES.get(facts.acceptance, OWN_TEST)


def look_of(method: str) -> tuple[str, str]:
    """Its colour and its marker, the same in every figure."""
    return facts_of(method).colour, shape_of(method).marker


#: Paper and ink of a page in the dark, as in ``templates/style.css``.
DARK_PAPER, DARK_INK = (0x17, 0x18, 0x1A), (0xE8, 0xE6, 0xE1)
#: Of a mark on its paper, and of letters in its colour: what WCAG asks of graphics, and of text.
MIN_CONTRAST, TEXT_CONTRAST = 3.0, 4.5


def on_dark(colour: str) -> str:
    """A colour of a figure as it is on dark paper: greys are turned round, hues stay, lighter where they must be."""
    rgb = _rgb(colour)
    lightness = sum(rgb) / (3 * 255)
    is_grey = max(rgb) - min(rgb) < 12
    if is_grey:
        rgb = tuple(round(ink + (paper - ink) * lightness) for ink, paper in zip(DARK_INK, DARK_PAPER, strict=True))
    # Paper and the lines of a grid stay faint.
    while contrast(rgb, DARK_PAPER) < TEXT_CONTRAST and not (is_grey and lightness > 0.7):
        rgb = tuple(value + math.ceil((255 - value) / 10) for value in rgb)
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def on_white(colour: str, least: float = MIN_CONTRAST) -> str:
    """The colour of a mark's outline, or of letters: its own, or darker where that could hardly be seen on white."""
    rgb = _rgb(colour)
    while contrast(rgb, (255, 255, 255)) < least:
        rgb = tuple(9 * value // 10 for value in rgb)
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Contrast ratio of two colours (WCAG 2.2)."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(rgb: tuple[int, ...]) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (part / 255 for part in rgb)
    ]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def page_width() -> float:
    """Inches that a figure may be wide."""
    return _width.get()


def is_narrow() -> bool:
    """Is it drawn for a phone, where panels stand below each other?"""
    return page_width() == NARROW


@contextmanager
def theme(width: float = WIDTH) -> Iterator[None]:
    """The look of every figure, for a page of this width, inside a ``with`` block."""
    # Not at the top: seaborn takes seconds to import, and many callers only want a colour.
    import matplotlib as mpl
    import seaborn as sns

    with (
        sns.axes_style("whitegrid"),
        sns.plotting_context("notebook", font_scale=0.9),
        mpl.rc_context(
            {
                "figure.dpi": 110,
                # Two pixels for each of a page 800 wide.
                "savefig.dpi": 200,
                "figure.constrained_layout.use": True,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "grid.alpha": 0.4,
                "legend.frameon": False,
                # Letters stay text: small, and a reader can search and copy them.
                "svg.fonttype": "none",
                # The same figure is the same file.
                "svg.hashsalt": "pbnn-bench",
                "font.family": "DejaVu Sans",
            }
        ),
    ):
        token = _width.set(width)
        try:
            yield
        finally:
            _width.reset(token)
