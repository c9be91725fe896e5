"""How wide each chain is, one row per setting: the sd ratio with its interval, and the line that is right."""

from records.display import format_name, format_number
from records.methods import facts_of
from records.study import StudyResults
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.marks import panels, wrapped
from reports.style import EXACT, LABELS
from reports.types import Drawing, FigureSpec, NothingToShow


def draw(results: StudyResults) -> Drawing:
    """The sd ratio of every setting on ``linear`` whose target is the posterior, at one step."""
    found = results.ran(variant="linear", backend="jax-cpu", weight="data", step_size=2e-4)
    settings = [one for one in found if one.has("sd_ratio")]
    if not settings:
        raise NothingToShow("no run on 'linear' with weight = data ended well")
    settings.sort(key=lambda one: one.mean("sd_ratio"))
    figure, [axes] = panels(1, height=0.8 + 0.3 * len(settings), share=1.0)
    for row, setting in enumerate(settings):
        colour = facts_of(setting["method"]).colour
        value, face = setting.estimate("sd_ratio"), colour if setting.is_converged else "white"
        if value.low is not None and value.high is not None:
            axes.plot([value.low, value.high], [row, row], color=colour)
        axes.plot([setting.mean("sd_ratio")], [row], "o", color=colour, markerfacecolor=face)
    axes.axvline(1, color=EXACT, linestyle="--")
    names = [format_name(one, "weight", "preconditioner", "step_size") for one in settings]
    axes.set_yticks(range(len(settings)), [wrapped(name, 44, 22) for name in names])
    axes.set_xlabel(LABELS["sd_ratio"])
    widest = settings[-1]
    title = f"{format_name(widest)} is {format_number(widest.mean('sd_ratio'))} times as wide as it should be"
    caption = "Dashed, the exact width. Bars are 95 % intervals over seeds."
    return Drawing(figure, caption, runs_of(settings), title, unconverged_lines(settings))


FIGURE = FigureSpec("widths", "Who is too wide on the line?", "The figures of the paper", draw)
