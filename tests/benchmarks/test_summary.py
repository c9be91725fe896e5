"""What was measured is shown as it is: a target that is missed says so, and nothing measured is an error."""

import pytest

from benchmarks.summary import lines, plot, rows_of
from docs._build.reference import performance
from reports.benchmarks import Benchmarks, load

ROW = {
    "what": "a",
    "baseline": "its bare work",
    "microseconds": 12.3,
    "ratio": 1.5,
    "ratio_low": 1.4,
    "ratio_high": 1.6,
}
ROW |= {"kind": "step", "baseline_microseconds": 8.2}
ORIGIN = {"cpu": "a processor", "num_cpus": 2, "system": "a system", "git_commit": None, "git_is_dirty": None}
ORIGIN |= {"versions": {"jax": "1", "torch": "2"}}


def test_a_file_without_benchmarks_is_an_error():
    assert rows_of({"benchmarks": [{"extra_info": ROW}]}) == [ROW]
    with pytest.raises(SystemExit, match="nothing was measured"):
        rows_of({"benchmarks": []})


def test_promises_come_first_and_say_whether_they_are_kept():
    kept, broken, free = ROW | {"target": 1.5}, ROW | {"target": 1.49}, ROW | {"target": None}
    first, second, third = lines([free, kept, broken])
    assert "≤ 1.5 met" in first
    assert "≤ 1.49 not met" in second
    assert "≤" not in third


def test_the_readme_shows_promises_only_and_the_broken_ones_in_bold():
    rows = [ROW | {"target": 1.5}, ROW | {"target": 1.0}, ROW]
    _, _, kept, broken, _, origin = performance(Benchmarks(rows=rows, **ORIGIN)).splitlines()
    assert kept.endswith("| 1.50 (1.40 to 1.60) | 1.5 | yes |")
    assert broken.endswith("| 1 | **no** |")
    assert origin == "a processor, jax 1, torch 2."


def test_the_benchmarks_that_are_kept_have_a_plot_and_it_is_the_same_every_time(tmp_path):
    for name in ("one.svg", "other.svg"):
        plot(load(), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_benchmarks_of_one_kind_alone_can_be_plotted(tmp_path):
    for row in (
        ROW | {"kind": "points", "method": "pbnn", "num_points": 100, "baseline": "pbnn, N = 10"},
        ROW | {"kind": "step", "method": "pbnn", "shape": "mnist", "backend": "jax-cpu", "chains": 1},
        ROW | {"kind": "chains"},
    ):
        plot(Benchmarks(rows=[row], **ORIGIN), tmp_path / "plot.svg")
        assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")
