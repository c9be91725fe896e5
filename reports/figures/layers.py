"""A network all of whose layers are stochastic: the bands of its samplers over that of the reference."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metrics.seeds import Estimate
from records.display import format_estimate, format_name, format_number, format_value, method_name
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.evidence import settings
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.marks import SMALL, blank, hollow_handles, legend, wrapped
from reports.style import is_narrow, look_of
from reports.types import Drawing, NothingToShow

VARIANT = "regression-all"


def draw_layers(results: StudyResults) -> Drawing:
    """Width and place of the predictive band, a row per setting."""
    shown = [one for one in settings(results, variant=VARIANT) if one.has("sd_ratio")]
    if not any(one["method"] == "pbnn" for one in shown):
        raise NothingToShow("no converged PBNN run on all layers has a reference that passed its gate")
    # The method of the claim first, then whatever is nearest to the reference.
    shown.sort(key=lambda one: (one["method"] != "pbnn", abs(one.mean("sd_ratio") - 1)))
    rule = RULES[20]
    figure = blank((1.2 + 0.95 * len(shown)) if is_narrow() else 0.9 + 0.55 * len(shown))
    width, place = figure.subplots(2, 1) if is_narrow() else _side_by_side(figure)
    width.axvspan(1 - rule["width"], 1 + rule["width"], color="#009e73", alpha=0.12, linewidth=0)
    width.axvline(1, color="black", linewidth=1)
    place.axvspan(0, rule["place"], color="#009e73", alpha=0.12, linewidth=0)
    for row, one in enumerate(shown):
        for value, is_converged in one.parts("sd_ratio"):
            _draw(width, row, one, value, is_converged)
        _draw(place, row, one, one.bias(), True)
    names = [wrapped(format_name(one, "weight", "preconditioner"), 24, 18) for one in shown]
    for axes in (width, place):
        axes.set(ylim=(len(shown) - 0.5, -0.5), yticks=range(len(shown)))
        axes.grid(axis="y", visible=False)
    for axes in (width, place) if is_narrow() else (width,):
        axes.set_yticklabels(names, fontsize=SMALL)
    width.set_xlabel("predictive sd / reference sd")
    place.set_xlabel("error of the mean, in RMS sd")
    place.set_xlim(left=0)
    if handles := hollow_handles(shown):
        legend(figure, handles, is_below=True)
    caption = (
        "Against long Hamiltonian chains, all methods at the same target. Green: the margins within which claim 20 "
        "holds. Lines are 95 % intervals over seeds; a single seed has none."
    )
    numbers = tuple(
        f"{format_name(one)}: sd ratio {format_value(one, 'sd_ratio')}, mean off by {format_estimate(one.bias())} RMS "
        "sd."
        for one in shown
    )
    return Drawing(figure, caption, runs_of(shown), _message(shown), (*numbers, *unconverged_lines(shown)))


def _side_by_side(figure: Figure) -> Sequence[Axes]:
    """So far apart that the last number of one axis is not read as the first of the other."""
    pair: Sequence[Axes] = figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.08})
    return pair


def _draw(axes: Axes, row: int, setting: SettingRuns, value: Estimate, is_converged: bool) -> None:
    if value.mean is None:
        return
    colour, marker = look_of(setting["method"])
    # What has not converged stands a little lower, so that it hides nothing.
    y = row if is_converged else row + 0.22
    if value.low is not None and value.high is not None:
        axes.plot([value.low, value.high], [y, y], color=colour, linewidth=1.6, alpha=0.7, zorder=3)
    face = colour if is_converged else "white"
    axes.plot(
        [value.mean], [y], color=colour, marker=marker, markersize=8, markerfacecolor=face, zorder=4, clip_on=False
    )


def _message(shown: Sequence[SettingRuns]) -> str:
    """The width of the penalty method's band and the widest beside it, where the first is within its margin."""
    ours = next(one for one in shown if one["method"] == "pbnn")
    if abs(ours.mean("sd_ratio") - 1) > RULES[20]["width"]:
        return ""
    width = format_number(ours.mean("sd_ratio"))
    text = f"On a whole network the penalty method's band is {width} times as wide as the reference's"
    farthest = max((one for one in shown if one["method"] != "pbnn"), key=_excess, default=ours)
    if _excess(farthest) <= RULES[20]["width"]:
        return text
    return f"{text}, {method_name(farthest['method'])}'s up to {format_number(farthest.mean('sd_ratio'))} times"


def _excess(setting: SettingRuns) -> float:
    return setting.mean("sd_ratio") - 1
