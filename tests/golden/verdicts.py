"""Verdicts of the present code on the summaries of the published studies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from records.study import StudyResults
from reports.claim_file import claims_of
from reports.judge import verdict_of
from tests.golden import Entry

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
STUDIES = ("paper", "calibration", "layers", "rivals", "tall")


def entries() -> Iterator[Entry]:
    """Of each claim the outcome, the p-value, and every number that decides: mean, low, high and number of seeds.

    The order of the numbers does not matter. The runs' files are not published.
    """
    for study in STUDIES:
        results = StudyResults.load(PUBLISHED / study)
        for claim in claims_of(study):
            verdict = verdict_of(claim, results)
            deciding = {one for one in verdict.evidence if one.margins}
            numbers = [[one.value.mean, one.value.low, one.value.high, one.value.num_seeds] for one in deciding]
            values: dict[str, Any] = {"outcome": verdict.outcome, "evidence": sorted(numbers, key=_order)}
            yield {"study": study, "claim": claim.id}, values | {"p_value": verdict.p_value}


def _order(numbers: list[Any]) -> list[float]:
    # To fewer digits than are compared, so that rounding does not change the order.
    return [float("-inf") if number is None else float(f"{number:.9g}") for number in numbers]
