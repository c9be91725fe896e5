"""What is kept with the code is whole, small, and of a finished study."""

import csv
import html
import json
import shutil
from pathlib import Path

import pytest

from records.study import StudyResults
from records.summary import is_complete, read_rows, report_failures
from reports import again
from reports.claims import CLAIMS
from reports.contents import contents_of
from reports.figures import FIGURES
from reports.judging import verdicts_of
from reports.ledger import publications
from reports.publish import DOCUMENTED, MAX_BYTES, PUBLISHED, first_figure, main, publish
from reports.types import Contents


@pytest.fixture
def results(tmp_path) -> Path:
    """The report of a study that could be published."""
    results = tmp_path / "results" / "small"
    (results / "figures").mkdir(parents=True)
    (results / "tables").mkdir()
    (results / "report.html").write_text("<p>new</p>")
    (results / "claims.json").write_text(json.dumps({"claims": [{"id": 1, "failure": None}]}))
    write_figures(results, absent="a", b=None, c=None)
    (results / "tables" / "winners.csv").write_text("a\n1\n")
    (results / "tables" / ".snakemake_timestamp").touch()
    for name in ("b", "c"):
        (results / "figures" / f"{name}.svg").write_bytes(b"picture")
    write_summary(results)
    return results


def write_figures(results: Path, absent: str = "", **failures: str | None) -> None:
    """Of a figure without anything to show, and of some that were drawn or failed."""
    figures = [
        {"name": name, "title": f"It is {name}", "section": "Cost", "absent": "no runs" if name == absent else None}
        | {"failure": failures.get(name)}
        for name in (absent, *failures)
    ]
    (results / "figures.json").write_text(json.dumps({"figures": figures}))


def write_summary(results: Path, **changed: str) -> None:
    row = {"run": "a", "status": "ok", "reference_kind": "closed_form", "git_is_dirty": "False"} | changed
    with (results / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)


def test_page_tables_verdicts_and_the_first_figure_are_kept_in_place_of_the_old_ones(results, tmp_path, capsys):
    out = tmp_path / "published"
    (out / "small" / "figures").mkdir(parents=True)
    (out / "small" / "figures" / "old.svg").write_bytes(b"old")
    (out / "small" / "screenshot.svg").write_bytes(b"of something else")
    assert main(["--study", "small", "--results", str(results.parent), "--out", str(out)]) == 0
    kept = {str(path.relative_to(out / "small")) for path in (out / "small").rglob("*") if path.is_file()}
    ours = {"figures/b.svg", "tables/winners.csv"}
    ours |= {"report.html", "claims.json", "figures.json", "summary.csv"}
    assert kept == ours | {"screenshot.svg"}, "what others put there stays"
    num_bytes = sum((out / "small" / name).stat().st_size for name in ours)
    assert f"{num_bytes:,} bytes are now in" in capsys.readouterr().out


def test_seeds_that_are_published_are_entered_in_the_ledger(results, tmp_path):
    write_summary(results, git_commit="abc", seed="3")
    publish(results, tmp_path / "published" / "small")
    (entry,) = publications("small", tmp_path / "published" / "ledger.json")
    assert (entry.commits, entry.seeds) == (["abc"], [3])


