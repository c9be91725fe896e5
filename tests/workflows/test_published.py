"""README and documentation take every published study as it is, whatever its name."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from records.summary import read_rows
from reports.contents import contents_of
from reports.judging import FRAGILE, ROBUST
from reports.publish import PUBLISHED, publish
from reports.render import render
from reports.types import NOT_ASKED
from tests.reports.studies import NO_BENCHMARKS, row, study_of
from workflows.markdown import text as markdown
from workflows.published import (
    MAX_WHERE,
    Published,
    findings_page,
    published_studies,
    short_findings,
    studies_table,
    surprising_verdicts,
    where,
)
from workflows.readme import README, hero, refresh


def write(folder: Path, verdicts: dict[int, str], **about: str) -> Published:
    folder.mkdir(parents=True)
    claims = [
        {"id": number, "statement": f"Claim | <{number}>", "verdict": one, "reason": "Low: 1.5."}
        | {"robustness": "", "p_adjusted": None}
        for number, one in verdicts.items()
    ]
    head = {"description": "a *study*", "commit": "0123", "finished": "2026-01-02 03:04 UTC"} | about
    (folder / "claims.json").write_text(json.dumps(head | {"claims": claims}))
    return Published(folder)


def test_the_papers_study_is_the_first(tmp_path):
    for name in ("a", "paper", "tall"):
        write(tmp_path / name, {})
    (tmp_path / "unfinished").mkdir()
    assert [study.name for study in published_studies(tmp_path)] == ["paper", "a", "tall"]


def test_verdicts_are_counted_in_the_words_of_the_study(tmp_path):
    paper = write(tmp_path / "paper", {1: "reproduced", 2: "inconclusive", 3: "reproduced", 4: NOT_ASKED})
    tall = write(tmp_path / "tall", {21: "no", 22: "yes", 23: "yes"})
    assert (paper.counts, tall.counts) == ("2 reproduced, 1 inconclusive", "2 yes, 1 no")
    lines = studies_table([paper, tall], "there").splitlines()
    assert lines[2] == r"| [paper](there/paper/report.html) | a \*study\* | 2 reproduced, 1 inconclusive |"


def test_what_is_not_simply_reproduced_is_listed_surprises_first_and_stays_text(tmp_path):
    paper = write(tmp_path / "paper", {101: "reproduced", 102: "inconclusive", 103: "not reproduced", 104: NOT_ASKED})
    first, _, *lines = surprising_verdicts([paper]).splitlines()
    assert first == "1 of 4 claims are reproduced (1 in `paper`). The others:"
    assert lines[2] == r"| 103 | Claim \| \<103\> | **not reproduced** | Low |"
    assert [line.split(" | ")[-2] for line in lines[3:]] == ["**inconclusive**", "**not asked**"]


def test_a_claim_has_its_short_title_and_where_it_holds(tmp_path):
    paper = write(tmp_path / "paper", {2: "reproduced in part"})
    paper.claims[0] |= {"short": "PBNN | is right", "where": "with M=10; not with M=2", "reason": "It holds on a: 1.5."}
    assert surprising_verdicts([paper]).splitlines()[-1] == (
        r"| 2 | PBNN \| is right | **reproduced in part** | with M=10; not with M=2 |"
    )
    # Files of an earlier version have neither: the claims of today are called as they are called today.
    del paper.claims[0]["short"], paper.claims[0]["where"]
    assert surprising_verdicts([paper]).splitlines()[-1] == (
        "| 2 | The penalty removes the bias of mini-batches | **reproduced in part** | on a: 1.5 |"
    )


def test_where_a_claim_holds_is_one_line_also_where_only_the_reason_says_it():
    said = "It holds on a with M=5 (σ² = 1; 2). It does not hold on b; on c. Too close to call on d; on e."
    claim = {"where": None, "reason": f"{said} The sd is 1.2; 1.3."}
    assert where(claim) == "on a with M=5; not on b and elsewhere; others too close to call"
    assert where({"reason": "Full data are not overconfident: gap 0.1."}) == "Full data are not overconfident"
    told = where(claim | {"where": "; ".join(f"not on task number {number}" for number in range(20))})
    assert told.startswith("not on task number 0; not on") and told.endswith(" …") and len(told) <= MAX_WHERE


def test_weak_verdicts_are_named_below_the_others(tmp_path):
    paper = write(tmp_path / "paper", {1: "reproduced", 2: "not reproduced", 3: "inconclusive"})
    weak = ({"p_adjusted": 0.03}, {"robustness": FRAGILE, "p_adjusted": 0.02}, {"robustness": ROBUST})
    assert not surprising_verdicts([paper]).endswith(".\n")
    for claim, more in zip(paper.claims, weak, strict=True):
        claim |= more
    assert surprising_verdicts([paper]).splitlines()[-1] == (
        "Fragile (leaving out one seed changes the verdict): 2. Does not survive Holm's correction over all claims: 1."
    )


def test_a_claim_that_the_papers_study_does_not_ask_about_is_judged_by_one_that_does(tmp_path):
    paper = write(tmp_path / "paper", {1: "not reproduced", 20: NOT_ASKED})
    layers = write(tmp_path / "layers", {20: "reproduced"})
    other_questions = write(tmp_path / "tall", {20: "no"})
    found = surprising_verdicts([paper, layers, other_questions])
    assert found.startswith("1 of 2 claims are reproduced (1 in `layers`).") and "**not reproduced**" in found


@pytest.mark.parametrize("name", ["rivals", "calibration", "layers", "my_own"])
def test_a_study_of_any_name_is_rendered_published_and_shown_without_a_word_written_by_hand(name, tmp_path):
    """Beside the paper's; of these runs nothing is found, which is said nowhere."""
    rows = [
        row(f"{label}+batch_size={size}", seed, study=name, point_error=0.2, point_error_mc=0.1)
        for label, size in (("pbnn", 10), ("pbnn", 20), ("sgld", 10))
        for seed in range(2)
    ]
    results, folder = tmp_path / "results" / name, tmp_path / "published"
    study = replace(study_of(rows, results), description="what it is about")
    contents = contents_of(name)
    results.mkdir(parents=True)
    # Those that need no files of runs.
    figures = [spec for spec in contents.figures if spec.name in ("frontier", "acceptance", "coverage")]
    assert render(study, results, figures, contents.claims, NO_BENCHMARKS) == []
    study.summary.to_csv(results / "summary.csv", index=False)
    assert read_rows(results / "summary.csv")
    publish(results, folder / name)
    (folder / "paper").symlink_to(PUBLISHED / "paper")
    studies = published_studies(folder)
    assert [one.name for one in studies] == ["paper", name]
    text = refresh(README.read_text(encoding="utf-8"), folder)
    assert f"[{name}](reports/published/{name}/report.html) | what it is about |" in text
    assert short_findings(studies) == short_findings(studies[:1])
    page = findings_page(studies)
    assert f"## {name}\n\nWhat it is about." in page
    title, picture = studies[1].picture
    assert (folder / name / picture).is_file() and f"![{markdown(title)}](published/{name}/{picture})" in page


def test_the_hero_is_the_first_figure_of_the_papers_report(tmp_path):
    paper = Published(tmp_path / "paper")
    shutil.copytree(PUBLISHED / "paper", paper.folder)
    dark = paper.folder / "figures" / "figure1_linear-dark.png"
    dark.unlink(missing_ok=True)
    title, file = paper.picture
    place = "reports/published/paper/figures/figure1_linear"
    assert title.startswith("Figure 1: ") and file == "figures/figure1_linear.png"
    assert hero(paper) == f"![{title}]({place}.png)\n"
    dark.write_bytes(b"dark")
    assert [
        (one.tag, dict(one.attrib)) for one in ElementTree.fromstring(hero(paper).replace('.png">', '.png"/>'))
    ] == [
        ("source", {"media": "(prefers-color-scheme: dark)", "srcset": f"{place}-dark.png"}),
        ("img", {"alt": title, "src": f"{place}.png"}),
    ]


def test_what_is_published_has_the_claims_of_the_code():
    for study in published_studies():
        assert [claim["id"] for claim in study.claims] == [claim.id for claim in contents_of(study.name).claims]
