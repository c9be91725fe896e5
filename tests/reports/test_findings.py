"""Findings: every sentence is supported by the numbers of the published studies, and hidden where they change."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from records.study import StudyResults
from reports import findings
from reports.findings import GUARD, checked_findings, findings_of, main_findings_of
from reports.publish import PUBLISHED

STUDIES = sorted(path.parent.name for path in PUBLISHED.glob("*/summary.csv"))


@pytest.fixture(scope="module")
def published() -> dict[str, StudyResults]:
    return {name: StudyResults.load(PUBLISHED / name) for name in STUDIES}


def changed(study: StudyResults, rows: dict[str, object], **columns: float) -> StudyResults:
    """The study with other numbers in the rows that have these values."""
    is_meant = (study.summary[list(rows)] == pd.Series(rows)).all(axis=1)
    assert is_meant.any()
    new = {name: study.summary[name].where(~is_meant, value) for name, value in columns.items()}
    return replace(study, summary=study.summary.assign(**new))


@pytest.mark.parametrize("name", STUDIES)
def test_the_published_numbers_support_every_finding(published, name):
    found = list(checked_findings(published[name]))
    assert found
    assert {one.finding.headline: one.problems for one in found if one.problems} == {}
    shown = json.loads((PUBLISHED / name / "claims.json").read_text(encoding="utf-8"))["findings"]
    assert shown == [one.finding._asdict() for one in found], "run `python -m reports.rerender`"


@pytest.mark.parametrize("file", sorted(findings.FOLDER.glob("*.md")), ids=lambda file: file.stem)
def test_every_paragraph_ends_with_its_guard_and_every_number_is_used(file):
    _, definitions, body = file.read_text(encoding="utf-8").split("---\n", 2)
    assert file.stem in STUDIES
    paragraphs = [part for part in body.strip().split("\n\n") if not part.startswith("## ")]
    assert [part for part in paragraphs if len(GUARD.findall(part)) != 1 or not part.endswith("-->")] == []
    numbers = definitions.split("numbers:\n")[1]
    names = [line.split(":")[0].strip() for line in numbers.splitlines()]
    assert [name for name in names if f"{name}" not in body and numbers.count(name) == 1] == []


def test_the_readme_tells_five_or_six_of_them(published):
    assert 4 <= sum(len(main_findings_of(study)) for study in published.values()) <= 6


@pytest.mark.parametrize(
    ("name", "rows", "columns", "hidden"),
    [
        ("paper", {"method": "naive"}, {"sd_ratio": 1.01}, 0),
        ("paper", {"task": "regression", "batch_size": 200.0}, {"sd_ratio": 1.3}, 1),
        ("calibration", {"target_weight": 1000.0, "method": "blackjax_hmc"}, {"nll": 2.0}, 0),
        ("layers", {"method": "pbnn"}, {"sd_ratio": 1.2}, 0),
        ("tall", {"variant": "logistic-points10000000"}, {"likelihood_evaluations": 1e9}, 0),
        ("tall", {"variant": "flights", "method": "laplace"}, {"point_error": 0.3}, 2),
        ("rivals", {"method": "sgnht"}, {"sd_ratio": 1.3, "sd_ratio_resolved": True}, 0),
    ],
)
def test_a_finding_that_the_numbers_contradict_is_hidden(published, name, rows, columns, hidden):
    headlines = [one.headline for one in findings_of(published[name])]
    left = [one.headline for one in findings_of(changed(published[name], rows, **columns))]
    assert headlines[hidden] not in left


def test_a_finding_without_its_runs_is_hidden_and_a_study_without_a_file_has_none(published):
    paper = published["paper"]
    without = replace(paper, summary=paper.summary[paper.summary["method"] != "sgld"])
    headlines, left = ([one.headline for one in findings_of(study)] for study in (paper, without))
    assert [one for one in headlines if one not in left] == ["Where a small bias is acceptable, SGLD is far cheaper."]
    assert findings_of(replace(paper, folder=Path("results/my_own"))) == []


def test_numbers_are_means_paired_ratios_and_exponents_over_seeds(published, tmp_path, monkeypatch):
    """Compared with the same numbers worked out from the table."""
    (tmp_path / "tall.md").write_text(
        """---
readme: 0
runs:
  small: {variant: logistic, method: pbnn_cn}
  large: {variant: logistic-points10000000, method: pbnn_cn}
  sizes: {task: logistic, method: mala, each: [num_points]}
  every: {variant: logistic, method: [pbnn_cn, pbnn_cv], each: [method]}
  widest: {variant: logistic, method: [pbnn_cn, pbnn_cv], most: sd_ratio, where: num_points == 10000}
numbers:
  width: {of: small, column: sd_ratio}
  ratio: {of: large, over: small, column: wall_clock_s}
  change: {of: large, minus: small, column: wall_clock_s}
  growth: {of: sizes, column: log_step_evaluations, grows_with: num_points}
  widths: {of: every, column: sd_ratio}
  largest: {of: widest, column: sd_ratio}
  twice: 2 * width
---

## {{ width|digits(6) }} {{ ratio|digits(6) }} {{ change|digits(6) }}

{{ growth|digits(6) }} {{ widths|length }} {{ twice|digits(6) }}
<!-- if largest == max(widths) and len(widths) == 2 -->
""",
        encoding="utf-8",
    )
    monkeypatch.setattr(findings, "FOLDER", tmp_path)
    (found,) = findings_of(published["tall"])
    table = published["tall"].summary.set_index("seed")
    small, large = (
        table[(table["variant"] == variant) & (table["method"] == "pbnn_cn")]
        for variant in ("logistic", "logistic-points10000000")
    )
    width = small["sd_ratio"].mean()
    times = [one["wall_clock_s"] for one in (large, small)]
    mala = table[(table["task"] == "logistic") & (table["method"] == "mala") & (table.index == 0)]
    steps = (mala["likelihood_evaluations"] + mala["gradient_evaluations"]) / (mala["num_steps"] * mala["chains"])
    growth = np.polyfit(np.log(mala["num_points"].astype(float)), np.log(steps.astype(float)), 1)[0]
    shown = [float(word.replace("−", "-")) for word in f"{found.headline} {found.text}".split()]
    wanted = [width, np.exp(np.log(times[0] / times[1]).mean()), (times[0] - times[1]).mean(), growth, 2, 2 * width]
    assert shown == pytest.approx(wanted, rel=1e-5)
