"""The regime map: how much noise a rule bears before its decisions leave detailed balance, by the number of batches."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes

from implementations.kernels.acceptance import ACCEPTANCES
from implementations.tuning.noise_budget import BIAS_BUDGET, MOST_NOISE, balance_residual, largest_estimated
from records.display import format_name, format_number, format_value, task_name
from records.methods import facts_of
from records.setting_runs import SettingRuns, one_backend
from records.study import StudyResults
from reports.figures.captions import runs_of
from reports.figures.marks import MARKERS, draw_mark, handle, legend, panels
from reports.style import EXACT, is_narrow
from reports.types import Drawing, NothingToShow

#: Rules that know their variance from mini-batches alone, and their panels.
RULES = {"penalty": "the penalty", "penalty_corrected": "with the correction"}
#: Settings of the map differ in M and in the step.
MIN_REGIMES = 3
#: Of the data in one step, from which an estimate that takes them for none is noticeably too large.
LARGE_SHARE = 0.1
NUM_PLACES = 40


def draw_regime_map(results: StudyResults) -> Drawing:
    """The residual of detailed balance against the variance of the loss difference, by M, with the theory."""
    used = [
        one
        for one in one_backend(results.ran(variance=["batches", "batches_finite"]))
        # A chain that does not move has noise beyond any rule.
        if one.converged and one.has("audit_balance_residual") and facts_of(one["method"]).acceptance in RULES
    ]
    if len(used) < MIN_REGIMES:
        raise NothingToShow(
            f"fewer than {MIN_REGIMES} settings with converged runs have a variance from mini-batches and redrawn moves"
        )
    of_rule = {rule: [one for one in used if facts_of(one["method"]).acceptance == rule] for rule in RULES}
    shown = {rule: found for rule, found in of_rule.items() if found}
    figure, all_axes = panels(len(shown), height=3.4 if is_narrow() else 4.2)
    batches = sorted({int(one["num_batches"]) for one in used})
    looks = {
        num_batches: (colour, MARKERS[number % len(MARKERS)])
        for number, (num_batches, colour) in enumerate(zip(batches, _shades(len(batches)), strict=True))
    }
    places = [one.mean("mean_variance") for one in used]
    grid = np.geomspace(min(0.05, *places), max(MOST_NOISE, *places) * 1.3, NUM_PLACES)
    residuals = [one.mean("audit_balance_residual") for one in used]
    for axes, (rule, found) in zip(all_axes, shown.items(), strict=True):
        for one in found:
            look = looks[int(one["num_batches"])]
            draw_mark(axes, one.mean("mean_variance"), one.estimate("audit_balance_residual"), True, *look)
            _draw_error(axes, one, look[0])
        for num_batches in sorted({int(one["num_batches"]) for one in found}):
            theory = [balance_residual(ACCEPTANCES[rule], place, num_batches - 1) for place in grid]
            axes.plot(grid, theory, color=looks[num_batches][0], linewidth=1.4)
        for budget in (BIAS_BUDGET, -BIAS_BUDGET):
            axes.axhline(budget, color=EXACT, linestyle=":", linewidth=1.2)
        axes.axvline(MOST_NOISE, color=EXACT, linestyle="--", linewidth=1)
        axes.set(xscale="log", title=RULES[rule], xlabel="mean estimated σ²", ylabel="r, log excess of moves uphill")
        axes.set_yscale("symlog", linthresh=BIAS_BUDGET)
        axes.set_ylim(1.5 * min(-BIAS_BUDGET, *residuals), 2 * max(BIAS_BUDGET, *residuals))
    legend(figure, [handle(f"M = {num_batches}", *look) for num_batches, look in looks.items()], most=6)
    above = sum(abs(one.mean("audit_balance_residual")) > BIAS_BUDGET for one in used)
    caption = (
        "0 is detailed balance. Lines: theory, for Gaussian noise and moves of Δ = 1. Dotted: the bias budget, "
        f"|r| = {BIAS_BUDGET:g}; {above} of {len(used)} settings exceed it. Dashed: σ = 2.38, best where σ² is known."
    )
    numbers = (*(_limit(num_batches, shown) for num_batches in batches), *map(_measured, used))
    return Drawing(figure, caption, runs_of(used), _message(batches), numbers)


def largest_within_budget(rule: str, num_batches: int) -> float:
    """The σ² up to which a rule keeps its bias budget under Gaussian noise; at most what is best with σ² known."""
    return largest_estimated(ACCEPTANCES[rule], num_batches - 1)


def _message(batches: Sequence[int]) -> str:
    """``A bias budget of |r| = 0.02 allows σ² up to 0.29 with M = 2 and 1.2 with M = 10``"""
    ends = dict.fromkeys((batches[0], batches[-1]))
    limits = [f"{format_number(largest_within_budget('penalty', one), 2)} with M = {one}" for one in ends]
    return f"A bias budget of |r| = {BIAS_BUDGET:g} allows σ² up to {' and '.join(limits)}"


def _limit(num_batches: int, rules: Iterable[str]) -> str:
    """What the budget allows with this many mini-batches, for each rule of the figure."""
    limits = [f"{format_number(largest_within_budget(rule, num_batches), 2)} ({RULES[rule]})" for rule in rules]
    return f"M = {num_batches}: in theory r is within {BIAS_BUDGET:g} up to σ² = {' or '.join(limits)}."


def _measured(setting: SettingRuns) -> str:
    share = setting["batch_size"] * setting["num_batches"] / setting["num_points"]
    is_ignored = share >= LARGE_SHARE and setting["variance"] == "batches"
    much = f"; n M is {share:.0%} of N, which the estimate ignores" if is_ignored else ""
    return (
        f"{task_name(setting)}, {format_name(setting)}: r = {format_value(setting, 'audit_balance_residual')} at "
        f"σ² = {format_number(setting.mean('mean_variance'), 2)}{much}."
    )


def _draw_error(axes: Axes, setting: SettingRuns, colour: str) -> None:
    """Two standard errors, which a single seed has too."""
    errors = [row["audit_balance_residual_mc"] for row in setting.evidence if row["audit_balance_residual_mc"]]
    if errors:
        half = 2 * math.sqrt(sum(error**2 for error in errors)) / len(errors)
        x, mean = setting.mean("mean_variance"), setting.mean("audit_balance_residual")
        axes.plot([x, x], [mean - half, mean + half], color=colour, linewidth=1.3, alpha=0.7)


def _shades(count: int) -> list[str]:
    """From light to dark: more batches know the variance better."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis_r"](share)) for share in np.linspace(0.2, 0.95, count)]
