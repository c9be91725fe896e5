"""Is PBNN something else than tempering? Its distance from the tempered posterior of the same n.

Within a data set the mean of the mini-batch loss is the tempered loss, so a penalty of the exact variance keeps the
tempered posterior. What an estimated variance and skewed noise add shrinks with the step and with M; what is left at a
small step and a large M would be a difference of targets.
"""

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from metrics.fidelity import RESOLUTION
from records.display import format_name, format_number, format_setting, format_settings, format_value, task_name
from records.methods import facts_of
from records.setting_runs import SettingRuns, nearest, one_backend, sweeps
from records.study import StudyResults
from reports.figures.captions import SAME_WIDTH, over_seeds, runs_of, unconverged_lines
from reports.figures.marks import draw_sweeps, handle, hollow_handles, legend, panels
from reports.style import LABELS
from reports.types import Drawing, NothingToShow

#: What measures the distance, and its value at no distance.
COLUMNS = {"sd_ratio": 1.0, "mean_error": 0.0, "sliced_w2": 0.0}
AXES = ("step_size", "num_batches")


def draw_targets(results: StudyResults) -> Drawing:
    """sd ratio, error of the mean and sliced W2 of PBNN against step size and M, beside the tempered chain's own."""
    settings = [
        setting for setting in one_backend(results.ran()) if setting["weight"] == "batch" and setting.has("sliced_w2")
    ]
    penalised = [setting for setting in settings if setting["method"] == "pbnn" and setting["variance"] != "oracle"]
    found = {axis: families for axis in AXES if (families := sweeps(penalised, axis))}
    if not found:
        raise NothingToShow(
            "needs pbnn with weight = batch at two values of step_size or of num_batches, on a task with a reference"
        )
    figure, all_axes = panels(len(COLUMNS) * len(found), columns=len(COLUMNS), height=2.9)
    tempered = [_tempered(settings, family[0]) for families in found.values() for family in families]
    levels = list({setting["run"]: setting for setting in tempered if setting is not None}.values())
    handles: list[Line2D] = []
    for place, (axis, families) in enumerate(found.items()):
        row = all_axes[place * len(COLUMNS) : (place + 1) * len(COLUMNS)]
        for axes, (column, right) in zip(row, COLUMNS.items(), strict=True):
            entries = draw_sweeps(axes, families, axis, column)
            axes.axhline(right, color="black", linewidth=1)
            axes.set_title(LABELS[column] if place == 0 else "", fontsize=9.5)
            for level in levels:
                _draw_level(axes, level, column)
            # A distance is never below 0, whatever the interval of its mean.
            axes.set_ylim(bottom=0 if right == 0 else None)
        # What looks alike is one entry: the panels below each other are named by their axes.
        handles += [entry for entry in entries if _look(entry) not in map(_look, handles)]
    for entry in handles[:1] if len({_look(entry) for entry in handles}) == 1 else []:
        entry.set_label(f"{task_name(families[0][0])}: {format_name(families[0][0], *AXES, 'preconditioner')}")
    handles += [
        handle(f"{task_name(level)}: {format_name(level, 'step_size')}", facts_of("tempered").colour, "", "--")
        for level in levels
    ]
    used = [setting for families in found.values() for family in families for setting in family]
    legend(figure, [*handles, *hollow_handles(used)], is_below=True, most=2)
    caption = (
        "Black, the tempered posterior of the same n; orange, the tempered chain's own distance, which is Monte Carlo "
        "error (subtracted from that of the mean). Noise grows with η and falls with M; a difference between targets "
        "would not."
    )
    numbers = [_sentence(family, axis) for axis, families in found.items() for family in families]
    return Drawing(
        figure,
        caption,
        runs_of([*used, *levels]),
        _message(_quietest(used)),
        (*numbers, _least(used, levels), *unconverged_lines([*used, *levels])),
    )


def _look(entry: Line2D) -> tuple[object, ...]:
    return entry.get_color(), entry.get_marker(), entry.get_linestyle(), entry.get_markerfacecolor()


def _quietest(settings: Sequence[SettingRuns]) -> SettingRuns:
    return min(settings, key=lambda setting: setting.mean("mean_variance"))


def _message(least: SettingRuns) -> str:
    if abs(least.mean("sd_ratio") - 1) > SAME_WIDTH:
        return ""
    return (
        f"Where its noise is small, PBNN samples the tempered posterior: {format_number(least.mean('sd_ratio'))} "
        f"of its width at σ² = {format_number(least.mean('mean_variance'), 2)}"
    )


def _tempered(settings: Iterable[SettingRuns], like: SettingRuns) -> SettingRuns | None:
    """The tempered chain of the same task and n."""
    return nearest(
        setting
        for setting in settings
        if setting["method"] == "tempered"
        and setting["variant"] == like["variant"]
        and setting["batch_size"] == like["batch_size"]
    )


def _draw_level(axes: Axes, setting: SettingRuns, column: str) -> None:
    value = setting.estimate(column)
    if value.mean is None:
        return
    axes.axhline(value.mean, color=facts_of("tempered").colour, linestyle="--", linewidth=1.5, zorder=1)
    if value.low is not None and value.high is not None:
        axes.axhspan(value.low, value.high, color=facts_of("tempered").colour, alpha=0.15, linewidth=0, zorder=0)


def _sentence(family: Sequence[SettingRuns], axis: str) -> str:
    steps = ", ".join(f"{format_value(setting, 'sd_ratio')} at {format_setting(setting, axis)}" for setting in family)
    name = f"{task_name(family[0])}, {format_settings(family[0], axis, 'preconditioner')}"
    return f"{name}: sd ratio {steps} ({over_seeds(family)})."


def _least(settings: Sequence[SettingRuns], levels: Sequence[SettingRuns]) -> str:
    """The least noisy setting, and whether its distance is more than chance."""
    least = _quietest(settings)
    rows = least.evidence
    resolved = sum(bool(row["sliced_w2_resolved"]) for row in rows)
    beside = "".join(f", the tempered chain's {format_value(one, 'sliced_w2')}" for one in levels[:1])
    return (
        f"Where the noise is least ({format_settings(least, 'preconditioner')}, "
        f"σ² = {format_number(least.mean('mean_variance'), 2)}) the sliced W2 is {format_value(least, 'sliced_w2')}"
        f"{beside}; in {resolved} of {len(rows)} seeds it exceeds {RESOLUTION:g} Monte Carlo errors.{_finite(least)}"
    )


def _finite(setting: SettingRuns) -> str:
    """How much the paper's estimate, which knows nothing of a finite data set, overstates the variance."""
    share = float(setting["batch_size"] * setting["num_batches"] / setting["num_points"])
    if setting["variance"] != "batches" or share < 0.05:
        return ""
    excess = 100 * share / (1 - share)
    return f" A step of it reads {100 * share:.0f} % of the data, so its variance is overstated by {excess:.0f} %."
