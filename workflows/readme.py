"""The parts of README.md that follow from the code and from the published study.

``python -m workflows.readme`` renews them.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from implementations.card import Card
from implementations.methods import METHODS
from records.study import StudyResults
from reports.findings import findings
from reports.publish import PUBLISHED
from reports.types import OUTCOMES
from workflows.markdown import fenced, table, text
from workflows.published import published

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = README.parent / "docs" / "examples" / "start.py"
STUDY = "paper"
#: Of each study: the report has them all.
NUM_FINDINGS = 2
#: The figure that says most at a glance.
HERO = "figure1_linear"


def refresh(content: str) -> str:
    """``content`` with a new part between every ``<!-- begin name -->`` and ``<!-- end name -->``."""
    parts: dict[str, Callable[[], str]] = {
        "hero": lambda: hero(_published("figures")),
        # What the suite adds, then what became of the paper's claims.
        "findings": lambda: "".join(found(StudyResults.load(PUBLISHED / study)) for study in ("tall", STUDY)),
        "example": example,
        "verdicts": lambda: verdicts(_published("claims")),
        "tall": lambda: published("tall"),
        "methods": methods_table,
    }
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, found_begin, rest = content.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ValueError(f"README.md has no '{begin.strip()}' with '{end}' after it; put them back for its part")
        content = before + begin + part() + end + after
    return content


def _published(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((PUBLISHED / STUDY / f"{name}.json").read_text(encoding="utf-8"))
    return content


def hero(content: dict[str, Any]) -> str:
    """The figure HERO with its title; ``content`` is that of figures.json."""
    figure = next(figure for figure in content["figures"] if figure["name"] == HERO)
    path = (PUBLISHED / STUDY / "figures" / f"{HERO}.png").relative_to(README.parent)
    return f"![{text(figure['title'])}]({path})\n"


def found(study: StudyResults) -> str:
    """The first findings of a study, one item each."""
    return "".join(f"- **{text(one.headline)}** {text(one.text)}\n" for one in findings(study)[:NUM_FINDINGS])


def example() -> str:
    """The code of EXAMPLE, which the documentation shows too, without its docstring."""
    return fenced(EXAMPLE.read_text(encoding="utf-8").partition("\n\n")[2], "python")


def verdicts(content: dict[str, Any]) -> str:
    """The claims of the paper and what became of each; ``content`` is that of claims.json."""
    claims = content["claims"]
    counts = Counter(claim["verdict"] for claim in claims)
    counted = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    origin = f"Of {len(claims)} claims: {counted} (commit {content['commit']}, {content['finished']}).\n\n"
    rows = [[str(claim["id"]), text(claim["statement"]), f"**{claim['verdict']}**"] for claim in claims]
    return origin + table(["", "claim of the paper, in our words", "verdict"], rows)


def methods_table() -> str:
    """The rows of METHODS: what, is its target what it samples, and the points that a step reads."""
    rows = [[f"`{name}`", text(card.summary), card.exactness, _points(card)] for name, card in METHODS.items()]
    lines = table(["method", "what", "exact?", "points per step"], rows)
    return f"<details>\n<summary>All {len(rows)} methods</summary>\n\n{lines}\n</details>\n"


def _points(card: Card) -> str:
    if not card.is_minibatch:
        return "N"
    if not card.is_compiled and card.acceptance != "always":
        # A loop: as many as a decision asks for.
        return "as needed"
    return "n M" if "num_batches" in card.settings else "n" if "batch_size" in card.settings else "none"


if __name__ == "__main__":
    README.write_text(refresh(README.read_text(encoding="utf-8")), encoding="utf-8")
