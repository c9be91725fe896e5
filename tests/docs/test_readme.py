"""README.md says what the code and the published study say."""

import re

import pytest

from docs._build.readme import README, methods_table, refresh
from implementations.methods import METHODS

TEXT = README.read_text(encoding="utf-8")


def test_the_generated_parts_of_the_readme_are_current():
    assert refresh(TEXT) == TEXT, "run `python -m docs._build.readme`"


def test_an_outdated_table_is_replaced_and_the_rest_is_left_alone():
    outdated = TEXT.replace("`pbnn_mala`", "`bnn_mala`")
    assert outdated != TEXT
    assert refresh(outdated) == TEXT


def test_a_lost_marker_is_an_error():
    with pytest.raises(ValueError, match="no '<!-- begin methods -->'"):
        refresh(TEXT.replace("<!-- begin methods -->", ""))


def test_every_method_stands_once_by_its_points_per_step_and_exactness():
    lines = methods_table().splitlines()
    assert lines[0] == "| points per step | exact | conditional | biased |"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    places = {
        name: (points, exactness)
        for points, *cells in rows
        for exactness, cell in zip(("exact", "conditional", "biased"), cells, strict=True)
        for name in re.findall(r"`(\w+)`", cell)
    }
    assert sorted(places) == sorted(METHODS)
    assert sum(line.count("`") for line in lines) == 2 * len(METHODS), "each is named once"
    wanted = {
        "full_mh": ("N", "exact"),
        "pbnn": ("n M", "conditional"),
        "naive": ("n M", "biased"),
        "sgld": ("n", "biased"),
        "tunamh": ("as needed", "exact"),
        "laplace": ("none", "biased"),
    }
    assert {name: places[name] for name in wanted} == wanted


def test_files_and_commands_named_in_the_readme_exist():
    root = README.parent
    # Pages of GitHub itself, which stand two levels above a file of the repository there.
    paths = re.findall(r"\]\(([\w./-]+)\)", TEXT) + re.findall(r'src(?:set)?="([^"]+)"', TEXT)
    linked = [path for path in paths if not path.startswith(("../../actions/", "../../deployments/"))]
    assert len(linked) > 10
    assert [path for path in linked if not (root / path).exists()] == []
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)", TEXT)) | set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    assert {"run", "test"} <= targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
