"""README.md says what the code says."""

import re

import pytest

from implementations.methods import METHODS
from reports.publish import README_FIGURES
from workflows.readme import README, figures, methods_table, refresh, verdicts

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


def test_verdicts_are_counted_and_their_texts_stay_texts():
    claim = {
        "id": 1,
        "statement": "A | <b>bold</b> claim.",
        "verdict": "reproduced",
        "reason": "p *is* [0, 1]\nand more",
    }
    other = claim | {"id": 2, "verdict": "inconclusive"}
    lines = verdicts({"commit": "0123", "finished": "2026-01-02", "claims": [claim, other]}).splitlines()
    assert lines[0] == "Of 2 claims: 1 reproduced, 0 not reproduced, 1 inconclusive (commit 0123, 2026-01-02)."
    assert lines[4] == r"| 1 | A \| \<b\>bold\</b\> claim. | **reproduced** | p \*is\* \[0, 1\] and more |"


def test_the_figures_of_the_readme_have_titles_and_captions():
    entries = [{"name": name, "title": f"title of {name}", "caption": f"see {name}"} for name in README_FIGURES]
    text = figures({"figures": [*entries, {"name": "other", "title": "no", "caption": "no"}]})
    for name in README_FIGURES:
        assert f"![title of {name}](reports/published/paper/figures/{name}.png)" in text
        assert f"\n\nsee {name}\n\n" in text
    assert "other" not in text


def test_files_and_commands_named_in_the_readme_exist():
    root = README.parent
    linked = re.findall(r"\]\(([\w./-]+)\)", TEXT)
    assert linked
    assert [path for path in linked if not (root / path).exists()] == []
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)", TEXT)) | set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    assert {"run", "test"} <= targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
