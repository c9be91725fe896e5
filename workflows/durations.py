"""How long studies take and where the time goes, as tables of the documentation, from the published logs."""

from pathlib import Path

from records.usage import WORK, budget, read_usage
from reports.publish import PUBLISHED
from workflows.markdown import table, text
from workflows.study import read_yaml

STUDIES = Path(__file__).parent / "studies"
#: Share of a study's time that a kind of work has at least somewhere, to have a row.
LEAST = 0.02


def studies_table(studies: Path = STUDIES, published: Path = PUBLISHED) -> str:
    """One row per study of the suite: what it is about, and the processor time of the published runs."""
    rows = []
    for file in sorted(studies.glob("*.yaml")):
        seconds = sum(budget(read_usage(published / file.stem)).values())
        rows.append([f"`{file.stem}`", text(read_yaml(file)["description"]), f"{seconds / 60:.0f}" if seconds else ""])
    return table(["study", "about", "processor minutes"], rows)


def budgets_table(published: Path = PUBLISHED) -> str:
    """One row per kind of work: its share of the processor time of every published study."""
    found = {path.parent.name: budget(read_usage(path.parent)) for path in sorted(published.glob("*/usage.log"))}
    budgets = {name: seconds for name, seconds in found.items() if seconds}
    totals = {name: sum(seconds.values()) for name, seconds in budgets.items()}
    shares = {
        kind: [budgets[name].get(kind, 0.0) / total for name, total in totals.items()]
        for kind in dict.fromkeys(kind for seconds in budgets.values() for kind in seconds)
    }
    large = sorted((kind for kind in shares if max(shares[kind]) >= LEAST), key=lambda kind: -sum(shares[kind]))
    rest = [1 - sum(shares[kind][place] for kind in large) for place in range(len(totals))]
    rows = [[kind, text(WORK.get(kind, "")), *map(_percent, shares[kind])] for kind in large]
    rows += [["the rest", "", *map(_percent, rest)]]
    rows += [["all", "processor seconds", *(f"{total:,.0f}" for total in totals.values())]]
    return table(["work", "what it is", *totals], rows)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share else ""
