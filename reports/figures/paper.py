"""Figures 1, 2 and 4 of the paper, on our runs: bands of f. Its "BNN" is the posterior of all data."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from implementations.tasks.problem import Problem
from records.display import format_given, format_name, format_number, format_settings, format_value, method_name
from records.methods import facts_of
from records.reference import Reference
from records.setting_runs import SettingRuns, full_data, nearest
from records.study import StudyResults
from reports.figures.captions import SAME_WIDTH, over_seeds, runs_of, unconverged_names
from reports.figures.marks import SMALL, blank, handle, legend, say
from reports.style import TEXT_CONTRAST, is_narrow, on_white
from reports.types import Drawing, NothingToShow

#: Points that a curve over the inputs is drawn through: smooth, and a small file.
CURVE_POINTS = 120
#: Exact standard deviations that the strips of figures 2 and 4 show; a chain that has gone astray leaves them.
STRIP = 5
#: How dark a band of so many sd is once the wider ones lie below it.
SHADES = {1: 0.53, 2: 0.39, 3: 0.22}
BAND_NOTE = "Observation noise is not in a band."
#: How strongly a band is filled: what lies on top more than what it lies on.
BAND_ALPHA = {"naive": 0.35, "pbnn": 0.45}


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


def common_seed(settings: Sequence[SettingRuns]) -> int:
    """The lowest seed that all have converged at; without one that all have ended well at; without one the first's."""
    converged = set.intersection(*({row["seed"] for row in setting.evidence} for setting in settings))
    ended = set.intersection(*(setting.seeds for setting in settings))
    return min(converged or ended or {settings[0].evidence[0]["seed"]})


def bands_of(results: StudyResults, setting: SettingRuns, seed: int) -> Bands:
    """The bands of a setting's run of a seed, at no more than CURVE_POINTS of the test inputs."""
    row = next(row for row in setting.ok if row["seed"] == seed)
    problem = results.problem(row)
    order = np.argsort(problem.test_inputs[:, 0])
    order = order[np.unique(np.linspace(0, len(order) - 1, CURVE_POINTS).astype(int))]
    curves = results.curves(row["run"])
    ours = problem.test_inputs[order, 0], curves["predictive_mean"][order], curves["predictive_sd"][order]
    exact = results.reference(row)
    if not isinstance(exact, Reference) or not exact.is_usable:
        return Bands(problem, *ours)
    return Bands(problem, *ours, exact.predictive_mean[order, 0], exact.predictive_sd[order, 0])


def _draw_data(axes: Axes, problem: Problem, zorder: float = 1) -> None:
    is_dense = problem.num_points > 500
    # Thousands of points are a picture, not a drawing, in an .svg file.
    style: dict[str, Any] = {"markersize": 2, "alpha": 0.35} if is_dense else {"markersize": 5, "alpha": 0.7}
    axes.plot(problem.inputs[:, 0], problem.targets, ".", color="#888888", zorder=zorder, rasterized=True, **style)


# Figure 1


