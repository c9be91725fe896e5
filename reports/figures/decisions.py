"""The audit: the method's decisions beside the exact ones, and whether the noise is what the penalty takes it for."""

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from records.display import (
    format_name,
    format_number,
    format_setting,
    format_settings,
    format_value,
    method_name,
    task_name,
)
from records.methods import facts_of, in_order
from records.setting_runs import SettingRuns, of_usual_size, one_backend, sweeps
from records.study import StudyResults
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.marks import (
    LINE,
    SMALL,
    blank,
    draw_sweeps,
    few,
    hollow_handles,
    legend,
    panels,
    sweep_text,
    wrapped,
)
from reports.style import is_narrow
from reports.types import Drawing, NothingToShow

#: Mean of the Kolmogorov-Smirnov distance of k normal values from N(0, 1), times sqrt(k): sqrt(pi / 2) log 2.
CHANCE_DISTANCE = math.sqrt(math.pi / 2) * math.log(2)
#: Acceptances of rules that are exact without the decisions of all data.
OWN_RULE = ("poisson", "pseudo-marginal")
#: Inches of a bar with its distance to the next.
BAR_HEIGHT = 0.3


def _audited(results: StudyResults) -> list[SettingRuns]:
    """Settings whose decisions are noisy; those of a full-data chain are exact."""
    return [
        setting
        for setting in one_backend(results.ran())
        if facts_of(setting["method"]).is_minibatch and setting.has("audit_wrong_accepts")
    ]


