"""The present code reaches the recorded verdicts, and a changed number does not go unnoticed."""

import pytest

from tests.golden import differences, load, verdicts

KEY = {"method": "pbnn", "settings": {"n": 5, "M": 2}}


def test_published_studies_are_judged_as_recorded():
    recorded, _ = load("verdicts")
    assert len(recorded) == 34
    assert differences(verdicts.entries(), recorded) == []


@pytest.mark.parametrize(
    ("values", "complaints"),
    [
        ({"a": 1.0, "b": [2.0, None], "c": "x"}, []),
        ({"a": 1.0 + 1e-13, "b": [2.0, None], "c": "x", "d": 1}, []),
        ({"a": 1.0 + 1e-9, "b": [2.0, None], "c": "x"}, ["a was 1.0 and is 1.000000001"]),
        ({"a": 1.0, "b": [2.0], "c": "x"}, ["b was [2.0, null] and is [2.0]"]),
        ({"a": 1.0, "b": [2.0, None]}, ['c was "x" and is missing']),
    ],
)
def test_each_value_that_differs_or_is_missing_is_named(values, complaints):
    recorded = [(KEY, {"a": 1.0, "b": [2.0, None], "c": "x"})]
    reordered = {"settings": {"M": 2, "n": 5}, "method": "pbnn"}
    name = 'method="pbnn" settings={"M": 2, "n": 5}: '
    assert differences([(reordered, values)], recorded) == [name + complaint for complaint in complaints]


def test_entries_that_are_missing_or_new_are_named():
    one, other = (({"method": name}, {"a": 1}) for name in ("mala", "ula"))
    assert differences([one], [other]) == ['method="mala": new, not recorded', 'method="ula": missing']


def test_a_value_on_the_list_of_dropped_ones_may_be_missing():
    assert differences([(KEY, {})], [(KEY, {"a": 1})], dropped=["a"]) == []
