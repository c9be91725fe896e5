"""The libraries side by side: is it the same answer, and which is faster? And what of a GPU?"""

import math
from collections import Counter

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implementations.backends import BACKENDS
from reports.evidence import interval
from reports.figures.cost import step_microseconds
from reports.figures.groups import Group, groups_of, runs_of, settings_text, unconverged_text
from reports.figures.marks import WIDTH, handle, hollow_handles
from reports.parts import Drawing, NothingToShow
from reports.study import StudyResults, difference

#: The colour of a library, which is no method's, and a marker for its device.
LOOKS = {
    "jax-cpu": ("#7b3294", "o"),
    "jax-gpu": ("#7b3294", "D"),
    "torch-cpu": ("#8c510a", "s"),
    "torch-gpu": ("#8c510a", "P"),
}
#: A setting by its backends.
Backends = dict[str, Group]


def draw_backends(results: StudyResults) -> Drawing:
    """Time of a step on each backend, and the paired difference of the answers, for settings run on several."""
    settings: dict[tuple[str, str], Backends] = {}
    for group in groups_of(results.ok):
        settings.setdefault((group["variant"], group["label"]), {})[group["backend"]] = group
    several = [
        {backend: found[backend] for backend in BACKENDS if backend in found}
        for found in settings.values()
        if len(found) > 1
    ]
    if not several:
        raise NothingToShow(f"no setting ended well on two backends.{_skipped(results)}")
    figure = Figure(figsize=(WIDTH, 1.5 + 0.3 * len(several)), layout="constrained")
    times, answers = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    for place, found in enumerate(several):
        _draw_times(times, place, found)
        _draw_differences(answers, place, found)
    times.set_yticks(range(len(several)), [_name(found) for found in several], fontsize=8)
    times.set(xscale="log", xlabel="µs for a step of one chain", ylim=(len(several) - 0.5, -0.5))
    answers.axvline(0, color="black", linewidth=1)
    answers.set_xlabel("difference of\nsd / exact sd")
    used = [group for found in several for group in found.values()]
    handles = [handle(name, *LOOKS[name], linestyle="") for name in LOOKS if any(name in found for found in several)]
    handles += hollow_handles(used)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    caption = (
        "Left: time of a step of one chain (sampling alone, one thread, mean over seeds). Right: the difference of the "
        f"answers from the first backend's, paired by seed, with 95 % intervals. {_ratio_text(several)}"
        f"{_difference_text(several)}{_skipped(results)}{unconverged_text(used)}"
    )
    return Drawing(figure, caption, runs_of(used))


def _name(found: Backends) -> str:
    group = next(iter(found.values()))
    return f"{group['variant']}: {group['method']}, {settings_text(group, 'weight', 'preconditioner')}"


def _draw_times(axes: Axes, place: int, found: Backends) -> None:
    times = {backend: step_microseconds(group).mean for backend, group in found.items()}
    means = [mean for mean in times.values() if mean is not None]
    axes.plot([min(means), max(means)], [place, place], color="#bbbbbb", linewidth=2, zorder=1)
    for backend, mean in times.items():
        colour, marker = LOOKS[backend]
        axes.plot([mean or math.nan], [place], color=colour, marker=marker, linestyle="", markersize=6)


def _draw_differences(axes: Axes, place: int, found: Backends) -> None:
    first, *others = found
    for backend in others:
        value = difference(found[backend].rows, found[first].rows, "sd_ratio")
        colour, marker = LOOKS[backend]
        face = colour if found[first].is_converged and found[backend].is_converged else "white"
        if value.mean is None:
            continue
        if value.low is not None and value.high is not None:
            axes.plot([value.low, value.high], [place, place], color=colour, linewidth=1.3, alpha=0.7)
        axes.plot([value.mean], [place], color=colour, marker=marker, linestyle="", markersize=6, markerfacecolor=face)


def _ratio_text(several: list[Backends]) -> str:
    pairs = [(found["jax-cpu"], found["torch-cpu"]) for found in several if {"jax-cpu", "torch-cpu"} <= found.keys()]
    times = [(step_microseconds(jax).mean, step_microseconds(torch).mean) for jax, torch in pairs]
    ratios = [torch / jax for jax, torch in times if jax and torch]
    if not ratios:
        return ""
    typical = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return (
        f"On the CPU a step of torch takes {typical:.0f} times that of jax (geometric mean of {len(ratios)} settings; "
        f"from {min(ratios):.1f} to {max(ratios):.0f}). "
    )


def _difference_text(several: list[Backends]) -> str:
    found = [
        difference(group.rows, groups[0].rows, "sd_ratio")
        for groups in (list(backends.values()) for backends in several)
        for group in groups[1:]
    ]
    intervals = [value for value in found if value.low is not None]
    if not intervals:
        return "With fewer than two seeds in common there are no intervals of the differences."
    largest = max(intervals, key=lambda value: abs(value.mean or 0.0))
    apart = sum(value.excludes_zero for value in intervals)
    return (
        f"{apart} of {len(intervals)} intervals exclude 0 (one in twenty does by chance); the largest difference is "
        f"{interval(largest)}."
    )


def _skipped(results: StudyResults) -> str:
    """Why a device is not in the figure."""
    rows = results.rows(status="skipped")
    counts = Counter(zip(rows["backend"], rows["reason"], strict=True))
    return "".join(f" {backend}: {count} runs skipped, {reason}." for (backend, reason), count in counts.items())
