"""Verdicts of the present code on the summaries of the published studies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from records.study import StudyResults
from reports.contents import contents_of
from reports.judging import verdicts_of
from tests.golden import Entry

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
STUDIES = ("paper", "calibration", "layers", "rivals", "tall")

#: Of one claim: its outcome, (mean, low, high, number of seeds) of each of its evidence, and its p-value.
Judged = tuple[str, list[tuple[float | None, float | None, float | None, int]], float | None]


def judge(study: str) -> dict[int, Judged]:
    """Judge the claims of a published study, by id, on its own summary.

    Claims 7 and 10 of ``paper`` also read files of runs, which are not published: 7 falls back on the summary with a
    wider interval, 10 is inconclusive. Both are recorded like that, and differ from what is published.
    """
    verdicts = verdicts_of(contents_of(study).claims, StudyResults.load(PUBLISHED / study))
    return {
        claim.id: (
            verdict.outcome,
            [(one.value.mean, one.value.low, one.value.high, one.value.num_seeds) for one in verdict.evidence],
            verdict.p_value,
        )
        for claim, verdict in verdicts
    }


def entries() -> Iterator[Entry]:
    """All verdicts; the order of the evidence does not matter."""
    for study in STUDIES:
        for number, (outcome, evidence, p_value) in judge(study).items():
            values: dict[str, Any] = {"outcome": outcome, "evidence": sorted(map(list, evidence), key=_order)}
            yield {"study": study, "claim": number}, values | {"p_value": p_value}


def _order(numbers: list[float | None]) -> list[float]:
    # To fewer digits than are compared, so that rounding does not change the order.
    return [float("-inf") if number is None else float(f"{number:.9g}") for number in numbers]
