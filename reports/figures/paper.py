"""The figures of the paper, on our runs. Its "BNN" is the posterior of weight N, its "PBNN" the method ``pbnn``."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from implementations.tasks.problem import Problem
from implementations.tasks.reference import Reference
from metrics.calibration import NUM_BINS
from metrics.seeds import mean_over_seeds
from reports.figures.groups import (
    Group,
    choose,
    groups_of,
    name_text,
    posterior_of,
    runs_of,
    settings_text,
    told,
)
from reports.figures.marks import WIDTH, say
from reports.parts import Drawing, NothingToShow
from reports.reliability import draw_reliability
from reports.study import MAX_R_HAT, StudyResults
from reports.style import COLOURS

#: Points that a curve over the inputs is drawn through: smooth, and a small file.
CURVE_POINTS = 200
#: Bins with fewer test points than this say too little for a mark; the bars of counts still show them.
MIN_COUNT = 10
BAND_NOTE = "A band is the spread of the function f over the draws; the observation noise is not in it."


def _unconverged(groups: Iterable[Group]) -> str:
    """Which of the runs are no evidence, for a caption."""
    found = [
        f"{name_text(group)} {len(group.rows) - group.num_converged} of {len(group.rows)}"
        for group in groups
        if not group.is_converged
    ]
    return f" Runs with an R-hat above {MAX_R_HAT}: {'; '.join(found)}." if found else ""


# Bands over the inputs


@dataclass(frozen=True, eq=False)
class Bands:
    """Mean and sd of f over the inputs of one run, and of the exact answer for its target where there is one."""

    problem: Problem
    inputs: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    exact_mean: np.ndarray | None = None
    exact_sd: np.ndarray | None = None


def common_seed(groups: Sequence[Group]) -> int:
    """The lowest seed that all have converged at; without one that all have ended well at; without one the first's."""
    converged = set.intersection(*({int(seed) for seed in group.shown()["seed"]} for group in groups))
    ended = set.intersection(*({int(seed) for seed in group.rows["seed"]} for group in groups))
    return min(converged or ended or {int(groups[0].shown()["seed"].iloc[0])})


def bands_of(results: StudyResults, group: Group, seed: int) -> Bands:
    """The bands of a group's run of a seed, at no more than CURVE_POINTS of the test inputs."""
    row = group.rows[group.rows["seed"] == seed].iloc[0].to_dict()
    problem = results.problem(row)
    order = np.argsort(problem.test_inputs[:, 0])
    order = order[np.unique(np.linspace(0, len(order) - 1, CURVE_POINTS).astype(int))]
    curves = results.curves(row["run"])
    ours = problem.test_inputs[order, 0], curves["predictive_mean"][order], curves["predictive_sd"][order]
    exact = results.reference(row)
    if not isinstance(exact, Reference) or not exact.is_usable:
        return Bands(problem, *ours)
    return Bands(problem, *ours, exact.predictive_mean[order, 0], exact.predictive_sd[order, 0])


def _draw_data(axes: Axes, problem: Problem) -> None:
    is_dense = problem.num_points > 500
    # Thousands of points are a picture, not a drawing, in an .svg file.
    style: dict[str, Any] = {"markersize": 2, "alpha": 0.35} if is_dense else {"markersize": 5, "alpha": 0.7}
    axes.plot(problem.inputs[:, 0], problem.targets, ".", color="#888888", zorder=1, rasterized=True, **style)


# Figure 1


def draw_linear(results: StudyResults) -> Drawing:
    """Naive subsampling, the penalty and the exact posterior of a linear regression."""
    groups = [group for group in groups_of(results.rows(variant="linear")) if group["weight"] == "data"]
    naive = choose((group for group in groups if group["method"] == "naive"), batch_size=2)
    penalties = [group for group in groups if group["method"] == "pbnn"]
    columns: list[tuple[str, Group | None]] = [
        ("variance known", choose((one for one in penalties if one["variance"] == "oracle"), batch_size=2)),
        (
            "variance estimated",
            choose((one for one in penalties if one["variance"] != "oracle"), batch_size=2, num_batches=5),
        ),
    ]
    columns = [column for column in columns if column[1] is not None] or [("no penalty was run", None)]
    used = [group for group in (naive, *(penalty for _, penalty in columns)) if group is not None]
    if not used:
        raise NothingToShow("no run of naive or pbnn with weight = data on the task 'linear' ended well")
    seed = common_seed(used)
    figure = Figure(figsize=(WIDTH if len(columns) > 1 else 0.65 * WIDTH, 5.6), layout="constrained")
    grid = figure.subplots(2, len(columns), sharex=True, sharey="row", squeeze=False, height_ratios=[3, 2])
    for (data, residuals), (title, penalty) in zip(grid.T, columns, strict=True):
        # Bands of different data would not belong in one picture.
        shown = [group for group in (naive, penalty) if group is not None and seed in set(group.rows["seed"])]
        _draw_linear_bands(data, residuals, [(group, bands_of(results, group, seed)) for group in shown])
        data.set_title(
            f"{title}: {settings_text(penalty, 'weight', 'variance', 'preconditioner')}" if penalty else title
        )
        residuals.set_xlabel("x")
    grid[0, 0].set_ylabel("f(x), and the data")
    grid[1, 0].set_ylabel("f(x) − exact mean")
    sizes = "; ".join(
        f"{name_text(group, 'weight', 'preconditioner')}: sd {told(group, 'sd_ratio')} times the exact one, mean off "
        f"by {told(group, 'mean_error')} of it"
        for group in used
    )
    caption = (
        f"Mean ± 1 sd of f with the data of seed {seed}, and below it the same without the "
        "exact mean. All chains have the posterior of all data as their target (w = N); dashed, its exact band. "
        f"{sizes} (means over seeds, 95 % intervals). {BAND_NOTE}{_unconverged(used)}"
    )
    return Drawing(figure, caption, runs_of(used))


