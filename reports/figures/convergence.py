"""What ran, and what may be believed: R-hat of every run, and the fate of every run asked for."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from records.display import method_name, task_name
from records.methods import in_order
from records.setting_runs import MAX_R_HAT, MIN_ESS
from records.study import StudyResults
from reports.figures.marks import SMALL, blank, legend, panels, whole_decades, wrapped
from reports.style import is_narrow, look_of
from reports.types import Drawing, NothingToShow

#: What a run can come to, worst last, with its colour.
FATES = {
    "converged": "#8fc98f",
    "not converged": "#f3d27a",
    "skipped": "#d5d5d5",
    "diverged": "#e59a7a",
    "failed": "#d96b6b",
    "missing": "#f2c4c4",
}
#: Inches of a row with its distance to the next.
ROW = 0.3


def draw_convergence(results: StudyResults) -> Drawing:
    """R-hat - 1 of every run, by method and task, on a logarithmic axis with the line of 1.05."""
    ended = results.summary[results.summary["status"] == "ok"]
    rows = ended[ended["r_hat"].notna()]
    if rows.empty:
        raise NothingToShow("no run that ended well has an R-hat, which needs two chains or more of four draws or more")
    methods = in_order(rows["method"])
    figure, (axes,) = panels(1, height=1.0 + (1.5 if is_narrow() else 1) * ROW * len(methods), share=1.0)
    # Rank-normalised split R-hat can fall a little below 1, where the logarithm has no place.
    excess = (rows["r_hat"] - 1).clip(lower=1e-4)
    _draw_r_hat(axes, rows, methods, excess)
    axes.set_xlim(excess.min() / 1.5, max(excess.max() * 1.5, 0.1))
    # Within less than a decade matplotlib would write out the minor ticks, which have no room on a phone.
    whole_decades(axes, "x")
    axes.xaxis.set_major_formatter(lambda value, _: f"{1 + value:g}")
    axes.set_xlabel("R-hat")
    above = rows[rows["r_hat"] > MAX_R_HAT]
    worst = ", ".join(
        f"{task_name(variant)} {method_name(method)} ({count})"
        for (variant, method), count in Counter(zip(above["variant"], above["method"], strict=True)).most_common(6)
    )
    without = len(ended) - len(rows)
    caption = (
        "The largest rank-normalised split R-hat of predictions and log-likelihood, one mark per run; the line is "
        f"{MAX_R_HAT}, and runs above it are hollow. A good R-hat says that chains agree, not that they are right."
    )
    numbers = [f"{len(rows) - len(above)} of {len(rows)} runs are below the line."]
    numbers += [f"Above it: {worst}."] if worst else []
    numbers += [f"{without} runs have no R-hat."] if without else []
    title = f"The chains of {len(rows) - len(above)} of {len(rows)} runs agree"
    return Drawing(figure, caption, tuple(rows["run"]), title, tuple(numbers))


def _draw_r_hat(axes: Axes, rows: pd.DataFrame, methods: list[str], excess: pd.Series) -> None:
    flags = rows["r_hat"] <= MAX_R_HAT
    for place, method in enumerate(methods):
        own = rows[rows["method"] == method]
        # Spread over the height of the row, in the order of the runs, so that marks do not hide each other.
        heights = place + np.linspace(-0.3, 0.3, len(own)) if len(own) > 1 else np.array([float(place)])
        colour, marker = look_of(method)
        for flag, face in ((True, colour), (False, "white")):
            is_shown = (flags[own.index] == flag).to_numpy(dtype=bool)
            places = excess[own.index].to_numpy()[is_shown], heights[is_shown]
            axes.plot(*places, marker, markersize=3.5, color=colour, markerfacecolor=face)
    axes.axvline(MAX_R_HAT - 1, color="black", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(methods)), [wrapped(method_name(method), 30, 14) for method in methods])
    axes.set_ylim(len(methods) - 0.5, -0.5)


def fate_of(rows: pd.DataFrame) -> pd.Series:
    """What each run came to: its status, and of one that ended well whether it converged."""
    fates = rows["status"].astype(str).where(rows["status"] != "ok", "not converged")
    is_converged = (rows["r_hat"] <= MAX_R_HAT) & (rows["ess_bulk_min"] >= MIN_ESS)
    return fates.where((rows["status"] != "ok") | ~is_converged.fillna(False), "converged")


def draw_coverage(results: StudyResults) -> Drawing:
    """A bar for each task and one for each method: how many of its runs converged, and what became of the others."""
    rows = results.summary.assign(fate=fate_of(results.summary))
    if rows.empty:
        raise NothingToShow("the study has no runs")
    parts = {
        "by task": {task_name(name): rows[rows["variant"] == name] for name in rows["variant"].unique()},
        "by method": {method_name(name): rows[rows["method"] == name] for name in in_order(rows["method"])},
    }
    sizes = [len(part) + 2.5 for part in parts.values()]
    figure = blank(0.6 + ROW * (sum(sizes) if is_narrow() else max(sizes)))
    shape: dict[str, Any] = {"nrows": 2, "height_ratios": sizes} if is_narrow() else {"ncols": 2}
    for axes, (title, part) in zip(figure.subplots(**shape), parts.items(), strict=True):
        _draw_bars(axes, part)
        axes.set_title(title)
    counts = Counter(rows["fate"])
    present = [fate for fate in FATES if counts[fate]]
    entries = [Patch(facecolor=FATES[fate], label=f"{fate} ({counts[fate]})") for fate in present]
    legend(figure, entries, is_below=True, most=len(present))
    reasons = Counter(rows.loc[rows["status"].isin(["skipped", "diverged", "failed", "missing"]), "reason"].fillna(""))
    caption = "Beside each bar, the runs that converged of those asked for, on all backends and seeds."
    title = f"{counts['converged']} of {len(rows)} runs converged"
    numbers = tuple(f"{count} × {reason}" for reason, count in reasons.most_common(4))
    return Drawing(figure, caption, tuple(rows["run"]), title, numbers)


def _draw_bars(axes: Axes, part: dict[str, pd.DataFrame]) -> None:
    """One bar per name: the shares of its runs by what became of them, and how many converged."""
    for place, rows in enumerate(part.values()):
        fates = Counter(rows["fate"])
        start = 0.0
        for fate, colour in FATES.items():
            width = fates[fate] / fates.total()
            axes.barh(place, width, left=start, height=0.75, color=colour, linewidth=0)
            start += width
        axes.text(1.02, place, f"{fates['converged']}/{fates.total()}", va="center", fontsize=SMALL)
    axes.set_yticks(range(len(part)), [wrapped(name, 24) for name in part], fontsize=SMALL)
    axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"], fontsize=SMALL)
    axes.set(xlim=(0, 1.2), ylim=(len(part) - 0.5, -0.5))
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
