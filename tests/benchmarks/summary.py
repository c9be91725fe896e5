"""What ``make bench`` measured, as a table; --keep makes it the baseline and the plot that README shows."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "baselines" / "benchmarks.json"
PLOT = KEPT.with_name("performance.svg")

Row = dict[str, Any]


def rows_of(content: dict[str, Any]) -> list[Row]:
    """The rows in pytest-benchmark's file; none is an error, because nothing measured is not a result."""
    rows: list[Row] = [benchmark["extra_info"] for benchmark in content["benchmarks"]]
    if not rows:
        raise SystemExit("the file has no benchmarks: nothing was measured")
    return rows


def lines(rows: Sequence[Row]) -> list[str]:
    """One line a row, those with a promise first."""
    ordered = sorted(rows, key=lambda row: row.get("target") is None)
    return [
        f"{row['ratio']:8.3f}  [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]  {_promise(row):14s}"
        f"{row['microseconds']:10.1f} µs   {row['what']}  /  {row['baseline']}"
        for row in ordered
    ]


def _promise(row: Row) -> str:
    if row.get("target") is None:
        return ""
    return f"≤ {row['target']:g} {'met' if row['ratio'] <= row['target'] else 'not met'}"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Steps against their bare work, and the cost of a step as the data grow."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    from reports.style import COLOURS, theme

    with theme():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
        bare = [row for row in rows if row["kind"] == "step" and row["baseline"].startswith("its bare")]
        methods = list(dict.fromkeys(row["method"] for row in bare))
        for backend, marker in (("jax-cpu", "o"), ("torch-cpu", "s")):
            for chains, is_filled in ((1, False), (4, True)):
                chosen = [
                    row
                    for row in bare
                    if row["backend"] == backend and row["chains"] == chains and row["shape"] == "mnist"
                ]
                left.plot(
                    [row["ratio"] for row in chosen],
                    [methods.index(row["method"]) for row in chosen],
                    marker,
                    fillstyle="full" if is_filled else "none",
                    color="#1f77b4" if backend == "jax-cpu" else "#d95f02",
                    label=f"{backend}, {chains} chain{'s' * (chains > 1)}",
                )
        left.set_yticks(range(len(methods)), methods)
        left.invert_yaxis()
        left.set_xscale("log")
        left.axvline(1, color="0.6", linewidth=0.8)
        left.set_xlabel("step, over its bare likelihoods and gradients (mnist shape)")
        left.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
        for method in dict.fromkeys(row["method"] for row in rows if row["kind"] == "points"):
            line = [row for row in rows if row["kind"] == "points" and row["method"] == method]
            right.plot(
                [10_000, *(row["num_points"] for row in line)],
                [line[0]["baseline_microseconds"], *(row["microseconds"] for row in line)],
                "o-" if method != "rows" else "x--",
                color=COLOURS.get(method, "0.5"),
                label=method if method != "rows" else "reading a pbnn step's rows",
            )
        right.set(xscale="log", yscale="log", xlabel="training points N", ylabel="microseconds a step, jax, 1 chain")
        right.legend(fontsize="small")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.summary", description=__doc__)
    parser.add_argument("measured", type=Path, help="the JSON of pytest-benchmark")
    parser.add_argument("--keep", action="store_true", help=f"into {KEPT.relative_to(ROOT)}, with the plot beside it")
    arguments = parser.parse_args(argv)
    rows = rows_of(json.loads(arguments.measured.read_text(encoding="utf-8")))
    print(*lines(rows), sep="\n")
    if arguments.keep:
        from implementations.files import write_json
        from implementations.provenance import git_state, machine, versions

        write_json(KEPT, {"rows": rows, "versions": versions(), **git_state(), **machine()})
        plot(rows, PLOT)
        print(f"kept in {KEPT.relative_to(ROOT)} and {PLOT.name}; now: python -m workflows.readme")


if __name__ == "__main__":
    main()
