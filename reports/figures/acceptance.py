"""What acceptance depends on: n, M and the step size, one at a time."""

from collections.abc import Sequence

from implementations.methods import METHODS
from reports.figures.groups import SYMBOLS, Group, groups_of, one_backend, runs_of, sweeps, unconverged_text
from reports.figures.marks import draw_sweeps, family_text, panels
from reports.parts import Drawing, NothingToShow
from reports.study import StudyResults
from reports.style import LABELS

AXES = ("batch_size", "num_batches", "step_size")


def draw_acceptance(results: StudyResults) -> Drawing:
    """The acceptance rate over every sweep of one setting that the study has."""
    groups = [
        group
        for group in one_backend(groups_of(results.ok))
        # A method that accepts always has nothing to show here.
        if METHODS[group["method"]].acceptance != "always"
    ]
    found = {axis: families for axis in AXES if (families := sweeps(groups, axis))}
    if not found:
        raise NothingToShow("no method has runs that differ in n, M or η alone; give a study two values of one of them")
    figure, all_axes = panels(len(found), columns=3, height=4.8)
    for axes, (axis, families) in zip(all_axes, found.items(), strict=True):
        handles = draw_sweeps(axes, families, axis, "acceptance_rate")
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.15), fontsize=7.5)
        axes.set_ylim(0, 1)
    all_axes[0].set_ylabel(LABELS["acceptance_rate"])
    used = [group for families in found.values() for family in families for group in family]
    ends = [_ends(family, axis) for axis, families in found.items() for family in families]
    caption = (
        "Each line changes one setting and keeps the others; means over seeds with 95 % intervals. From the first to "
        f"the last value: {'; '.join(ends)}.{unconverged_text(used)}"
    )
    return Drawing(figure, caption, runs_of(used))


def _ends(family: Sequence[Group], axis: str) -> str:
    """``linear: pbnn, M = 2: 0.49 to 0.66 from n = 2 to 10``"""
    (first, first_rate), (last, last_rate) = (
        (one[axis], one.mean("acceptance_rate")) for one in (family[0], family[-1])
    )
    return (
        f"{family_text(family[0], axis)}: {first_rate:.2f} to {last_rate:.2f} "
        f"from {SYMBOLS[axis]} = {first:.3g} to {last:.3g}"
    )
