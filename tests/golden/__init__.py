"""Golden numbers: what the suite computed before a refactoring, and must still compute after it.

``make golden`` compares all of them: draws of every method, the smoke study, and the verdicts on published studies.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
#: Changed values of one entry that its line names.
MOST_CHANGES = 3
#: The names that identify something recorded, and the values recorded for it.
Entry = tuple[Mapping[str, Any], Mapping[str, Any]]


def save(name: str, entries: Iterable[Entry], about: Mapping[str, Any]) -> None:
    """Write one JSON file, with a line for each entry so that a diff shows what changed."""
    rows = [json.dumps([_rounded(key), _rounded(values)]) for key, values in entries]
    text = f'{{"about": {json.dumps(about)},\n"entries": [\n' + ",\n".join(rows) + "\n]}\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


def load(name: str) -> tuple[list[Entry], dict[str, Any]]:
    """The recorded entries, and what was recorded about their origin."""
    content = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return [(key, values) for key, values in content["entries"]], content["about"]


def differences(found: Iterable[Entry], recorded: Iterable[Entry], dropped: Iterable[str] = ()) -> list[str]:
    """One line for each entry that differs, is missing or is new; values named in ``dropped`` may be missing."""
    ours, golden = ({_name(key): values for key, values in entries} for entries in (found, recorded))
    lines = [f"{name}: missing" for name in golden.keys() - ours.keys()]
    lines += [f"{name}: new, not recorded" for name in ours.keys() - golden.keys()]
    for name in golden.keys() & ours.keys():
        new, old = _rounded(ours[name]), golden[name]
        changes = [
            f"{column} was {_short(value)} and is {_short(new[column]) if column in new else 'missing'}"
            for column, value in old.items()
            if not (_same(value, new[column]) if column in new else column in dropped)
        ]
        if changes:
            more = f"; {len(changes) - MOST_CHANGES} more" if len(changes) > MOST_CHANGES else ""
            lines.append(f"{name}: {'; '.join(changes[:MOST_CHANGES])}{more}")
    return sorted(lines)


def _name(key: Mapping[str, Any]) -> str:
    """Equal for equal keys, whatever the order of their parts."""
    parts = {name: dict(sorted(value.items())) if isinstance(value, Mapping) else value for name, value in key.items()}
    return " ".join(f"{name}={json.dumps(_rounded(value))}" for name, value in sorted(parts.items()))


def _rounded(value: Any) -> Any:
    """Plain JSON with 12 significant digits; a number that is not finite becomes its name."""
    if isinstance(value, Mapping):
        return {str(name): _rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    return value


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, float) and isinstance(new, (int, float)):
        # Two numbers that differ in their last bit may be rounded to different sides.
        return math.isclose(old, new, rel_tol=1e-11, abs_tol=1e-14)
    return bool(old == new)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
