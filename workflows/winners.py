"""The winners of every published study as a table of the documentation."""

import csv
from collections.abc import Iterator
from pathlib import Path

from records.display import format_number, method_name, task_name
from reports.publish import PUBLISHED
from workflows.markdown import table, text

#: What a row of the table is about: effective draws for evaluations, which do not depend on the machine.
CRITERION = "ess_per_million_evaluations"


def winners_table(published: Path = PUBLISHED) -> str:
    """One row per published study and target: who gives most effective draws per evaluation, bias within the bound."""
    rows = [row for study in sorted(published.glob("*/tables/winners.csv")) for row in _rows(study)]
    headings = [
        "study",
        "task",
        "target",
        "winner",
        "effective draws per million evaluations",
        "times as many as the next",
    ]
    return table(headings, rows)


def _rows(path: Path) -> Iterator[list[str]]:
    study = path.parents[1].name
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["criterion"] != CRITERION or not row.get("method"):
                continue
            value = format_number(float(row["value"]), 2)
            lead = f"{format_number(float(row['lead']), 2)} ({_next(row)})" if row.get("lead") else "no other candidate"
            link = f"[{study}](../published/{study}/report.html)"
            yield [
                link,
                text(task_name(row["variant"])),
                text(row["target"]),
                text(method_name(row["method"])),
                value,
                lead,
            ]


def _next(row: dict[str, str]) -> str:
    is_clear = "" if row["is_clear"] == "True" else ", not resolved"
    return text(method_name(row["rival_method"])) + is_clear
