"""Render the report of a study from its summary and the files of its runs, whatever became of them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.files import Damaged
from records.study import StudyResults
from records.usage import metered
from reports.contents import contents_of
from reports.render import render
from workflows.runs import read_description


def main(argv: Sequence[str] | None = None) -> int:
    """Render it. A figure that fails is reported on the page and in the study's last lines; the rest is drawn."""
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.report", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    parser.add_argument("--out", type=Path, help="folder of the report, if it is another")
    arguments = parser.parse_args(argv)
    try:
        with metered(arguments.results, "report"):
            study = StudyResults.load(arguments.results, read_description(arguments.results))
            contents = contents_of(study.name)
            for failure in render(study, arguments.out or arguments.results, contents.figures, contents.claims):
                print(f"FAILED: {failure}", file=sys.stderr)
    except (Damaged, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