def test_the_published_report_of_the_paper_study_is_whole():
    folder = PUBLISHED / "paper"
    rows = read_rows(folder / "summary.csv")
    assert is_complete(rows)
    assert report_failures(folder) == []
    page = (folder / "report.html").read_text(encoding="utf-8")
    claims = json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert [claim["id"] for claim in claims] == [claim.id for claim in CLAIMS]
    # A page writes apostrophes and quotes as numbers.
    assert [claim["id"] for claim in claims if claim["statement"] not in html.unescape(page)] == []
    runs = {row["run"] for row in rows}
    assert {run for claim in claims for run in claim["runs"]} <= runs
    assert set(DOCUMENTED["paper"]) <= {spec.name for spec in FIGURES}
    assert first_figure(folder)[0] == "figure1_linear", "the README begins with it"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MAX_BYTES


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda results: (results / "report.html").unlink(), "run the study first"),
        (lambda results: write_summary(results, status="failed"), "failed or are missing"),
        (lambda results: write_summary(results, git_is_dirty="True"), "in no commit"),
        (
            lambda results: write_figures(results, a="no"),
            "parts of the report failed: figure a: no",
        ),
        (lambda results: (results / "figures" / "b.svg").unlink(), "b.svg"),
        (lambda results: (results / "report.html").write_bytes(b" " * MAX_BYTES), "bytes"),
    ],
)
def test_what_is_not_whole_is_refused_and_the_earlier_report_stays(results, tmp_path, capsys, spoil, message):
    out = tmp_path / "published"
    publish(results, out / "small")
    before = (out / "small" / "report.html").read_text()
    spoil(results)
    assert main(["--study", "small", "--results", str(results.parent), "--out", str(out)]) == 1
    assert message in capsys.readouterr().err
    assert (out / "small" / "report.html").read_text() == before


def test_of_the_paper_study_the_figures_of_the_documentation_are_kept_too(results, tmp_path):
    paper = results.rename(results.with_name("paper"))
    with pytest.raises(ValueError, match=r"targets\.svg"):
        publish(paper, tmp_path / "paper")
    for name in DOCUMENTED["paper"]:
        (paper / "figures" / f"{name}.svg").write_bytes(b"picture")
    publish(paper, tmp_path / "paper")
    kept = {path.stem for path in (tmp_path / "paper" / "figures").glob("*.svg")}
    assert kept == {"b", *DOCUMENTED["paper"]}


def test_a_published_report_is_rendered_again_from_its_own_summary(tmp_path):
    """By the present code, with the verdicts that it gives, and the findings and times that it has."""
    shutil.copytree(PUBLISHED / "layers", tmp_path / "published" / "layers")
    (tmp_path / "published" / "layers" / "report.html").write_text("<p>by old templates</p>")
    assert again.main(["--study", "layers", "--out", str(tmp_path / "published")]) == 0
    rendered, kept = (
        json.loads((folder / "layers" / "claims.json").read_text()) for folder in (tmp_path / "published", PUBLISHED)
    )
    for values in (rendered, kept):
        # The code that judges may have changed since, and the words of findings.
        values["claims"] = {claim["id"]: claim["verdict"] for claim in values["claims"]}
    study = StudyResults.load(PUBLISHED / "layers")
    now = {claim.id: verdict.outcome for claim, verdict in verdicts_of(contents_of("layers").claims, study)}
    assert rendered.pop("claims") == now and kept.pop("claims").keys() == now.keys()
    findings = rendered.pop("findings")
    assert len(findings) == len(kept.pop("findings"))
    assert rendered == kept
    page = (tmp_path / "published" / "layers" / "report.html").read_text()
    assert findings[0]["headline"] in page and 'id="budget"' in page


def test_a_report_whose_figures_need_the_runs_is_not_rendered_without_them(tmp_path, monkeypatch, capsys):
    shutil.copytree(PUBLISHED / "layers", tmp_path / "layers")
    write_figures(tmp_path / "layers", figure1_linear=None)
    monkeypatch.setattr("reports.again.contents_of", lambda _: Contents((), FIGURES[:1]))
    monkeypatch.setattr("reports.render.contents_of", lambda _: Contents((), FIGURES[:1]))
    before = (tmp_path / "layers" / "report.html").read_bytes()
    assert again.main(["--study", "layers", "--out", str(tmp_path)]) == 1
    assert "no figures figure1_linear; run the study" in capsys.readouterr().err
    assert (tmp_path / "layers" / "report.html").read_bytes() == before


def test_a_report_that_was_never_published_cannot_be_rendered_again(tmp_path, capsys):
    assert again.main(["--study", "small", "--out", str(tmp_path)]) == 1
    assert "no report of small has been published" in capsys.readouterr().err
