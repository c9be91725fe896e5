"""Keep the report of a finished study with the code, as ``reports/published/<study>``.

    python -m reports.publish --study paper
    python -m docs._build.readme

The second line renews what the README shows of it; ``make publish`` does both. After a change of templates, figures or
judging, ``reports.again`` renders published reports without their runs.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from records.checksums import check_list, list_of
from records.summary import is_complete, read_rows, report_failures
from reports import ledger
from reports.benchmarks import SECTION

PUBLISHED = Path(__file__).parent / "published"
#: Beside pictures and tables: the page, what it links to, and what the README is made of.
FILES = ("report.html", "claims.json", "figures.json", "summary.csv")
#: Where the time went, which the page shows; it need not be there.
USAGE = "usage.log"
#: Figures that pages of the documentation show, beside the first one of every study.
DOCUMENTED = {"paper": ("figure1_linear", "figure3_reliability", "targets", "bias_evaluations")}
#: Every clone carries it, so it stays small.
MAX_BYTES = 10 * 2**20


def publish(results: Path, out: Path) -> int:
    """Copy the report in ``results`` to ``out``, in place of an earlier one; the number of bytes that were copied.

    What is not whole is refused with a ValueError, and the earlier one stays.
    """
    if not (results / "report.html").exists():
        raise ValueError(f"no report at {results / 'report.html'}; run the study first")
    for name in ("summary.csv", "report.html"):
        if list_of(results / name).exists():
            check_list(list_of(results / name), name)
    rows = read_rows(results / "summary.csv")
    if not is_complete(rows):
        raise ValueError(f"{results} has runs that failed or are missing; the study's own command makes them")
    failures = report_failures(results)
    if failures:
        raise ValueError(f"parts of the report failed: {'; '.join(failures)}")
    if any(row["git_is_dirty"] == "True" for row in rows):
        raise ValueError(f"{results} has runs of code that is in no commit; commit, remove these results and run again")
    first = first_figure(results)
    shown = dict.fromkeys([*([first[0]] if first else []), *DOCUMENTED.get(results.name, ())])
    pictures = [results / "figures" / f"{name}.svg" for name in shown]
    absent = [picture.name for picture in pictures if not picture.exists()]
    if absent:
        raise ValueError(f"README and documentation show figures that {results} does not have: {', '.join(absent)}")
    files = [*(results / name for name in FILES), *(results / "tables").glob("*.csv"), *pictures]
    files += [results / USAGE] if (results / USAGE).exists() else []
    num_bytes = sum(path.stat().st_size for path in files)
    if num_bytes > MAX_BYTES:
        raise ValueError(
            f"the report of {results} has {num_bytes:,} bytes; at most {MAX_BYTES:,} are kept with the code"
        )
    # Other files there are not of this report.
    for folder in ("figures", "tables"):
        shutil.rmtree(out / folder, ignore_errors=True)
    for file in files:
        copy = out / file.relative_to(results)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    page = out / "report.html"
    page.write_text(without_run_pages(page.read_text(encoding="utf-8")), encoding="utf-8")
    ledger.enter(out.parent / ledger.NAME, out.name, rows)
    return num_bytes


def drawn_figures(folder: Path) -> list[dict[str, str]]:
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))["figures"]
    return [one for one in figures if not one["absent"] and not one["failure"] and one["section"] != SECTION]


def first_figure(folder: Path) -> tuple[str, str] | None:
    """Name and title of the figure that a report begins with; None where nothing of the study was drawn."""
    return next(((one["name"], one["title"]) for one in drawn_figures(folder)), None)


def without_run_pages(html: str) -> str:
    """The report without the pages of single runs, which are too many to keep with the code: no links, no word."""
    unlinked = re.sub(r'<a class="run-page" href="[^"]*">(.*?)</a>', r"\1", html)
    return re.sub(r'<span class="run-pages">.*?</span>', "", unlinked, flags=re.DOTALL)


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
