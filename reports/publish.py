"""Keep the report of a finished study with the code, as ``reports/published/<study>``.

    python -m reports.publish --study paper

``make publish`` does this, and renews the README. The report is rendered without the pages of single runs, which are
too many to keep. After a change of templates, figures or judging, ``reports.rerender`` renders published reports again.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from records.study import StudyResults
from records.summary import is_complete, read_rows
from reports import PUBLISHED as PUBLISHED
from reports.benchmarks import SECTION
from reports.contents import contents_of
from reports.judge import ClaimResult
from reports.render import render
from reports.types import FigureSpec

#: The summary, and where the time went, which the page shows; the latter need not be there.
COPIED = ("summary.csv", "usage.log")
#: Figures whose files are kept, in addition to the first of every study: pages of the documentation show them, ...
DOCUMENTED = {"paper": ("figure1_linear", "figure3_reliability", "targets", "bias_evaluations")}
#: ... or they need the files of runs, without which ``reports.rerender`` shows the published figure again.
FIGURES_FROM_FILES = {
    "paper": ("figure1_linear", "figure2_regression", "figure3_reliability", "figure4_alternatives", "calibration"),
}
#: Claims whose numbers need the files of runs: their published verdicts stay.
CLAIMS_FROM_FILES = {"paper": (7, 10)}
#: Every clone carries a published report, so it stays small.
MAX_BYTES = 10 * 2**20


def publish(results: Path, out: Path) -> int:
    """Render the report of ``results`` into ``out``, in place of an earlier one; the number of bytes that are kept.

    Results that are not whole are refused with a ValueError, and the earlier report stays.
    """
    if not (results / "report.html").exists():
        raise ValueError(f"no report at {results / 'report.html'}; run the study first")
    rows = read_rows(results / "summary.csv")
    if not is_complete(rows):
        raise ValueError(f"{results} has runs that failed or are missing; the study's own command makes them")
    if any(row["git_is_dirty"] == "True" for row in rows):
        raise ValueError(f"{results} has runs of code that is in no commit; commit, remove these results and run again")
    return rendered(results, out)


Spec = FigureSpec[StudyResults]


def rendered(
    results: Path,
    out: Path,
    adapted: Callable[[Spec], Spec] = lambda spec: spec,
    kept: Mapping[int, ClaimResult] | None = None,
) -> int:
    """Render ``results`` into ``out``, with figures as ``adapted`` and ``kept`` verdicts; the number of bytes."""
    contents = contents_of(results.name)
    description = json.loads((results / "claims.json").read_text(encoding="utf-8"))["description"]
    study = StudyResults.load(results, description)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, out.name)
        figures = [adapted(spec) for spec in contents.figures]
        if failures := render(study, folder, figures, contents.claims, has_run_pages=False, kept=kept):
            raise ValueError(f"parts of the report failed: {'; '.join(failures)}")
        keep_shown_figures(folder, out.name)
        for name in COPIED:
            if (results / name).exists():
                shutil.copyfile(results / name, folder / name)
        num_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if num_bytes > MAX_BYTES:
            raise ValueError(f"the report of {results} has {num_bytes:,} bytes; at most {MAX_BYTES:,} are kept")
        for name in ("figures", "tables"):
            shutil.rmtree(out / name, ignore_errors=True)
        shutil.copytree(folder, out, dirs_exist_ok=True)
    return num_bytes


def keep_shown_figures(folder: Path, study: str) -> None:
    """Remove the files of figures, and of run pages, that no page of the documentation shows."""
    first = first_figure(folder)
    shown = {
        f"{name}.svg"
        for name in (*([first[0]] if first else []), *DOCUMENTED.get(study, ()), *FIGURES_FROM_FILES.get(study, ()))
    }
    if absent := sorted(name for name in shown if not (folder / "figures" / name).exists()):
        raise ValueError(f"README and documentation show figures that {study} does not have: {', '.join(absent)}")
    for path in (folder / "figures").iterdir():
        if path.name not in shown:
            path.unlink()
    shutil.rmtree(folder / "pages")


def drawn_figures(folder: Path) -> list[dict[str, Any]]:
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))["figures"]
    return [one for one in figures if not one["absent"] and not one["failure"] and one["section"] != SECTION]


def first_figure(folder: Path) -> tuple[str, str] | None:
    """Name and title of the figure that a report begins with; None where nothing of the study was drawn."""
    return next(((one["name"], one["title"]) for one in drawn_figures(folder)), None)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.publish", description=__doc__.partition("\n")[0])
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of all studies' results")
    parser.add_argument("--out", type=Path, default=PUBLISHED, help="folder of all published reports")
    arguments = parser.parse_args(argv)
    out = arguments.out / arguments.study
    try:
        num_bytes = publish(arguments.results / arguments.study, out)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{num_bytes:,} bytes are now in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
