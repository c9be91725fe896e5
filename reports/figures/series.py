"""Parts of several figures: marks with intervals, lines over a setting, and phrases of captions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from metrics.seeds import Estimate
from records.display import format_given, format_name, task_name
from records.setting_runs import CONVERGED, SettingRuns
from reports.drawing import SOFT, Axis, Drawing, Key, Line, Look, Panel, Point, look_of

#: Axis labels of the columns that figures show.
LABELS = {
    "acceptance_rate": "acceptance rate",
    "confidence_gap": "confidence gap (above 0: overconfident)",
    "sd_ratio": "predictive sd / exact sd",
    "mean_error": "error of the mean, in RMS sd",
    "sliced_w2": "sliced W2 to the target, in its sd",
    "batch_size": "n, points in a mini-batch",
    "num_batches": "M, mini-batches per step",
    "step_size": "step size η",
    "num_points": "N, training points",
    "chains": "chains run together",
}
DASHES = ("", "6 3", "2 3", "6 3 2 3")
#: Lines of one panel that a reader tells apart; the others are among the numbers below the figure.
MAX_LINES = 4
#: Two bands look the same when their sd differ by less, as a share.
SAME_WIDTH = 0.1


def runs_of(settings: Iterable[SettingRuns]) -> tuple[str, ...]:
    """Their runs that ended well, each once."""
    return tuple(dict.fromkeys(run for setting in settings for run in setting.runs))


def figure_of(
    panels: Sequence[Panel],
    caption: str,
    used: Iterable[SettingRuns],
    title: str = "",
    notes: Sequence[str] = (),
    keys: Sequence[Key] = (),
) -> Drawing:
    """A drawing with the runs of the settings it shows, and a word and a key for those that have not converged."""
    used = list(used)
    runs = runs_of(used)
    missing = len(runs) - len({row["run"] for setting in used for row in setting.converged})
    if missing:
        notes = [*notes, f"Hollow: {missing} of {len(runs)} runs have not converged ({CONVERGED})."]
        keys = [*keys, Key("not converged", Look(SOFT), is_hollow=True)]
    return Drawing(panels, caption, runs, title, tuple(notes), keys)


def trend(families: Iterable[Sequence[SettingRuns]], column: str) -> str:
    """``rises`` or ``falls`` where a column does so from the first to the last setting of all families; or nothing."""
    found = {family[-1].mean(column) > family[0].mean(column) for family in families}
    return ("rises" if found.pop() else "falls") if len(found) == 1 else ""


def listed(parts: Iterable[str]) -> str:
    """``a, b and c``"""
    *some, last = parts
    return " and ".join(filter(None, [", ".join(some), last]))


def point(
    place: float, value: Estimate, look: Look, is_converged: bool = True, along: Literal["x", "y"] = "y", **more: Any
) -> list[Point]:
    """A mean over seeds with its interval, which lies along an axis; nothing where there is no mean."""
    if value.mean is None:
        return []
    ends = (value.low, value.high) if value.low is not None and value.high is not None else None
    if along == "y":
        return [Point(place, value.mean, look, not is_converged, y_ends=ends, **more)]
    return [Point(value.mean, place, look, not is_converged, x_ends=ends, **more)]


def draw_series(
    panel: Panel,
    family: Sequence[SettingRuns],
    x: Callable[[SettingRuns], float],
    column: str,
    look: Look,
    dash: str = "",
    name: str = "",
) -> None:
    """A column over a family of settings, called ``name``; the line goes through what has converged."""
    through = []
    for setting in family:
        for value, is_converged in setting.parts(column):
            panel.add(*point(x(setting), value, look, is_converged, name=name))
            if is_converged and value.mean is not None:
                through.append((x(setting), value.mean))
    if len(through) > 1:
        panel.add(Line([x for x, _ in through], [y for _, y in through], look.colour, dash))


def sweep_panel(families: Sequence[list[SettingRuns]], axis: str, column: str, **options: Any) -> Panel:
    """A line for each family of ``sweeps``, the lines of one method in different strokes, with their names below."""
    values = {float(setting[axis]) for family in families for setting in family}
    given = {"y": Axis(LABELS.get(column, "")), **options}
    panel = Panel(x=Axis(LABELS[axis], "log", ticks=sorted(values), name=_given), **given)
    looks: list[Look] = []
    keys = []
    for family in families:
        look = look_of(family[0]["method"])
        dash = DASHES[looks.count(look) % len(DASHES)]
        looks.append(look)
        name = f"{task_name(family[0])}: {format_name(family[0], axis, 'preconditioner')}"
        draw_series(panel, family, lambda setting: float(setting[axis]), column, look, dash, name)
        keys.append(Key(name, look, dash))
    panel.keys = keys
    return panel


def _given(value: float) -> str:
    return format_given(value, 2 if value < 1 else 6)


def few(families: Sequence[list[SettingRuns]], most: int = MAX_LINES) -> list[list[SettingRuns]]:
    """No more than a panel can show: other tasks and methods before a second line of one, longer lines first."""

    def length(place: int) -> int:
        return sum(setting.is_converged for setting in families[place])

    ranked: list[tuple[int, int, int]] = []
    seen: list[tuple[str, str]] = []
    for place in sorted(range(len(families)), key=lambda place: -length(place)):
        kind = families[place][0]["variant"], families[place][0]["method"]
        ranked.append((seen.count(kind), -length(place), place))
        seen.append(kind)
    return [families[place] for place in sorted(place for *_, place in sorted(ranked)[:most])]
