"""What ``make bench`` measured, as a table; --keep makes it the baseline and the plot of docs/performance.md."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports.benchmarks import KEPT, ROOT, Benchmarks, Row, is_met, load

PLOT = KEPT.with_name("performance.svg")


def rows_of(content: dict[str, Any]) -> list[Row]:
    """The rows in pytest-benchmark's file; none is an error, because nothing measured is not a result."""
    rows: list[Row] = [benchmark["extra_info"] for benchmark in content["benchmarks"]]
    if not rows:
        raise SystemExit("the file has no benchmarks: nothing was measured")
    return rows


def lines(rows: Sequence[Row]) -> list[str]:
    """One line per row, those with a target first."""
    ordered = sorted(rows, key=lambda row: row.get("target") is None)
    return [
        f"{row['ratio']:8.3f}  [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]  {_promise(row):14s}"
        f"{row['microseconds']:10.1f} µs   {row['what']}  /  {row['baseline']}"
        for row in ordered
    ]


def _promise(row: Row) -> str:
    met = is_met(row)
    return "" if met is None else f"≤ {row['target']:g} {'met' if met else 'not met'}"


def plot(benchmarks: Benchmarks, path: Path) -> None:
    """The figure of docs/performance.md, drawn as the report draws its own."""
    from reports.figures.speed import draw_overview

    path.write_text(draw_overview(benchmarks).svg(), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.summary", description=__doc__)
    parser.add_argument("measured", type=Path, help="the JSON of pytest-benchmark")
    parser.add_argument("--keep", action="store_true", help=f"into {KEPT.relative_to(ROOT)}, with the plot beside it")
    arguments = parser.parse_args(argv)
    rows = rows_of(json.loads(arguments.measured.read_text(encoding="utf-8")))
    print(*lines(rows), sep="\n")
    if arguments.keep:
        from implementations.infrastructure.files import write_json
        from implementations.infrastructure.provenance import git_state, machine, versions

        write_json(KEPT, {"rows": rows, "versions": versions(), **git_state(), **machine()})
        plot(load(), PLOT)
        print(f"kept in {KEPT.relative_to(ROOT)} and {PLOT.name}; now: python -m docs._build.readme")


if __name__ == "__main__":
    main()
