"""The report of a study as files: the page, its figures, its tables, and the verdicts for other programs to read."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from implementations.infrastructure.files import atomic_path, write_json
from records.study import StudyResults
from records.summary import report_failures
from reports import tables
from reports.benchmarks import KEPT, load
from reports.claims import as_json
from reports.contents import contents_of
from reports.figures import SPEED_FIGURES
from reports.figures.evidence import evidence_figures
from reports.findings import findings_of
from reports.judging import format_error, judge_claims
from reports.leaderboard import leaderboards
from reports.page import anchors_of, origin, page
from reports.run_page import run_pages
from reports.types import Claim, FigureResult, FigureSpec, NothingToShow, Source, Speed


def render(
    study: StudyResults,
    out: Path,
    figures: Sequence[FigureSpec[StudyResults]],
    claims: Sequence[Claim],
    benchmarks: Path = KEPT,
) -> list[str]:
    """Write report.html, figures/, tables/, pages/ of single runs, figures.json and claims.json into ``out``.

    ``benchmarks`` are the suite's own, which need not be there. A figure or claim that fails does not take the others
    with it: the page says so, and so do the lines returned.
    """
    drawn = draw_all(figures, study)
    judged = judge_claims(claims, study, contents_of(study.name).words)
    drawn += [_drawn(spec, result) for spec, result in evidence_figures(judged, drawn)]
    found = findings_of(study)
    speed = _speed(benchmarks)
    all_drawn = [*drawn, *speed.figures]
    pictures = {f"{one.spec.name}.svg": one.svg.encode() for one in all_drawn if one.drawing}
    _write_folder(out / "figures", pictures)
    found_tables = tables.all_tables(study)
    if contents_of(study.name).has_leaderboard:
        found_tables += leaderboards(study)
    if speed.benchmarks:
        found_tables.append(tables.benchmarks(speed.benchmarks))
    _write_folder(out / "tables", {f"{table.name}.csv": table.to_csv().encode() for table in found_tables})
    anchors = anchors_of(study)
    pages = dict(run_pages(study))
    _write_folder(out / "pages", {f"{anchors[run]}.html": text.encode() for run, text in pages.items()})
    head = {"study": study.name, "description": study.description, **origin(study)}
    write_json(out / "figures.json", head | {"figures": [_figure_entry(figure) for figure in all_drawn]})
    words = contents_of(study.name).words
    verdicts = [entry | {"verdict": words.get(entry["verdict"], entry["verdict"])} for entry in as_json(judged)]
    write_json(out / "claims.json", head | {"findings": [one._asdict() for one in found], "claims": verdicts})
    # Last: whoever sees the page finds the rest.
    failures = report_failures(out)
    report = page(study, drawn, judged, found_tables, failures, speed, found, pages.keys())
    _write(out / "report.html", report.encode())
    return failures


def _speed(path: Path) -> Speed:
    try:
        benchmarks = load(path)
    except ValueError as reason:
        return Speed(absent=str(reason))
    return Speed(benchmarks, draw_all(SPEED_FIGURES, benchmarks))


def draw_all(specs: Iterable[FigureSpec[Source]], source: Source) -> list[FigureResult]:
    """Every figure, once; one that fails, or has nothing to show, does not take the others with it."""
    return [_drawn(spec, source) for spec in specs]


def _drawn(spec: FigureSpec[Source], source: Source) -> FigureResult:
    try:
        drawing = spec.draw(source)
        return FigureResult(spec, drawing, drawing.svg(spec.title))
    except NothingToShow as reason:
        return FigureResult(spec, absent=str(reason))
    except Exception as error:
        return FigureResult(spec, failure=format_error(error))


def _figure_entry(figure: FigureResult) -> dict[str, Any]:
    spec, drawing = figure.spec, figure.drawing
    return {
        "name": spec.name,
        "title": figure.title,
        "section": spec.section,
        "paper": spec.paper,
        "caption": drawing.caption if drawing else "",
        "numbers": list(drawing.numbers) if drawing else [],
        "runs": list(drawing.runs) if drawing else [],
        "absent": figure.absent,
        "failure": figure.failure,
    }


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Make ``folder`` hold these files and no others of an earlier rendering."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        _write(folder / name, content)
    # Snakemake keeps a hidden one of its own there.
    for path in folder.glob("[!.]*"):
        if path.name not in files:
            path.unlink()


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
