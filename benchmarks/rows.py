"""What a tier of the gate measures: named rows of named values."""

from typing import Any

Rows = dict[str, dict[str, Any]]


class NothingMeasured(Exception):
    """Why there is nothing to judge."""


def incomplete(rows: Rows, baseline: Rows) -> list[str]:
    """What has other values than its baseline has, such as the reason why there are none."""
    return [
        f"{name}: has {', '.join(row)}; baseline has {', '.join(baseline[name])}"
        for name, row in rows.items()
        if row.keys() != baseline[name].keys()
    ]