def draw_decisions(results: StudyResults) -> Drawing:
    """Wrong accepts to the right, wrong rejects to the left, one bar per method: its worst setting of a task."""
    settings = of_usual_size(_audited(results))
    if not settings:
        raise NothingToShow("no run of a mini-batch method has audited decisions")
    ranked = sorted(settings, key=lambda one: -one.mean("audit_wrong_accepts"))
    by_variant: dict[str, dict[str, SettingRuns]] = {setting["variant"]: {} for setting in settings}
    for setting in ranked:
        by_variant[setting["variant"]].setdefault(setting["method"], setting)
    sizes = [len(part) + 1.5 for part in by_variant.values()]
    lines = max(_label(one).count("\n") + 1 for part in by_variant.values() for one in part.values())
    figure = blank(max(BAR_HEIGHT, 1.15 * LINE * lines) * sum(sizes) + 0.9)
    all_axes = figure.subplots(len(by_variant), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axes, (variant, part) in zip(all_axes, by_variant.items(), strict=True):
        _draw_wrong(axes, list(part.values()))
        axes.set_title(task_name(variant), fontsize=10, loc="left")
    limit = max(abs(end) for end in all_axes[-1].get_xlim())
    all_axes[-1].set_xlim(-limit, limit)
    # On a phone names take half of the width, and the label reaches below them.
    end: Literal["right", "center"] = "right" if is_narrow() else "center"
    all_axes[-1].set_xlabel("share of audited steps\n← wrong rejects · wrong accepts →", loc=end)
    # As many ticks whatever the width: the layout, which makes room for their numbers, does not look again.
    all_axes[-1].xaxis.set_major_locator(MaxNLocator(6))
    all_axes[-1].xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    penalised = [setting for setting in settings if facts_of(setting["method"]).acceptance.startswith("penalty")]
    naive = [setting for setting in settings if facts_of(setting["method"]).acceptance == "naive"]
    caption = (
        "A decision is wrong where the exact rule on all data, with the same proposal and random number, decides "
        "otherwise. Wrong rejects cost time, wrong accepts bias. Each method at its worst; 95 % intervals over seeds."
    )
    if own_rule := [one for one in settings if facts_of(one["method"]).acceptance in OWN_RULE]:
        *some, last = map(method_name, in_order(one["method"] for one in own_rule))
        names = " or ".join(filter(None, [", ".join(some), last]))
        caption = (
            "Wrong: on all data the exact rule decides otherwise, with the same random numbers. Wrong rejects cost "
            f"time, wrong accepts bias; those of {names} cost none where the method is exact. Each at its worst."
        )
    others = [one for one in ranked if one is not by_variant[one["variant"]][one["method"]]]
    numbers = (
        *_extremes("With a penalty", penalised),
        *_extremes("Naive", naive),
        *(
            f"Not shown: {task_name(one)}, {format_name(one, 'preconditioner')}: "
            f"{format_value(one, 'audit_wrong_accepts')} wrong accepts, "
            f"{format_value(one, 'audit_wrong_rejects')} wrong rejects."
            for one in others
        ),
        *unconverged_lines(settings),
    )
    return Drawing(figure, caption, runs_of(settings), _message(penalised, naive), numbers)


def _message(penalised: Sequence[SettingRuns], naive: Sequence[SettingRuns]) -> str:
    """The largest shares of wrong accepts, where the penalty lowers them or there is nothing to compare it with."""
    worst = [max(one.mean("audit_wrong_accepts") for one in part) for part in (penalised, naive) if part]
    if not penalised or (naive and worst[0] >= worst[1]):
        return ""
    without = f", {100 * worst[1]:.0f} % in a naive test" if naive else ""
    return f"Wrong accepts: at most {100 * worst[0]:.0f} % of steps with the penalty{without}"


def _label(setting: SettingRuns) -> str:
    return wrapped(format_name(setting, "preconditioner"), 36, 19)


def _draw_wrong(axes: Axes, settings: Sequence[SettingRuns]) -> None:
    for place, setting in enumerate(settings):
        for column, sign, alpha in (("audit_wrong_accepts", 1, 0.9), ("audit_wrong_rejects", -1, 0.45)):
            value = setting.estimate(column)
            if value.mean is None:
                continue
            axes.barh(
                place,
                sign * value.mean,
                height=0.7,
                color=facts_of(setting["method"]).colour,
                alpha=alpha,
                hatch=None if setting.is_converged else "////",
                edgecolor="white",
                linewidth=0,
            )
            if value.low is not None and value.high is not None:
                ends = [sign * value.low, sign * value.high]
                axes.plot(ends, [place, place], color="black", linewidth=1)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(settings)), [_label(setting) for setting in settings], fontsize=SMALL)
    axes.set_ylim(len(settings) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _extremes(what: str, settings: Sequence[SettingRuns]) -> tuple[str, ...]:
    """The least and the largest share of wrong accepts."""
    if not settings:
        return ()
    ordered = sorted(settings, key=lambda setting: setting.mean("audit_wrong_accepts"))
    ends = [
        f"{format_value(one, 'audit_wrong_accepts')} ({task_name(one)}, {format_settings(one, 'preconditioner')})"
        for one in (ordered[:1] if len(ordered) == 1 else [ordered[0], ordered[-1]])
    ]
    return (f"{what}, wrong accepts are {' to '.join(ends)}.",)


def draw_noise(results: StudyResults) -> Drawing:
    """Distance from normality, skewness and the error of the variance estimate, against M."""
    settings = [setting for setting in _audited(results) if setting.has("audit_noise_normality_distance")]
    every = sweeps(settings, "num_batches")
    families = few(every)
    if not families:
        raise NothingToShow("no method has audited runs that differ in M alone; give pbnn two values of num_batches")
    figure, (distance, skewness, variance) = panels(3, columns=3, height=4.2)
    used = [setting for family in every for setting in family]
    steps = min(row["audit_num_steps"] for setting in used for row in setting.ok)
    columns = {
        "audit_noise_normality_distance": (distance, "distance from N(0, 1)", CHANCE_DISTANCE / math.sqrt(steps)),
        "audit_noise_skewness": (skewness, "skewness of the noise", 0.0),
        "audit_variance_ratio_median": (variance, "estimated / true variance", 1.0),
    }
    for column, (axes, title, level) in columns.items():
        handles = draw_sweeps(axes, families, "num_batches", column)
        axes.set_title(title)
        axes.axhline(level, color="black", linestyle=":", linewidth=1.2)
    distance.set_ylim(bottom=0)
    _draw_spread(variance, families)
    legend(figure, [*handles, *hollow_handles(used)], is_below=True, most=2)
    rejected = sum(row["audit_noise_normality_p_value"] < 0.05 for setting in used for row in setting.ok)
    caption = (
        "Left, the largest error of a probability if the noise is treated as normal; dotted, by chance. Right, "
        "the median of estimated over true variance, with the middle 90 % of steps: few mini-batches often "
        "underestimate the noise."
    )
    numbers = (
        f"{steps} audited steps per run; a Kolmogorov-Smirnov test rejects normality at 5 % in {rejected} of "
        f"{len(runs_of(used))} runs.",
        *(f"distance, {sweep_text(one, 'num_batches', 'audit_noise_normality_distance')}" for one in every),
        *(f"skewness, {sweep_text(one, 'num_batches', 'audit_noise_skewness')}" for one in every),
        *(f"variance ratio, {sweep_text(one, 'num_batches', 'audit_variance_ratio_median')}" for one in every),
        "The estimate treats the data as endless, so with many mini-batches it is N/(N - n M) times too large.",
        *unconverged_lines(used),
    )
    return Drawing(figure, caption, runs_of(used), _noise_message(every), numbers)


def _noise_message(families: Sequence[Sequence[SettingRuns]]) -> str:
    """What the fewest mini-batches make of the variance, where they understate it in every family."""
    estimated = [family[0] for family in families if family[0]["variance"] != "oracle"]
    ratios = [one.mean("audit_variance_ratio_median") for one in estimated]
    if not ratios or max(ratios) >= 1:
        return ""
    worst = estimated[ratios.index(min(ratios))]
    return (
        f"Few mini-batches understate the noise: {format_number(min(ratios), 2)} of its variance, in the median, at "
        f"{format_setting(worst, 'num_batches')}"
    )


def _draw_spread(axes: Axes, families: Sequence[Sequence[SettingRuns]]) -> None:
    """The 5 % and 95 % quantiles of the ratio of the variances, means over seeds."""
    for number, family in enumerate(families):
        for setting in family:
            # Families stand side by side, a few per cent apart.
            x = float(setting["num_batches"]) * 1.07 ** (number - (len(families) - 1) / 2)
            ends = [setting.mean("audit_variance_ratio_low"), setting.mean("audit_variance_ratio_high")]
            axes.plot([x, x], ends, color=facts_of(setting["method"]).colour, linewidth=4, alpha=0.2, zorder=1)
