"""Panels are drawn where their numbers are, in colours that can be seen; published figures are legible."""

import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from implementations.methods import METHODS
from metrics.calibration import class_reliability
from metrics.seeds import Estimate
from records.methods import facts_of
from records.study import StudyResults
from reports.benchmarks import KEPT, Benchmarks, load
from reports.contents import contents_of
from reports.drawing import (
    INK,
    MIN_CONTRAST,
    PAGE_COLOURS,
    PAPER,
    SHAPES,
    TEXT_CONTRAST,
    Axis,
    Bar,
    Drawing,
    Guide,
    Key,
    Line,
    Look,
    Mark,
    Panel,
    Point,
    Words,
    contrast,
    figure_css,
    look_of,
    on_dark,
    on_white,
    round_ticks,
    thinned,
)
from reports.figures import SPEED_FIGURES, calibration
from reports.figures.evidence import draw_evidence, evidence_figures
from reports.figures.speed import draw_overview
from reports.judge import IN_PART, NOT_ASKED, ClaimResult, Evidence, Verdict, judge_claims
from reports.publish import PUBLISHED
from reports.reliability import add_curve, diagram, reliability_panel
from reports.types import MAX_WORDS, FigureResult, FigureSpec, NothingToShow
from tests.reports.legible import flaws
from tests.reports.studies import EVERY_KIND, MEASUREMENT, claim, points, row, step, study_of

STUDIES = ("paper", "tall", "rivals", "calibration", "layers")


@cache
def loaded(study: str) -> StudyResults:
    return StudyResults.load(PUBLISHED / study)


# Published figures as pictures


