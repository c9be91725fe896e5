"""The audit: the method's decisions beside the exact ones, and whether the noise is what the penalty takes it for."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implementations.methods import METHODS
from reports.figures.groups import (
    Group,
    groups_of,
    one_backend,
    runs_of,
    settings_text,
    sweeps,
    told,
    unconverged_text,
)
from reports.figures.marks import WIDTH, draw_sweeps, panels, sweep_text
from reports.parts import Drawing, NothingToShow
from reports.study import StudyResults
from reports.style import COLOURS

#: Mean of the Kolmogorov-Smirnov distance of k normal values from N(0, 1), times sqrt(k): sqrt(pi / 2) log 2.
CHANCE_DISTANCE = math.sqrt(math.pi / 2) * math.log(2)
#: Inches of a bar with its distance to the next.
BAR_HEIGHT = 0.23


def _audited(results: StudyResults) -> list[Group]:
    """Settings whose decisions are noisy; those of a full-data chain are exact."""
    return [
        group
        for group in one_backend(groups_of(results.ok))
        if METHODS[group["method"]].is_minibatch and group.best("audit_wrong_accepts") is not None
    ]


def draw_decisions(results: StudyResults) -> Drawing:
    """Wrong accepts to the right, wrong rejects to the left, one bar a setting."""
    groups = _audited(results)
    if not groups:
        raise NothingToShow("no run of a mini-batch method has audited decisions")
    by_variant: dict[str, list[Group]] = {}
    for group in groups:
        by_variant.setdefault(group["variant"], []).append(group)
    sizes = [len(part) + 1.5 for part in by_variant.values()]
    figure = Figure(figsize=(WIDTH, BAR_HEIGHT * sum(sizes) + 0.9), layout="constrained")
    all_axes = figure.subplots(len(by_variant), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axes, (variant, part) in zip(all_axes, by_variant.items(), strict=True):
        _draw_wrong(axes, part)
        axes.set_title(variant, fontsize=10, loc="left")
    limit = max(abs(end) for end in all_axes[-1].get_xlim())
    all_axes[-1].set(xlim=(-limit, limit), xlabel="← wrong rejects   share of audited steps   wrong accepts →")
    all_axes[-1].xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    penalised = [group for group in groups if METHODS[group["method"]].acceptance.startswith("penalty")]
    naive = [group for group in groups if METHODS[group["method"]].acceptance == "naive"]
    caption = (
        "A decision is wrong where the exact rule on all data, with the same proposal and the same random number, "
        "decides otherwise. Bars are means over seeds with 95 % intervals. "
        f"{_extremes('With a penalty', penalised)}{_extremes('Naive', naive)}A penalty makes wrong accepts rare and "
        "pays with wrong rejects, that is with time; a method that accepts always has wrong accepts alone."
        f"{unconverged_text(groups)}"
    )
    return Drawing(figure, caption, runs_of(groups))


def _draw_wrong(axes: Axes, groups: Sequence[Group]) -> None:
    for place, group in enumerate(groups):
        for column, sign, alpha in (("audit_wrong_accepts", 1, 0.9), ("audit_wrong_rejects", -1, 0.45)):
            value = group.best(column)
            if value is None or value.mean is None:
                continue
            axes.barh(
                place,
                sign * value.mean,
                height=0.7,
                color=COLOURS[group["method"]],
                alpha=alpha,
                hatch=None if group.is_converged else "////",
                edgecolor="white",
                linewidth=0,
            )
            if value.low is not None and value.high is not None:
                ends = [sign * max(0.0, value.low), sign * value.high]
                axes.plot(ends, [place, place], color="black", linewidth=1)
    axes.axvline(0, color="black", linewidth=0.8)
    texts = [f"{group['method']}, {settings_text(group, 'preconditioner')}" for group in groups]
    axes.set_yticks(range(len(groups)), texts, fontsize=8)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _extremes(what: str, groups: Sequence[Group]) -> str:
    """The least and the largest share of wrong accepts."""
    if not groups:
        return ""
    ordered = sorted(groups, key=lambda group: group.mean("audit_wrong_accepts"))
    ends = [
        f"{told(group, 'audit_wrong_accepts')} ({group['variant']}, {settings_text(group, 'preconditioner')})"
        for group in (ordered[:1] if len(ordered) == 1 else [ordered[0], ordered[-1]])
    ]
    return f"{what}, wrong accepts are {' to '.join(ends)}. "


def draw_noise(results: StudyResults) -> Drawing:
    """Distance from normality, skewness and the error of the variance estimate, against M."""
    groups = [group for group in _audited(results) if group.best("audit_noise_normality_distance") is not None]
    families = sweeps(groups, "num_batches")
    if not families:
        raise NothingToShow("no method has audited runs that differ in M alone; give pbnn two values of num_batches")
    figure, (distance, skewness, variance) = panels(3, columns=3, height=3.8)
    used = [group for family in families for group in family]
    steps = min(int(group.rows["audit_num_steps"].min()) for group in used)
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
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    rejected = sum(int((group.rows["audit_noise_normality_p_value"] < 0.05).sum()) for group in used)
    ends = "; ".join(sweep_text(family, "num_batches", "audit_noise_normality_distance") for family in families)
    skew = "; ".join(sweep_text(family, "num_batches", "audit_noise_skewness") for family in families)
    caption = (
        f"Noise of the loss difference over its true sd, {steps} audited steps a run. Left: the largest error of a "
        f"probability if it is taken for N(0, 1) ({ends}); dotted, what as many normal values give by chance. A "
        f"Kolmogorov-Smirnov test rejects normality at 5 % in {rejected} of {len(runs_of(used))} runs. Middle: "
        f"skewness ({skew}); by the central limit theorem it falls as 1/√M. Right: median of the estimated variance "
        "over the true one, with the middle 90 % of steps as a bar: few mini-batches often see too little noise, and "
        "the penalty is then too small; many are a part of the data that the estimate takes for endless, and overstate "
        f"it by N / (N - n M).{unconverged_text(used)}"
    )
    return Drawing(figure, caption, runs_of(used))


def _draw_spread(axes: Axes, families: Sequence[Sequence[Group]]) -> None:
    """The 5 % and 95 % quantiles of the ratio of the variances, means over seeds."""
    for number, family in enumerate(families):
        for group in family:
            # Families stand side by side, a few per cent apart.
            x = float(group["num_batches"]) * 1.07 ** (number - (len(families) - 1) / 2)
            ends = [group.mean("audit_variance_ratio_low"), group.mean("audit_variance_ratio_high")]
            axes.plot([x, x], ends, color=COLOURS[group["method"]], linewidth=4, alpha=0.2, zorder=1)
