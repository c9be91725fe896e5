"""The summary of a study, one row per run: its table, and what a reader asks of it first."""

import csv
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from implementations.infrastructure.artefact import Record, check, parsing, reading, record_of
from implementations.infrastructure.files import Damaged, atomic_path
from records.columns import COLUMNS, KINDS
from records.layout import read_json


def table_of(rows: Any) -> Any:
    """Rows, as mappings or a frame, as a frame of the columns of ``records.columns``, typed even where one is empty."""
    # Not at the top: Snakemake's own process reads rows as text and needs no pandas.
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({name: KINDS[column.kind] for name, column in COLUMNS.items()})


def write_summary(results: Path, table: Any) -> None:
    """Write the table of a study as summary.csv, and as summary.parquet with the checksum of the text in it."""
    text = table.to_csv(index=False).encode()
    # Parquet keeps the attributes of a frame.
    table.attrs = record_of("summary", {"study": results.name, "csv_sha256": hashlib.sha256(text).hexdigest()})
    with atomic_path(results / "summary.parquet") as path:
        path.write_bytes(table.to_parquet(index=False))
    with atomic_path(results / "summary.csv") as path:
        path.write_bytes(text)


def read_summary(results: Path) -> Any:
    """The table of a study; Damaged where it is not what was written."""
    import pandas as pd

    with reading(results / "summary.parquet") as file:
        with parsing():
            table = pd.read_parquet(file)
        about: Record = {str(name): value for name, value in table.attrs.items()}
        check(about, "summary", {"study": results.name})
        if hashlib.sha256(table.to_csv(index=False).encode()).hexdigest() != table.attrs["csv_sha256"]:
            raise Damaged("it is not the table that was written")
        return table


def check_csv(results: Path, table: Any) -> None:
    """Damaged where summary.csv is not the text that was written with ``table``."""
    with reading(results / "summary.csv") as file:
        if hashlib.sha256(file.read()).hexdigest() != table.attrs["csv_sha256"]:
            raise Damaged("it is not the text that was written")


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