@pytest.mark.parametrize(
    ("study", "spec"),
    [(study, spec) for study in STUDIES for spec in contents_of(study).figures if not spec.name.startswith("figure")],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_figure_of_a_published_study_is_legible(study, spec, monkeypatch):
    # The closed forms need the problems' files, which are not published.
    monkeypatch.setattr(calibration, "_closed_forms", lambda results, variant: [])
    try:
        drawing = spec.draw(loaded(study))
    except NothingToShow:
        assert (study, spec.name) == ("layers", "bias_evaluations")
        return
    assert flaws(drawing) == []
    assert len(drawing.caption.split()) <= MAX_WORDS
    assert drawing.runs


@pytest.mark.parametrize("spec", SPEED_FIGURES, ids=lambda spec: spec.name)
def test_a_figure_of_the_kept_benchmarks_is_legible(spec):
    drawing = spec.draw(load(KEPT))
    assert flaws(drawing) == [] and flaws(draw_overview(load(KEPT))) == []
    assert len(drawing.caption.split()) <= MAX_WORDS and drawing.title


@pytest.mark.parametrize("study", ["paper", "tall", "rivals", "calibration"])
def test_the_evidence_of_published_claims_is_legible(study):
    figures = evidence_figures(judge_claims(contents_of(study).claims, loaded(study)), [])
    assert len(figures) > 2
    for spec, result in figures:
        assert flaws(spec.draw(result)) == [], spec.name


@pytest.mark.parametrize(
    ("panel", "flaw"),
    [
        (Panel("a"), "is empty"),
        (Panel("a title", shapes=[Point(0, 0, Look(INK))], rows=["a name", "b"], height=-20), "overlap"),
        (Panel(shapes=[Point(np.nan, 1, Look(INK))]), "missing"),
        (Panel(shapes=[Point(1, 1, Look(INK))], y=Axis(name=lambda value: f"{value:.60f}")), "is cut"),
    ],
)
def test_a_flaw_is_found(panel, flaw):
    assert any(flaw in one for one in flaws(Drawing([panel], "")))


# Colours


def test_methods_of_one_shape_differ_in_colour_and_every_rule_of_acceptance_has_a_shape():
    looks = {name: look_of(name) for name in METHODS}
    for one, other in combinations(looks, 2):
        digits = [[int(looks[name].colour[place : place + 2], 16) for place in (1, 3, 5)] for name in (one, other)]
        if looks[one].corners == looks[other].corners:
            assert np.abs(np.subtract(*digits)).sum() >= 60, f"{one} and {other} look alike"
    assert {card.acceptance for card in METHODS.values()} - {"own"} <= SHAPES.keys()


def test_every_method_can_be_seen_on_light_and_dark_paper():
    # Black on white is 21 to 1 by definition.
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert on_dark(facts_of("tempered").colour) == facts_of("tempered").colour, "a colour that can be seen stays"
    for name in METHODS:
        colour = facts_of(name).colour
        assert contrast(on_dark(colour), PAGE_COLOURS[PAPER][1]) >= TEXT_CONTRAST, name
        assert contrast(on_white(colour), "#ffffff") >= MIN_CONTRAST, name
        assert contrast(on_white(colour, TEXT_CONTRAST), "#ffffff") >= TEXT_CONTRAST, name


def test_every_colour_of_a_drawing_is_a_variable_that_the_style_sheet_knows_in_the_dark():
    yellow = facts_of("sghmc").colour
    panel = Panel(shapes=[Point(0, 0, Look(yellow)), Line([0, 1], [0, 1], "#0072b2"), Words("w", 0, 0, yellow)])
    drawing = Drawing([panel], "", keys=[Key("k", Look("#3b1f7a"))])
    drawn, css = drawing.html(), figure_css([drawing])
    assert not re.search(r'(fill|stroke)="#', drawn)
    used = set(re.findall(r"var\(--c(\w+), #", drawn))
    assert yellow[1:] in used and on_white(yellow)[1:] in used, "a light mark has a darker edge"
    for digits in used:
        assert f"--c{digits}: {on_dark('#' + digits)};" in css or on_dark(f"#{digits}") == f"#{digits}"
    assert "--ink:" in drawing.svg() and "--ink:" not in css, "a page has its own ink"


# Panels


def circles(svg: str) -> list[tuple[float, float]]:
    found = ElementTree.fromstring(f"<svg>{svg}</svg>").iter("circle")
    return [(float(one.get("cx")), float(one.get("cy"))) for one in found]


def test_points_are_where_their_numbers_are_on_linear_and_logarithmic_axes():
    places = ((1, 0), (10, 5), (100, 10))
    shapes = [Point(x, y, Look("#0072b2")) for x, y in places]
    panel = Panel(x=Axis(scale="log", low=1, high=100), y=Axis(low=0, high=10), shapes=shapes)
    (left, low), middle, (right, high) = circles(panel.svg()[0])
    assert middle == pytest.approx(((left + right) / 2, (low + high) / 2), abs=0.1)
    assert low - high == pytest.approx(panel.height, abs=0.2) and right > left
    # Names of the axis are under their values.
    texts = dict(re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle"[^>]*>([\d,]+)<', panel.svg()[0]))
    assert {text: float(x) for x, text in texts.items()}["10"] == pytest.approx(middle[0], abs=0.1)


def test_rows_are_below_their_names_in_their_order():
    rows = ["first", "a name that is so long that it takes a second line of the panel, below the first one", "last"]
    panel = Panel(rows=rows, height=14, shapes=[Point(1, row, Look("#0072b2")) for row in range(3)])
    heights = [y for _, y in circles(panel.svg()[0])]
    names = [float(y) for y in re.findall(r'<text x="4" y="([\d.]+)"', panel.svg()[0])]
    assert names == sorted(names) and len(names) == 4
    assert names[0] < heights[0] < names[1] < names[2] < heights[1] < names[3] < heights[2]


def test_a_line_leaves_out_values_that_are_not_finite_and_a_symmetric_scale_has_a_place_for_0():
    panel = Panel(y=Axis(scale="symlog", threshold=0.01), shapes=[Line([0, 1, 2, 3], [-1.0, np.nan, 0.0, 1.0])])
    (path,) = re.findall(r'<path d="M([\d. ]+)" fill="none"', panel.svg()[0])
    numbers = [float(one) for one in path.split()]
    assert len(numbers) == 6 and numbers[3] == pytest.approx((numbers[1] + numbers[5]) / 2, abs=0.1)


def test_names_of_points_avoid_each_other():
    names = [Words(f"method {number}", 1 + number / 100, 1) for number in range(5)]
    panel = Panel(shapes=[*(Point(one.x, 1, Look("#0072b2")) for one in names), *names])
    assert flaws(Drawing([panel], "")) == []


def test_the_numbers_behind_a_figure_are_those_of_its_points():
    rows = Panel("sd", Axis("width"), rows=["PBNN"], shapes=[Point(1.0, 0, Look(INK), x_ends=(0.9, 1.1), name="jax")])
    curve = Panel(x=Axis("n, points"), y=Axis("gap"), shapes=[Point(5, 0.25, Look(INK), is_hollow=True, name="MALA")])
    curve.add(Point(1, 1, Look(INK)), Line([0, 1], [0, 1]))
    assert Drawing([rows, curve], "", notes=("first",)).numbers == [
        "first",
        "sd, PBNN, jax: 1.00 [0.90, 1.10]",
        "gap, MALA: 0.250 at n = 5, not converged",
    ]


def test_a_mark_says_what_it_is_and_leads_to_its_run():
    marks = [Mark("PBNN & n < 5", "a"), Mark("another", "b")]
    drawing = Drawing([Panel(shapes=[Point(0, 0, Look("#0072b2"), mark=mark) for mark in marks])], "")
    drawn = drawing.html({"a": "#run-1"})
    assert '<a class="mark" href="#run-1"><title>PBNN &amp; n &lt; 5</title>' in drawn
    assert '<a class="mark"><title>another</title>' in drawn
    assert drawing.marks == marks


def test_ticks_are_round_and_within_the_axis():
    assert round_ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert round_ticks(498.0, 2503.0) == pytest.approx([500, 1000, 1500, 2000, 2500])


def test_thinned_keeps_the_ends():
    assert list(thinned(range(1000), 3)) == [0, 500, 999] and list(thinned(range(2), 5)) == [0, 1]


def test_classes_are_accuracy_against_confidence():
    confidence = np.array([0.55, 0.62, 0.64, 0.97, 1.0])
    curve = class_reliability(np.stack([1 - confidence, confidence], axis=1), np.array([1, 1, 0, 1, 1]))
    panel = reliability_panel("categorical")
    add_curve(panel, curve.nominal, curve.observed, Look("#0072b2"))
    # Bins of a fifteenth: 0.55 is in [8, 9), the next two in [9, 10), the last two in the last.
    found = [(one.x, one.y) for one in panel.of(Point)]
    assert np.array(found) == pytest.approx(np.array([(0.55, 1), (0.63, 0.5), (0.985, 1)]))
    curves = {f"test_{name}": array for name, array in vars(curve).items()}
    assert ElementTree.fromstring(diagram(curves, "categorical", "a run", "#0072b2")).tag.endswith("svg")


# Evidence of claims

SETTINGS = study_of([row(f"full_mh+step_size={step}") for step in (0.1, 0.2)]).all_settings
INSIDE = Evidence("sd ratio", Estimate(1.0, 0.95, 1.05, 3, 0), margins=(0.9, 1.1), settings=(SETTINGS[0],))
ACROSS = Evidence("sd ratio", Estimate(1.08, 1.04, 1.12, 3, 0), margins=(0.9, 1.1), settings=(SETTINGS[1],))
OTHER = Evidence("NLL", Estimate(-0.2, -0.3, -0.1, 3, 0), margins=(0.0,), settings=(SETTINGS[0],))


def result(*evidence: Evidence, outcome: str = "reproduced", number: int = 1) -> ClaimResult:
    return ClaimResult(claim(number, short="It is so"), Verdict(outcome, evidence=evidence))


def test_a_number_is_at_its_mean_with_its_interval_and_the_margins_of_its_rule():
    drawing = draw_evidence(result(INSIDE, OTHER, ACROSS, outcome=IN_PART))
    widths, other = drawing.panels
    assert [(one.x, one.x_ends) for one in widths.of(Point)] == [(1.0, (0.95, 1.05)), (1.08, (1.04, 1.12))]
    assert [one.is_hollow for one in widths.of(Point)] == [False, True], "hollow where a margin is crossed"
    assert [one.value for one in widths.of(Guide)] == [0.9, 1.1]
    assert [one.x for one in widths.of(Bar)] == [(0.9, 1.1)]
    names = [f"full-data MH η={step} on linear" for step in (0.1, 0.2)]
    assert list(widths.rows) == names and len(other.of(Point)) == 1
    assert drawing.title == "It is so: reproduced in part"
    assert f"sd ratio, {names[0]}: 1.00 [0.95, 1.05]" in drawing.numbers


def test_of_many_numbers_those_nearest_to_a_margin_are_shown():
    means = [1 + 0.001 * number for number in range(20)]
    many = [Evidence("sd ratio", Estimate(one, one, one, 3, 0), margins=(0.9,)) for one in means]
    (panel,) = draw_evidence(result(*many)).panels
    assert [one.x for one in panel.of(Point)] == means[:8]


def test_only_claims_without_a_figure_of_their_own_get_one():
    shown = FigureSpec("one", "One", "Section", lambda study: None, claims=(1,))
    absent = FigureSpec("two", "Two", "Section", lambda study: None, claims=(2,))
    figures = [FigureResult(shown, Drawing([], "")), FigureResult(absent, absent="nothing")]
    results = [result(INSIDE, number=1), result(INSIDE, number=2), result(number=4)]
    results.append(result(INSIDE, number=3, outcome=NOT_ASKED))
    assert [(spec.name, spec.claims) for spec, _ in evidence_figures(results, figures)] == [("claim2", (2,))]


# Benchmarks

SPECS = {spec.name: spec for spec in SPEED_FIGURES}


def speed(name: str, rows: list[dict]) -> Drawing:
    return SPECS[name].draw(Benchmarks(rows=rows, **MEASUREMENT))


def at(panel: Panel, method: str) -> dict[float, float]:
    return {one.x: one.y for one in panel.of(Point) if one.look.colour == facts_of(method).colour}


def test_steps_have_a_panel_a_shape_and_a_mark_for_every_method_backend_and_number_of_chains():
    kinds = [
        (shape, method, backend, chains)
        for shape in ("regression", "mnist")
        for method in ("pbnn", "full_mh")
        for backend in ("jax-cpu", "torch-cpu")
        for chains in (1, 4)
    ]
    rows = [step(method, shape, *where, ratio=n + 1.5) for n, (shape, method, *where) in enumerate(kinds)]
    against_another_step = step("pbnn", "mnist", "jax-cpu", 1, 0.01, baseline="full_mh, mnist, 1 chain, jax-cpu")
    drawing = speed("speed_steps", [*rows, against_another_step])
    assert [panel.title for panel in drawing.panels] == ["regression", "mnist"]
    for panel in drawing.panels:
        assert list(panel.rows) == ["full-data MH", "PBNN"]
        found = sorted((one.x, round(one.y)) for one in panel.of(Point))
        own = [row for row in rows if row["shape"] == panel.title]
        assert found == sorted((row["ratio"], ["full_mh", "pbnn"].index(row["method"])) for row in own)
        assert len({one.y for one in panel.of(Point)}) == 8, "no mark lies on another"


def test_a_performance_target_is_a_tick_and_the_numbers_say_whether_it_is_met():
    drawing = speed("speed_steps", EVERY_KIND)
    assert {1.4, 1.8} <= {one.x for one in drawing.panels[1].of(Point)}
    assert [line.split("(")[-1] for line in drawing.notes] == ["met)", "missed)"]
    assert sorted(one.x for one in speed("speed_peers", EVERY_KIND).panels[0].of(Point)) == [0.5, 0.8]


def test_a_step_as_the_data_grow_is_its_ratio_times_the_median_time_of_the_fewest_points():
    rows = [
        points("pbnn", 1_000_000, 2.0, microseconds=80.0, data_mb=88.0, other_mb=1.5),
        points("pbnn", 100_000, 1.2, microseconds=60.0, data_mb=8.8, other_mb=1.4),
        points("pbnn", 10_000_000, 3.0, microseconds=70.0, data_mb=880.0, other_mb=1.6),
        points("full_mh", 10_000_000, 900.0, microseconds=900.0, data_mb=810.0, other_mb=120.0),
        points("rows", 100_000, 1.5, microseconds=8.0),
    ]
    drawing = speed("speed_points", rows)
    times, memory = drawing.panels
    assert at(times, "pbnn") == pytest.approx({1e4: 70.0, 1e5: 84.0, 1e6: 140.0, 1e7: 210.0})
    assert at(memory, "pbnn") == {1e5: 1.4, 1e6: 1.5, 1e7: 1.6}
    (data,) = (line for line in memory.of(Line) if line.dash)
    assert (list(data.x), list(data.y)) == ([1e5, 1e6, 1e7], [8.8, 88.0, 880.0])
    assert len(speed("speed_points", rows[4:]).panels) == 1, "no panel for a memory that was not measured"


def test_chains_and_mini_batches_are_at_their_numbers_with_the_baseline_among_them():
    (chains,) = speed("speed_chains", EVERY_KIND).panels
    assert at(chains, "pbnn") == pytest.approx({1: 50.0, 2: 40.0, 64: 80.0})
    (batches,) = speed("speed_batch_size", EVERY_KIND).panels
    assert at(batches, "pbnn") == pytest.approx({10: 10.0, 100: 50.0, 1000: 450.0})


@pytest.mark.parametrize("name", SPECS)
def test_a_figure_without_its_benchmarks_says_how_to_measure_them(name):
    with pytest.raises(NothingToShow, match=r"none .* \(bench_\w+\); a whole make bench runs them"):
        speed(name, [])
