"""What ran, and what may be believed: R-hat of every run, and the fate of every run asked for."""

from collections import Counter

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from implementations.backends import BACKENDS
from implementations.methods import METHODS
from reports.figures.marks import WIDTH, panels
from reports.parts import Drawing, NothingToShow
from reports.study import MAX_R_HAT, StudyResults, is_converged
from reports.style import COLOURS

#: What a run can come to, worst last, with its colour.
FATES = {
    "converged": "#8fc98f",
    "not converged": "#f3d27a",
    "skipped": "#d5d5d5",
    "diverged": "#e59a7a",
    "failed": "#d96b6b",
    "missing": "#f2c4c4",
}


def draw_convergence(results: StudyResults) -> Drawing:
    """R-hat - 1 of every run, by method and task, on a logarithmic axis with the line of 1.05."""
    rows = results.ok[results.ok["r_hat"].notna()]
    if rows.empty:
        raise NothingToShow("no run that ended well has an R-hat, which needs two chains or more of four draws or more")
    variants = list(rows["variant"].unique())
    figure, all_axes = panels(len(variants), height=2.9)
    # Rank-normalised split R-hat can fall a little below 1, where the logarithm has no place.
    excess = (rows["r_hat"] - 1).clip(lower=1e-4)
    for axes, variant in zip(all_axes, variants, strict=True):
        _draw_r_hat(axes, rows[rows["variant"] == variant], excess)
        axes.set_title(variant)
        axes.set_xlim(excess.min() / 1.5, max(excess.max() * 1.5, 0.1))
        axes.xaxis.set_major_formatter(lambda value, _: f"{1 + value:g}")
        axes.set_xlabel("R-hat" if axes in all_axes[-2:] else "")
    above = rows[~is_converged(rows)]
    worst = ", ".join(
        f"{variant} {method} ({count})"
        for (variant, method), count in Counter(zip(above["variant"], above["method"], strict=True)).most_common(6)
    )
    without = len(results.ok) - len(rows)
    caption = (
        f"The largest rank-normalised split R-hat of predictions and log-likelihood, one mark a run; the line is "
        f"{MAX_R_HAT}. {len(rows) - len(above)} of {len(rows)} runs are below it"
        + (f"; above it, hollow: {worst}" if worst else "")
        + (f". {without} runs have no R-hat" if without else "")
        + ". A biased chain can have a good R-hat: it says that the chains agree, not that they are right."
    )
    return Drawing(figure, caption, tuple(rows["run"]))


def _draw_r_hat(axes: Axes, rows: pd.DataFrame, excess: pd.Series) -> None:
    methods = [method for method in METHODS if method in set(rows["method"])]
    flags = is_converged(rows)
    for place, method in enumerate(methods):
        own = rows[rows["method"] == method]
        # Spread over the height of the row, in the order of the runs, so that marks do not hide each other.
        heights = place + np.linspace(-0.3, 0.3, len(own)) if len(own) > 1 else np.array([float(place)])
        for flag, face in ((True, COLOURS[method]), (False, "white")):
            is_shown = (flags[own.index] == flag).to_numpy(dtype=bool)
            places = excess[own.index].to_numpy()[is_shown], heights[is_shown]
            axes.plot(*places, "o", markersize=4, color=COLOURS[method], markerfacecolor=face)
    axes.axvline(MAX_R_HAT - 1, color="black", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.5, -0.5)


def fate_of(rows: pd.DataFrame) -> pd.Series:
    """What each run came to: its status, and of one that ended well whether it converged."""
    fates = rows["status"].astype(str).where(rows["status"] != "ok", "not converged")
    return fates.where(~is_converged(rows), "converged")


def draw_coverage(results: StudyResults) -> Drawing:
    """A cell for each method and backend of a task: how many of its runs converged, and the worst that befell one."""
    rows = results.summary.assign(fate=fate_of(results.summary))
    if rows.empty:
        raise NothingToShow("the study has no runs")
    methods = [method for method in METHODS if method in set(rows["method"])]
    columns = {
        variant: [backend for backend in BACKENDS if backend in set(rows[rows["variant"] == variant]["backend"])]
        for variant in rows["variant"].unique()
    }
    figure = Figure(figsize=(WIDTH, 1.6 + 0.42 * len(methods)), layout="constrained")
    widths = [len(backends) for backends in columns.values()]
    all_axes = figure.subplots(1, len(columns), sharey=True, squeeze=False, width_ratios=widths)[0]
    for axes, (variant, backends) in zip(all_axes, columns.items(), strict=True):
        _draw_cells(axes, rows[rows["variant"] == variant], methods, backends)
        axes.set_title(variant.replace("-", "\n"), fontsize=9.5)
    all_axes[0].set_yticks(range(len(methods)), methods)
    counts = Counter(rows["fate"])
    present = [fate for fate in FATES if counts[fate]]
    figure.legend(
        handles=[Patch(facecolor=FATES[fate], label=f"{fate} ({counts[fate]})") for fate in present],
        loc="outside lower center",
        ncols=len(present),
        fontsize=8.5,
    )
    reasons = Counter(rows.loc[rows["status"].isin(["skipped", "diverged", "failed", "missing"]), "reason"].fillna(""))
    told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common(4))
    caption = (
        f"Converged runs of those asked for, by method and backend; a cell is split by what its runs came to. Of "
        f"{len(rows)} runs "
        + ", ".join(f"{counts[fate]} {fate}" for fate in present)
        + (f". Reasons: {told}." if told else ".")
    )
    return Drawing(figure, caption, tuple(rows["run"]))


def _draw_cells(axes: Axes, rows: pd.DataFrame, methods: list[str], backends: list[str]) -> None:
    for column, backend in enumerate(backends):
        for line, method in enumerate(methods):
            fates = Counter(rows[(rows["backend"] == backend) & (rows["method"] == method)]["fate"])
            if not fates:
                continue
            start = column - 0.47
            for fate, colour in FATES.items():
                width = 0.94 * fates[fate] / fates.total()
                axes.barh(line, width, left=start, height=0.9, color=colour, linewidth=0)
                start += width
            text = f"{fates['converged']}/{fates.total()}"
            axes.text(column, line, text, ha="center", va="center", fontsize=8)
    axes.set_xticks(range(len(backends)), [backend.replace("-", "\n") for backend in backends], fontsize=8)
    axes.set(xlim=(-0.5, len(backends) - 0.5), ylim=(len(methods) - 0.5, -0.5))
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
