"""The report of a study as files: the page, its figures, its tables, and the verdicts for other programs to read."""

import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from implementations.infrastructure.files import atomic_path, write_json
from records.study import StudyResults
from records.summary import report_failures
from reports import tables
from reports.benchmarks import KEPT, load
from reports.contents import contents_of
from reports.figures import SPEED_FIGURES
from reports.figures.evidence import evidence_figures
from reports.findings import findings_of
from reports.judge import Claim, ClaimResult, adjusted, as_json, judge_claims
from reports.leaderboard import leaderboards
from reports.page import anchors_of, origin, page
from reports.run_page import run_pages
from reports.types import FigureResult, FigureSpec, NothingToShow, Source, Speed


def render(
    study: StudyResults,
    out: Path,
    figures: Sequence[FigureSpec[StudyResults]],
    claims: Sequence[Claim],
    benchmarks: Path = KEPT,
    *,
    has_run_pages: bool = True,
    kept: Mapping[int, ClaimResult] | None = None,
) -> list[str]:
    """Write report.html, figures/, tables/, pages/ of single runs, figures.json and claims.json into ``out``.

    ``benchmarks`` are the suite's own, which need not be there. ``kept`` are results by claim that take the place of
    new ones. A figure or claim that fails does not take the others with it: the page says so, and so do the lines
    returned.
    """
    contents = contents_of(study.name)
    drawn = draw_all(figures, study)
    judged = adjusted([(kept or {}).get(one.claim.id, one) for one in judge_claims(claims, study)])
    drawn += [_drawn(spec, result) for spec, result in evidence_figures(judged, drawn)]
    found = findings_of(study)
    speed = _speed(benchmarks)
    all_drawn = [*drawn, *speed.figures]
    _write_folder(
        out / "figures", {f"{one.spec.name}.svg": one.drawing.svg(one.title) for one in all_drawn if one.drawing}
    )
    found_tables = tables.all_tables(study)
    if contents.has_leaderboard:
        found_tables += leaderboards(study)
    if speed.benchmarks:
        found_tables.append(tables.benchmarks(speed.benchmarks))
    _write_folder(out / "tables", {f"{table.name}.csv": table.to_csv() for table in found_tables})
    anchors = anchors_of(study)
    pages = dict(run_pages(study)) if has_run_pages else {}
    _write_folder(out / "pages", {f"{anchors[run]}.html": text for run, text in pages.items()})
    found_tables.append(tables.runs_table(study, anchors, pages))
    head = {"study": study.name, "description": study.description, **origin(study)}
    write_json(out / "figures.json", head | {"figures": [_figure_entry(figure) for figure in all_drawn]})
    write_json(out / "claims.json", head | {"findings": [one._asdict() for one in found], "claims": as_json(judged)})
    # Last: where the page is, the other files are too.
    failures = report_failures(out)
    text = page(study, contents, drawn, judged, found, found_tables, failures, speed, bool(pages))
    _write(out / "report.html", text)
    return failures


def _speed(path: Path) -> Speed:
    try:
        benchmarks = load(path)
    except ValueError as reason:
        return Speed(absent=str(reason))
    return Speed(benchmarks, draw_all(SPEED_FIGURES, benchmarks))


def draw_all(specs: Iterable[FigureSpec[Source]], source: Source) -> list[FigureResult]:
    """Every figure; one that fails, or has nothing to show, does not take the others with it."""
    return [_drawn(spec, source) for spec in specs]


def _drawn(spec: FigureSpec[Source], source: Source) -> FigureResult:
    try:
        return FigureResult(spec, spec.draw(source))
    except NothingToShow as reason:
        return FigureResult(spec, absent=str(reason))
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return FigureResult(spec, failure=f"{type(error).__name__}: {error}")


def _figure_entry(figure: FigureResult) -> dict[str, Any]:
    spec, drawing = figure.spec, figure.drawing
    return {
        "name": spec.name,
        "title": figure.title,
        "section": spec.section,
        "paper": spec.paper,
        "caption": drawing.caption if drawing else "",
        "numbers": drawing.numbers if drawing else [],
        "runs": drawing.runs if drawing else [],
        "absent": figure.absent,
        "failure": figure.failure,
    }


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Make ``folder`` hold these files and no others of an earlier rendering."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _write(folder / name, text)
    # Snakemake keeps a hidden file of its own there.
    for path in folder.glob("[!.]*"):
        if path.name not in files:
            path.unlink()


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
