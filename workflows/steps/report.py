"""Render the report of a study from its summary and the files of its runs, whatever became of them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.claims import CLAIMS
from reports.figures import FIGURES
from reports.render import render
from reports.study import StudyResults
from workflows.grid import load_study


def main(argv: Sequence[str] | None = None) -> int:
    """Render it. A figure that fails is told by the page and the study's last lines; the page is wanted anyway."""
    import matplotlib as mpl

    parser = argparse.ArgumentParser(prog="python -m workflows.steps.report", description=__doc__)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    parser.add_argument("--out", type=Path, help="folder of the report, if it is another")
    arguments = parser.parse_args(argv)
    # There need be no screen.
    mpl.use("agg")
    study = StudyResults.load(arguments.results, load_study(arguments.study).description)
    for failure in render(study, arguments.out or arguments.results, FIGURES, CLAIMS):
        print(f"FAILED: {failure}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
