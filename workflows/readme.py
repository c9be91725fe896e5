"""The tables of README.md that follow from the code; ``python -m workflows.readme`` writes them anew."""

from collections.abc import Sequence
from pathlib import Path

from implementations.methods import METHODS, SETTINGS, Method
from implementations.tasks import TASKS

README = Path(__file__).parents[1] / "README.md"


def refresh(text: str) -> str:
    """``text`` with a new table between every ``<!-- begin name -->`` and ``<!-- end name -->``."""
    for name, table in (("methods", methods_table()), ("settings", settings_table()), ("tasks", tasks_table())):
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, found_begin, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ValueError(f"README.md has no '{begin.strip()}' with '{end}' after it; put them back for the table")
        text = before + begin + table + end + after
    return text


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


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    README.write_text(refresh(README.read_text(encoding="utf-8")), encoding="utf-8")
