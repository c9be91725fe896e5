"""README.md says what the code and the published study say."""

import re

import pytest

from docs._build.readme import README, methods_table, refresh
from implementations.methods import METHODS
from pbnn_bench.cli import COMMANDS

ROOT, TEXT = README.parent, README.read_text(encoding="utf-8")
#: Pages about earlier versions.
HISTORY = ("CHANGELOG.md", "performance_history.md")


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


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
#: Folders of the checkout whose files pages name in backticks.
FOLDERS = "benchmarks|docs|implementations|metrics|pbnn_bench|profiles|records|reports|templates|tests|workflows"


def test_links_of_the_readme_lead_somewhere():
    """MkDocs checks those of the documentation."""
    # Pages of GitHub itself, which stand two levels above a file of the repository there.
    paths = re.findall(r"\]\(([\w./-]+)\)", TEXT) + re.findall(r'src(?:set)?="([^"]+)"', TEXT)
    linked = [path for path in paths if not path.startswith(("../../actions/", "../../deployments/"))]
    assert len(linked) > 10
    assert [path for path in linked if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.stem)
def test_files_and_commands_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    files = re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)`", text)
    assert [file for file in files if not any(ROOT.glob(file.rstrip("/")))] == []
    commands = re.findall(r"(?:`|^\$? ?|bin/)pbnn-bench ([a-z]+)", text, re.MULTILINE)
    assert set(commands) <= COMMANDS.keys()
    targets = re.findall(r"(?:`|^\$? ?)make ([a-z-]+)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
