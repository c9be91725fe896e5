"""What the suite's own benchmarks measured, as it is kept with the code, and the words that tables use."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from records.display import format_given, format_number, method_name

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results" / "baselines" / "benchmarks.json"
#: The heading in the report that they stand under.
SECTION = "How fast the samplers are"
#: How to get them.
WAY_OUT = "make bench, then python -m benchmarks.bench --keep, measures and keeps them"

#: Of one benchmark: what was timed against what, both by turns. A row has these, and what its kind asks for.
Row = dict[str, Any]
TEXTS = ("kind", "what", "baseline")
NUMBERS = ("microseconds", "baseline_microseconds", "ratio", "ratio_low", "ratio_high")

#: Of a table of rows.
HEADINGS = ("a step of", "against", "µs", "ratio (quartiles)", "at most", "met?")


@dataclass(frozen=True, eq=False)
class Benchmarks:
    """The rows of one measurement, and where they come from."""

    rows: Sequence[Row]
    versions: Mapping[str, str]
    cpu: str
    num_cpus: int
    system: str
    git_commit: str | None
    git_is_dirty: bool | None

    def of_kind(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row["kind"] == kind]

    @property
    def targets(self) -> list[Row]:
        """The rows with a performance target: the largest ratio they may have."""
        return [row for row in self.rows if row.get("target") is not None]


def load(path: Path = KEPT) -> Benchmarks:
    """The benchmarks in a file; a ValueError says why there are none, and how to get them."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = Benchmarks(**{field.name: content[field.name] for field in fields(Benchmarks)})
        if not isinstance(found.versions, dict):
            raise ValueError(f"versions is {found.versions!r}, not one per package")
        mistakes = [f"row {number}: {mistake}" for number, row in enumerate(found.rows) for mistake in _mistakes(row)]
    except FileNotFoundError:
        raise ValueError(f"no benchmarks are kept in {name}; {WAY_OUT}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".replace(str(path), str(name))
        raise ValueError(f"the benchmarks in {name} cannot be read ({reason}); {WAY_OUT}") from error
    if mistakes or not found.rows:
        raise ValueError(f"the benchmarks in {name} cannot be read ({(mistakes or ['no rows'])[0]}); {WAY_OUT}")
    return found


def _mistakes(row: Row) -> list[str]:
    """What a table or figure would stumble over."""
    texts = [f"{name} is {row.get(name)!r}, not a text" for name in TEXTS if not isinstance(row.get(name), str)]
    numbers = {name: row.get(name) for name in NUMBERS} | (
        {} if row.get("target") is None else {"target": row["target"]}
    )
    return texts + [
        f"{name} is {value!r}, not a number above 0"
        for name, value in numbers.items()
        if not isinstance(value, (int, float)) or not 0 < value < math.inf
    ]


def is_met(row: Row) -> bool | None:
    """Is the performance target met, as measured? None where there is none."""
    return None if row.get("target") is None else bool(row["ratio"] <= row["target"])


def ratio_text(row: Row) -> str:
    """``1.58 (1.52 to 1.63)``: the median of the rounds' ratios, and its quartiles."""
    ratio, low, high = (
        format_number(row[name], 3 if row[name] >= 1 else 2) for name in ("ratio", "ratio_low", "ratio_high")
    )
    return f"{ratio} ({low} to {high})"


def named(text: str) -> str:
    """``PBNN, N = 10,000`` for ``pbnn, N = 10,000``; what is no method of ours stays as it is."""
    method, comma, rest = text.partition(", ")
    return f"{method_name(method)}{comma}{rest}"


def words(row: Row) -> dict[str, str]:
    """A row as tables show it, by HEADINGS; the last two are empty without a performance target."""
    limit = "" if row.get("target") is None else format_given(row["target"])
    met = {True: "yes", False: "no", None: ""}[is_met(row)]
    texts = (named(row["what"]), named(row["baseline"]), f"{row['microseconds']:,.1f}", ratio_text(row), limit, met)
    return dict(zip(HEADINGS, texts, strict=True))
