"""The report of a study as files: the page, its figures, its tables, and the verdicts for other programs to read."""

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implementations.infrastructure.files import atomic_path, write_json
from records.study import StudyResults
from records.summary import report_failures
from reports import tables
from reports.benchmarks import KEPT, load
from reports.claims import as_json
from reports.contents import contents_of
from reports.dark import DARK, darken
from reports.figures import SPEED_FIGURES
from reports.figures.evidence import evidence_figures
from reports.figures.marks import outline
from reports.findings import findings_of
from reports.judging import format_error, judge_claims
from reports.leaderboard import leaderboards
from reports.page import anchors_of, origin, page
from reports.run_page import run_pages
from reports.style import NARROW, PHONE, theme
from reports.types import Claim, FigureResult, FigureSpec, NothingToShow, Source, Speed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    drawn: list[FigureResult] = []
    for spec in figures:
        # README and documentation begin with the first, on pages that may be dark.
        drawn.append(_drawn(spec, study, on_dark_paper=not any(one.png for one in drawn)))
    judged = judge_claims(claims, study, contents_of(study.name).words)
    drawn += [_drawn(spec, result) for spec, result in evidence_figures(judged, drawn)]
    found = findings_of(study)
    speed = _speed(benchmarks)
    all_drawn = [*drawn, *speed.figures]
    kinds = {".png": "png", ".svg": "svg", PHONE: "narrow", DARK: "dark"}
    pictures = {figure.spec.name + end: getattr(figure, kind) for figure in all_drawn for end, kind in kinds.items()}
    _write_folder(out / "figures", {name: content for name, content in pictures.items() if content})
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
    return Speed(benchmarks, [_drawn(spec, benchmarks) for spec in SPEED_FIGURES])


def _drawn(spec: FigureSpec[Source], source: Source, on_dark_paper: bool = False) -> FigureResult:
    import matplotlib.pyplot as plt

    try:
        with theme(NARROW):
            phone = spec.draw(source).figure
            outline(phone)
            narrow = picture(phone, "svg")
        with theme():
            drawing = spec.draw(source)
            outline(drawing.figure)
            png, svg = picture(drawing.figure, "png"), picture(drawing.figure, "svg")
            dark = b""
            if on_dark_paper:
                darken(drawing.figure)
                dark = picture(drawing.figure, "png")
    except NothingToShow as reason:
        return FigureResult(spec, absent=str(reason))
    except Exception as error:
        return FigureResult(spec, failure=format_error(error))
    finally:
        plt.close("all")
    named = replace(spec, title=drawing.title or spec.title)
    return FigureResult(named, drawing.caption, drawing.runs, png, svg, narrow, dark, drawing.numbers, drawing.marks)


def picture(figure: "Figure", kind: str) -> bytes:
    """The figure as a file's content, the same on every call: no date, no version of the program."""
    content = BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue()


def _figure_entry(figure: FigureResult) -> dict[str, Any]:
    spec = figure.spec
    return {
        "name": spec.name,
        "title": spec.title,
        "section": spec.section,
        "paper": spec.paper,
        "caption": figure.caption,
        "numbers": list(figure.numbers),
        "runs": list(figure.runs),
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
