"""Render published reports again from their own summaries: after a change of templates, figures or judging.

    python -m reports.rerender --study tall
    python -m reports.rerender

The second line renders all of them. Figures, tables and verdicts come from the summary; a figure or verdict that needs
the files of runs, which are not published, stays the one that was published.
"""

import argparse
import base64
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import escape

from metrics.seeds import Estimate
from records.columns import COLUMNS
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports import PUBLISHED
from reports.answers import NO, OPEN, YES, Evidence, Part
from reports.contents import contents_of
from reports.drawing import Drawing
from reports.judge import Claim, ClaimResult, LeftOut, Verdict
from reports.publish import CLAIMS_FROM_FILES, drawn_figures, rendered
from reports.types import FigureSpec

ANSWERS = {True: YES, False: NO, None: OPEN}


@dataclass(frozen=True)
class KeptDrawing(Drawing):
    """A figure from an earlier rendering, as its file has it."""

    file: bytes = b""

    def html(self, anchors: Mapping[str, str] | None = None) -> str:
        address = f"data:image/svg+xml;base64,{base64.b64encode(self.file).decode('ascii')}"
        return f'<img src="{address}" alt="{escape(self.title)}">'

    def svg(self, *_: object) -> str:
        return self.file.decode()


def with_kept(spec: FigureSpec[StudyResults], folder: Path) -> FigureSpec[StudyResults]:
    """The figure as published in ``folder`` where its runs have no files."""
    file = folder / "figures" / f"{spec.name}.svg"
    entry = next((one for one in drawn_figures(folder) if one["name"] == spec.name), None)

    def draw(study: StudyResults) -> Drawing:
        try:
            return spec.draw(study)
        except Exception:
            if entry is None or not file.exists():
                raise
            runs, numbers = tuple(entry["runs"]), tuple(entry["numbers"])
            return KeptDrawing((), entry["caption"], runs, entry["title"], numbers, file=file.read_bytes())

    return replace(spec, draw=draw)


def kept_results(folder: Path) -> dict[int, ClaimResult]:
    """The published verdicts that need files of runs."""
    claims = {claim.id: claim for claim in contents_of(folder.name).claims}
    entries = json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    wanted = CLAIMS_FROM_FILES.get(folder.name, ())
    return {entry["id"]: result_of(entry, claims[entry["id"]]) for entry in entries if entry["id"] in wanted}


def result_of(entry: Mapping[str, Any], claim: Claim) -> ClaimResult:
    """A verdict as ``claims.json`` has it (``judge.as_json``)."""
    parts = tuple(_part(one) for one in entry["parts"])
    numbers = [number for one in parts for number in one.evidence]
    verdict = Verdict(
        entry["verdict"],
        parts,
        (*numbers, *map(_number, entry["shown"])),
        tuple(entry["runs"]),
        _number(entry["effect"]) if entry["effect"] else None,
        entry["p_value"],
        entry["num_seeds"] and tuple(entry["num_seeds"]),
        note=entry["note"],
    )
    fragile = tuple(LeftOut(**one) for one in entry["fragile"])
    return ClaimResult(claim, verdict, None, None, fragile, entry["registered"])


def _part(entry: Mapping[str, Any]) -> Part:
    evidence, settings = tuple(map(_number, entry["evidence"])), tuple(map(_setting, entry["settings"]))
    return Part(entry["name"], ANSWERS[entry["holds"]], evidence, settings)


def _number(entry: Mapping[str, Any]) -> Evidence:
    value = Estimate(*(entry[name] for name in ("mean", "low", "high", "num_seeds", "num_missing")))
    texts = {name: entry[name] for name in ("label", "kind", "unit", "side", "over")}
    margins, settings = tuple(entry["margins"]), tuple(map(_setting, entry["settings"]))
    return Evidence(value=value, margins=margins, settings=settings, answer=ANSWERS[entry["holds"]], **texts)


def _setting(columns: Mapping[str, Any]) -> SettingRuns:
    return SettingRuns(({**dict.fromkeys(COLUMNS), **columns},))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.rerender", description=__doc__.partition("\n")[0])
    parser.add_argument("--study", help="name of the study; all of them if not given")
    parser.add_argument("--out", type=Path, default=PUBLISHED, help="folder of all published reports")
    arguments = parser.parse_args(argv)
    names = (
        [arguments.study]
        if arguments.study
        else sorted(path.parent.name for path in arguments.out.glob("*/report.html"))
    )
    for name in names:
        folder = arguments.out / name
        if not (folder / "summary.csv").exists():
            print(f"no report of {name} has been published in {arguments.out}", file=sys.stderr)
            return 1
        try:
            num_bytes = rendered(folder, folder, partial(with_kept, folder=folder), kept_results(folder))
        except ValueError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{num_bytes:,} bytes are now in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
