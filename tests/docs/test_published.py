"""README and documentation show every published study, whatever its name."""

import json
from pathlib import Path

import pytest

from docs._build.published import (
    Published,
    budgets_table,
    durations_table,
    findings_page,
    hero,
    published_studies,
    studies_table,
    surprising_verdicts,
    winners_table,
)
from reports.claim_file import claims_of
from reports.judge import NOT_ASKED


def write(folder: Path, verdicts: dict[int, str], **about: str) -> Published:
    folder.mkdir(parents=True)
    claims = [
        {"id": number, "statement": f"Claim | <{number}>", "verdict": one, "note": "No <run>", "premise": None}
        | {"parts": [], "is_fragile": False, "p_adjusted": None}
        for number, one in verdicts.items()
    ]
    (folder / "claims.json").write_text(json.dumps({"description": "a *study*", "claims": claims} | about))
    return Published(folder)


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in table.splitlines()]


def test_the_papers_study_is_the_first_and_verdicts_are_counted_in_the_words_of_each(tmp_path):
    for name in ("a", "tall"):
        write(tmp_path / name, {21: "not reproduced", 22: "reproduced", 23: "yes"})
    write(tmp_path / "paper", {1: "reproduced", 2: "inconclusive", 3: "reproduced", 4: NOT_ASKED})
    (tmp_path / "unfinished").mkdir()
    studies = published_studies(tmp_path)
    assert [study.name for study in studies] == ["paper", "a", "tall"]
    _, _, paper, _, tall = cells(studies_table(studies, "there"))
    assert paper == ["[paper](there/paper/report.html)", r"a \*study\*", "2 reproduced, 1 inconclusive"]
    assert tall[2] == "2 yes, 1 no"


def test_claims_that_are_not_reproduced_are_listed_and_one_that_is_not_asked_is_judged_elsewhere(tmp_path):
    paper = write(tmp_path / "paper", {1: "reproduced in part", 2: "reproduced", 3: "not reproduced", 20: NOT_ASKED})
    layers = write(tmp_path / "layers", {20: "reproduced"})
    paper.claims[0] |= {"parts": [{"holds": holds} for holds in (True, False, False, None)], "p_adjusted": 0.03}
    paper.claims[1] |= {"is_fragile": True, "p_adjusted": 0.02}
    paper.claims[2] |= {"premise": {"holds": True}}
    first, *_, weak = (text := surprising_verdicts([paper, layers])).splitlines()
    assert first == "2 of 4 claims are reproduced (1 in `paper`, 1 in `layers`). The others:"
    rows = [line for line in text.splitlines() if "Claim" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| 3", "| 1"]
    assert r"Claim \| \<3\> | **not reproduced** | No \<run\> |" in rows[0]
    assert "| 1 of 4 parts hold, 2 fail, 1 too close to call |" in rows[1]
    assert "Fragile" in weak and "verdict): 2. " in weak and weak.endswith("all claims: 1.")


def test_what_is_published_has_the_claims_of_the_code_and_its_picture():
    for study in published_studies():
        assert [claim["id"] for claim in study.claims] == [claim.id for claim in claims_of(study.name)]
        assert (study.folder / study.picture[1]).is_file() and study.picture[1] in hero(study)
    page = findings_page(published_studies())
    assert page.count("\n## ") == len(published_studies()) and page.count("\n- **") > 10


@pytest.fixture
def published(tmp_path) -> Path:
    """One study took ten processor minutes, another one minute of sampling; a third has no log."""
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


def test_the_processor_time_of_studies_and_of_kinds_of_work(published, tmp_path):
    for name in ("long", "without"):
        (tmp_path / f"{name}.yaml").write_text(f"study: {name}\ndescription: about <{name}>\n")
    assert cells(durations_table(tmp_path, published))[2:] == [
        ["`long`", r"about \<long\>", "10"],
        ["`without`", r"about \<without\>", ""],
    ]
    heading, _, *rows = cells(budgets_table(published))
    assert heading[2:] == ["long", "short"]
    # Of 600 s: time that a step gives no name to counts as files, and children of sampling are compilers.
    assert {name: shares for name, _, *shares in rows} == {
        "sampling": ["65 %", "100 %"],
        "report": ["24 %", ""],
        "compilation": ["8 %", ""],
        "the rest": ["2 %", ""],
        "all": ["600", "60"],
    }


def test_winners_are_those_by_evaluations_with_their_lead(tmp_path):
    (tmp_path / "tall" / "tables").mkdir(parents=True)
    (tmp_path / "tall" / "tables" / "winners.csv").write_text(
        "variant,target,criterion,method,value,rival_method,lead,is_clear\n"
        "linear,w = N,ess_per_second,pbnn,1,,,\n"
        "linear,w = N,ess_per_million_evaluations,pbnn,2000,full_mh,4.0,False\n"
        "linear,w = 5,ess_per_million_evaluations,,,,,\n"
    )
    rows = cells(winners_table(tmp_path))[2:]
    link = "[tall](../published/tall/report.html)"
    assert rows == [[link, "linear", "w = N", "PBNN", "2,000", "4.0 (full-data MH, not resolved)"]]
