"""What acceptance depends on: n, M and the step size, one at a time."""

from collections.abc import Mapping, Sequence

from records.display import SYMBOLS, format_number, format_setting
from records.methods import facts_of
from records.setting_runs import SettingRuns, one_backend, sweeps
from records.study import StudyResults
from reports.figures.captions import listed, runs_of, trend, unconverged_lines
from reports.figures.marks import LINE, draw_sweeps, family_text, few, hollow_handles, legend, name_lines, panels
from reports.style import LABELS, is_narrow
from reports.types import Drawing, NothingToShow

AXES = ("batch_size", "num_batches", "step_size")


def draw_acceptance(results: StudyResults) -> Drawing:
    """The acceptance rate over every sweep of one setting that the study has."""
    settings = [
        setting
        for setting in one_backend(results.ran())
        # A method that accepts always has nothing to show here.
        if not facts_of(setting["method"]).always_accepts
    ]
    found = {axis: families for axis in AXES if (families := sweeps(settings, axis))}
    if not found:
        raise NothingToShow("no method has runs that differ in n, M or η alone; give a study two values of one of them")
    shown = {axis: few(_telling(axis, families)) for axis, families in found.items()}
    # The lines of a panel are named beside it: one below another, names of any length leave the panels their width.
    most = max(map(len, shown.values()))
    figure, all_axes = panels(
        len(found), columns=1, height=2.4 + (0.6 + 2.2 * LINE * most if is_narrow() else 0), share=1.0
    )
    for axes, (axis, families) in zip(all_axes, shown.items(), strict=True):
        handles = draw_sweeps(axes, families, axis, "acceptance_rate")
        axes.set_ylim(0, 1)
        axes.set_ylabel(LABELS["acceptance_rate"])
        name_lines(axes, families, axis, "acceptance_rate", handles)
    drawn = [setting for families in shown.values() for family in families for setting in family]
    if hollow := hollow_handles(drawn):
        legend(figure, hollow)
    used = [setting for families in found.values() for family in families for setting in family]
    numbers = [_ends(family, axis) for axis, families in found.items() for family in families]
    caption = "Each line changes one setting and keeps the others; means over seeds with 95 % intervals."
    if sum(map(len, shown.values())) < len(numbers):
        caption += " Lines that are not shown are among the numbers below."
    return Drawing(figure, caption, runs_of(used), _message(shown), (*numbers, *unconverged_lines(used)))


def _telling(axis: str, families: Sequence[list[SettingRuns]]) -> Sequence[list[SettingRuns]]:
    """Those of penalised chains, and among several n those of one target; whatever there is where there are none."""
    penalised = [one for one in families if facts_of(one[0]["method"]).acceptance.startswith("penalty")]
    fixed = [one for one in penalised if axis != "batch_size" or one[0]["weight"] != "batch"]
    return fixed or penalised or families


def _message(shown: Mapping[str, Sequence[Sequence[SettingRuns]]]) -> str:
    """Where all families of penalised chains go the same way."""
    penalised = {
        axis: [one for one in families if facts_of(one[0]["method"]).acceptance.startswith("penalty")]
        for axis, families in shown.items()
    }
    ways = {axis: trend(families, "acceptance_rate") for axis, families in penalised.items()}
    parts = [f"{way} with {SYMBOLS[axis]}" for axis, way in ways.items() if way]
    return f"With the penalty, acceptance {listed(parts)}" if parts else ""


def _ends(family: Sequence[SettingRuns], axis: str) -> str:
    """``linear: PBNN M=2: 0.49 at n=2 to 0.66 at n=10``"""
    ends = (family[0], family[-1])
    texts = (f"{format_number(one.mean('acceptance_rate'), 2)} at {format_setting(one, axis)}" for one in ends)
    return f"{family_text(family[0], axis)}: {' to '.join(texts)}"