def draw_linear(results: StudyResults) -> Drawing:
    """Naive subsampling, the penalty and the exact posterior of a linear regression."""
    settings = [setting for setting in results.ran(variant="linear") if setting["weight"] == "data"]
    naive = nearest((setting for setting in settings if setting["method"] == "naive"), batch_size=2)
    penalties = [setting for setting in settings if setting["method"] == "pbnn"]
    columns: list[tuple[str, SettingRuns | None]] = [
        ("variance known", nearest((one for one in penalties if one["variance"] == "oracle"), batch_size=2)),
        (
            "variance estimated",
            nearest((one for one in penalties if one["variance"] != "oracle"), batch_size=2, num_batches=5),
        ),
    ]
    columns = [column for column in columns if column[1] is not None] or [("no penalty was run", None)]
    used = [setting for setting in (naive, *(penalty for _, penalty in columns)) if setting is not None]
    if not used:
        raise NothingToShow("no run of naive or pbnn with weight = data on the task 'linear' ended well")
    seed = common_seed(used)
    stacked = len(columns) if is_narrow() else 1
    figure = blank(5.6 * stacked, 1.0 if len(columns) > 1 else 0.65)
    grid = figure.subplots(2 * stacked, len(columns) // stacked, sharex=True, squeeze=False)
    pairs = list(zip(grid[0::2].flatten(), grid[1::2].flatten(), strict=True))
    for (data, residuals), (title, penalty) in zip(pairs, columns, strict=True):
        for axes, first in zip((data, residuals), pairs[0], strict=True):
            if axes is not first:
                axes.sharey(first)
        # Bands of different data would not belong in one picture.
        shown = [one for one in (naive, penalty) if one is not None and seed in one.seeds]
        _draw_linear_bands(data, residuals, [(one, bands_of(results, one, seed)) for one in shown])
        data.set_title(
            f"{title}: {format_settings(penalty, 'weight', 'variance', 'preconditioner')}" if penalty else title
        )
    for axes in grid[-1]:
        axes.set_xlabel("x")
    for data, residuals in zip(grid[0::2, 0], grid[1::2, 0], strict=True):
        data.set_ylabel("f(x), and the data")
        residuals.set_ylabel("f(x) − exact mean")
    entries: list[Artist] = [handle("data", "#888888", ".", "")]
    entries += [
        Patch(facecolor=facts_of(name).colour, alpha=BAND_ALPHA[name], label=f"{method_name(name)}, mean ± sd")
        for name in dict.fromkeys(one["method"] for one in used)
    ]
    entries.append(handle("exact", "black", "", "--"))
    legend(figure, entries)
    numbers = (
        *(
            f"{format_name(one, 'weight', 'preconditioner')}: sd {format_value(one, 'sd_ratio')} times the exact one, "
            f"mean off by {format_value(one, 'mean_error')} of it ({over_seeds([one])})"
            for one in used
        ),
        *unconverged_names(used),
    )
    caption = (
        f"Mean ± 1 sd of f on the data of seed {seed}, and below it the same without the exact mean. "
        f"Every chain targets the posterior of all data (w = N). {BAND_NOTE}"
    )
    return Drawing(figure, caption, runs_of(used), _linear_message(naive, columns), numbers)


def _linear_message(naive: SettingRuns | None, penalties: Sequence[tuple[str, SettingRuns | None]]) -> str:
    """How much too wide the band is without the penalty, and what is left of that with it: in every panel."""
    found = [(title, one) for title, one in penalties if one is not None]
    if naive is None or not found or naive.mean("sd_ratio") <= 1 + SAME_WIDTH:
        return ""
    without = format_number(naive.mean("sd_ratio"), 2)
    left = " and ".join(f"{format_number(one.mean('sd_ratio'))} ({title})" for title, one in found)
    return f"Figure 1: without the penalty the band is {without} times as wide as it should be, with it {left}"


def _draw_linear_bands(data: Axes, residuals: Axes, shown: Sequence[tuple[SettingRuns, Bands]]) -> None:
    # Above the bands, which would hide those of its points that lie in them.
    _draw_data(data, shown[0][1].problem, zorder=3)
    for place, (setting, bands) in enumerate(shown):
        colour = facts_of(setting["method"]).colour
        for axes, centre in ((data, 0.0), (residuals, bands.exact_mean)):
            if centre is None:
                continue
            low, high = bands.mean - bands.sd - centre, bands.mean + bands.sd - centre
            hatch = None if setting.is_converged else "////"
            alpha = BAND_ALPHA[setting["method"]]
            # On white, so that a band over another keeps its own colour.
            axes.fill_between(bands.inputs, low, high, color="white", linewidth=0)
            axes.fill_between(bands.inputs, low, high, color=colour, alpha=alpha, linewidth=0, hatch=hatch)
            axes.plot(bands.inputs, bands.mean - centre, color=colour, linewidth=1.2)
        text = f"{method_name(setting['method'])}: sd {format_number(setting.mean('sd_ratio'))} × exact"
        letters = on_white(colour, TEXT_CONTRAST)
        residuals.text(0.5, (0.9, 0.03)[place], text, transform=residuals.transAxes, ha="center", color=letters)
    bands = shown[0][1]
    if bands.exact_mean is not None and bands.exact_sd is not None:
        for axes, centre in ((data, 0.0), (residuals, bands.exact_mean)):
            for number, label in ((-1, "_lower"), (1, "exact")):
                edge = bands.exact_mean + number * bands.exact_sd - centre
                axes.plot(bands.inputs, edge, color="black", linestyle="--", linewidth=1.2, label=label)
    # Room for the two lines of text.
    residuals.margins(y=0.18)


# Figures 2 and 4: four panels of bands, each over a strip with the sd

#: Finds a panel's runs among those of the task ``regression``.
Finder = Callable[[list[SettingRuns]], SettingRuns | None]


def _method(method: str, batch_size: int, **preferred: float) -> Finder:
    return lambda settings: nearest(
        (one for one in settings if one["method"] == method and one["batch_size"] == batch_size), **preferred
    )


def _naive(settings: list[SettingRuns]) -> SettingRuns | None:
    """The paper's *usual delta* has N/n times the loss of a mini-batch: its target is the posterior of all data."""
    return _method("naive", 10)([setting for setting in settings if setting["weight"] == "data"])


def _sgld(position: int) -> Finder:
    """The largest step (0) or the next (1) of SGLD, among runs without a preconditioner if there are any."""

    def find(settings: list[SettingRuns]) -> SettingRuns | None:
        found = [one for one in settings if one["method"] == "sgld" and one["batch_size"] == 5]
        found = [one for one in found if one["preconditioner"] == "none"] or found
        steps = sorted({float(one["step_size"]) for one in found}, reverse=True)
        return nearest(one for one in found if one["step_size"] in steps[position : position + 1])

    return find


PANELS_2: dict[str, Finder] = {
    "(a) BNN": full_data,
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
    return _draw_four(results, PANELS_2, _regression_message)


def _regression_message(widths: dict[str, str]) -> str:
    if not {"(c)", "(d)"} <= widths.keys():
        return ""
    without, penalised = widths["(c)"], widths["(d)"]
    return (
        f"Figure 2: without the penalty the band is {without} times as wide as its target's, with it {penalised} times"
    )


def draw_alternatives(results: StudyResults) -> Drawing:
    """Bands of SGLD at two steps, of the tempered posterior and of PBNN."""
    return _draw_four(results, PANELS_4, _alternatives_message)


def _alternatives_message(widths: dict[str, str]) -> str:
    if len(widths) < 4:
        return ""
    return (
        f"Figure 4: SGLD's band is {widths['(a)']} or {widths['(b)']} times as wide as its target's, "
        f"depending on the step; PBNN's is {widths['(d)']} times"
    )


def _draw_four(results: StudyResults, panels: dict[str, Finder], message: Callable[[dict[str, str]], str]) -> Drawing:
    settings = results.ran(variant="regression")
    found = {title: find(settings) for title, find in panels.items()}
    used = {title: setting for title, setting in found.items() if setting is not None}
    if not used:
        raise NothingToShow(f"no run on the task 'regression' ended well that shows {', '.join(panels)}")
    columns = 1 if is_narrow() else 2
    figure = blank(14.0 / columns)
    grid = figure.subplots(8 // columns, columns, sharex=True, squeeze=False, height_ratios=[3, 1.6] * (4 // columns))
    curves, strips = grid[0::2].flatten(), grid[1::2].flatten()
    seed = common_seed(list(used.values()))
    seeds = [seed if seed in one.seeds else common_seed([one]) for one in used.values()]
    all_bands = [bands_of(results, *pair) for pair in zip(used.values(), seeds, strict=True)]
    drawn = dict(zip(used, all_bands, strict=True))
    for axes, strip, (title, setting) in zip(curves, strips, found.items(), strict=True):
        axes.set_title(title if setting is None else f"{title[:3]} {format_name(setting)}", fontsize=9.5)
        if setting is None:
            say(axes, "no such run ended well in this study")
            say(strip, "–")
            continue
        _draw_bands(axes, strip, setting, drawn[title])
    _share_limits(curves, strips, all_bands)
    for axes, strip in zip(grid[0::2, 0], grid[1::2, 0], strict=True):
        axes.set_ylabel("f(x)")
        strip.set_ylabel("(f − exact mean)\n/ exact sd", fontsize=9)
    for strip in grid[-1]:
        strip.set_xlabel("x")
    grey = [Patch(facecolor="#555555", alpha=alpha, label=f"± {number} sd") for number, alpha in SHADES.items()]
    entries = [handle("data", "#888888", ".", ""), *grey, handle("exact", "black", "", "--")]
    legend(figure, entries, most=5)
    numbers = (
        *(
            f"{title[:3]} {method_name(one['method'])}, w={format_given(one['target_weight'])}: sd "
            f"{format_value(one, 'sd_ratio')} times the exact one ({over_seeds([one])})"
            for title, one in used.items()
        ),
        *unconverged_names(used.values()),
    )
    caption = (
        f"Mean and ± 1, 2, 3 sd of f, seed {_listed(seeds)}; dashed, the exact ± 3 sd of the panel's own target. "
        f"Below, ± 1 sd in units of the exact one. {BAND_NOTE}"
    )
    widths = {title[:3]: format_number(one.mean("sd_ratio"), 2) for title, one in used.items() if one.has("sd_ratio")}
    return Drawing(figure, caption, runs_of(used.values()), message(widths), numbers)


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(seeds))))


