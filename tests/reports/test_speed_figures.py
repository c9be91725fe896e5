"""Figures of the suite's benchmarks show the rows: marks on the canvas against numbers worked out here."""

import pytest

from records.methods import facts_of
from reports.benchmarks import Benchmarks, ratio_text
from reports.figures import SPEED_FIGURES
from reports.figures.speed import draw_overview
from reports.style import theme
from reports.types import MAX_WORDS, NothingToShow
from tests.reports.studies import EVERY_KIND, MEASUREMENT, points, step

SPECS = {spec.name: spec for spec in SPEED_FIGURES}


def draw(name: str, rows: list[dict]):
    with theme():
        return SPECS[name].draw(Benchmarks(rows=rows, **MEASUREMENT))


def marks(axes, colour: str | None = None, marker: str | None = None) -> list[tuple[float, float]]:
    """The points of an axes that have a marker."""
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() not in ("None", "", None)
        and (colour is None or line.get_color() == colour)
        and (marker is None or line.get_marker() == marker)
        for x, y in zip(*line.get_data(), strict=True)
    ]


def test_steps_have_a_panel_a_shape_and_a_mark_for_every_method_backend_and_number_of_chains():
    rows = [
        step(method, shape, backend, chains, ratio=index + 1.5)
        for index, (shape, method, backend, chains) in enumerate(
            (shape, method, backend, chains)
            for shape in ("regression", "mnist")
            for method in ("pbnn", "full_mh")
            for backend in ("jax-cpu", "torch-cpu")
            for chains in (1, 4)
        )
    ]
    against_another_step = step("pbnn", "mnist", "jax-cpu", 1, 0.01, baseline="full_mh, mnist, 1 chain, jax-cpu")
    drawing = draw("speed_steps", [*rows, against_another_step])
    panels = {axes.get_title(): axes for axes in drawing.figure.axes}
    assert list(panels) == ["regression", "mnist"]
    assert [label.get_text() for label in panels["regression"].get_yticklabels()] == ["full-data MH", "PBNN"]
    for shape, axes in panels.items():
        found = sorted((x, round(y)) for x, y in marks(axes))
        assert found == sorted(
            (row["ratio"], ["full_mh", "pbnn"].index(row["method"])) for row in rows if row["shape"] == shape
        )
        places = [y for _, y in marks(axes)]
        assert len(set(places)) == 8, "no mark stands on another"
    (legend,) = drawing.figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [
        f"{backend}, {chains}" for backend in ("jax-cpu", "torch-cpu") for chains in ("1 chain", "4 chains")
    ]
    assert "regression: jax-cpu 1.50 (PBNN, 1 chain) to 6.50 (full-data MH, 4 chains)" in "\n".join(drawing.numbers)


def test_a_performance_target_is_a_tick_beside_its_mark_and_the_numbers_say_what_became_of_it():
    drawing = draw("speed_steps", EVERY_KIND)
    mnist = drawing.figure.axes[1]
    assert sorted(x for x, _ in marks(mnist, marker="|")) == [1.4, 1.8]
    assert drawing.numbers[-2:] == (
        "Performance target, at most 1.4: PBNN, mnist, 1 chains, jax-cpu (met)",
        "Performance target, at most 1.8: PBNN, mnist, 4 chains, torch-cpu (missed)",
    )
    peers = draw("speed_peers", EVERY_KIND)
    assert marks(peers.figure.axes[0]) == [(0.5, 0.0), (0.8, 0.0)]
    assert "SGLD on jax-cpu over blackjax SGLD 0.50 (0.45 to 0.55)" in "\n".join(peers.numbers)