def _draw_linear_bands(data: Axes, residuals: Axes, shown: Sequence[tuple[Group, Bands]]) -> None:
    _draw_data(data, shown[0][1].problem)
    for group, bands in shown:
        colour = COLOURS[group["method"]]
        label = f"{'penalty' if group['method'] == 'pbnn' else 'naive'}: sd {group.mean('sd_ratio'):.2f} × exact"
        for axes, centre in ((data, 0.0), (residuals, bands.exact_mean)):
            if centre is None:
                continue
            low, high = bands.mean - bands.sd - centre, bands.mean + bands.sd - centre
            hatch = None if group.is_converged else "////"
            axes.fill_between(bands.inputs, low, high, color=colour, alpha=0.3, linewidth=0, hatch=hatch, label=label)
            axes.plot(bands.inputs, bands.mean - centre, color=colour, linewidth=1.2)
    bands = shown[0][1]
    if bands.exact_mean is not None and bands.exact_sd is not None:
        for axes, centre in ((data, 0.0), (residuals, bands.exact_mean)):
            for number, label in ((-1, "_lower"), (1, "exact")):
                edge = bands.exact_mean + number * bands.exact_sd - centre
                axes.plot(bands.inputs, edge, color="black", linestyle="--", linewidth=1.2, label=label)
    data.legend(loc="upper left", fontsize=8)


# Figures 2 and 4: four panels of bands, each over a strip with the sd

#: Finds a panel's runs among those of the task ``regression``.
Finder = Callable[[list[Group]], Group | None]


def _method(method: str, batch_size: int, **preferred: float) -> Finder:
    return lambda groups: choose(
        (one for one in groups if one["method"] == method and one["batch_size"] == batch_size), **preferred
    )


def _naive(groups: list[Group]) -> Group | None:
    """The paper's *usual delta* has N/n times the loss of a mini-batch: its target is the posterior of all data."""
    return _method("naive", 10)([group for group in groups if group["weight"] == "data"])


def _sgld(position: int) -> Finder:
    """The largest step (0) or the next (1) of SGLD, among runs without a preconditioner if there are any."""

    def find(groups: list[Group]) -> Group | None:
        found = [one for one in groups if one["method"] == "sgld" and one["batch_size"] == 5]
        found = [one for one in found if one["preconditioner"] == "none"] or found
        steps = sorted({float(one["step_size"]) for one in found}, reverse=True)
        return choose(one for one in found if one["step_size"] in steps[position : position + 1])

    return find


PANELS_2: dict[str, Finder] = {
    "(a) BNN": posterior_of,
    "(b) PBNN, n = 5": _method("pbnn", 5, num_batches=5),
    "(c) no penalty, n = 10": _naive,
    "(d) PBNN, n = 10": _method("pbnn", 10, num_batches=5),
}
PANELS_4: dict[str, Finder] = {
    "(a) SGLD, n = 5, larger step": _sgld(0),
    "(b) SGLD, n = 5, smaller step": _sgld(1),
    "(c) tempered, n = 5": _method("tempered", 5),
    "(d) PBNN, n = 5": _method("pbnn", 5, num_batches=5),
}


def draw_regression(results: StudyResults) -> Drawing:
    """Bands of the posterior, of PBNN at two batch sizes, and of a chain without penalty."""
    return _draw_four(results, PANELS_2)


def draw_alternatives(results: StudyResults) -> Drawing:
    """Bands of SGLD at two steps, of the tempered posterior and of PBNN."""
    return _draw_four(results, PANELS_4)


