"""README.md says what the code says."""

import re

import pytest

from implementations.methods import METHODS
from workflows.readme import README, methods_table, refresh

TEXT = README.read_text(encoding="utf-8")


def test_the_tables_of_the_readme_are_current():
    assert refresh(TEXT) == TEXT, "run `python -m workflows.readme`"


def test_an_outdated_table_is_replaced_and_the_rest_is_left_alone():
    outdated = TEXT.replace("| `pbnn` |", "| `bnn` |")
    assert outdated != TEXT
    assert refresh(outdated) == TEXT


def test_a_lost_marker_is_an_error():
    with pytest.raises(ValueError, match="no '<!-- begin methods -->'"):
        refresh(TEXT.replace("<!-- begin methods -->", ""))


def test_every_method_is_a_row_with_all_columns():
    _, _, *rows = methods_table().splitlines()
    assert [re.match(r"\| `(\w+)`", row)[1] for row in rows] == list(METHODS)
    assert {row.count("|") for row in rows} == {8}
    pbnn = next(row for row in rows if row.startswith("| `pbnn` |"))
    assert "| n | M mini-batches | random walk | penalty |" in pbnn


def test_files_and_commands_named_in_the_readme_exist():
    root = README.parent
    linked = re.findall(r"\]\(([\w./-]+)\)", TEXT)
    assert linked
    assert [path for path in linked if not (root / path).exists()] == []
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)", TEXT)) | set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    assert {"run", "test"} <= targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
