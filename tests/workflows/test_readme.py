"""README.md says what the code and the published study say."""

import re

import pytest

from implementations.methods import METHODS
from reports.publish import README_FIGURES
from workflows.readme import HERO, README, example, hero, methods_table, refresh, verdicts

TEXT = README.read_text(encoding="utf-8")


def test_the_generated_parts_of_the_readme_are_current():
    assert refresh(TEXT) == TEXT, "run `python -m workflows.readme`"


def test_an_outdated_table_is_replaced_and_the_rest_is_left_alone():
    outdated = TEXT.replace("| `pbnn` |", "| `bnn` |")
    assert outdated != TEXT
    assert refresh(outdated) == TEXT


def test_a_lost_marker_is_an_error():
    with pytest.raises(ValueError, match="no '<!-- begin methods -->'"):
        refresh(TEXT.replace("<!-- begin methods -->", ""))


def test_the_readme_is_short():
    """Tables grow with the suite; what a person wrote does not."""
    written = re.sub(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", "", TEXT, flags=re.DOTALL)
    assert len(written.splitlines()) <= 85


def test_every_method_is_a_row_with_its_points_per_step():
    rows = [line for line in methods_table().splitlines() if line.startswith("| `")]
    assert [re.match(r"\| `(\w+)`", line)[1] for line in rows] == list(METHODS)
    assert {line.count("|") for line in rows} == {5}
    found = {re.match(r"\| `(\w+)`", line)[1]: line.rpartition(" | ")[2].strip(" |") for line in rows}
    wanted = {"full_mh": "N", "tempered": "N", "pbnn": "n M", "sgld": "n", "laplace": "none", "blackjax_nuts": "N"}
    assert {name: found[name] for name in wanted} == wanted


def test_verdicts_are_counted_and_their_texts_stay_texts():
    claim = {"id": 1, "statement": "A | <b>bold</b> claim\nof *two* lines.", "verdict": "reproduced"}
    other = claim | {"id": 2, "verdict": "inconclusive"}
    lines = verdicts({"commit": "0123", "finished": "2026-01-02", "claims": [claim, other]}).splitlines()
    assert lines[0] == "Of 2 claims: 1 reproduced, 1 inconclusive (commit 0123, 2026-01-02)."
    assert lines[4] == r"| 1 | A \| \<b\>bold\</b\> claim of \*two\* lines. | **reproduced** |"


def test_the_hero_is_a_published_figure_with_its_title():
    assert HERO in README_FIGURES
    shown = hero({"figures": [{"name": "other", "title": "no"}, {"name": HERO, "title": "it is [so]"}]})
    assert shown == f"![it is \\[so\\]](reports/published/paper/figures/{HERO}.png)\n"


def test_the_example_is_the_code_that_a_test_runs():
    lines = example().splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("```python", "import numpy as np", "```")
    assert len(lines) <= 16


def test_files_and_commands_named_in_the_readme_exist():
    root = README.parent
    linked = [path for path in re.findall(r"\]\(([\w./-]+)\)", TEXT) if not path.startswith("../../actions/")]
    assert len(linked) > 10
    assert [path for path in linked if not (root / path).exists()] == []
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)", TEXT)) | set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    assert {"run", "test"} <= targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
