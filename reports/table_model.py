"""A table of a report: typed rows, as CSV and as the cells that the page shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from metrics.seeds import Estimate
from records.columns import COLUMNS, DERIVED
from records.display import estimate_parts, format_given, format_number, method_name

Row = Mapping[str, Any]

#: A page shows at most so many columns of a table at first; a reader can choose others.
NUM_SHOWN = 8


@dataclass(frozen=True)
class Cell:
    """A cell of the page: its text, and the number that a reader can sort it by."""

    text: str = ""
    #: A second line: the settings of a method, or an interval.
    detail: str = ""
    key: float | None = None
    #: Classes of the style sheet.
    style: str = ""
    link: str = ""
    #: The tooltip.
    title: str = ""
    #: The text that the cell unfolds to.
    folded: str = ""

    @property
    def classes(self) -> str:
        return " ".join(filter(None, ["" if self.key is None else "number", self.style]))


@dataclass(frozen=True)
class Column:
    """A column of the page, and how it shows the entry of a row."""

    #: The entry; a column without any entry is left out.
    name: str
    heading: str = ""
    #: text, number, given (a number that somebody chose), estimate or method; or a function that makes a row's cell.
    kind: str | Callable[[Row], Cell] = "text"
    #: The tooltip of the heading; by default what ``records.columns`` says.
    meaning: str = ""
    #: A heading above the headings.
    group: str = ""
    #: Classes of a row's cell.
    style: Callable[[Row], str] = lambda row: ""
    #: The words for a value, where not the usual ones.
    words: Callable[[Any], str] | None = None

    @property
    def title(self) -> str:
        column = (COLUMNS | DERIVED).get(self.name)
        return self.meaning or (column.meaning if column else "")

    def cell(self, row: Row) -> Cell:
        if callable(self.kind):
            return self.kind(row)
        value: Any = row.get(self.name)
        style = self.style(row)
        if self.kind == "method":
            return method_cell(row["method"], row.get("setting") or "")
        if self.kind == "text":
            return Cell("" if value is None else (self.words or str)(value), style=style)
        if _is_empty(value):
            return Cell("–", style=style)
        if self.kind == "estimate":
            return Cell(*estimate_parts(value), value.mean, style)
        words = self.words or (format_number if self.kind == "number" else format_given)
        return Cell(words(float(value) if self.kind == "given" else value), key=float(value), style=style)


def method_cell(method: str, detail: str = "") -> Cell:
    """A method by its label and mark, with its settings on a second line."""
    return Cell(method_name(method), detail, style=f"method method-{method}")


@dataclass(frozen=True)
class Table:
    """Rows under columns. Rows may have entries that no column shows: the CSV file has them all."""

    #: The name of its CSV file.
    name: str
    caption: str
    rows: Sequence[Row]
    columns: Sequence[Column] = ()
    #: The section of the page.
    section: str = ""
    #: A heading of its own, below that of the section.
    heading: str = ""
    #: Names of the columns to show at first, the most important first; all if empty.
    first: Sequence[str] = ()
    #: Rows to fold away, and the words for them.
    is_folded: Callable[[Row], bool] = lambda row: False
    folded_as: str = ""
    #: Where the file is, if not among the tables of the report; "" for a table without a file.
    file: str | None = None

    @property
    def id(self) -> str:
        return self.name.replace("_", "-")

    @property
    def csv(self) -> str:
        return f"tables/{self.name}.csv" if self.file is None else self.file

    @property
    def shown(self) -> Sequence[Column]:
        """The columns with an entry in some row."""
        return [one for one in self.columns if any(not _is_empty(row.get(one.name)) for row in self.rows)]

    @property
    def at_first(self) -> set[str]:
        present = [column.name for column in self.shown]
        return set([name for name in self.first if name in present][:NUM_SHOWN] or present)

    @property
    def numeric(self) -> set[str]:
        """The columns of numbers; their headings are on the right."""
        return {column.name for column in self.shown if any(column.cell(row).key is not None for row in self.rows)}

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The headings above the headings, each with its number of columns; none where columns have no groups."""
        found: dict[str, int] = {}
        for column in self.shown:
            found[column.group] = found.get(column.group, 0) + 1
        return list(found.items()) if any(found) else []

    def parts(self) -> list[tuple[bool, list[tuple[Row, list[Cell]]]]]:
        """The rows with their cells: those to show, then those to fold away (True)."""
        shown = self.shown
        cells = [(row, [column.cell(row) for column in shown]) for row in self.rows]
        parts = [(flag, [pair for pair in cells if self.is_folded(pair[0]) == flag]) for flag in (False, True)]
        return [(flag, pairs) for flag, pairs in parts if pairs]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as the CSV file has them."""
        return pd.DataFrame([flat(row) for row in self.rows])

    def to_csv(self) -> str:
        """The table as CSV, in which a spreadsheet takes no text for a formula."""
        return self.frame.map(_no_formula).to_csv(index=False, lineterminator="\n")


def filled(rows: Sequence[Row]) -> list[Row]:
    """The rows without the entries that are empty in all of them."""
    names = {name for row in rows for name, value in row.items() if not _is_empty(value)}
    return [{name: value for name, value in row.items() if name in names} for row in rows]


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, Estimate) and value.mean is None)


def flat(row: Row) -> dict[str, Any]:
    """An estimate in three columns, a tuple in one text, and counts as ``2 skipped, 1 failed``."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            found |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, tuple):
            found[name] = (" " if name == "runs" else "; ").join(value)
        else:
            found[name] = counts_text(value) if isinstance(value, Mapping) else value
    return found


def counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _no_formula(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
