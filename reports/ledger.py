"""Which seeds of a study have been published, and which code had run them then.

A seed gives the same numbers again: whoever changes a rule, or the code that applies it, and then runs the same seeds
has already seen what it is applied to.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NAME = "ledger.json"
FILE = Path(__file__).parent / "published" / NAME


@dataclass(frozen=True)
class Publication:
    """Seeds of a study that were published for the first time."""

    date: str
    #: Those of the code that ran them, by which rules and judges can be looked up.
    commits: list[str]
    seeds: list[int]


def publications(study: str, file: Path | None = None) -> list[Publication]:
    """All of a study, the first one first; none of a study that is not on file."""
    path = file or FILE
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [Publication(**one) for one in content.get(study, [])]


def published_before(study: str, seeds: Collection[int], commits: Collection[str]) -> list[Publication]:
    """Publications with some of these seeds, and only those, unless all runs of ``commits`` are of that publication."""
    found = [replace(one, seeds=sorted(set(one.seeds) & set(seeds))) for one in publications(study)]
    return [one for one in found if one.seeds and not set(commits) <= set(one.commits)]


def enter(file: Path, study: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Enter the seeds among rows of a summary that have not been published yet."""
    known = {seed for one in publications(study, file) for seed in one.seeds}
    new = [row for row in rows if row.get("git_commit") and int(row["seed"]) not in known]
    if not new:
        return
    commits, seeds = sorted({row["git_commit"] for row in new}), sorted({int(row["seed"]) for row in new})
    content = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    entry = asdict(Publication(datetime.now(UTC).date().isoformat(), commits, seeds))
    content.setdefault(study, []).append(entry)
    file.write_text(as_text(content), encoding="utf-8")


def as_text(content: Mapping[str, list[dict[str, Any]]]) -> str:
    """One line per publication, so that a change is seen at a glance."""
    studies = []
    for name in sorted(content):
        lines = ",\n".join(f"  {json.dumps(one)}" for one in content[name])
        studies.append(f" {json.dumps(name)}: [\n{lines}\n ]")
    return "{\n" + ",\n".join(studies) + "\n}\n"
