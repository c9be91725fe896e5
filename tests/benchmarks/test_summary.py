"""What was measured is told as it is: a promise that is not kept says so, and nothing measured is an error."""

import pytest

from tests.benchmarks.summary import lines, rows_of
from workflows.readme import performance

ROW = {"what": "a", "baseline": "b", "microseconds": 12.3, "ratio": 1.5, "ratio_low": 1.4, "ratio_high": 1.6}


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
    content = {"cpu": "a processor", "versions": {"jax": "1", "torch": "2"}}
    rows = [ROW | {"target": 1.5}, ROW | {"target": 1.0}, ROW]
    _, _, kept, broken, _, origin = performance(content | {"rows": rows}).splitlines()
    assert kept.endswith("| 1.50 (1.40 to 1.60) | 1.5 | yes |")
    assert broken.endswith("| 1 | **no** |")
    assert origin.startswith("a processor")