def _draw_four(results: StudyResults, panels: dict[str, Finder]) -> Drawing:
    groups = groups_of(results.rows(variant="regression"))
    found = {title: find(groups) for title, find in panels.items()}
    used = {title: group for title, group in found.items() if group is not None}
    if not used:
        raise NothingToShow(f"no run on the task 'regression' ended well that shows {', '.join(panels)}")
    figure = Figure(figsize=(WIDTH, 7.4), layout="constrained")
    grid = figure.subplots(4, 2, sharex=True, height_ratios=[3, 1, 3, 1])
    curves, strips = grid[0::2].flatten(), grid[1::2].flatten()
    seed = common_seed(list(used.values()))
    seeds = [seed if seed in set(group.rows["seed"]) else common_seed([group]) for group in used.values()]
    all_bands = [bands_of(results, *pair) for pair in zip(used.values(), seeds, strict=True)]
    drawn = dict(zip(used, all_bands, strict=True))
    for axes, strip, (title, group) in zip(curves, strips, found.items(), strict=True):
        axes.set_title(
            title if group is None else f"{title}: {settings_text(group, 'batch_size', 'weight')}", fontsize=9.5
        )
        if group is None:
            say(axes, "no such run ended well in this study")
            continue
        _draw_bands(axes, strip, group, drawn[title])
    _share_limits(curves, strips, all_bands)
    for axes, strip in zip(grid[0::2, 0], grid[1::2, 0], strict=True):
        axes.set_ylabel("f(x)")
        strip.set_ylabel("sd of f")
    for strip in grid[-1]:
        strip.set_xlabel("x")
    sizes = "; ".join(
        f"{title[:3]} {group['method']}, w = {group['target_weight']:g}: {told(group, 'sd_ratio')}"
        for title, group in used.items()
    )
    caption = (
        f"Mean and ± 1, 2, 3 sd of f (shades) over the training data, seed {_listed(seeds)}; dashed, ± 3 sd of the "
        "exact answer for the panel's own target. Below each, the sd of f, ours and the exact one (dashed). Predictive "
        f"sd over the exact one, 1 is right (means over seeds, 95 % intervals): {sizes}. {BAND_NOTE}"
        f"{_unconverged(used.values())}"
    )
    return Drawing(figure, caption, runs_of(used.values()))


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(seeds))))


def _draw_bands(axes: Axes, strip: Axes, group: Group, bands: Bands) -> None:
    colour = COLOURS[group["method"]]
    _draw_data(axes, bands.problem)
    for number in (3, 2, 1):
        low, high = bands.mean - number * bands.sd, bands.mean + number * bands.sd
        axes.fill_between(bands.inputs, low, high, color=colour, alpha=0.22, linewidth=0)
    axes.plot(bands.inputs, bands.mean, color=colour, linewidth=1)
    strip.plot(bands.inputs, bands.sd, color=colour, linewidth=1.6)
    if bands.exact_mean is not None and bands.exact_sd is not None:
        for number in (-3, 3):
            axes.plot(bands.inputs, bands.exact_mean + number * bands.exact_sd, "--", color="black", linewidth=0.9)
        strip.plot(bands.inputs, bands.exact_sd, "--", color="black", linewidth=0.9)
    missing = len(group.rows) - group.num_converged
    state = f", {missing} of {len(group.rows)} seeds not converged" if missing else ""
    text = f"sd {group.mean('sd_ratio'):.2f} × exact{state}"
    axes.text(0.03, 0.9, text, transform=axes.transAxes, fontsize=8.5)


def _share_limits(curves: Iterable[Axes], strips: Iterable[Axes], all_bands: Sequence[Bands]) -> None:
    """One scale for all panels, set by the data: a chain that has gone astray must not flatten the others."""
    targets = all_bands[0].problem.targets
    low, high = float(targets.min()), float(targets.max())
    for axes in curves:
        axes.set_ylim(low - 0.2 * (high - low), high + 0.3 * (high - low))
    # Whole decades, each with its number.
    smallest = math.floor(math.log10(max(1e-4, min(float(bands.sd.min()) for bands in all_bands))))
    largest = math.ceil(math.log10(min(high - low, max(float(bands.sd.max()) for bands in all_bands))))
    for strip in strips:
        strip.set(yscale="log", ylim=(10.0**smallest, 10.0**largest))
        strip.set_yticks([10.0**power for power in range(smallest, largest + 1)])
        strip.yaxis.set_minor_formatter(NullFormatter())


# Figure 3


