"""The report of a study as files: the page, its figures, its tables, and the verdicts for other programs to read."""

import sys
import traceback
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implementations.files import atomic_path, write_json
from reports import tables
from reports.benchmarks import KEPT, load
from reports.claims import as_json
from reports.figures import SPEED_FIGURES
from reports.page import ClaimResult, FigureResult, Speed, origin, page
from reports.parts import INCONCLUSIVE, Claim, FigureSpec, NothingToShow, Source, Verdict
from reports.study import StudyResults
from reports.style import theme
from workflows.summary import report_failures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(
    study: StudyResults,
    out: Path,
    figures: Sequence[FigureSpec[StudyResults]],
    claims: Sequence[Claim],
    benchmarks: Path = KEPT,
) -> list[str]:
    """Write report.html, figures/, tables/, figures.json and claims.json into ``out``.

    ``benchmarks`` are the suite's own, which need not be there. A figure or claim that fails does not take the others
    with it: the page says so, and so do the lines returned.
    """
    drawn = [_drawn(spec, study) for spec in figures]
    judged = [_judged(claim, study) for claim in claims]
    speed = _speed(benchmarks)
    all_drawn = [*drawn, *speed.figures]
    pictures = {f"{figure.spec.name}.{kind}": getattr(figure, kind) for figure in all_drawn for kind in ("png", "svg")}
    _write_folder(out / "figures", {name: content for name, content in pictures.items() if content})
    found_tables = tables.all_tables(study)
    if speed.benchmarks:
        found_tables["benchmarks"] = tables.benchmarks(speed.benchmarks)
    csv_files = {f"{name}.csv": tables.to_csv(table).encode() for name, table in found_tables.items()}
    _write_folder(out / "tables", csv_files)
    head = {"study": study.name, "description": study.description, **origin(study)}
    write_json(out / "figures.json", head | {"figures": [_figure_entry(figure) for figure in all_drawn]})
    verdicts = as_json([(result.claim, result.verdict) for result in judged])
    told = [entry | {"failure": result.failure} for entry, result in zip(verdicts, judged, strict=True)]
    write_json(out / "claims.json", head | {"claims": told})
    # Last: whoever sees the page finds the rest.
    failures = report_failures(out)
    _write(out / "report.html", page(study, drawn, judged, found_tables, failures, speed).encode())
    return failures


def _speed(path: Path) -> Speed:
    try:
        benchmarks = load(path)
    except ValueError as reason:
        return Speed(absent=str(reason))
    return Speed(benchmarks, [_drawn(spec, benchmarks) for spec in SPEED_FIGURES])


def _drawn(spec: FigureSpec[Source], source: Source) -> FigureResult:
    import matplotlib.pyplot as plt

    try:
        with theme():
            drawing = spec.draw(source)
            try:
                png, svg = picture(drawing.figure, "png"), picture(drawing.figure, "svg")
            finally:
                plt.close(drawing.figure)
    except NothingToShow as reason:
        return FigureResult(spec, absent=str(reason))
    except Exception as error:
        return FigureResult(spec, failure=_told(error))
    return FigureResult(spec, drawing.caption, drawing.runs, png, svg)


def picture(figure: "Figure", kind: str) -> bytes:
    """The figure as a file's content, the same on every call: no date, no version of the program."""
    content = BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue()


def _judged(claim: Claim, study: StudyResults) -> ClaimResult:
    try:
        return ClaimResult(claim, claim.judge(study))
    except Exception as error:
        failure = _told(error)
        return ClaimResult(claim, Verdict(INCONCLUSIVE, f"It could not be judged: {failure}"), failure)


def _told(error: Exception) -> str:
    """The error in a line, its traceback in the log."""
    traceback.print_exception(error, file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def _figure_entry(figure: FigureResult) -> dict[str, Any]:
    spec = figure.spec
    return {
        "name": spec.name,
        "title": spec.title,
        "section": spec.section,
        "paper": spec.paper,
        "caption": figure.caption,
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
