"""One voice: names of settings and numbers, as readers meet them everywhere."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implementations.methods import METHODS
from implementations.settings import SETTINGS
from metrics.seeds import Estimate
from records.display import (
    CHOICES,
    OWN,
    distinct_settings,
    estimate_parts,
    format_estimate,
    format_given,
    format_name,
    format_number,
    method_name,
    task_name,
)
from tests.reports.studies import row, study_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0"),
        (2.8e-17, "0"),
        (0.012345, "0.0123"),
        (1.0, "1.00"),
        (7, "7"),
        (1.0000001192, "1.00"),
        (-1.2345, "−1.23"),
        (12345.6, "12,346"),
        (1.23e-5, "1.23e−5"),
        (1e-5, "1e−5"),
    ],
)
def test_numbers_have_three_significant_digits(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.02, "0.02"), (1.25, "1.25"), (5.0, "5"), (100.0, "100"), (1e-5, "1e−5")]
)
def test_a_number_that_was_chosen_has_no_zeros_for_show(value, text):
    assert format_given(value) == text


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (0.123456, 0.088856, 0.158056, "0.123 [0.089, 0.158]"),
        (1234.5, 1000.0, 1469.0, "1,230 [1,000, 1,470]"),
        (58878.0, 53400.0, 64918.0, "59,000 [53,000, 65,000]"),
        # Of the smaller end two digits are left.
        (137.0, 44.0, 426.0, "140 [44, 430]"),
        (-0.0123, -0.3, 0.2754, "−0.01 [−0.30, 0.28]"),
        # What rounds to 0 but is none keeps two digits; what is 0 is written so, without a sign or zeros.
        (-0.0000351, -0.02707, 0.027, "−3.5e−5 [−0.027, 0.027]"),
        (0.02, 0.0, 0.05, "0.020 [0, 0.050]"),
        (50.0, 0.08, 31000.0, "50 [0.080, 31,000]"),
        (0.1 + 0.2, 0.3 - 5e-17, 0.3 + 5e-17, "0.300 [0.300, 0.300]"),
        (0.5, None, None, "0.500 (1 seed)"),
        (None, None, None, "no value"),
    ],
)
def test_an_estimate_has_the_digits_that_its_interval_deserves(mean, low, high, text):
    assert format_estimate(Estimate(mean, low, high, 1, 0)) == text


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_no_number_is_minus_zero_or_has_a_hyphen(mean, below, above):
    for text in estimate_parts(Estimate(mean, mean - below, mean + above, 3, 0)):
        assert "-" not in text
        assert not re.search(r"−0(\.0*)?(?![\d.])", text)


def test_a_setting_has_the_name_of_the_issue():
    rows = [row("pbnn+batch_size=5+num_batches=5+step_size=0.0343", target_weight=5.0) | {"weight": "batch"}]
    assert format_name(study_of(rows).all_settings[0]) == "PBNN n=5, M=5, η=0.034"


@pytest.mark.parametrize(
    ("method", "columns", "text"),
    [
        ("blackjax_hmc", {"own_settings": '{"target_acceptance": 0.8, "num_leapfrog": 64}'}, "L=64"),
        (
            "pbnn_mala_cv",
            {"own_settings": "proxy=first, selection=leverage, gradient=proxy"},
            "first-order proxy, points ",
        ),
        ("sghmc", {"own_settings": '{"friction": 0.3}'}, "α=0.3"),
        ("sghmc", {"weight": "1000"}, "w=1,000"),
        ("sghmc", {"weight": "data"}, "w=N"),
    ],
)
def test_settings_have_a_symbol_or_words_and_no_name_of_the_code(method, columns, text):
    name = format_name(study_of([row(f"{method}+step_size=0.01") | columns]).all_settings[0])
    assert text in name
    assert "_" not in name and not re.search(r"(proxy|selection|gradient|friction)=", name)


def test_every_setting_of_every_method_has_a_symbol_or_words():
    own = {setting.name: setting for card in METHODS.values() for setting in card.own_settings}
    for name in own.keys() - SETTINGS.keys():
        values = own[name].choices or [own[name].default]
        assert all((name, value) in CHOICES or name in OWN for value in values), name


def test_an_estimator_that_only_somebodys_own_method_has_is_shown_by_its_name():
    rows = [row("pbnn") | {"variance": "jackknife"}]
    assert "variance=jackknife" in format_name(study_of(rows).all_settings[0])


def test_settings_that_would_be_alike_are_distinguished_by_their_lengths():
    rows = [row(f"pbnn+batch_size=2{steps}") for steps in ("", "+num_steps=500")] + [row("full_mh")]
    texts = list(distinct_settings(study_of(rows).all_settings).values())
    assert texts[:2] == ["n=2, M=5, η=0.0072, w=N, 20,000 steps", "n=2, M=5, η=0.0072, w=N, 500 steps"]
    assert "steps" not in texts[2]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({}, "linear"),
        ({"num_points": 10000}, "linear (N = 10,000)"),
        (
            {"task": "mnist", "prior_scale": 0.5, "num_points": 5000, "num_epochs": 60},
            "mnist (prior sd 0.5, N = 5,000, 60 epochs)",
        ),
        (
            {"task": "regression", "num_points": 2000, "stochastic": "all", "prior": "laplace"},
            "regression (all layers, Laplace prior)",
        ),
        ({"task": "regression", "num_points": 400_000, "fresh_points": 400_000}, "regression (fresh points)"),
        ({"task": "my-own-all-task"}, "my-own-all-task"),
    ],
)
def test_a_task_is_called_by_words(columns, text):
    study = study_of([row("pbnn") | columns])
    assert task_name(study.all_settings[0]) == task_name(study.variants[0]) == text


def test_the_sizes_of_a_task_that_is_in_no_table_are_told_where_there_are_several():
    rows = [row("pbnn") | {"task": "own", "variant": f"own-{size}", "num_points": size} for size in (100, 200)]
    assert [task_name(one) for one in study_of(rows).variants] == ["own (N = 100)", "own (N = 200)"]


def test_own_settings_are_typed_also_those_of_summaries_that_were_published():
    cells = {'{"friction": 0.5, "proxy": "first"}', "friction=0.5, proxy=first"}
    found = {study_of([row("pbnn") | {"own_settings": cell}]).rows[0]["own_settings"] for cell in cells}
    assert found == {(("friction", 0.5), ("proxy", "first"))}


def test_a_method_that_one_summary_knows_is_not_known_to_another():
    known = {"method_label": "Their own", "method_exactness": "exact", "method_acceptance": "own"}
    rows = [row("pbnn") | {"method": "theirs", "method_is_minibatch": True, **known}]
    assert method_name(study_of(rows).rows[0]["method"]) == "Their own"
    assert method_name("theirs") == "theirs"
