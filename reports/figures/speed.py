"""Figures of the suite's benchmarks: a step over its bare evaluations, over other libraries, and as problems grow.

A study's runs have no part in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from implementations.backends import BACKENDS
from records.display import method_name
from records.methods import in_order
from reports.benchmarks import Benchmarks, Row, is_met, named
from reports.drawing import CROSS, INK, SOFT, TICK, Axis, Drawing, Guide, Key, Line, Look, Panel, Point, look_of
from reports.figures.runs import LOOKS
from reports.figures.series import DASHES, LABELS
from reports.types import NothingToShow

#: A performance target, in a colour that is no method's and no library's.
TARGET = Look("#a3261b", TICK)
STEP_TIME = "µs for a step of one chain"
#: What stands for a method where the rows of a step are read and nothing else is done.
ROWS = "rows"


def _some(rows: list[Row], what: str, test: str) -> list[Row]:
    """The rows, of which there must be some; ``test`` is the benchmark that measures them."""
    if not rows:
        raise NothingToShow(f"the kept benchmarks have none {what} ({test}); a whole make bench runs them.")
    return rows


# A step over something else


def draw_steps(benchmarks: Benchmarks) -> Drawing:
    """Steps over their bare likelihoods and gradients, a panel for each shape of the problem."""
    every = [row for row in benchmarks.of_kind("step") if row["baseline"].startswith("its bare")]
    rows = _some(every, "of steps over their bare likelihoods and gradients", "bench_step")
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    typical = median(row["ratio"] for row in rows if row["shape"] == shapes[-1])
    return Drawing(
        [_steps_panel(shape, [row for row in rows if row["shape"] == shape]) for shape in shapes],
        "Time of a step over that of the arithmetic it cannot avoid: the likelihoods and gradients of its points, "
        "already gathered and compiled. Medians, with quartiles as lines. Large: several chains.",
        title=f"Half of all steps take less than {typical:.2g} times their likelihoods and gradients "
        f"({shapes[-1]} shape)",
        notes=_targets(rows),
        keys=[*(Key(name, LOOKS[name]) for name in BACKENDS if _of(rows, backend=name)), *_target_keys(rows)],
    )


def _of(rows: Sequence[Row], **values: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def _steps_panel(shape: str, rows: Sequence[Row]) -> Panel:
    """A row for each method; its backends and numbers of chains are one below the other."""
    methods = in_order(row["method"] for row in rows)
    kinds = sorted(
        {(row["backend"], row["chains"]) for row in rows}, key=lambda one: (list(BACKENDS).index(one[0]), one)
    )
    names = [method_name(method) for method in methods]
    panel = Panel(shape, _ratio_axis("a step, over its bare likelihoods and gradients", rows), rows=names, height=26)
    panel.add(Guide("x", 1, ""))
    for row in rows:
        shift = 0.22 * (kinds.index((row["backend"], row["chains"])) - (len(kinds) - 1) / 2)
        panel.add(*_ratio(methods.index(row["method"]) + shift, row, 4.5 if row["chains"] == 1 else 7.5))
    return panel


def _ratio(place: float, row: Row, size: float = 7.0) -> list[Point]:
    """A ratio with its quartiles, and its performance target."""
    ends = row["ratio_low"], row["ratio_high"]
    target = [] if row.get("target") is None else [Point(row["target"], place, TARGET, size=9, name="target")]
    name = f"{row['backend']}, {_chains(row['chains'])}" if "chains" in row else row["backend"]
    return [*target, Point(row["ratio"], place, LOOKS[row["backend"]], x_ends=ends, size=size, name=name)]


def _ratio_axis(label: str, rows: Sequence[Row]) -> Axis:
    """A logarithmic axis that has the place where both sides are equal."""
    ends = [1.0, *(row[name] for row in rows for name in ("ratio_low", "ratio_high", "target") if row.get(name))]
    return Axis(label, "log", 0.85 * min(ends), 1.15 * max(ends))


def _target_keys(rows: Sequence[Row]) -> list[Key]:
    return [Key("target: at most", TARGET)] if any(row.get("target") is not None for row in rows) else []


def _chains(chains: int) -> str:
    return "1 chain" if chains == 1 else f"{chains} chains"


def _targets(rows: Sequence[Row]) -> tuple[str, ...]:
    """Which performance targets among them are met; nothing where there are none."""
    return tuple(
        f"Performance target, at most {row['target']:g}: {named(row['what'])} ({'met' if is_met(row) else 'missed'})"
        for row in rows
        if row.get("target") is not None
    )


def draw_peers(benchmarks: Benchmarks) -> Drawing:
    """Our step over that of the same algorithm in other libraries."""
    rows = _some(benchmarks.of_kind("peer"), "against other libraries", "bench_peer")
    names = [f"{method_name(row['method'])}, {row['backend']} / {named(row['baseline'])}" for row in rows]
    panel = Panel(x=_ratio_axis("our step, over the other library's", rows), rows=names, height=12)
    panel.add(Guide("x", 1, ""), *(shape for place, row in enumerate(rows) for shape in _ratio(place, row)))
    slowest = max(row["ratio"] for row in rows)
    return Drawing(
        [panel],
        "Left of 1, ours is faster. The same algorithm, model and data, timed after both had given the same moments; "
        "medians, with quartiles as lines.",
        title=f"Our steps take at most {slowest:.2g} of the time of other libraries'" if slowest < 1 else "",
        notes=_targets(rows),
        keys=[
            *(Key(name, LOOKS[name]) for name in dict.fromkeys(row["backend"] for row in rows)),
            *_target_keys(rows),
        ],
    )


# As something grows


IN_TURN = "Each was timed in turn with the step of {}; shown is its ratio times the median time of that step."


def draw_points(benchmarks: Benchmarks) -> Drawing:
    """The cost of a step as the data grow, and the memory that goes with it."""
    rows = _some(benchmarks.of_kind("points"), "with more data", "bench_points")
    caption = f"Time of a step of one chain as the data grow. {IN_TURN.format('the fewest points')}"
    drawing = _growing(rows, "num_points", Axis(STEP_TIME, "log"), caption, lambda count: f"N = {count:,}")
    measured = [row for row in rows if row.get("other_mb") is not None]
    if not measured:
        return drawing
    data = Key("the data themselves", Look(SOFT), DASHES[2], has_mark=False)
    return replace(drawing, panels=[*drawing.panels, _memory(measured)], keys=[*drawing.keys, data])


def _memory(rows: Sequence[Row]) -> Panel:
    panel = Panel(x=Axis(LABELS["num_points"], "log"), y=Axis("MB: the data (dotted), and the rest", "log"))
    counts = sorted({row["num_points"] for row in rows})
    # Methods keep the data in different forms; the largest stands for them.
    data = [max(row["data_mb"] for row in _of(rows, num_points=count)) for count in counts]
    panel.add(Line(counts, data, SOFT, DASHES[2]))
    for method in in_order(row["method"] for row in rows):
        used = sorted((row["num_points"], row["other_mb"]) for row in _of(rows, method=method))
        panel.add(Line([count for count, _ in used], [size for _, size in used], look_of(method).colour))
        panel.add(*(Point(count, size, look_of(method), name=method_name(method)) for count, size in used))
    return panel


def draw_chains(benchmarks: Benchmarks) -> Drawing:
    """The cost of a step of one chain against the number of chains that run together."""
    rows = _some(benchmarks.of_kind("chains"), "with more chains", "bench_chains")
    caption = f"Time for a step of one of the chains. {IN_TURN.format('one chain')}"
    return _growing(rows, "chains", Axis(STEP_TIME, low=0), caption, _chains)


def draw_batch_size(benchmarks: Benchmarks) -> Drawing:
    """The cost of a step against the size of its mini-batches."""
    rows = _some(benchmarks.of_kind("batch_size"), "with other mini-batches", "bench_batch_size")
    caption = f"Time of a step. Dotted, one that grows as n. {IN_TURN.format('the usual n')}"
    return _growing(rows, "batch_size", Axis(STEP_TIME, "log"), caption, lambda size: f"n = {size:,}")


def _growing(rows: Sequence[Row], axis: str, y: Axis, caption: str, name: Callable[[int], str]) -> Drawing:
    """A line for each method over the number in which its rows differ.

    A time is its ratio times the baseline's median time: the machine is not equally fast at all times, and other work
    on it falls on both sides of a ratio.
    """
    panel, keys, titles = Panel(y=y), [], {}
    for method in in_order(row["method"] for row in rows):
        own = sorted(_of(rows, method=method), key=lambda row: int(row[axis]))
        (baseline,) = {int(row["baseline_size"]) for row in own}
        unit = median(row["baseline_microseconds"] for row in own)
        ratios = {int(row[axis]): [row[end] for end in ("ratio", "ratio_low", "ratio_high")] for row in own}
        times = {number: [unit * ratio for ratio in found] for number, found in ratios.items()} | {baseline: [unit] * 3}
        is_reading = method == ROWS
        label = "reading the rows of a PBNN step" if is_reading else method_name(method)
        look, dash = (Look(SOFT, CROSS), DASHES[1]) if is_reading else (look_of(method), "")
        panel.add(Line(sorted(times), [times[number][0] for number in sorted(times)], look.colour, dash))
        for number, (time, low, high) in sorted(times.items()):
            panel.add(Point(number, time, look, y_ends=(low, high), name=label))
        if axis == "batch_size":
            panel.add(Line(sorted(times), [unit * size / baseline for size in sorted(times)], INK, DASHES[2]))
        keys.append(Key(label, look, dash))
        last, factor = own[-1][axis], own[-1]["ratio"]
        titles[method] = f"With {name(last)} a step of {label} takes {factor:.2g} times that with {name(baseline)}"
    # Numbers of points are powers of ten, which the axis names itself.
    ticks = () if axis == "num_points" else sorted({point.x for point in panel.of(Point)})
    panel.x = Axis(LABELS[axis], "log", ticks=ticks)
    title = titles.get("pbnn", next(iter(titles.values())))
    return Drawing([panel], caption, title=title, notes=_targets(rows), keys=keys)


def draw_overview(benchmarks: Benchmarks) -> Drawing:
    """The figure of the documentation: steps on the mnist shape over their bare work, and their cost as data grow."""
    steps, points = draw_steps(benchmarks), draw_points(benchmarks)
    panels = [*(panel for panel in steps.panels if panel.title == "mnist"), points.panels[0]]
    return Drawing(panels, steps.caption, title=points.title, keys=[*steps.keys, *points.keys])
