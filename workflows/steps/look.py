"""Take a look at a study: which claims are not decided, and which settings get more seeds for it."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from implementations.infrastructure.files import sealed, write_json
from records.study import StudyResults
from records.summary import table_of
from records.usage import metered
from reports.contents import contents_of
from workflows.grid import load_study
from workflows.looks import added_runs, wanting
from workflows.summary import rows_of


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.look", description=__doc__)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="folder of the study's results")
    parser.add_argument("--number", type=int, required=True, help="of the look, from 1")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(argv)
    with metered(arguments.results, "look"):
        write_json(arguments.out, sealed({"failure": None, "look": arguments.number, **_look(arguments)}))
    return 0


def _look(arguments: argparse.Namespace) -> dict[str, list[int] | list[str]]:
    planned = load_study(arguments.study)
    # Not those of later looks, which an earlier call may have left.
    earlier = added_runs(planned, arguments.results)[: arguments.number - 1]
    runs = tuple(run for runs in (planned.runs, *earlier) for run in runs)
    rows = rows_of(replace(planned, runs=runs, plan=None), arguments.results)
    study = StudyResults(arguments.results, table_of(rows), planned.description, planned.looks)
    claims, settings = wanting(contents_of(study.name).claims, study)
    return {"claims": claims, "settings": [one for one in settings if one in planned.growing]}


if __name__ == "__main__":
    sys.exit(main())
