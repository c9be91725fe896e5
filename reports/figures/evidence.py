"""The numbers that a verdict rests on, with their intervals and the margins of its rule.

A figure for each claim that no other figure of the report is about.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from metrics.seeds import Estimate
from reports.claim_words import place
from reports.drawing import INK, SOFT, Axis, Bar, Drawing, Guide, Key, Look, Panel
from reports.figures.series import point
from reports.judge import NOT_ASKED, REPRODUCED, ClaimResult
from reports.types import FigureResult, FigureSpec, NothingToShow

SECTION = "The evidence of a claim"
#: Numbers above 0 that differ by more than this factor are on a logarithmic axis.
WIDE_RANGE = 50
#: Rows of a panel; of more numbers those nearest to a margin are shown.
MAX_ROWS = 8


class Number(NamedTuple):
    """A number that decides: what was measured, of which setting, and the margins that its interval is held against."""

    quantity: str
    name: str
    value: Estimate
    margins: tuple[float, ...]

    @property
    def crosses(self) -> bool:
        """Does the interval, if there is one, leave it open on which side of a margin the number is?"""
        low, high = self.value.low, self.value.high
        return low is None or high is None or any(low < margin < high for margin in self.margins)

    @property
    def clearance(self) -> float:
        """Distance from the nearest margin, 0 where the interval crosses it."""
        ends = [one for one in (self.value.low, self.value.high, self.value.mean) if one is not None]
        distances = [abs(end - margin) for end in ends for margin in self.margins]
        return 0.0 if self.crosses else min(distances, default=0.0)


def numbers_of(result: ClaimResult) -> list[Number]:
    found = []
    for one in result.verdict.evidence:
        unit = f" ({one.unit})" if one.unit else ""
        if one.margins and one.value.mean is not None:
            where = place(one.settings, one.kind, one.over)
            found.append(Number(one.label + unit, where, one.value, one.margins))
    return found


def evidence_figures(
    results: Sequence[ClaimResult], figures: Sequence[FigureResult]
) -> list[tuple[FigureSpec[ClaimResult], ClaimResult]]:
    """A figure for each claim with numbers that none of ``figures`` is about."""
    shown = {number for figure in figures if figure.drawing for number in figure.spec.claims}
    return [
        (FigureSpec(f"claim{one.claim.id}", _short(one), SECTION, draw_evidence, claims=(one.claim.id,)), one)
        for one in results
        if one.verdict.outcome != NOT_ASKED and one.claim.id not in shown and numbers_of(one)
    ]


def draw_evidence(result: ClaimResult) -> Drawing:
    """A panel for each quantity, a row for each setting that it was measured of."""
    numbers = numbers_of(result)
    if not numbers:
        raise NothingToShow("no number of the verdict has a value")
    quantities = dict.fromkeys(one.quantity for one in numbers)
    panels = [_panel(quantity, [one for one in numbers if one.quantity == quantity]) for quantity in quantities]
    keys = [Key("95 % interval", Look(INK), "")]
    keys += [Key("crosses the margin", Look(INK), is_hollow=True)] if any(one.crosses for one in numbers) else []
    outcome = "" if result.verdict.outcome == REPRODUCED else f": {result.verdict.outcome}"
    return Drawing(
        panels,
        "The numbers that decide, means over seeds with 95 % intervals, and the margins that the rule holds them "
        f"against: dotted, and shaded in between. Of more than {MAX_ROWS}, those nearest to a margin.",
        result.verdict.runs,
        _short(result) + outcome,
        keys=[*keys, Key("margin of the rule", Look(SOFT), "2 3", has_mark=False)],
    )


def _short(result: ClaimResult) -> str:
    return (result.claim.short or result.claim.statement).rstrip(".")


def _panel(quantity: str, numbers: Sequence[Number]) -> Panel:
    nearest = sorted(numbers, key=lambda one: one.clearance)[:MAX_ROWS]
    shown = [one for one in numbers if one in nearest]
    ends = [end for one in shown for end in (one.value.low, one.value.high, one.value.mean, *one.margins)]
    values = [end for end in ends if end is not None]
    is_wide = min(values) > 0 and max(values) > WIDE_RANGE * min(values)
    x = Axis(quantity, "log" if is_wide else "linear")
    panel = Panel(x=x, rows=[one.name for one in shown], height=14)
    common = {one.margins for one in shown}
    for row, one in enumerate(shown):
        rows = (-math.inf, math.inf) if len(common) == 1 else (row - 0.45, row + 0.45)
        if len(one.margins) == 2 and (row == 0 or len(common) > 1):
            panel.add(Bar((one.margins[0], one.margins[1]), rows))
        panel.add(*point(row, one.value, Look(INK), not one.crosses, "x"))
    panel.add(*(Guide("x", margin) for margin in sorted({margin for one in common for margin in one})))
    return panel
