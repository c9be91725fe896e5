"""What ran, and what may be believed: R-hat of every run, and the fate of every run asked for."""

import re
from collections import Counter

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from implementations.backends import BACKENDS
from records.display import method_name
from records.methods import facts_of, in_order
from records.setting import MAX_R_HAT, MIN_ESS
from records.study import StudyResults
from reports.figures.marks import WIDTH, panels
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
#: Letters of a heading that have room above a column of ``draw_coverage``, and a letter's width in inches.
MAX_LETTERS, LETTER = 6, 0.08


def draw_convergence(results: StudyResults) -> Drawing:
    """R-hat - 1 of every run, by method and task, on a logarithmic axis with the line of 1.05."""
    ended = results.summary[results.summary["status"] == "ok"]
    rows = ended[ended["r_hat"].notna()]
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
    above = rows[rows["r_hat"] > MAX_R_HAT]
    worst = ", ".join(
        f"{variant} {method_name(method)} ({count})"
        for (variant, method), count in Counter(zip(above["variant"], above["method"], strict=True)).most_common(6)
    )
    without = len(ended) - len(rows)
    caption = (
        "The largest rank-normalised split R-hat of predictions and log-likelihood, one mark per run; the line is "
        f"{MAX_R_HAT}, and what is above it is hollow. A good R-hat says that chains agree, not that they are right."
    )
    numbers = [f"{len(rows) - len(above)} of {len(rows)} runs are below the line."]
    numbers += [f"Above it: {worst}."] if worst else []
    numbers += [f"{without} runs have no R-hat."] if without else []
    title = f"The chains of {len(rows) - len(above)} of {len(rows)} runs agree"
    return Drawing(figure, caption, tuple(rows["run"]), title, tuple(numbers))


def _draw_r_hat(axes: Axes, rows: pd.DataFrame, excess: pd.Series) -> None:
    methods = in_order(rows["method"])
    flags = rows["r_hat"] <= MAX_R_HAT
    for place, method in enumerate(methods):
        own = rows[rows["method"] == method]
        # Spread over the height of the row, in the order of the runs, so that marks do not hide each other.
        heights = place + np.linspace(-0.3, 0.3, len(own)) if len(own) > 1 else np.array([float(place)])
        for flag, face in ((True, facts_of(method).colour), (False, "white")):
            is_shown = (flags[own.index] == flag).to_numpy(dtype=bool)
            places = excess[own.index].to_numpy()[is_shown], heights[is_shown]
            axes.plot(*places, "o", markersize=4, color=facts_of(method).colour, markerfacecolor=face)
    axes.axvline(MAX_R_HAT - 1, color="black", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(methods)), [method_name(method) for method in methods])
    axes.set_ylim(len(methods) - 0.5, -0.5)


def fate_of(rows: pd.DataFrame) -> pd.Series:
    """What each run came to: its status, and of one that ended well whether it converged."""
    fates = rows["status"].astype(str).where(rows["status"] != "ok", "not converged")
    is_converged = (rows["r_hat"] <= MAX_R_HAT) & (rows["ess_bulk_min"] >= MIN_ESS)
    return fates.where((rows["status"] != "ok") | ~is_converged.fillna(False), "converged")


def draw_coverage(results: StudyResults) -> Drawing:
    """A cell for each method and backend of a task: how many of its runs converged, and the worst that befell one."""
    rows = results.summary.assign(fate=fate_of(results.summary))
    if rows.empty:
        raise NothingToShow("the study has no runs")
    methods = in_order(rows["method"])
    columns = {
        variant: [backend for backend in BACKENDS if backend in set(rows[rows["variant"] == variant]["backend"])]
        for variant in rows["variant"].unique()
    }
    # A name that is longer than its panel is wide stands on its side.
    upright = {variant for variant, backends in columns.items() if len(variant) > MAX_LETTERS * len(backends)}
    height = 1.6 + 0.42 * len(methods) + LETTER * max(map(len, upright), default=0)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    widths = [len(backends) for backends in columns.values()]
    all_axes = figure.subplots(1, len(columns), sharey=True, squeeze=False, width_ratios=widths)[0]
    for axes, (variant, backends) in zip(all_axes, columns.items(), strict=True):
        _draw_cells(axes, rows[rows["variant"] == variant], methods, backends)
        axes.set_title(_heading(variant), fontsize=9.5, rotation=90 if variant in upright else 0)
    all_axes[0].set_yticks(range(len(methods)), [method_name(method) for method in methods])
    counts = Counter(rows["fate"])
    present = [fate for fate in FATES if counts[fate]]
    figure.legend(
        handles=[Patch(facecolor=FATES[fate], label=f"{fate} ({counts[fate]})") for fate in present],
        loc="outside lower center",
        ncols=len(present),
        fontsize=8.5,
    )
    reasons = Counter(rows.loc[rows["status"].isin(["skipped", "diverged", "failed", "missing"]), "reason"].fillna(""))
    caption = "Converged runs of those asked for, by method and backend; a cell is split by what its runs came to."
    title = f"{counts['converged']} of {len(rows)} runs converged"
    numbers = tuple(f"{count} × {reason}" for reason, count in reasons.most_common(4))
    return Drawing(figure, caption, tuple(rows["run"]), title, numbers)


def _heading(variant: str) -> str:
    """``linear, N = 10,000``"""
    return re.sub(r"-points(\d+)", lambda found: f", N = {int(found[1]):,}", variant)


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
