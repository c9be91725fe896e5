"""The parts of README.md that follow from the code and from the published study.

``python -m workflows.readme`` writes them anew.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from implementations.methods import METHODS, SETTINGS, Method
from implementations.tasks import TASKS
from reports.benchmarks import HEADINGS, Benchmarks, is_met, load, words
from reports.parts import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from reports.publish import PUBLISHED, README_FIGURES

README = Path(__file__).parents[1] / "README.md"
STUDY = "paper"


def refresh(text: str) -> str:
    """``text`` with a new part between every ``<!-- begin name -->`` and ``<!-- end name -->``."""
    parts = {
        "verdicts": verdicts(_published("claims")),
        "figures": figures(_published("figures")),
        "methods": methods_table(),
        "settings": settings_table(),
        "tasks": tasks_table(),
        "performance": performance(load()),
    }
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, found_begin, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ValueError(f"README.md has no '{begin.strip()}' with '{end}' after it; put them back for its part")
        text = before + begin + part + end + after
    return text


def _published(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((PUBLISHED / STUDY / f"{name}.json").read_text(encoding="utf-8"))
    return content


def verdicts(content: dict[str, Any]) -> str:
    """The claims of the paper and what became of each; ``content`` is that of claims.json."""
    claims = content["claims"]
    counts = Counter(claim["verdict"] for claim in claims)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE))
    origin = f"Of {len(claims)} claims: {told} (commit {content['commit']}, {content['finished']}).\n\n"
    rows = [
        [str(claim["id"]), _text(claim["statement"]), f"**{claim['verdict']}**", _text(claim["reason"])]
        for claim in claims
    ]
    return origin + _markdown(["", "claim", "verdict", "why"], rows)


def figures(content: dict[str, Any]) -> str:
    """The figures of README_FIGURES with their captions; ``content`` is that of figures.json."""
    by_name = {figure["name"]: figure for figure in content["figures"]}
    folder = (PUBLISHED / STUDY / "figures").relative_to(README.parent)
    shown = [by_name[name] for name in README_FIGURES]
    return "\n".join(
        f"**{_text(figure['title'])}**\n\n![{_text(figure['title'])}]({folder}/{figure['name']}.png)\n\n"
        f"<details><summary>What to see</summary>\n\n{_text(figure['caption'])}\n\n</details>\n"
        for figure in shown
    )


def _text(text: str) -> str:
    """A text in one line that Markdown takes as it is."""
    return re.sub(r"([<>*`\[\]\\])", r"\\\1", " ".join(text.split()))


def methods_table() -> str:
    """The rows of METHODS."""
    header = [
        "method",
        "target weight",
        "loss difference",
        "proposal",
        "acceptance",
        "keeps its target?",
        "in the paper",
    ]
    rows = [
        [
            f"`{name}`",
            {"data": "N", "batch": "n"}[method.weight],
            _estimate(method),
            {
                "none": "random walk",
                "all": "Langevin, full gradient",
                "batch": "Langevin, mini-batch gradient",
            }[method.gradient],
            method.acceptance.replace("_", ", "),
            method.target,
            f"*{method.paper}*",
        ]
        for name, method in METHODS.items()
    ]
    return _markdown(header, rows)


def _estimate(method: Method) -> str:
    if method.estimate == "batches":
        return "1 mini-batch" if method.num_batches == 1 else "M mini-batches"
    return {"all": "all N points", "none": "–"}[method.estimate]


def settings_table() -> str:
    """The rows of SETTINGS."""
    rows = [[f"`{name}`", setting.help, ", ".join(setting.choices or ())] for name, setting in SETTINGS.items()]
    return _markdown(["setting", "meaning", "names it takes"], rows)


def tasks_table() -> str:
    """The rows of TASKS."""
    rows = [
        [
            f"`{task.name}`",
            task.summary,
            f"{task.num_points:,}",
            f"{task.num_parameters()}",
            f"{task.num_parameters('all'):,}",
        ]
        for task in TASKS.values()
    ]
    return _markdown(["task", "what", "N", "parameters, last layer", "all layers"], rows)


def performance(benchmarks: Benchmarks) -> str:
    """What is promised of the samplers' speed, and what was measured."""
    rows = [list((words(row) | ({} if is_met(row) else {"met?": "**no**"})).values()) for row in benchmarks.promises]
    origin = f"\n{benchmarks.cpu}, jax {benchmarks.versions['jax']}, torch {benchmarks.versions['torch']}.\n"
    return _markdown(HEADINGS, rows) + origin


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    README.write_text(refresh(README.read_text(encoding="utf-8")), encoding="utf-8")
