"""What acceptance depends on: n, M and the step size, one at a time."""

from collections.abc import Mapping, Sequence

from records.display import SYMBOLS, format_number, format_setting
from records.methods import facts_of
from records.setting import Setting, one_backend, sweeps
from records.study import StudyResults
from reports.figures.captions import listed, runs_of, trend, unconverged_lines
from reports.figures.marks import WIDTH, draw_sweeps, family_text, panels
from reports.style import LABELS
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
    # The lines of a panel are named beside it: one below another, names of any length leave the panels their width.
    figure, all_axes = panels(len(found), columns=1, height=2.5, width=WIDTH)
    for axes, (axis, families) in zip(all_axes, found.items(), strict=True):
        handles = draw_sweeps(axes, families, axis, "acceptance_rate")
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5)
        axes.set_ylim(0, 1)
        axes.set_ylabel(LABELS["acceptance_rate"])
    used = [setting for families in found.values() for family in families for setting in family]
    numbers = [_ends(family, axis) for axis, families in found.items() for family in families]
    caption = "Each line changes one setting and keeps the others; means over seeds with 95 % intervals."
    return Drawing(figure, caption, runs_of(used), _message(found), (*numbers, *unconverged_lines(used)))


def _message(found: Mapping[str, Sequence[Sequence[Setting]]]) -> str:
    """Where all families of penalised chains go the same way."""
    penalised = {
        axis: [one for one in families if facts_of(one[0]["method"]).acceptance.startswith("penalty")]
        for axis, families in found.items()
    }
    ways = {axis: trend(families, "acceptance_rate") for axis, families in penalised.items()}
    parts = [f"{way} with {SYMBOLS[axis]}" for axis, way in ways.items() if way]
    return f"With the penalty, acceptance {listed(parts)}" if parts else ""


def _ends(family: Sequence[Setting], axis: str) -> str:
    """``linear: PBNN M=2: 0.49 at n=2 to 0.66 at n=10``"""
    ends = (family[0], family[-1])
    texts = (f"{format_number(one.mean('acceptance_rate'), 2)} at {format_setting(one, axis)}" for one in ends)
    return f"{family_text(family[0], axis)}: {' to '.join(texts)}"
