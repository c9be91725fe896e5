"""The numbers that a verdict rests on, as marks with intervals beside the margins of its rule.

For every claim that no other figure shows.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from records.display import format_estimate
from reports.figures.marks import LINE, SMALL, blank, handle, legend, wrapped
from reports.strip import short, where
from reports.style import EXACT, is_narrow
from reports.types import (
    IN_PART,
    NOT_ASKED,
    REPRODUCED,
    ClaimResult,
    Decider,
    Drawing,
    Evidence,
    FigureResult,
    FigureSpec,
    NothingToShow,
)

#: The heading in ``figures.json``; on the page it stands beside its claim.
SECTION = "The evidence of a claim"
#: Numbers above 0 that differ by more than this factor stand on a logarithmic axis.
WIDE_RANGE = 50
#: Where a label says which of several settings, among what it measures: ``NLL at n=300 minus temperature scaling``.
PLACE = re.compile(r" (?:at|of) (n=[\d,]+)")
#: Letters of a row's name beside the panel, and above it on a phone.
BESIDE, ABOVE = 34, 46
#: Inches that an axis with its name takes, and that the rows of a block have at least.
AXIS, LEAST = 0.75, 1.1
#: Lines of text for a mark with the room around it.
STRIP = 1.4


class Row(NamedTuple):
    """The numbers of one row, one for each panel beside the others."""

    name: str
    deciders: tuple[Decider, ...]


class Block(NamedTuple):
    """Rows below each other, with a panel for each quantity that all of them have."""

    quantities: tuple[str, ...]
    rows: tuple[Row, ...]


def evidence_figures(
    results: Sequence[ClaimResult], figures: Sequence[FigureResult]
) -> list[tuple[FigureSpec[ClaimResult], ClaimResult]]:
    """A figure for each claim with numbers that none of ``figures`` stands beside."""
    shown = {number for figure in figures if figure.png for number in figure.spec.claims}
    return [
        (FigureSpec(f"claim{one.claim.id}", short(one.claim), SECTION, draw_evidence, claims=(one.claim.id,)), one)
        for one in results
        if one.verdict.deciders and one.verdict.outcome != NOT_ASKED and one.claim.id not in shown
    ]


def draw_evidence(result: ClaimResult) -> Drawing:
    """Every number that decides, with its 95 % interval and the margin that it is held against."""
    deciders = [one for one in result.verdict.deciders if one.evidence.value.mean is not None]
    if not deciders:
        raise NothingToShow("no number of the verdict has a value")
    blocks = blocks_of(deciders)
    heights = [_heights(block) for block in blocks]
    sizes = [sum(part) + AXIS for part in heights]
    figure = blank(sum(sizes) + 0.4)
    grid = figure.add_gridspec(len(blocks), 1, height_ratios=sizes)
    for number, (block, part) in enumerate(zip(blocks, heights, strict=True)):
        count = len(block.quantities)
        cells = grid[number].subgridspec(1, count)
        for column in range(count):
            _draw_panel(figure.add_subplot(cells[column]), block, column, part)
    handles = [handle("95 % interval", "black", "o", "-")]
    if any(crosses(one) for one in deciders):
        handles.append(handle("crosses the margin", "black", "o", "", is_hollow=True))
    handles.append(handle("margin of the rule", EXACT, "", ":"))
    legend(figure, handles, most=3)
    caption = (
        "The numbers that decide, means over seeds with 95 % intervals, and the margins that the rule holds them "
        "against: dotted, and shaded in between."
    )
    numbers = tuple(f"{one.evidence.label}: {_text(one.evidence)}" for one in deciders)
    return Drawing(figure, caption, result.verdict.runs, _message(result), numbers)


def blocks_of(deciders: Sequence[Decider]) -> list[Block]:
    """Quantities that were measured of the same things stand side by side, others below each other."""
    found: dict[str, dict[str, Decider]] = {}
    for one in deciders:
        quantity, name = _parted(one.evidence)
        found.setdefault(quantity, {})[name] = one
    blocks: dict[tuple[str, ...], list[str]] = {}
    for quantity, rows in found.items():
        blocks.setdefault(tuple(rows), []).append(quantity)
    return [
        Block(tuple(part), tuple(Row(name, tuple(found[quantity][name] for quantity in part)) for name in names))
        for names, quantities in blocks.items()
        for part in _at_most_two(quantities)
    ]


def _at_most_two(quantities: Sequence[str]) -> list[Sequence[str]]:
    return [quantities[place : place + 2] for place in range(0, len(quantities), 2)]


def _parted(evidence: Evidence) -> tuple[str, str]:
    """What was measured, and of what: before the first comma, and after it."""
    quantity, _, name = evidence.label.partition(", ")
    place = PLACE.search(quantity)
    if place:
        quantity, name = PLACE.sub("", quantity, count=1), ", ".join(filter(None, [place[1], name]))
    return quantity + (f" ({evidence.unit})" if evidence.unit else ""), name


def crosses(decider: Decider) -> bool:
    """Does the interval, if there is one, leave it open on which side of a margin the number is?"""
    value = decider.evidence.value
    if value.low is None or value.high is None:
        return True
    return any(value.low < margin < value.high for margin in decider.margins)


def _named(row: Row) -> str:
    return wrapped(row.name, BESIDE, ABOVE)


def _heights(block: Block) -> list[float]:
    """Of its rows, in inches. On a phone a name stands above its mark."""
    lines = [_named(row).count("\n") + 1 for row in block.rows]
    found = [LINE * (count + STRIP if is_narrow() else count + 0.5) for count in lines]
    return [height * max(1.0, LEAST / sum(found)) for height in found]


def _draw_panel(axes: Axes, block: Block, column: int, heights: Sequence[float]) -> None:
    low = 0.0
    places = []
    for row, height in zip(block.rows, heights, strict=True):
        decider = row.deciders[column]
        top, low = low, low + height
        # Nothing is drawn behind a name.
        start = top + LINE * (_named(row).count("\n") + 1) if is_narrow() else top
        if len(decider.margins) == 2:
            axes.fill_between(sorted(decider.margins), start, low, color=EXACT, alpha=0.15, linewidth=0, zorder=0)
        for margin in decider.margins:
            axes.plot([margin, margin], [start, low], color=EXACT, linestyle=":", linewidth=1.2, zorder=1)
        places.append((start + low) / 2)
        _draw_number(axes, places[-1], decider)
        if is_narrow() and column == 0:
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "bottom", "annotation_clip": False}
            axes.annotate(_named(row), (0, start), fontsize=SMALL, **place).set_in_layout(False)
    numbers = [number for row in block.rows for number in _numbers(row.deciders[column])]
    if min(numbers) > 0 and max(numbers) > WIDE_RANGE * min(numbers):
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=4)
    axes.set_ylim(low, 0)
    is_named = column == 0 and not is_narrow()
    axes.set_yticks(places, [_named(row) if is_named else "" for row in block.rows])
    axes.tick_params(labelsize=SMALL)
    # On a phone a name may reach over the next panel.
    axes.patch.set_visible(not is_narrow())
    axes.spines["left"].set_visible(not is_narrow())
    axes.grid(axis="both" if is_narrow() else "y", visible=False)
    letters = (26 if is_narrow() else 30) if len(block.quantities) > 1 else 46
    axes.set_xlabel(wrapped(block.quantities[column], letters), fontsize=SMALL)


def _draw_number(axes: Axes, place: float, decider: Decider) -> None:
    value = decider.evidence.value
    if value.low is not None and value.high is not None:
        axes.plot([value.low, value.high], [place, place], color="black", linewidth=1.6, zorder=3)
    face = "white" if crosses(decider) else "black"
    axes.plot([value.mean or 0.0], [place], "o", color="black", markerfacecolor=face, markersize=5, zorder=4)


def _numbers(decider: Decider) -> list[float]:
    value = decider.evidence.value
    return [one for one in (value.mean, value.low, value.high, *decider.margins) if one is not None]


def _text(evidence: Evidence) -> str:
    return format_estimate(evidence.value) + (f" {evidence.unit}" if evidence.unit else "")


def _message(result: ClaimResult) -> str:
    """What the claim says, and where it holds or what became of it."""
    verdict, words = result.verdict, short(result.claim)
    if verdict.outcome == REPRODUCED:
        return words
    return f"{words}: {where(verdict) if verdict.outcome == IN_PART and verdict.cases else verdict.outcome}"
