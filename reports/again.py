"""Render a published report again from its own summary, without the runs: after a change of templates or judging.

python -m reports.again --study tall
python -m docs._build.readme
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from records.study import StudyResults
from reports.contents import contents_of
from reports.publish import PUBLISHED, drawn_figures, publish
from reports.render import render


def rendered_again(published: Path, scratch: Path) -> Path:
    """A folder in ``scratch`` with a published report, rendered by the present code from its own summary.

    Some figures need the files of runs, which are not published. Where one would be lost, that is a ValueError.
    """
    folder = scratch / published.name
    shutil.copytree(published, folder)
    head = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    study, contents = StudyResults.load(folder, head["description"]), contents_of(published.name)
    before = _names(folder) & {spec.name for spec in contents.figures}
    render(study, folder, contents.figures, contents.claims)
    lost = sorted(before - _names(folder))
    if lost:
        raise ValueError(
            f"without the runs of {study.name} there are no figures {', '.join(lost)}; run the study and publish it"
        )
    return folder


def _names(folder: Path) -> set[str]:
    return {figure["name"] for figure in drawn_figures(folder)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.again", description=__doc__.partition("\n")[0])
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--out", type=Path, default=PUBLISHED, help="folder of all published reports")
    arguments = parser.parse_args(argv)
    out = arguments.out / arguments.study
    if not out.exists():
        print(f"no report of {arguments.study} has been published in {arguments.out}", file=sys.stderr)
        return 1
    try:
        with tempfile.TemporaryDirectory() as scratch:
            num_bytes = publish(rendered_again(out, Path(scratch)), out)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{num_bytes:,} bytes are now in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
