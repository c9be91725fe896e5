"""Is PBNN something else than tempering? Its distance from the tempered posterior of the same n.

Within a data set the mean of the mini-batch loss is the tempered loss, so a penalty of the exact variance keeps the
tempered posterior. What an estimated variance and skewed noise add shrinks with the step and with M; what is left at a
small step and a large M would be a difference of targets.
"""

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

from metrics.fidelity import RESOLUTION
from reports.figures.groups import (
    SYMBOLS,
    Group,
    choose,
    groups_of,
    one_backend,
    runs_of,
    settings_text,
    sweeps,
    told,
    unconverged_text,
)
from reports.figures.marks import draw_sweeps, handle, panels
from reports.parts import Drawing, NothingToShow
from reports.study import StudyResults
from reports.style import COLOURS, LABELS

#: What measures the distance, and its value at no distance.
COLUMNS = {"sd_ratio": 1.0, "mean_error": 0.0, "sliced_w2": 0.0}
AXES = ("step_size", "num_batches")


def draw_targets(results: StudyResults) -> Drawing:
    """sd ratio, error of the mean and sliced W2 of PBNN against step size and M, beside the tempered chain's own."""
    groups = [
        group
        for group in one_backend(groups_of(results.ok))
        if group["weight"] == "batch" and group.best("sliced_w2") is not None
    ]
    penalised = [group for group in groups if group["method"] == "pbnn" and group["variance"] != "oracle"]
    found = {axis: families for axis in AXES if (families := sweeps(penalised, axis))}
    if not found:
        raise NothingToShow(
            "needs pbnn with weight = batch at two values of step_size or of num_batches, on a task with a reference"
        )
    figure, all_axes = panels(len(COLUMNS) * len(found), columns=len(COLUMNS), height=2.9)
    tempered = [_tempered(groups, family[0]) for families in found.values() for family in families]
    levels = list({group["run"]: group for group in tempered if group is not None}.values())
    handles = []
    for place, (axis, families) in enumerate(found.items()):
        row = all_axes[place * len(COLUMNS) : (place + 1) * len(COLUMNS)]
        for axes, (column, right) in zip(row, COLUMNS.items(), strict=True):
            entries = draw_sweeps(axes, families, axis, column)
            axes.axhline(right, color="black", linewidth=1)
            axes.set_title(LABELS[column], fontsize=9.5)
            for level in levels:
                _draw_level(axes, level, column)
            # A distance is never below 0, whatever the interval of its mean.
            axes.set_ylim(bottom=0 if right == 0 else None)
        handles += entries
    handles = list({entry.get_label(): entry for entry in handles}.values())
    handles += [
        handle(f"{level['variant']}: tempered, n = {level['batch_size']}", COLOURS["tempered"], "", "--")
        for level in levels
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    used = [group for families in found.values() for family in families for group in family]
    caption = (
        "Distance of pbnn's draws from the tempered posterior of the same n, in its sd; black, no distance; orange, "
        "what the tempered chain itself has, that is Monte Carlo error alone. "
        f"{' '.join(_sentence(family, axis) for axis, families in found.items() for family in families)} "
        f"{_least(used, levels)} What grows with η and falls with M is the regime of the noise; a difference of "
        f"targets would stay where η is small and M large.{unconverged_text([*used, *levels])}"
    )
    return Drawing(figure, caption, runs_of([*used, *levels]))


def _tempered(groups: Iterable[Group], like: Group) -> Group | None:
    """The tempered chain of the same task and n."""
    return choose(
        group
        for group in groups
        if group["method"] == "tempered"
        and group["variant"] == like["variant"]
        and group["batch_size"] == like["batch_size"]
    )


def _draw_level(axes: Axes, group: Group, column: str) -> None:
    value = group.best(column)
    if value is None or value.mean is None:
        return
    axes.axhline(value.mean, color=COLOURS["tempered"], linestyle="--", linewidth=1.5, zorder=1)
    if value.low is not None and value.high is not None:
        axes.axhspan(value.low, value.high, color=COLOURS["tempered"], alpha=0.15, linewidth=0, zorder=0)


def _sentence(family: Sequence[Group], axis: str) -> str:
    steps = ", ".join(f"{told(group, 'sd_ratio')} at {SYMBOLS[axis]} = {group[axis]:.3g}" for group in family)
    return f"{family[0]['variant']}, {settings_text(family[0], axis, 'preconditioner')}: sd ratio {steps}."


def _least(groups: Sequence[Group], levels: Sequence[Group]) -> str:
    """The least noisy setting, and whether its distance is more than chance."""
    least = min(groups, key=lambda group: group.mean("mean_variance"))
    rows = least.shown()
    resolved = int(rows["sliced_w2_resolved"].fillna(False).sum())
    beside = "".join(f", the tempered chain's {told(one, 'sliced_w2')}" for one in levels[:1])
    return (
        f"Where the noise is least ({settings_text(least, 'preconditioner')}, σ² = {least.mean('mean_variance'):.2g}) "
        f"the sliced W2 is {told(least, 'sliced_w2')}{beside}; in {resolved} of {len(rows)} seeds it exceeds "
        f"{RESOLUTION:g} Monte Carlo errors.{_finite(least)}"
    )


def _finite(group: Group) -> str:
    """How much the paper's estimate, which knows nothing of a finite data set, overstates the variance."""
    share = float(group["batch_size"] * group["num_batches"] / group["num_points"])
    if group["variance"] != "batches" or share < 0.05:
        return ""
    return f" A step of it reads {share:.0%} of the data, so its variance is overstated by {share / (1 - share):.0%}."
