"""What the penalty repairs, over the step and over M, and what it costs in acceptance."""

import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtr

from records.display import format_name, format_number, task_name
from records.methods import facts_of
from records.setting_runs import SettingRuns, one_backend, sweeps
from records.study import StudyResults
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.marks import (
    LINE,
    MARKERS,
    draw_mark,
    draw_sweeps,
    few,
    handle,
    hollow_handles,
    legend,
    name_beside,
    name_lines,
    panels,
    sweep_text,
)
from reports.style import EXACT, LABELS, is_narrow
from reports.types import Drawing, NothingToShow

#: Without a penalty, with it, and with the correction of an estimated variance.
METHODS = ["naive", "pbnn", "pbnn_corrected"]


def draw_penalty(results: StudyResults) -> Drawing:
    """Predictive sd over the exact one, over every sweep of step and M on the posterior; and acceptance over σ²."""
    settings = one_backend(results.ran(method=METHODS))
    exact = [one for one in settings if one["weight"] == "data" and one.has("sd_ratio")]
    found = {
        axis: families
        for axis in ("step_size", "num_batches")
        if (families := [family for family in sweeps(exact, axis) if family[0]["variant"] == exact[0]["variant"]])
    }
    # A chain that does not move has no acceptance to compare.
    audited = [one for one in settings if one["method"] == "pbnn" and one.converged and one.has("acceptance_kept")]
    if not found or not audited:
        raise NothingToShow("no runs of naive and pbnn with w = N differ in η or M alone, or none was audited")
    shown = {axis: few(families) for axis, families in found.items()}
    figure, all_axes = panels(len(found) + 1, columns=1, height=2.5 + (6 * LINE if is_narrow() else 0), share=1.0)
    for axes, (axis, families) in zip(all_axes, shown.items(), strict=False):
        handles = draw_sweeps(axes, families, axis, "sd_ratio")
        axes.axhline(1, color=EXACT, linestyle="--", linewidth=1.2, zorder=1)
        axes.set_ylabel(LABELS["sd_ratio"])
        name_lines(axes, families, axis, "sd_ratio", handles)
    _draw_cost(all_axes[-1], audited)
    if hollow := hollow_handles([one for families in shown.values() for family in families for one in family]):
        legend(figure, hollow)
    used = [one for families in found.values() for family in families for one in family] + audited
    gap = max(
        audited, key=lambda one: (abs(one.mean("acceptance_kept") - one.mean("acceptance_in_theory")), one["label"])
    )
    caption = (
        f"Predictive sd over the exact one (dashed: right) on {task_name(exact[0])}. Below, PBNN's acceptance over the "
        "exact rule's; the curve is 2Φ(−σ/2), the theory for Gaussian noise between equal losses."
    )
    numbers = (
        *(sweep_text(family, axis, "sd_ratio") for axis, families in found.items() for family in families),
        f"Farthest from the curve, a floor where losses differ: {task_name(gap)}, {format_name(gap)}: "
        f"{format_number(gap.mean('acceptance_kept'), 2)} against {format_number(gap.mean('acceptance_in_theory'), 2)}",
        *unconverged_lines(used),
    )
    return Drawing(
        figure,
        caption,
        runs_of(used),
        _message([one for families in found.values() for family in families for one in family]),
        numbers,
    )


def _message(settings: list[SettingRuns]) -> str:
    """The widest band without a penalty, and with one, among what has converged."""
    worst = {
        method: max(found)
        for method in ("naive", "pbnn")
        if (found := [one.mean("sd_ratio") for one in settings if one["method"] == method and one.converged])
    }
    if len(worst) < 2 or worst["naive"] <= worst["pbnn"]:
        return ""
    widths = (format_number(worst[method]) for method in ("naive", "pbnn"))
    return "Without the penalty the band is up to {} times as wide as it should be, with it up to {} times".format(
        *widths
    )


def _draw_cost(axes: Axes, audited: list[SettingRuns]) -> None:
    tasks = list(dict.fromkeys(one["task"] for one in audited))
    colour = facts_of("pbnn").colour
    for one in audited:
        marker = MARKERS[tasks.index(one["task"]) % len(MARKERS)]
        draw_mark(axes, one.mean("mean_variance"), one.estimate("acceptance_kept"), one.is_converged, colour, marker)
    places = [one.mean("mean_variance") for one in audited]
    variance = np.geomspace(min(places) / 1.5, max(places) * 1.5, 100)
    axes.plot(variance, 2 * ndtr(-np.sqrt(variance) / 2), color=EXACT, linewidth=1.2, zorder=1)
    marks = [handle(name, colour, MARKERS[place % len(MARKERS)], "") for place, name in enumerate(tasks)]
    name_beside(axes, [*marks, handle("2Φ(−σ/2)", EXACT, "")])
    axes.set(xscale="log", ylim=(0, 1.1), xlabel="σ² of the loss difference", ylabel="acceptance kept")
