"""README and documentation take every published study as it is, whatever its name."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from records.study import StudyResults
from records.summary import read_rows
from reports.contents import contents_of
from reports.judging import FRAGILE, ROBUST
from reports.publish import PUBLISHED, publish
from reports.render import render
from reports.types import NOT_ASKED
from tests.reports.studies import NO_BENCHMARKS, row, study_of
from workflows.published import (
    Published,
    findings_page,
    published_studies,
    short_findings,
    studies_table,
    surprising_verdicts,
    why,
)
from workflows.readme import README, hero, refresh
from workflows.story import STORY, rounded, story


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
    paper = write(tmp_path / "paper", {1: "reproduced", 2: "inconclusive", 3: "not reproduced", 4: NOT_ASKED})
    first, _, *lines = surprising_verdicts([paper]).splitlines()
    assert first == "1 of 4 claims are reproduced. The others:"
    assert lines[2] == r"| 3 | Claim \| \<3\> | **not reproduced** | Low. |"
    assert [line.split(" | ")[-2] for line in lines[3:]] == ["**inconclusive**", "**not asked**"]


def test_why_has_where_a_claim_holds_without_the_numbers_and_whether_that_is_weak():
    said = "It holds on a with M=5. It does not hold on b; on c. Too close to call on d; on e; on f; on g."
    claim = {"reason": f"{said} The sd is 1.2; 1.3.", "robustness": ROBUST, "p_adjusted": 0.02}
    short = "It holds on a with M=5. It does not hold on b; on c. Too close to call on d and elsewhere."
    assert why(claim) == short
    weak = claim | {"robustness": FRAGILE, "p_adjusted": 0.03}
    assert why(weak) == f"{short} {FRAGILE}. It does not stand with Holm's correction for all claims."
    assert why(claim | {"reason": "Full data are not overconfident: gap 0.1."}) == "Full data are not overconfident."


def test_a_claim_that_the_papers_study_does_not_ask_about_is_judged_by_one_that_does(tmp_path):
    paper = write(tmp_path / "paper", {1: "not reproduced", 20: NOT_ASKED})
    layers = write(tmp_path / "layers", {20: "reproduced"})
    other_questions = write(tmp_path / "tall", {20: "no"})
    found = surprising_verdicts([paper, layers, other_questions])
    assert found.startswith("1 of 2 claims are reproduced.") and "**not reproduced**" in found


def test_a_finding_is_said_only_where_the_numbers_bear_it_out():
    studies = {name: StudyResults.load(PUBLISHED / name) for name in ("paper", "tall", "rivals")}
    headlines = [one.headline for one in story(studies)]
    assert len(headlines) == len(STORY) == 4
    paper = studies["paper"]
    # Had the chains without the penalty been right, there would be no bias to speak of.
    unbiased = paper.summary.assign(sd_ratio=paper.summary["sd_ratio"].where(paper.summary["method"] != "naive", 1.01))
    assert [one.headline for one in story(studies | {"paper": replace(paper, summary=unbiased)})] == headlines[1:]
    assert [one.headline for one in story({"tall": studies["tall"]})] == headlines[2:3]


@pytest.mark.parametrize(
    ("value", "shown"), [(0.9961, "1.0"), (248.2, "250"), (0.00781, "0.0078"), (7.94, "7.9"), (26.53, "27")]
)
def test_numbers_of_the_story_have_two_digits(value, shown):
    assert rounded(value) == shown


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
    assert short_findings(studies).count("- **") == 2
    page = findings_page(studies)
    assert f"## {name}\n\nWhat it is about." in page
    title, picture = studies[1].picture
    assert (folder / name / picture).is_file() and f"![{title}](published/{name}/{picture})" in page


def test_the_hero_is_the_first_figure_of_the_papers_report():
    shown = hero(Published(PUBLISHED / "paper"))
    assert shown.startswith("![Figure 1: ")
    assert shown.endswith("](reports/published/paper/figures/figure1_linear.png)\n")


def test_what_is_published_has_the_claims_of_the_code():
    for study in published_studies():
        assert [claim["id"] for claim in study.claims] == [claim.id for claim in contents_of(study.name).claims]
