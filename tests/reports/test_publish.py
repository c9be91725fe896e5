"""Reports that are kept with the code are whole, small, of finished studies, and can be rendered again."""

import html
import json
import shutil
from pathlib import Path

import pytest

from records.study import StudyResults
from records.summary import is_complete, read_rows, report_failures
from reports import publish, rerender
from reports.contents import PAPER, contents_of
from reports.publish import DOCUMENTED, FIGURES_FROM_FILES, MAX_BYTES, PUBLISHED, drawn_figures, first_figure
from reports.types import Contents, FigureSpec
from tests.reports.studies import claim, failing_figure, figure, row, study_of


def results_of(folder: Path, **values: object) -> Path:
    """The results of a study, with a page that links to pages of single runs."""
    rows = [row(method, seed, **values) for method in ("full_mh", "pbnn+batch_size=2") for seed in range(3)]
    results = folder / "results" / "small"
    results.mkdir(parents=True, exist_ok=True)
    study_of(rows).summary.to_csv(results / "summary.csv", index=False)
    (results / "claims.json").write_text(json.dumps({"description": "a small study", "claims": []}))
    (results / "report.html").write_text('<a class="run-page" href="pages/run-1.html">')
    return results


def with_contents(monkeypatch: pytest.MonkeyPatch, *figures: FigureSpec) -> None:
    monkeypatch.setattr("reports.publish.contents_of", lambda _: Contents([claim(1)], figures))


def test_the_page_and_what_it_links_to_take_the_place_of_an_earlier_report(tmp_path, monkeypatch, capsys):
    with_contents(monkeypatch, figure("one"), figure("two"))
    results, out = results_of(tmp_path), tmp_path / "published"
    for name in ("figures/old.svg", "tables/old.csv", "screenshot.png"):
        (out / "small" / name).parent.mkdir(parents=True, exist_ok=True)
        (out / "small" / name).write_text("old")
    assert publish.main(["--study", "small", "--results", str(results.parent), "--out", str(out)]) == 0
    kept = {str(path.relative_to(out / "small")) for path in (out / "small").rglob("*") if path.is_file()}
    assert {"report.html", "claims.json", "figures.json", "summary.csv", "figures/one.svg"} < kept
    assert "screenshot.png" in kept and not {"figures/old.svg", "tables/old.csv"} & kept
    assert len([name for name in kept if name.startswith("figures/")]) == 1
    page = (out / "small" / "report.html").read_text()
    assert "A small study" in page and "pages/" not in page
    ours = sum((out / "small" / name).stat().st_size for name in kept - {"screenshot.png"})
    assert f"{ours:,} bytes are now in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda results: (results / "report.html").unlink(), "run the study first"),
        (lambda results: results_of(results.parents[1], status="failed"), "failed or are missing"),
        (lambda results: results_of(results.parents[1], git_is_dirty=True), "in no commit"),
    ],
)
def test_what_is_not_whole_is_refused_and_the_earlier_report_stays(tmp_path, capsys, spoil, message):
    results, out = results_of(tmp_path), tmp_path / "published"
    (out / "small").mkdir(parents=True)
    (out / "small" / "report.html").write_text("before")
    spoil(results)
    assert publish.main(["--study", "small", "--results", str(results.parent), "--out", str(out)]) == 1
    assert message in capsys.readouterr().err
    assert (out / "small" / "report.html").read_text() == "before"


def test_a_report_with_a_figure_that_failed_is_refused(tmp_path, monkeypatch):
    with_contents(monkeypatch, failing_figure("broken", ValueError("no")))
    with pytest.raises(ValueError, match="parts of the report failed: figure broken: ValueError: no"):
        publish.publish(results_of(tmp_path), tmp_path / "published" / "small")


def test_the_published_report_of_the_paper_study_is_whole():
    folder = PUBLISHED / "paper"
    rows = read_rows(folder / "summary.csv")
    assert is_complete(rows) and report_failures(folder) == []
    page = (folder / "report.html").read_text(encoding="utf-8")
    claims = json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert [claim["id"] for claim in claims] == [claim.id for claim in PAPER.claims]
    # A page writes apostrophes and quotes as numbers.
    assert [claim["id"] for claim in claims if claim["statement"] not in html.unescape(page)] == []
    assert {run for claim in claims for run in claim["runs"]} <= {row["run"] for row in rows}
    assert {*DOCUMENTED["paper"], *FIGURES_FROM_FILES["paper"]} <= {figure["name"] for figure in drawn_figures(folder)}
    assert first_figure(folder)[0] == "figure1_linear", "the README begins with it"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MAX_BYTES


def test_a_published_report_is_rendered_again_from_its_own_summary(tmp_path):
    shutil.copytree(PUBLISHED / "layers", tmp_path / "layers")
    (tmp_path / "layers" / "report.html").write_text("<p>by old templates</p>")
    assert rerender.main(["--study", "layers", "--out", str(tmp_path)]) == 0
    before, after = (json.loads((root / "layers" / "claims.json").read_text()) for root in (PUBLISHED, tmp_path))
    assert [after["claims"], after["study"]] == [before["claims"], before["study"]]
    names = [[one["name"] for one in drawn_figures(root / "layers")] for root in (PUBLISHED, tmp_path)]
    assert names[0] == names[1]
    page = (tmp_path / "layers" / "report.html").read_text()
    assert after["claims"][0]["short"] in page
    assert (tmp_path / "layers" / "usage.log").read_bytes() == (PUBLISHED / "layers" / "usage.log").read_bytes()


def test_a_figure_that_needs_the_files_of_runs_stays_the_one_that_was_published(tmp_path, monkeypatch):
    shutil.copytree(PUBLISHED / "paper", tmp_path / "paper")
    study = StudyResults.load(tmp_path / "paper")
    spec = next(spec for spec in contents_of("paper").figures if spec.name == "figure1_linear")
    with pytest.raises(FileNotFoundError):
        spec.draw(study)
    kept = rerender.with_kept(spec, tmp_path / "paper").draw(study)
    assert kept.svg("") == (PUBLISHED / "paper" / "figures" / "figure1_linear.svg").read_text()
    assert kept.title == first_figure(PUBLISHED / "paper")[1] and kept.runs and kept.caption
    (tmp_path / "paper" / "figures" / "figure1_linear.svg").unlink()
    with pytest.raises(FileNotFoundError):
        rerender.with_kept(spec, tmp_path / "paper").draw(study)


def test_a_report_that_was_never_published_cannot_be_rendered_again(tmp_path, capsys):
    assert rerender.main(["--study", "small", "--out", str(tmp_path)]) == 1
    assert "no report of small has been published" in capsys.readouterr().err
