"""The libraries side by side: is it the same answer, and which is faster? And what of a GPU?"""

import math
from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes

from implementations.backends import BACKENDS
from records.display import format_estimate, format_name, format_number, task_name
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.marks import SMALL, blank, handle, hollow_handles, legend, wrapped
from reports.style import is_narrow
from reports.types import Drawing, NothingToShow

#: The colour of a library, which is no method's, and a marker for its device.
LOOKS = {
    "jax-cpu": ("#7b3294", "o"),
    "jax-gpu": ("#7b3294", "D"),
    "torch-cpu": ("#8c510a", "s"),
    "torch-gpu": ("#8c510a", "P"),
}
#: A setting by its backends.
Backends = dict[str, SettingRuns]


def draw_backends(results: StudyResults) -> Drawing:
    """Time of a step on each backend, and the paired difference of the answers, for settings run on several."""
    settings: dict[tuple[str, str], Backends] = {}
    for setting in results.ran():
        settings.setdefault((setting["variant"], setting["label"]), {})[setting["backend"]] = setting
    several = [
        {backend: found[backend] for backend in BACKENDS if backend in found}
        for found in settings.values()
        if len(found) > 1
    ]
    if not several:
        raise NothingToShow(" ".join(["no setting ended well on two backends.", *_skipped(results)]))
    figure = blank(1.7 + 0.3 * len(several) if not is_narrow() else 2.4 + 0.8 * len(several))
    times, answers = figure.subplots(2, 1) if is_narrow() else figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    for place, found in enumerate(several):
        _draw_times(times, place, found)
        _draw_differences(answers, place, found)
    for axes in (times, answers) if is_narrow() else (times,):
        axes.set_yticks(range(len(several)), [_name(found) for found in several], fontsize=SMALL)
        axes.set_ylim(len(several) - 0.5, -0.5)
    times.set(xscale="log", xlabel="µs for a step of one chain")
    answers.axvline(0, color="black", linewidth=1)
    answers.set_xlabel("difference of\nsd / exact sd")
    answers.locator_params(axis="x", nbins=4)
    used = [setting for found in several for setting in found.values()]
    handles = [handle(name, *LOOKS[name], linestyle="") for name in LOOKS if any(name in found for found in several)]
    handles += hollow_handles(used)
    legend(figure, handles)
    caption = (
        "Time of a step of one chain: sampling alone, one thread, mean over seeds; and the difference of the "
        "answers from the first backend's, paired by seed, with 95 % intervals."
    )
    numbers = (*_ratio_text(several), _difference_text(several), *_skipped(results), *unconverged_lines(used))
    return Drawing(figure, caption, runs_of(used), _message(several), numbers)


def _message(several: list[Backends]) -> str:
    """How much slower torch is, where both libraries are there."""
    ratios = _ratios(several)
    return f"On the CPU a step of torch takes {format_number(_typical(ratios), 2)} times that of jax" if ratios else ""


def _name(found: Backends) -> str:
    setting = next(iter(found.values()))
    return wrapped(f"{task_name(setting)}: {format_name(setting, 'weight', 'preconditioner')}", 44, 22)


def _draw_times(axes: Axes, place: int, found: Backends) -> None:
    times = {backend: setting.estimate("step_microseconds").mean for backend, setting in found.items()}
    means = [mean for mean in times.values() if mean is not None]
    axes.plot([min(means), max(means)], [place, place], color="#bbbbbb", linewidth=2, zorder=1)
    for backend, mean in times.items():
        colour, marker = LOOKS[backend]
        axes.plot([mean or math.nan], [place], color=colour, marker=marker, linestyle="", markersize=6)


def _draw_differences(axes: Axes, place: int, found: Backends) -> None:
    first, *others = found
    for backend in others:
        value = found[backend].difference(found[first], "sd_ratio")
        colour, marker = LOOKS[backend]
        face = colour if found[first].is_converged and found[backend].is_converged else "white"
        if value.mean is None:
            continue
        if value.low is not None and value.high is not None:
            axes.plot([value.low, value.high], [place, place], color=colour, linewidth=1.3, alpha=0.7)
        axes.plot([value.mean], [place], color=colour, marker=marker, linestyle="", markersize=6, markerfacecolor=face)


def _ratios(several: list[Backends]) -> list[float]:
    """torch's time over jax's, on the CPU."""
    pairs = [(found["jax-cpu"], found["torch-cpu"]) for found in several if {"jax-cpu", "torch-cpu"} <= found.keys()]
    times = [[one.estimate("step_microseconds").mean for one in pair] for pair in pairs]
    return [torch / jax for jax, torch in times if jax and torch]


def _typical(ratios: Sequence[float]) -> float:
    """Their geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _ratio_text(several: list[Backends]) -> tuple[str, ...]:
    ratios = _ratios(several)
    if not ratios:
        return ()
    typical, low, high = (format_number(ratio, 2) for ratio in (_typical(ratios), min(ratios), max(ratios)))
    return (
        f"On the CPU a step of torch takes {typical} times that of jax (geometric mean of {len(ratios)} settings; from "
        f"{low} to {high}).",
    )


def _difference_text(several: list[Backends]) -> str:
    found = [
        setting.difference(settings[0], "sd_ratio")
        for settings in (list(backends.values()) for backends in several)
        for setting in settings[1:]
    ]
    intervals = [value for value in found if value.low is not None]
    if not intervals:
        return "With fewer than two seeds in common there are no intervals of the differences."
    largest = max(intervals, key=lambda value: abs(value.mean or 0.0))
    apart = sum(value.excludes_zero for value in intervals)
    return (
        f"{apart} of {len(intervals)} intervals exclude 0 (one in twenty does by chance); the largest difference is "
        f"{format_estimate(largest)}."
    )


def _skipped(results: StudyResults) -> tuple[str, ...]:
    """Why a device is not in the figure."""
    rows = [row for setting in results.all_settings for row in setting.rows if row["status"] == "skipped"]
    counts = Counter((row["backend"], row["reason"]) for row in rows)
    return tuple(f"{backend}: {count} runs skipped, {reason}." for (backend, reason), count in counts.items())