def test_a_step_as_the_data_grow_is_its_ratio_times_the_median_time_of_the_fewest_points():
    rows = [
        points("pbnn", 1_000_000, 2.0, microseconds=80.0, data_mb=88.0, other_mb=1.5),
        points("pbnn", 100_000, 1.2, microseconds=60.0, data_mb=8.8, other_mb=1.4),
        points("pbnn", 10_000_000, 3.0, microseconds=70.0, data_mb=880.0, other_mb=1.6),
        points("full_mh", 10_000_000, 900.0, microseconds=900.0, data_mb=810.0, other_mb=120.0),
        points("rows", 100_000, 1.5, microseconds=8.0),
    ]
    drawing = draw("speed_points", rows)
    times, memory = drawing.figure.axes
    assert dict(marks(times, facts_of("pbnn").colour)) == pytest.approx({1e4: 70.0, 1e5: 84.0, 1e6: 140.0, 1e7: 210.0})
    assert dict(marks(times, marker="x")) == pytest.approx({1e4: 8.0, 1e5: 12.0})
    assert marks(memory, facts_of("pbnn").colour) == [(1e5, 1.4), (1e6, 1.5), (1e7, 1.6)]
    data = next(line for line in memory.lines if line.get_linestyle() == ":")
    assert [list(part) for part in data.get_data()] == [[1e5, 1e6, 1e7], [8.8, 88.0, 880.0]]
    assert "Over that at N = 10,000: full-data MH × 900" in "\n".join(drawing.numbers)
    assert "PBNN × 3.00 (2.70 to 3.30) at N = 10,000,000" in "\n".join(drawing.numbers)
    assert "the data are 810 to 880 MB, and a step uses beside them: PBNN 1.6 MB, full-data MH 120 MB." in "\n".join(
        drawing.numbers
    )
    assert "the data are 880 MB" in "\n".join(draw("speed_points", rows[:3]).numbers)
    assert len(draw("speed_points", rows[4:]).figure.axes) == 1, "no panel for a memory that was not measured"


def test_chains_and_mini_batches_stand_at_their_numbers_with_the_baseline_among_them():
    chains = draw("speed_chains", EVERY_KIND)
    assert dict(marks(chains.figure.axes[0])) == pytest.approx({1: 50.0, 2: 40.0, 64: 80.0})
    assert "Over that with 1 chain: PBNN × 0.80 (0.72 to 0.88) with 2 chains, × 1.60" in "\n".join(chains.numbers)
    batches = draw("speed_batch_size", EVERY_KIND)
    assert dict(marks(batches.figure.axes[0])) == pytest.approx({10: 10.0, 100: 50.0, 1000: 450.0})
    assert "Over that with n = 100: PBNN × 0.20 (0.18 to 0.22) with n = 10, × 9.00" in "\n".join(batches.numbers)


@pytest.mark.parametrize("name", SPECS)
def test_a_figure_without_its_benchmarks_says_how_to_measure_them(name):
    with pytest.raises(NothingToShow, match=r"none .* \(bench_\w+\); a whole make bench runs them"):
        draw(name, [])


@pytest.mark.parametrize("name", SPECS)
def test_captions_are_sentences_without_gaps(name):
    drawing = draw(name, EVERY_KIND)
    assert drawing.caption.endswith(".")
    assert len(drawing.caption.split()) <= MAX_WORDS
    text = " ".join([drawing.title, drawing.caption, *drawing.numbers])
    assert "nan" not in text.split() and "None" not in text


def test_the_readmes_plot_has_the_marks_of_the_reports_own_figures():
    benchmarks = Benchmarks(rows=EVERY_KIND, **MEASUREMENT)
    with theme():
        left, right = draw_overview(benchmarks).axes
    assert sorted(x for x, _ in marks(left)) == [1.1, 1.3, 1.4, 1.8, 2.3]
    assert marks(right) == marks(draw("speed_points", EVERY_KIND).figure.axes[0])


def test_a_retired_method_in_an_old_file_is_still_shown():
    rows = [points("retired", 100_000, 1.5, data_mb=1.0, other_mb=1.0), step("retired", "mnist", "jax-cpu", 1, 2.0)]
    assert "retired × 1.50" in "\n".join(draw("speed_points", rows).numbers)
    assert "(retired, 1 chain)" in "\n".join(draw("speed_steps", rows).numbers)


def test_ratios_have_as_many_digits_as_distinguish_them_from_0():
    row = {"ratio": 1.404, "ratio_low": 0.0079, "ratio_high": 1234.5}
    assert ratio_text(row) == "1.40 (0.0079 to 1,234)"
