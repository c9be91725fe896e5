"""The parts of README.md that follow from the code and from the published studies.

``python -m docs._build.readme`` updates them.
"""

from collections.abc import Callable
from pathlib import Path

from docs._build import published
from docs._build.markdown import fenced, table, text
from implementations.card import Card
from implementations.methods import METHODS
from reports.publish import PUBLISHED

README = Path(__file__).parents[2] / "README.md"
EXAMPLE = README.parent / "docs" / "examples" / "start.py"
#: Where the published studies are, as links of the README say it.
PLACE = PUBLISHED.relative_to(README.parent).as_posix()
#: Whether a method samples its target, in the words of the cards.
EXACTNESS = ("exact", "conditional", "biased")


def refresh(content: str, folder: Path = PUBLISHED) -> str:
    """``content`` with a new part between every ``<!-- begin name -->`` and ``<!-- end name -->``."""
    studies = published.published_studies(folder)
    parts: dict[str, Callable[[], str]] = {
        "hero": lambda: hero(studies[0]),
        "findings": lambda: published.short_findings(studies),
        "example": example,
        "verdicts": lambda: published.surprising_verdicts(studies),
        "studies": lambda: published.studies_table(studies, PLACE),
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


def hero(study: published.Published) -> str:
    """The first figure of a study's report, which follows the colour scheme of the page."""
    title, file = study.picture
    return f"![{text(title)}]({PLACE}/{study.name}/{file})\n"


def example() -> str:
    """The code of EXAMPLE, which the documentation shows too, without its docstring."""
    return fenced(EXAMPLE.read_text(encoding="utf-8").partition("\n\n")[2], "python")


def methods_table() -> str:
    """The names of METHODS by what a step reads and by whether it samples its target."""
    found: dict[str, dict[str, list[str]]] = {points: {} for points in ("N", "n M", "n", "as needed", "none")}
    for name, card in METHODS.items():
        found[_points(card)].setdefault(card.exactness, []).append(f"`{name}`")
    rows = [[points, *(", ".join(names.get(one, [])) for one in EXACTNESS)] for points, names in found.items()]
    return table(["points per step", *EXACTNESS], rows)


def _points(card: Card) -> str:
    if not card.is_minibatch:
        return "N"
    if not card.is_compiled and card.acceptance != "always":
        # A loop: as many as a decision asks for.
        return "as needed"
    return "n M" if "num_batches" in card.settings else "n" if "batch_size" in card.settings else "none"


if __name__ == "__main__":
    README.write_text(refresh(README.read_text(encoding="utf-8")), encoding="utf-8")
