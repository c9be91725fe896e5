"""The leaderboards of a report as its page shows them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.leaderboard import NUMBERS, RULE, target_text
from reports.page_tables import Cell, Table, estimate_cell, method_cell
from reports.tables import METRICS

WORDS = {True: "yes", False: "no", None: "–"}


def leaderboard_tables(found: Mapping[str, pd.DataFrame]) -> list[Table]:
    """One table per target, of those of ``reports.tables`` that are leaderboards."""
    return [
        _table(name.removeprefix("leaderboard_"), frame)
        for name, frame in found.items()
        if name.startswith("leaderboard_")
    ]


def _table(target: str, frame: pd.DataFrame) -> Table:
    plain = frame.astype(object).where(frame.notna(), None)
    rows = [_row(row) for row in plain.to_dict("records")]
    variant, _, weight = target.rpartition("-w")
    return Table(
        f"leaderboard-{target}",
        f"Leaderboard of {target_text(variant, float(weight))}",
        ["method", "rank", "within the bound", *(METRICS[name].heading for name in NUMBERS), "why no rank"],
        rows,
        meanings={"rank": RULE},
        csv=f"tables/leaderboard_{target}.csv",
        heading=target_text(variant, float(weight)),
    )


def _row(row: Mapping[Any, Any]) -> list[Cell]:
    rank = row["rank"]
    return [
        method_cell({**row, "setting": row.get("setting") or ""}),
        Cell("–") if rank is None else Cell(str(int(rank)), key=float(rank)),
        Cell(WORDS[row["is_within_bound"]]),
        *(estimate_cell(row, name) for name in NUMBERS),
        Cell(row["reason"] or ""),
    ]
