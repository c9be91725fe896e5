"""How wide each chain is, one row per setting: the sd ratio with its interval, and the line that is right."""

from records.display import format_name, format_number
from records.study import StudyResults
from reports.drawing import Axis, Drawing, Guide, Panel, look_of
from reports.figures.series import LABELS, figure_of, point
from reports.types import FigureSpec, NothingToShow


def draw(results: StudyResults) -> Drawing:
    """The sd ratio of every setting on ``linear`` whose target is the posterior, at one step."""
    found = results.ran(variant="linear", backend="jax-cpu", weight="data", step_size=2e-4)
    settings = sorted((one for one in found if one.has("sd_ratio")), key=lambda one: one.mean("sd_ratio"))
    if not settings:
        raise NothingToShow("no run on 'linear' with weight = data ended well")
    names = [format_name(one, "weight", "preconditioner", "step_size") for one in settings]
    panel = Panel(x=Axis(LABELS["sd_ratio"]), rows=names, height=12)
    panel.add(Guide("x", 1, "5 3"))
    for row, one in enumerate(settings):
        panel.add(*point(row, one.estimate("sd_ratio"), look_of(one["method"]), one.is_converged, along="x"))
    return figure_of(
        [panel],
        "Dashed, the exact width. Lines are 95 % intervals over seeds.",
        settings,
        f"{names[-1]} is {format_number(settings[-1].mean('sd_ratio'))} times as wide as it should be",
    )


FIGURE = FigureSpec("widths", "Who is too wide on the line?", "The figures of the paper", draw)
