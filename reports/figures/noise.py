"""Figures of noise: acceptance, what the penalty repairs, wrong decisions, and how much noise a rule tolerates."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtr

from implementations.kernels.acceptance import ACCEPTANCES
from implementations.tuning.noise_budget import BIAS_BUDGET, MOST_NOISE, balance_residual, largest_estimated
from records.display import SYMBOLS, format_name, format_number, format_setting, format_value, task_name
from records.methods import facts_of
from records.setting_runs import SettingRuns, of_usual_size, one_backend, sweeps
from records.study import StudyResults
from reports.drawing import MARKERS, SOFT, Axis, Bar, Drawing, Guide, Key, Line, Look, Panel, Point, tick_name
from reports.figures.series import (
    LABELS,
    few,
    figure_of,
    listed,
    point,
    sweep_panel,
    trend,
)
from reports.types import NothingToShow

#: One family of ``sweeps``: settings that differ in one column.
Family = list[SettingRuns]

# Acceptance over n, M and the step


def draw_acceptance(results: StudyResults) -> Drawing:
    """The acceptance rate over every sweep of one setting that the study has."""
    settings = [one for one in one_backend(results.ran()) if not facts_of(one["method"]).always_accepts]
    found = {axis: families for axis in SYMBOLS if (families := sweeps(settings, axis))}
    if not found:
        raise NothingToShow("no method has runs that differ in n, M or η alone; give a study two values of one of them")
    shown = {axis: few(_telling(axis, families)) for axis, families in found.items()}
    rate = Axis(LABELS["acceptance_rate"], low=0, high=1)
    used = [setting for families in shown.values() for family in families for setting in family]
    ways = {axis: trend(filter(_is_penalised, families), "acceptance_rate") for axis, families in shown.items()}
    parts = [f"{way} with {SYMBOLS[axis]}" for axis, way in ways.items() if way]
    return figure_of(
        [sweep_panel(families, axis, "acceptance_rate", y=rate) for axis, families in shown.items()],
        "Each line changes one setting and keeps the others; means over seeds with 95 % intervals.",
        used,
        f"With the penalty, acceptance {listed(parts)}" if parts else "",
    )


def _is_penalised(family: Sequence[SettingRuns]) -> bool:
    return facts_of(family[0]["method"]).acceptance.startswith("penalty")


def _telling(axis: str, families: Sequence[Family]) -> Sequence[Family]:
    """The lines of penalised chains, over n those of one target; all lines where there are none."""
    penalised = list(filter(_is_penalised, families))
    fixed = [one for one in penalised if axis != "batch_size" or one[0]["weight"] != "batch"]
    return fixed or penalised or families


# What the penalty repairs, and its price


def draw_penalty(results: StudyResults) -> Drawing:
    """Predictive sd over the exact one, over sweeps of step and M on the posterior; and acceptance over σ²."""
    settings = one_backend(results.ran(method=["naive", "pbnn", "pbnn_corrected"]))
    exact = [one for one in settings if one["weight"] == "data" and one.has("sd_ratio")]
    found = {
        axis: families
        for axis in ("step_size", "num_batches")
        if (families := [one for one in sweeps(exact, axis) if one[0]["variant"] == exact[0]["variant"]])
    }
    # A chain that does not move has no acceptance to compare.
    audited = [one for one in settings if one["method"] == "pbnn" and one.converged and one.has("acceptance_kept")]
    if not found or not audited:
        raise NothingToShow("no runs of naive and pbnn with w = N differ in η or M alone, or none was audited")
    panels = [sweep_panel(few(families), axis, "sd_ratio") for axis, families in found.items()]
    for panel in panels:
        panel.add(Guide("y", 1, "5 3"))
    lines = [family for families in found.values() for family in families]
    used = [one for family in lines for one in family]
    worst = {
        method: max((one.mean("sd_ratio") for one in used if one["method"] == method and one.converged), default=0)
        for method in ("naive", "pbnn")
    }
    title = (
        f"Without the penalty the band is up to {format_number(worst['naive'])} times as wide as it should be, with it "
        f"up to {format_number(worst['pbnn'])} times"
    )
    return figure_of(
        [*panels, _price_of_the_penalty(audited)],
        f"Predictive sd over the exact one (dashed: right) on {task_name(exact[0])}. Last, PBNN's acceptance over the "
        "exact rule's; the curve is 2Φ(−σ/2), the theory for Gaussian noise between equal losses.",
        [*used, *audited],
        title if worst["naive"] > worst["pbnn"] > 0 else "",
    )


def _price_of_the_penalty(audited: Sequence[SettingRuns]) -> Panel:
    tasks = list(dict.fromkeys(one["task"] for one in audited))
    looks = {task: Look(facts_of("pbnn").colour, MARKERS[place % len(MARKERS)]) for place, task in enumerate(tasks)}
    places = [one.mean("mean_variance") for one in audited]
    variance = np.geomspace(min(places) / 1.5, max(places) * 1.5, 100)
    theory = Key("2Φ(−σ/2)", Look(SOFT), "", has_mark=False)
    keys = [*(Key(task, look) for task, look in looks.items()), theory]
    panel = Panel(x=Axis("σ² of the loss difference", "log"), y=Axis("acceptance kept", low=0, high=1.1), keys=keys)
    panel.add(Line(variance, 2 * ndtr(-np.sqrt(variance) / 2), SOFT))
    for one, place in zip(audited, places, strict=True):
        name = f"{task_name(one)}, {format_name(one)}"
        panel.add(*point(place, one.estimate("acceptance_kept"), looks[one["task"]], one.is_converged, name=name))
    return panel


# The regime map: how much noise a rule tolerates before its decisions leave detailed balance

#: Rules that know their variance from mini-batches alone, and their panels.
RULES = {"penalty": "the penalty", "penalty_corrected": "with the correction"}
#: Settings of the map differ in M and in the step.
MIN_REGIMES = 3
#: From light to dark: more batches know the variance better.
SHADES = ("#a8db34", "#3fbc73", "#21918c", "#31688e", "#443983", "#440154")


def draw_regime_map(results: StudyResults) -> Drawing:
    """The residual of detailed balance against the variance of the loss difference, by M, with the theory."""
    used = [
        one
        for one in one_backend(results.ran(variance=["batches", "batches_finite"]))
        if one.converged and one.has("audit_balance_residual") and facts_of(one["method"]).acceptance in RULES
    ]
    if len(used) < MIN_REGIMES:
        raise NothingToShow(
            f"fewer than {MIN_REGIMES} settings with converged runs have a variance from mini-batches and redrawn moves"
        )
    batches = sorted({int(one["num_batches"]) for one in used})
    looks = {
        count: Look(SHADES[place * (len(SHADES) - 1) // max(1, len(batches) - 1)], MARKERS[place % len(MARKERS)])
        for place, count in enumerate(batches)
    }
    by_rule = {rule: [one for one in used if facts_of(one["method"]).acceptance == rule] for rule in RULES}
    places = [one.mean("mean_variance") for one in used]
    residuals = [one.mean("audit_balance_residual") for one in used]
    grid = np.geomspace(min(0.05, *places), max(MOST_NOISE, *places) * 1.3, 40)
    low, high = 1.5 * min(-BIAS_BUDGET, *residuals), 2 * max(BIAS_BUDGET, *residuals)
    ticks = [sign * value for value in (0.01, 0.1, 1) for sign in (-1, 1) if low <= sign * value <= high]
    y = Axis("r, log excess of moves uphill", "symlog", low, high, [0, *ticks], threshold=BIAS_BUDGET / 2)
    panels = []
    for rule, found in by_rule.items():
        panel = Panel(RULES[rule], Axis("mean estimated σ²", "log", grid[0], grid[-1]), y)
        panel.add(*(Guide("y", budget) for budget in (BIAS_BUDGET, -BIAS_BUDGET)), Guide("x", MOST_NOISE, "5 3"))
        for count in sorted({int(one["num_batches"]) for one in found}):
            theory = [balance_residual(ACCEPTANCES[rule], place, count - 1) for place in grid]
            panel.add(Line(grid, theory, looks[count].colour))
        panel.add(*(_regime(one, looks[int(one["num_batches"])]) for one in found))
        panels += [panel] if found else []
    limits = [
        f"{format_number(largest_within_budget('penalty', count), 2)} with M = {count}"
        for count in dict.fromkeys((batches[0], batches[-1]))
    ]
    above = sum(abs(residual) > BIAS_BUDGET for residual in residuals)
    return figure_of(
        panels,
        "0 is detailed balance. Lines: theory, for Gaussian noise and moves of Δ = 1. Dotted: the bias budget, |r| = "
        f"{BIAS_BUDGET:g}; {above} of {len(used)} settings exceed it. Dashed: σ = 2.38, best where σ² is known.",
        used,
        f"A bias budget of |r| = {BIAS_BUDGET:g} allows σ² up to {' and '.join(limits)}",
        keys=[Key(f"M = {count}", look, "") for count, look in looks.items()],
    )


def largest_within_budget(rule: str, num_batches: int) -> float:
    """The σ² up to which a rule keeps its bias budget under Gaussian noise; at most what is best with σ² known."""
    return largest_estimated(ACCEPTANCES[rule], num_batches - 1)


def _regime(setting: SettingRuns, look: Look) -> Point:
    """With two standard errors of the redrawn moves, which a single seed has too."""
    mean, place = setting.mean("audit_balance_residual"), setting.mean("mean_variance")
    errors = [row["audit_balance_residual_mc"] for row in setting.evidence if row["audit_balance_residual_mc"]]
    half = 2 * math.hypot(*errors) / len(errors) if errors else 0.0
    return Point(
        place, mean, look, y_ends=(mean - half, mean + half), name=f"{task_name(setting)}, {format_name(setting)}"
    )


# The audit of decisions and of the noise

#: Mean of the Kolmogorov-Smirnov distance of k normal values from N(0, 1), times sqrt(k): sqrt(pi / 2) log 2.
CHANCE_DISTANCE = math.sqrt(math.pi / 2) * math.log(2)
ACCEPTS, REJECTS = "audit_wrong_accepts", "audit_wrong_rejects"


def _audited(results: StudyResults) -> list[SettingRuns]:
    """Settings of mini-batch methods whose decisions were compared with those of the exact rule."""
    ran = one_backend(results.ran())
    return [one for one in ran if facts_of(one["method"]).is_minibatch and one.has(ACCEPTS)]


def draw_decisions(results: StudyResults) -> Drawing:
    """Wrong accepts to the right, wrong rejects to the left, a bar for each method: its worst setting of a task."""
    settings = of_usual_size(_audited(results))
    if not settings:
        raise NothingToShow("no run of a mini-batch method has audited decisions")
    worst: dict[str, dict[str, SettingRuns]] = {setting["variant"]: {} for setting in settings}
    for one in sorted(settings, key=lambda one: -one.mean(ACCEPTS)):
        worst[one["variant"]].setdefault(one["method"], one)
    shown = [one for part in worst.values() for one in part.values()]
    limit = 1.05 * max(end for one in shown for column in (ACCEPTS, REJECTS) for end in _ends(one, column))
    share = Axis("share of steps: ← wrong rejects · wrong accepts →", low=-limit, high=limit, name=_without_sign)
    panels = []
    for variant, part in worst.items():
        names = [format_name(one, "preconditioner") for one in part.values()]
        panels.append(Panel(task_name(variant), share, height=13, rows=names))
        panels[-1].add(*(shape for row, one in enumerate(part.values()) for shape in _decisions(row, one)))
        panels[-1].add(Guide("x", 0, ""))
    penalised, naive = (
        max((one.mean(ACCEPTS) for one in settings if facts_of(one["method"]).acceptance.startswith(rule)), default=0)
        for rule in ("penalty", "naive")
    )
    title = (
        f"Wrong accepts: at most {100 * penalised:.0f} % of steps with the penalty, {100 * naive:.0f} % in a naive test"
    )
    return figure_of(
        panels,
        "Wrong: on all data the exact rule decides otherwise, with the same random numbers. Wrong rejects (pale) cost "
        "time, wrong accepts bias, unless a method is exact by a rule of its own. Each at its worst.",
        settings,
        title if 0 < penalised < naive else "",
        notes=(
            *(
                f"{task_name(one)}, {format_name(one, 'preconditioner')}: {format_value(one, ACCEPTS)} wrong accepts, "
                f"{format_value(one, REJECTS)} wrong rejects."
                for one in settings
            ),
        ),
    )


def _without_sign(value: float) -> str:
    return tick_name(abs(value))


def _ends(setting: SettingRuns, column: str) -> list[float]:
    value = setting.estimate(column)
    return [end for end in (value.mean, value.high) if end is not None]


def _decisions(row: int, setting: SettingRuns) -> list[Bar | Line]:
    shapes: list[Bar | Line] = []
    colour = facts_of(setting["method"]).colour
    for column, sign, opacity in ((ACCEPTS, 1, 0.9), (REJECTS, -1, 0.45)):
        value = setting.estimate(column)
        if value.mean is not None:
            ends = (0, sign * value.mean)
            shapes.append(Bar(ends, (row - 0.42, row + 0.42), colour, opacity, not setting.is_converged))
        if value.low is not None and value.high is not None:
            shapes.append(Line([sign * value.low, sign * value.high], [row, row]))
    return shapes


def draw_noise(results: StudyResults) -> Drawing:
    """Distance from normality, skewness and the error of the variance estimate, against M."""
    every = sweeps([one for one in _audited(results) if one.has("audit_noise_normality_distance")], "num_batches")
    if not every:
        raise NothingToShow("no method has audited runs that differ in M alone; give pbnn two values of num_batches")
    used = [setting for family in every for setting in family]
    rows = [row for setting in used for row in setting.ok]
    steps = min(row["audit_num_steps"] for row in rows)
    columns: Mapping[str, tuple[str, float]] = {
        "audit_noise_normality_distance": ("distance from N(0, 1)", CHANCE_DISTANCE / math.sqrt(steps)),
        "audit_noise_skewness": ("skewness of the noise", 0.0),
        "audit_variance_ratio_median": ("estimated / true variance", 1.0),
    }
    panels = []
    for column, (title, level) in columns.items():
        panels.append(sweep_panel(few(every), "num_batches", column, title=title, y=Axis()))
        panels[-1].add(Guide("y", level))
    keys, panels[-1].keys = panels[-1].keys, ()
    for panel in panels:
        panel.keys = ()
    for number, family in enumerate(few(every)):
        for one in family:
            # Families are a few per cent apart, so that their spreads do not hide each other.
            place = float(one["num_batches"]) * 1.07 ** (number - (len(few(every)) - 1) / 2)
            ends = [one.mean("audit_variance_ratio_low"), one.mean("audit_variance_ratio_high")]
            panels[-1].add(Line([place, place], ends, facts_of(one["method"]).colour, width=0.7))
    rejected = sum(row["audit_noise_normality_p_value"] < 0.05 for row in rows)
    fewest = [family[0] for family in every if family[0]["variance"] != "oracle"]
    least = min(fewest, key=lambda one: one.mean("audit_variance_ratio_median"), default=None)
    title = ""
    if least and max(one.mean("audit_variance_ratio_median") for one in fewest) < 1:
        share = format_number(least.mean("audit_variance_ratio_median"), 2)
        title = (
            f"Few mini-batches understate the noise: {share} of its variance, in the median, at "
            f"{format_setting(least, 'num_batches')}"
        )
    return figure_of(
        panels,
        "First, the largest error of a probability if the noise is treated as normal; dotted, by chance. Last, the "
        "median of estimated over true variance, with the middle 90 % of steps (thin): few mini-batches often "
        "underestimate the noise.",
        used,
        title,
        notes=(
            f"{steps} audited steps per run; a Kolmogorov-Smirnov test rejects normality at 5 % in {rejected} of "
            f"{len(rows)} runs.",
            "The estimate treats the data as endless, so with many mini-batches it is N/(N - n M) times too large.",
        ),
        keys=keys,
    )
