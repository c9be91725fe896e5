"""The figure of a claim that has no other: its numbers, their intervals and the margins of its rule."""

import pytest

from metrics.seeds import Estimate
from reports.figures.evidence import blocks_of, crosses, draw_evidence, evidence_figures
from reports.questions import lies_above, lies_within
from reports.style import NARROW, WIDTH, theme
from reports.types import IN_PART, NOT_ASKED, ClaimResult, Decider, Evidence, FigureResult, FigureSpec, Verdict
from reports.verdicts import verdict
from tests.reports.studies import claim

INSIDE = Decider(Evidence("sd ratio, PBNN n=5", Estimate(1.0, 0.95, 1.05, 3, 0)), (0.9, 1.1))
ACROSS = Decider(Evidence("sd ratio, PBNN n=200", Estimate(1.08, 1.04, 1.12, 3, 0)), (0.9, 1.1))
PLACES = (
    Decider(Evidence("error, PBNN n=5", Estimate(0.02, 0.0, 0.04, 3, 0), "sd"), (0.1,)),
    Decider(Evidence("error, PBNN n=200", Estimate(0.4, 0.3, 0.5, 3, 0), "sd"), (0.1,)),
)
OTHER = Decider(Evidence("NLL at n=300 minus all, prior sd 1", Estimate(-0.2, -0.3, -0.1, 3, 0)), (0.0,))


def result(*deciders: Decider, outcome: str = "reproduced", number: int = 1, **more) -> ClaimResult:
    return ClaimResult(claim(number, statement="It is so."), Verdict(outcome, "a reason", deciders=deciders, **more))


def test_what_was_measured_of_the_same_things_stands_side_by_side_and_the_rest_below():
    blocks = blocks_of([INSIDE, PLACES[0], ACROSS, PLACES[1], OTHER])
    assert [block.quantities for block in blocks] == [("sd ratio", "error (sd)"), ("NLL minus all",)]
    assert [row.name for row in blocks[0].rows] == ["PBNN n=5", "PBNN n=200"]
    assert [row.deciders for row in blocks[0].rows] == [(INSIDE, PLACES[0]), (ACROSS, PLACES[1])]
    assert [row.name for row in blocks[1].rows] == ["n=300, prior sd 1"], "which of several settings is its name"


@pytest.mark.parametrize("width", [WIDTH, NARROW], ids=["wide", "phone"])
def test_a_number_stands_at_its_mean_with_its_interval_beside_the_margins(width):
    with theme(width):
        figure = draw_evidence(result(INSIDE, ACROSS)).figure
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    assert [list(mark.get_xdata()) for mark in marks] == [[1.0], [1.08]]
    assert [mark.get_markerfacecolor() for mark in marks] == ["black", "white"], "hollow where a margin is crossed"
    solid = [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "-" and line not in marks]
    assert solid == [[0.95, 1.05], [1.04, 1.12]]
    dotted = {line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"}
    assert dotted == {0.9, 1.1}
    shades = [one.get_paths()[0].get_extents() for one in axes.collections]
    assert [(shade.x0, shade.x1) for shade in shades] == [(0.9, 1.1)] * 2
    # Marks lie in the order of their names, from above, each in its shade.
    heights = [mark.get_ydata()[0] for mark in marks]
    assert heights == sorted(heights) and axes.yaxis_inverted()
    assert all(shade.y0 < height < shade.y1 for shade, height in zip(shades, heights, strict=True))


def test_an_interval_that_ends_at_a_margin_does_not_cross_it_and_none_decides_nothing():
    assert not crosses(INSIDE)
    assert not crosses(Decider(Evidence("x", Estimate(0.5, 0.1, 0.9, 3, 0)), (0.1,)))
    assert crosses(Decider(Evidence("x", Estimate(0.5, None, None, 1, 2)), (0.1,)))


def test_the_message_says_where_a_claim_holds_and_the_numbers_are_all_there():
    found = draw_evidence(result(INSIDE, OTHER))
    assert found.title == "It is so"
    assert found.numbers == (
        "sd ratio, PBNN n=5: 1.00 [0.95, 1.05]",
        "NLL at n=300 minus all, prior sd 1: −0.20 [−0.30, −0.10]",
    )
    cases = {"It holds": ("with fresh points",), "It does not hold": ("within a data set",)}
    answers = (("with fresh points", True), ("within a data set", False))
    partly = draw_evidence(result(INSIDE, ACROSS, outcome=IN_PART, cases=cases, answers=answers))
    assert partly.title == "It is so: with fresh points; not within a data set"


def test_only_claims_that_no_figure_stands_beside_get_one():
    shown = FigureSpec("one", "One", "Section", lambda study: None, claims=(1,))
    absent = FigureSpec("two", "Two", "Section", lambda study: None, claims=(2,))
    figures = [FigureResult(shown, png=b"a picture"), FigureResult(absent, absent="nothing")]
    results = [
        result(INSIDE, number=1),
        result(INSIDE, number=2),
        result(INSIDE, number=3, outcome=NOT_ASKED),
        result(number=4),
    ]
    assert [(spec.name, spec.claims) for spec, _ in evidence_figures(results, figures)] == [("claim2", (2,))]


def test_a_verdict_keeps_the_numbers_that_decide_with_their_margins_and_not_those_beside_them():
    beside = Evidence("beside", Estimate(3.0, 2.9, 3.1, 3, 0))
    questions = [lies_within(INSIDE.evidence, 0.9, 1.1), lies_above(PLACES[1].evidence, 0.1)]
    found = verdict(questions, [], conclusions={True: "yes", False: "no"}, more=[beside])
    assert found.deciders == (INSIDE, PLACES[1])
    assert beside in found.evidence
