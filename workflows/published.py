"""What the README shows of a published study other than the paper's: its first figure, and its verdicts."""

import json
from pathlib import Path
from typing import Any

from reports.publish import FIGURES_OF, PUBLISHED
from workflows.markdown import text

ROOT = Path(__file__).parents[1]


def published(study: str) -> str:
    """As Markdown; where it is not published yet, how to."""
    if not (PUBLISHED / study / "claims.json").exists():
        file = f"workflows/studies/{study}.yaml"
        return f"Not published yet: `make run STUDY={file}`, then `make publish STUDY={file}`.\n"
    figures, claims = _read(study, "figures"), _read(study, "claims")
    first = next(figure for figure in figures["figures"] if figure["name"] == FIGURES_OF[study][0])
    folder = (PUBLISHED / study).relative_to(ROOT).as_posix()
    title = text(first["title"])
    answers = "".join(f"- {text(one['statement'])} **{one['verdict']}**\n" for one in claims["claims"])
    report = f"[The report]({folder}/report.html) has rules and evidence (commit {claims['commit']})."
    return f"![{title}]({folder}/figures/{first['name']}.png)\n\n{answers}\n{report}\n"


def _read(study: str, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((PUBLISHED / study / f"{name}.json").read_text(encoding="utf-8"))
    return content