def _draw_bands(axes: Axes, strip: Axes, setting: SettingRuns, bands: Bands) -> None:
    colour = facts_of(setting["method"]).colour
    _draw_data(axes, bands.problem)
    for number in (3, 2, 1):
        low, high = bands.mean - number * bands.sd, bands.mean + number * bands.sd
        axes.fill_between(bands.inputs, low, high, color=colour, alpha=0.22, linewidth=0)
    axes.plot(bands.inputs, bands.mean, color=colour, linewidth=1)
    if bands.exact_mean is not None and bands.exact_sd is not None:
        for number in (-3, 3):
            axes.plot(bands.inputs, bands.exact_mean + number * bands.exact_sd, "--", color="black", linewidth=0.9)
        middle, half = (bands.mean - bands.exact_mean) / bands.exact_sd, bands.sd / bands.exact_sd
        strip.fill_between(bands.inputs, middle - half, middle + half, color=colour, alpha=0.35, linewidth=0)
        strip.plot(bands.inputs, middle, color=colour, linewidth=1)
        for number in (-1, 1):
            strip.axhline(number, linestyle="--", color="black", linewidth=0.9)
    else:
        say(strip, "no exact answer")
    missing = len(setting.ok) - len(setting.converged)
    state = f", {missing} of {len(setting.ok)} seeds not converged" if missing else ""
    text = f"sd {format_number(setting.mean('sd_ratio'))} × exact{state}"
    axes.text(0.03, 0.9, text, transform=axes.transAxes, fontsize=SMALL)


def _share_limits(curves: Iterable[Axes], strips: Iterable[Axes], all_bands: Sequence[Bands]) -> None:
    """One scale for all panels, set by the data: a chain that has gone astray must not flatten the others."""
    targets = all_bands[0].problem.targets
    low, high = float(targets.min()), float(targets.max())
    for axes in curves:
        axes.set_ylim(low - 0.2 * (high - low), high + 0.3 * (high - low))
    for strip in strips:
        strip.set(ylim=(-STRIP, STRIP), yticks=[-4, -2, 0, 2, 4])
