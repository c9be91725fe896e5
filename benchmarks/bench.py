"""What ``make bench`` measures: steps against the work they cannot avoid, as data grow, and against other libraries.

pytest-benchmark runs and times the comparisons: ``make bench ARGS="-k peer"`` selects some. ``--quick`` does one
comparison of every kind on little data, in pieces so short that the numbers mean nothing: all that it tells is whether
they run. ``python -m benchmarks.bench`` prints the last measurement, and with ``--keep`` makes it the one that
docs/performance.md shows.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks.explicit_noise import METROPOLIS
from benchmarks.peers import PEERS, deviation_of_moments
from benchmarks.stopwatch import Work, ratios_of, seconds_of, sized
from benchmarks.work import bare_work, compiled_sampler, draw_rows, has_bare_work, settings_of, steps, synthetic
from implementations.control_variates.proxies import num_columns
from implementations.methods import METHODS
from reports.benchmarks import KEPT, ROOT, Benchmarks, Row, is_met, load

MEASURED = ROOT / "results" / "benchmarks.json"
PLOT = KEPT.with_name("performance.svg")
ROUNDS = 11
FEWEST, MANY = 10_000, (100_000, 1_000_000, 10_000_000)
#: The performance targets of steps against their bare work; other steps have none.
TARGETS = {
    ("mnist", "jax-cpu", 1, "pbnn"): 1.4,
    ("mnist", "torch-cpu", 4, "pbnn"): 1.8,
    ("mnist", "jax-cpu", 1, "pbnn_cv"): 1.6,
}


class Benchmark(NamedTuple):
    """A comparison that has not been made yet."""

    #: What its row says before anything is measured.
    row: Row
    #: The work, what it is compared with, and perhaps two more whose ratio the first two are divided by.
    works: Callable[[], Sequence[Work]]
    #: What its row says of something other than time.
    more: Callable[[], Row] = dict
    rounds: int = ROUNDS

    @property
    def name(self) -> str:
        return f"{self.row['kind']}: {self.row['what']} / {self.row['baseline']}"


class Missing(Exception):
    """The library of a peer is not installed."""


def benchmarks(is_quick: bool = False) -> Iterator[Benchmark]:
    """All benchmarks; quickly, those that differ in more than size."""
    for shape in ("regression",) if is_quick else ("regression", "mnist"):
        for backend in ("jax-cpu", "torch-cpu"):
            for chains in (1,) if is_quick else (1, 4):
                for method in filter(has_bare_work, METROPOLIS):
                    yield against_bare_work(shape, backend, chains, method, is_quick)
    yield against_full_data()
    for num_points in (2 * FEWEST,) if is_quick else MANY:
        for method in ("pbnn", "naive", "sgld", "full_mh", "rows"):
            yield with_more_points(method, num_points)
    yield growth(2 * FEWEST if is_quick else MANY[-1])
    for chains in (2,) if is_quick else (2, 4, 8, 16, 32, 64):
        yield of_other_size("chains", f"pbnn, {chains} chains, a step of one", "pbnn, 1 chain", chains)
    for size in (10,) if is_quick else (10, 30, 300, 1000):
        yield of_other_size("batch_size", f"pbnn, n = {size}", "pbnn, n = 100", size)
    for name in PEERS:
        yield against_peer(name, is_quick)


def against_bare_work(shape: str, backend: str, chains: int, method: str, is_quick: bool) -> Benchmark:
    """A step against the bare likelihoods and gradients in it."""
    about = {"method": method, "backend": backend, "chains": chains, "shape": shape}
    what = f"{method}, {shape}, {chains} chain{'s' * (chains > 1)}, {backend}"
    row = {"kind": "step", "what": what, "baseline": "its bare likelihoods and gradients", **about}
    # torch does not compile so few steps, which takes it most of a minute.
    few = {"num_steps": 1000} if is_quick else {}

    def works() -> tuple[Work, Work]:
        problem = synthetic(shape)
        work = steps(backend, problem, method, chains=chains, **few)
        return work, bare_work(backend, problem, method, chains=chains)

    return Benchmark(row | {"target": TARGETS.get((shape, backend, chains, method))}, works)


def against_full_data() -> Benchmark:
    """Five mini-batches of five against all 2,000 points of the regression, a step of one of four chains."""
    what, other = (f"{method}, regression, 4 chains, jax-cpu" for method in ("pbnn", "full_mh"))
    about = {"method": "pbnn", "backend": "jax-cpu", "chains": 4, "shape": "regression", "target": 0.6}

    def works() -> list[Work]:
        return [steps("jax-cpu", synthetic("regression"), method, chains=4) for method in ("pbnn", "full_mh")]

    return Benchmark({"kind": "step", "what": what, "baseline": other, **about}, works)


@cache
def mnist_steps(method: str, num_points: int = FEWEST, chains: int = 1, batch_size: int = 100) -> Work:
    """Steps on random features; of ``rows``, the reading of a step's rows alone."""
    problem = synthetic("mnist", num_points)
    if method == "rows":
        return draw_rows(problem, 1000)
    return steps("jax-cpu", problem, method, chains=chains, batch_size=batch_size)


def with_more_points(method: str, num_points: int) -> Benchmark:
    """A step against the same step at the fewest points."""
    row = {"kind": "points", "what": f"{method}, N = {num_points:,}", "baseline": f"{method}, N = {FEWEST:,}"}
    target = 1.25 if (method, num_points) == ("pbnn", MANY[-1]) else None
    return Benchmark(
        row | {"method": method, "num_points": num_points, "baseline_size": FEWEST, "target": target},
        lambda: (mnist_steps(method, num_points), mnist_steps(method)),
        dict if method == "rows" else lambda: megabytes(method, num_points),
        5 if method == "full_mh" else ROUNDS,
    )


