"""How long studies took, from the logs that are published with them."""

import json
from pathlib import Path

import pytest

from workflows.durations import budgets_table, studies_table


@pytest.fixture
def published(tmp_path) -> Path:
    """Of one study ten processor minutes, of another one minute of sampling; a third has no log."""
    lines = {
        "long": [
            {"step": "sample", "cpu_s": 400.0, "children_s": 50.0, "phases": {"sampling": 390.0}},
            {"step": "report", "cpu_s": 147.0, "children_s": 0.0, "phases": {}},
            {"step": "summary", "cpu_s": 3.0, "children_s": 0.0, "phases": {}},
        ],
        "short": [{"step": "sample", "cpu_s": 60.0, "children_s": 0.0, "phases": {"sampling": 60.0}}],
        "without": [],
    }
    for name, usages in lines.items():
        (tmp_path / "published" / name).mkdir(parents=True)
        if usages:
            log = "".join(json.dumps(usage) + "\n" for usage in usages)
            (tmp_path / "published" / name / "usage.log").write_text(log)
    return tmp_path / "published"


def cells(table: str) -> list[list[str]]:
    heading, _, *lines = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in table.splitlines())
    return [heading, *lines]


def test_a_study_has_its_processor_minutes_if_it_was_published(published, tmp_path):
    for name in ("long", "without"):
        (tmp_path / f"{name}.yaml").write_text(f"study: {name}\ndescription: about <{name}>\n")
    assert cells(studies_table(tmp_path, published))[1:] == [
        ["`long`", r"about \<long\>", "10"],
        ["`without`", r"about \<without\>", ""],
    ]


def test_every_kind_of_work_that_counts_has_its_share_of_each_study(published):
    heading, *rows = cells(budgets_table(published))
    assert heading[2:] == ["long", "short"]
    # Of 600 s: what a step does not name of its time counts as files, and children of sampling are compilers.
    assert {name: shares for name, _, *shares in rows} == {
        "sampling": ["65 %", "100 %"],
        "report": ["24 %", ""],
        "compilation": ["8 %", ""],
        "the rest": ["2 %", ""],
        "all": ["600", "60"],
    }
