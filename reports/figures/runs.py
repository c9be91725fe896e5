"""Figures of runs: their R-hat, what became of them, and whether the libraries agree."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from implementations.backends import BACKENDS
from records.display import format_estimate, format_name, format_number, method_name, task_name
from records.methods import in_order
from records.setting_runs import MAX_R_HAT, Row, SettingRuns, is_converged
from records.study import StudyResults
from reports.drawing import (
    DIAMOND,
    INK,
    PLUS,
    SOFT,
    SQUARE,
    Axis,
    Bar,
    Dots,
    Drawing,
    Guide,
    Key,
    Line,
    Look,
    Panel,
    Point,
    look_of,
)
from reports.figures.series import figure_of, point
from reports.types import NothingToShow

#: What a run can come to, worst last, with its colour.
FATES = {
    "converged": "#6cb56c",
    "not converged": "#e6b84d",
    "skipped": "#b5b5b5",
    "diverged": "#de8a64",
    "failed": "#c94f4f",
    "missing": "#e3a3a3",
}


def draw_convergence(results: StudyResults) -> Drawing:
    """R-hat - 1 of every run, a row for each method, on a logarithmic axis with the line of 1.05."""
    ended = [row for row in results.rows if row["status"] == "ok"]
    rows = [row for row in ended if row["r_hat"] is not None]
    if not rows:
        raise NothingToShow("no run that ended well has an R-hat, which needs two chains or more of four draws or more")
    above = [row for row in rows if row["r_hat"] > MAX_R_HAT]
    methods = in_order(row["method"] for row in rows)
    worst = max(row["r_hat"] for row in rows)
    # Rank-normalised split R-hat can fall a little below 1, where the logarithm has no place.
    x = Axis("R-hat", "log", 1e-4 / 1.5, max(1.5 * (worst - 1), 0.1), name=lambda value: f"{1 + value:g}")
    panel = Panel(x=x, rows=[method_name(method) for method in methods], height=16)
    panel.add(Guide("x", MAX_R_HAT - 1, "5 3", INK))
    for place, method in enumerate(methods):
        own = [row["r_hat"] for row in rows if row["method"] == method]
        # Spread over the height of the row, in the order of the runs, so that marks do not hide each other.
        heights = {number: place + 0.7 * (number / max(1, len(own) - 1) - 0.5) for number in range(len(own))}
        for is_hollow in (False, True):
            shown = [number for number in heights if (own[number] > MAX_R_HAT) == is_hollow]
            excess = [max(1e-4, own[number] - 1) for number in shown]
            if shown:
                panel.add(Dots(excess, [heights[one] for one in shown], look_of(method).colour, is_hollow, 3.6))
    places = Counter((row["variant"], row["method"]) for row in above).most_common(6)
    where = ", ".join(f"{task_name(variant)} {method_name(method)} ({num})" for (variant, method), num in places)
    agree = f"{len(rows) - len(above)} of {len(rows)} runs"
    numbers = [f"{agree} are below the line."]
    numbers += [f"Above it: {where}."] if where else []
    numbers += [f"{len(ended) - len(rows)} runs have no R-hat."] if len(ended) > len(rows) else []
    return Drawing(
        [panel],
        "The largest rank-normalised split R-hat of predictions and log-likelihood, one mark per run; the line is "
        f"{MAX_R_HAT}, and runs above it are hollow. A good R-hat says that chains agree, not that they are right.",
        tuple(row["run"] for row in rows),
        f"The chains of {agree} agree",
        tuple(numbers),
    )


def fate_of(row: Row) -> str:
    """What a run came to: its status, or whether it converged where it ended well."""
    if row["status"] != "ok":
        return str(row["status"])
    return "converged" if is_converged(row) else "not converged"


def draw_coverage(results: StudyResults) -> Drawing:
    """A bar for each task and one for each method: how many of its runs converged, and what became of the others."""
    if not results.rows:
        raise NothingToShow("the study has no runs")
    counts = Counter(map(fate_of, results.rows))
    reasons = Counter(row["reason"] or "" for row in results.rows if row["status"] != "ok").most_common(4)
    by_task = {task_name(name): [one for one in results.rows if one["variant"] == name] for name in results.variants}
    methods = in_order(row["method"] for row in results.rows)
    by_method = {method_name(name): [one for one in results.rows if one["method"] == name] for name in methods}
    return Drawing(
        [_bars("by task", by_task), _bars("by method", by_method)],
        "After each name, the runs that converged of those asked for, on all backends and seeds.",
        tuple(row["run"] for row in results.rows),
        f"{counts['converged']} of {counts.total()} runs converged",
        tuple(f"{count} × {reason}" for reason, count in reasons),
        [
            Key(f"{fate} ({counts[fate]})", Look(colour), None, False, band=1.0)
            for fate, colour in FATES.items()
            if counts[fate]
        ],
    )


def _bars(title: str, parts: Mapping[str, Sequence[Row]]) -> Panel:
    fates = [Counter(map(fate_of, rows)) for rows in parts.values()]
    names = [f"{name}  {one['converged']}/{one.total()}" for name, one in zip(parts, fates, strict=True)]
    share = Axis("share of runs", low=0, high=1, ticks=(0, 0.5, 1), name=lambda value: f"{100 * value:.0f} %")
    panel = Panel(title, share, rows=names, height=9)
    for row, counts in enumerate(fates):
        start = 0.0
        for fate in filter(counts.__getitem__, FATES):
            end = start + counts[fate] / counts.total()
            panel.add(Bar((start, end), (row - 0.45, row + 0.45), FATES[fate], 1.0))
            start = end
    return panel


# The libraries, setting by setting

#: The colour of a library, which is no method's, and a marker for its device.
LOOKS = {
    "jax-cpu": Look("#7b3294"),
    "jax-gpu": Look("#7b3294", DIAMOND),
    "torch-cpu": Look("#8c510a", SQUARE),
    "torch-gpu": Look("#8c510a", PLUS),
}


def draw_backends(results: StudyResults) -> Drawing:
    """Time of a step on each backend, and the paired difference of the answers, for settings run on several."""
    settings: dict[tuple[str, str], dict[str, SettingRuns]] = {}
    for setting in results.ran():
        settings.setdefault((setting["variant"], setting["label"]), {})[setting["backend"]] = setting
    several = [
        {backend: found[backend] for backend in BACKENDS if backend in found}
        for found in settings.values()
        if len(found) > 1
    ]
    if not several:
        raise NothingToShow(" ".join(["no setting ended well on two backends.", *_skipped(results)]))
    names = [_name(next(iter(found.values()))) for found in several]
    times = Panel("", Axis("µs for a step of one chain", "log"), rows=names, height=12)
    answers = Panel("", Axis("difference of sd / exact sd from the first library's"), rows=names, height=12)
    answers.add(Guide("x", 0, ""))
    differences = []
    for row, found in enumerate(several):
        means = {name: one.mean("step_microseconds") for name, one in found.items()}
        times.add(Line([min(means.values()), max(means.values())], [row, row], SOFT))
        times.add(*(Point(mean, row, LOOKS[name], name=name) for name, mean in means.items()))
        first, *others = found.values()
        for other in others:
            difference = other.difference(first, "sd_ratio")
            is_converged = first.is_converged and other.is_converged
            answers.add(*point(row, difference, LOOKS[other["backend"]], is_converged, "x", name=other["backend"]))
            differences += [difference] if difference.low is not None else []
    used = [setting for found in several for setting in found.values()]
    pairs = [(found["jax-cpu"], found["torch-cpu"]) for found in several if {"jax-cpu", "torch-cpu"} <= found.keys()]
    ratios = [torch.mean("step_microseconds") / jax.mean("step_microseconds") for jax, torch in pairs]
    ratio = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    message = f"On the CPU a step of torch takes {format_number(ratio, 2)} times that of jax" if ratios else ""
    numbers = [f"{message} (geometric mean of {len(ratios)} settings)."] if ratios else []
    if differences:
        apart = sum(value.excludes_zero for value in differences)
        largest = format_estimate(max(differences, key=lambda value: abs(value.mean or 0.0)))
        numbers.append(
            f"{apart} of {len(differences)} intervals exclude 0 (one in twenty does by chance); the largest difference "
            f"is {largest}."
        )
    return figure_of(
        [times, answers],
        "Time of a step of one chain: sampling alone, one thread, mean over seeds; and the difference of the "
        "answers from the first backend's, paired by seed, with 95 % intervals.",
        used,
        message,
        notes=(
            *numbers,
            *_skipped(results),
        ),
        keys=[*(Key(name, look) for name, look in LOOKS.items() if any(name in one for one in several))],
    )


def _name(setting: SettingRuns) -> str:
    return f"{task_name(setting)}: {format_name(setting, 'weight', 'preconditioner')}"


def _skipped(results: StudyResults) -> Sequence[str]:
    """Why a device is not in the figure."""
    rows = [row for setting in results.all_settings for row in setting.rows if row["status"] == "skipped"]
    counts = Counter((row["backend"], row["reason"]) for row in rows)
    return [f"{backend}: {count} runs skipped, {reason}." for (backend, reason), count in counts.items()]