def megabytes(method: str, num_points: int) -> Row:
    """Megabytes of the data, and of everything else that a compiled chunk of steps uses."""
    import jax

    problem = synthetic("mnist", num_points)
    sampler, _ = compiled_sampler("jax-cpu", problem, method, settings_of(problem, method))
    used = sampler.loop.compiled.memory_analysis()
    data = sum(array.nbytes for array in jax.tree.leaves(sampler.points))
    everything = used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes
    return {"data_mb": data / 1e6, "other_mb": (everything - data) / 1e6}


def growth(num_points: int) -> Benchmark:
    """With control variates, at the posterior of all data: over the growth of the bare reading of its rows.

    Softmax would do as well, but finding its mode among so many points takes minutes.
    """
    what = f"pbnn_cv, logistic, N = {num_points:,} over N = {FEWEST:,}"
    row = {"kind": "growth", "what": what, "baseline": "the bare reading of its rows, likewise"}

    def works() -> list[Work]:
        problems = [synthetic("logistic", number) for number in (num_points, FEWEST)]
        readings = [draw_rows(problem, 1000, num_columns(problem.model, "second")) for problem in problems]
        return [*(steps("jax-cpu", problem, "pbnn_cv") for problem in problems), *readings]

    return Benchmark(row | {"method": "pbnn_cv", "num_points": num_points, "target": 1.2}, works)


def of_other_size(kind: str, what: str, baseline: str, size: int) -> Benchmark:
    """A step of pbnn with another number of chains or another ``batch_size``."""
    usual = {"chains": 1, "batch_size": 100}[kind]
    row = {"kind": kind, "what": what, "baseline": baseline, "method": "pbnn", kind: size, "baseline_size": usual}
    return Benchmark(row, lambda: (mnist_steps("pbnn", **{kind: size}), mnist_steps("pbnn")))


def against_peer(name: str, is_quick: bool) -> Benchmark:
    """Our step against that of another library, once both have found the same moments."""
    peer, library = PEERS[name], name.partition(" ")[0]
    what = f"{peer.method}, mnist, 1 chain, {peer.backend}"
    about = {"method": peer.method, "backend": peer.backend, "chains": 1, "shape": "mnist", "target": peer.target}

    def works() -> tuple[Work, Work]:
        if not is_installed(library):
            raise Missing(f"{library} is not installed")
        problem = synthetic("mnist")
        run = peer.build(problem, 1e-7, 100)
        # About as many steps as will be timed: a loop is compiled for every number of them.
        first_units = 1_000 if METHODS[peer.method].is_minibatch and not peer.is_loop and not is_quick else 8
        theirs = sized(lambda num_steps: lambda: run(num_steps), first_units=first_units)
        return steps(peer.backend, problem, peer.method, weight="data"), theirs

    def moments() -> Row:
        return {} if is_quick else {"moments_deviation": round(deviation_of_moments(name), 2)}

    return Benchmark({"kind": "peer", "what": what, "baseline": name, **about}, works, moments)


def is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def bench_comparison(benchmark: Any, one: Benchmark) -> None:
    """A comparison: the work it is about under pytest-benchmark, and in each round the other works before it."""
    try:
        works = one.works()
    except Missing as reason:
        pytest.skip(str(reason))
    others: list[list[float]] = []
    benchmark.pedantic(
        works[0].call,
        setup=lambda: others.append([seconds_of(work.call) for work in works[1:]]),
        rounds=one.rounds,
        iterations=1,
    )
    seconds = np.column_stack([benchmark.stats.stats.data, others]) / [work.units for work in works]
    benchmark.extra_info.update(one.row | ratios_of(seconds) | one.more())


def read_rows(path: Path) -> list[Row]:
    """The rows of a measurement, in the order of the comparisons."""
    if not path.exists():
        raise SystemExit(f"error: no {path}; first: make bench")
    return [one["extra_info"] for one in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]]


def line(row: Row) -> str:
    met = is_met(row)
    target = "" if met is None else f"≤ {row['target']:g} {'met' if met else 'not met'}"
    return (
        f"{row['ratio']:8.3f}  [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]  {target:14s}"
        f"{row['microseconds']:10.1f} µs   {row['what']}  /  {row['baseline']}"
    )


def keep(rows: Sequence[Row], path: Path = KEPT) -> None:
    """Make what was measured the kept benchmarks, with the plot of docs/performance.md."""
    from implementations.infrastructure.files import write_json
    from implementations.infrastructure.provenance import git_state, machine, versions

    write_json(path, {"rows": rows, "versions": versions(), **git_state(), **machine()})
    plot(load(path), PLOT)
    print(f"kept in {KEPT.relative_to(ROOT)} and {PLOT.name}")


def plot(kept: Benchmarks, path: Path) -> None:
    """The figure of docs/performance.md, drawn as the report draws its own."""
    from reports.figures.speed import draw_overview

    path.write_text(draw_overview(kept).svg(), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.bench", description="Show the last measurement.")
    parser.add_argument("--keep", action="store_true", help=f"keep it in {KEPT.relative_to(ROOT)}")
    arguments = parser.parse_args(argv)
    rows = read_rows(MEASURED)
    print(*map(line, rows), sep="\n")
    if promised := [row for row in rows if row.get("target") is not None]:
        print("\nperformance targets:", *map(line, promised), sep="\n")
    if arguments.keep:
        keep(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