def draw_reliability_diagrams(results: StudyResults) -> Drawing:
    """Reliability of the posterior and of PBNN, on the regression and on images."""
    pairs = {
        "regression": _pair(results, "regression", batch_size=5, num_batches=5),
        "mnist": _pair(results, "mnist", batch_size=100, num_batches=10),
    }
    is_substituted = not pairs["mnist"]
    if is_substituted:
        pairs["digits"] = _pair(results, "digits", batch_size=100, num_batches=10)
    pairs = {task: pair for task, pair in pairs.items() if pair}
    if not pairs:
        raise NothingToShow("no run of full_mh, mala or pbnn on the tasks 'regression', 'mnist' or 'digits' ended well")
    figure = Figure(figsize=(WIDTH if len(pairs) > 1 else 0.55 * WIDTH, 4.9), layout="constrained")
    cells = figure.add_gridspec(2, len(pairs), height_ratios=[4, 1])
    sentences = []
    for column, (task, pair) in enumerate(pairs.items()):
        likelihood = results.problem(pair[0].shown().iloc[0].to_dict()).likelihood
        has_counts = likelihood == "categorical"
        axes = figure.add_subplot(cells[0, column] if has_counts else cells[:, column])
        counts = figure.add_subplot(cells[1, column], sharex=axes) if has_counts else None
        for group in pair:
            _draw_mean_reliability(axes, counts, results, group, likelihood)
        axes.set_title(task)
        axes.legend(loc="lower right", fontsize=8)
        sentences.append(f"{task}: {'; '.join(map(_calibration_text, pair))}.")
    used = [group for pair in pairs.values() for group in pair]
    caption = (
        "Below the diagonal is overconfident, above it underconfident. Curves are means over seeds on the test points, "
        f"with 95 % intervals; bins of fewer than {MIN_COUNT} points are left out. {' '.join(sentences)}"
        + (" digits stands in for mnist, of which no run ended well." if is_substituted and "digits" in pairs else "")
        + _unconverged(used)
    )
    return Drawing(figure, caption, runs_of(used))


def _pair(results: StudyResults, task: str, **preferred: float) -> list[Group]:
    """The posterior and PBNN with the target of its mini-batch, as far as they are there."""
    groups = groups_of(results.rows(variant=task))
    pbnn = choose((one for one in groups if one["method"] == "pbnn" and one["weight"] == "batch"), **preferred)
    return [group for group in (posterior_of(groups), pbnn) if group is not None]


def _calibration_text(group: Group) -> str:
    accuracy = "" if group.best("accuracy") is None else f", accuracy {told(group, 'accuracy')}"
    return (
        f"{name_text(group, 'preconditioner')} has an ECE of {told(group, 'ece')} and a confidence gap of "
        f"{told(group, 'confidence_gap')}{accuracy}"
    )


def _draw_mean_reliability(
    axes: Axes, counts: Axes | None, results: StudyResults, group: Group, likelihood: str
) -> None:
    rows = group.shown()
    mean, low, high = mean_reliability([results.curves(run) for run in rows["run"]], likelihood)
    is_paper = group["method"] == "pbnn"
    name = f"PBNN, {settings_text(group, 'step_size', 'preconditioner')}" if is_paper else f"BNN ({group['method']})"
    style: dict[str, Any] = {"color": COLOURS[group["method"]], "label": name}
    if not group.num_converged:
        style |= {"markerfacecolor": "white", "label": f"{name}, not converged"}
    draw_reliability(axes, mean, likelihood, counts_axes=counts, **style)
    axes.fill_between(mean["test_nominal"], low, high, color=style["color"], alpha=0.2, linewidth=0)


def mean_reliability(
    curves: Sequence[dict[str, np.ndarray]], likelihood: str
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The mean over seeds of test curves, bin by bin, and the ends of the 95 % interval of what was observed.

    A bin is the mean over the seeds that have points in it; of a single seed the interval is the mean itself.
    """
    cells: dict[int, list[tuple[float, ...]]] = {}
    for curve in curves:
        parts = [curve[f"test_{part}"] for part in ("nominal", "observed", "counts")]
        # Classes: bins without points are left out, so that a bin's place in the array differs between seeds.
        bins = np.arange(len(parts[0])) if likelihood == "gaussian" else np.minimum(parts[0] * NUM_BINS, NUM_BINS - 1)
        for number, *cell in zip(bins.astype(int).tolist(), *(part.tolist() for part in parts), strict=True):
            cells.setdefault(number, []).append(tuple(cell))
    ordered = [np.array(cells[number]) for number in sorted(cells)]
    ordered = [cell for cell in ordered if cell[:, 2].mean() >= MIN_COUNT] or ordered
    means = np.array([cell.mean(axis=0) for cell in ordered]).T
    observed = [mean_over_seeds(dict(enumerate(cell[:, 1].tolist()))) for cell in ordered]
    low = np.array([value.mean if value.low is None else max(0.0, value.low) for value in observed], dtype=float)
    high = np.array([value.mean if value.high is None else min(1.0, value.high) for value in observed], dtype=float)
    return dict(zip(("test_nominal", "test_observed", "test_counts"), means, strict=True)), low, high
