"""The summary of a study, one row per run: its table, and what a reader asks of it first."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from records.columns import COLUMNS, KINDS
from records.layout import read_json, read_outcome


def table_of(rows: Any) -> Any:
    """Rows, as mappings or a frame, as a frame of the columns of ``records.columns``, typed even where one is empty."""
    # Not at the top: Snakemake's own process reads rows as text and needs no pandas.
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({name: KINDS[column.kind] for name, column in COLUMNS.items()})


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a summary.csv, as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_complete(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Is every run's result there? One that diverged or was skipped has one; a failed or missing one has not."""
    return not any(row["status"] in ("failed", "missing") or row["reference_kind"] == "failed" for row in rows)


def report_failures(results: Path) -> list[str]:
    """What of the report itself failed: figures that could not be drawn and claims that could not be judged."""
    figures = read_json(results / "figures.json") or {"figures": []}
    claims = read_json(results / "claims.json") or {"claims": []}
    lines = [f"figure {figure['name']}: {figure['failure']}" for figure in figures["figures"] if figure["failure"]]
    return lines + [f"claim {claim['id']}: {claim['failure']}" for claim in claims["claims"] if claim["failure"]]


def tracking_failure(results: Path) -> str | None:
    """Why the study is not in MLflow, if it was tried in vain."""
    failure: str | None = (read_outcome(results / "tracked.json") or {"failure": None})["failure"]
    return failure
