"""The seeds of one setting: which of them count, and one interval for one number wherever it is shown."""

import math

import numpy as np
import pytest
from scipy import stats

from records.display import format_value
from records.setting_runs import full_data, sweeps
from reports.drawing import Point
from reports.figures.noise import draw_acceptance
from reports.leaderboard import leaderboards
from reports.tables import comparison
from tests.reports.studies import row, study_of
from workflows.tracking.entries import entries_of


def setting(label="pbnn+batch_size=2", **columns):
    """A setting with as many seeds as its columns have values."""
    seeds = range(len(next(iter(columns.values()))))
    rows = [row(label, seed, **{name: values[seed] for name, values in columns.items()}) for seed in seeds]
    return study_of(rows).all_settings[0]


def test_numbers_come_from_converged_seeds_and_without_any_from_those_that_ended_well():
    mixed = setting(ece=[0.1, 0.2, 0.9], r_hat=[1.0, 1.01, 1.5])
    assert mixed.estimate("ece").mean == pytest.approx(0.15)
    assert (mixed.estimate("ece").num_seeds, mixed.estimate("ece").num_missing) == (2, 1)
    assert setting(ece=[0.1, 0.2], r_hat=[1.4, None]).estimate("ece").mean == pytest.approx(0.15)


def test_what_a_run_costs_counts_whether_or_not_it_has_converged():
    mixed = setting(wall_clock_s=[1.0, 2.0, 6.0], r_hat=[1.0, 1.01, 1.5])
    assert mixed.estimate("wall_clock_s").mean == pytest.approx(3.0)


def test_the_interval_is_at_least_that_of_the_monte_carlo_errors():
    agreed = setting(mean_error=[0.5, 0.5, 0.5], mean_error_mc=[0.03, 0.03, 0.03])
    half = 2 * 0.03 / math.sqrt(3)
    found = agreed.estimate("mean_error")
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_a_difference_has_the_monte_carlo_errors_of_both_sides():
    ours = setting(sd_ratio=[1.5, 1.5, 1.5], sd_ratio_mc=[0.03] * 3)
    theirs = setting("full_mh", sd_ratio=[1.0, 1.0, 1.0], sd_ratio_mc=[0.04] * 3)
    found = ours.difference(theirs, "sd_ratio")
    half = 2 * 0.05 / math.sqrt(3)
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_intervals_respect_the_values_that_a_quantity_can_have():
    values = [0.001, 0.02, 0.09]
    half = stats.t.ppf(0.975, 2) * stats.sem(values)
    mean = np.mean(values)
    distance = setting(ece=values).estimate("ece")
    assert (distance.low, distance.high) == pytest.approx((0, mean + half))
    positive = setting(ess_per_second=values).estimate("ess_per_second")
    assert (positive.low, positive.high) == pytest.approx((mean * math.exp(-half / mean), mean * math.exp(half / mean)))
    rate = setting(acceptance_rate=[0.9, 0.99, 1.0]).estimate("acceptance_rate")
    assert 0 < rate.low < rate.mean < rate.high == 1
    signed = setting(confidence_gap=values).estimate("confidence_gap")
    assert (signed.low, signed.high) == pytest.approx((mean - half, mean + half))


def test_the_full_data_baseline_has_the_most_converged_seeds_then_is_full_mh_and_near_its_defaults():
    rows = [row("full_mh+step_size=0.5", 0), row("mala", 0), row("full_mh", 0)]
    assert full_data(study_of(rows).all_settings)["label"] == "full_mh"
    assert full_data(study_of([*rows, row("mala", 1)]).all_settings)["method"] == "mala"
    assert full_data(study_of([row("full_mh", target_weight=2.0), row("pbnn")]).all_settings) is None


def test_a_sweep_holds_all_other_settings_fixed_but_the_length_of_the_chain():
    labels = ["pbnn+batch_size=2", "pbnn+batch_size=4+num_steps=9", "pbnn+batch_size=8+num_batches=2"]
    (family,) = sweeps(study_of([row(label) for label in labels]).all_settings, "batch_size")
    assert [one["batch_size"] for one in family] == [2, 4]


def test_a_number_has_one_interval_in_table_figure_caption_and_tracking(tmp_path):
    values = {2: [0.30, 0.34, 0.41], 8: [0.5, 0.6, 0.7]}
    rows = [row(f"pbnn+batch_size={n}", seed, acceptance_rate=values[n][seed]) for n in values for seed in range(3)]
    study = study_of(rows, tmp_path)
    ends = study.all_settings[0].estimate("acceptance_rate")
    line = comparison(study, "linear").frame.iloc[0]
    assert (line["acceptance_rate_low"], line["acceptance_rate_high"]) == (ends.low, ends.high)
    parent = entries_of(study.rows, tmp_path)[0].metrics
    names = [f"with_interval/acceptance_rate_{end}" for end in ("low", "high")]
    assert [parent[name] for name in names] == pytest.approx([ends.low, ends.high], rel=1e-3)
    panel = draw_acceptance(study).panels[0]
    assert (ends.low, ends.high) in [shape.y_ends for shape in panel.of(Point)]
    assert format_value(study.all_settings[0], "acceptance_rate") == "0.35 [0.21, 0.49]"


def test_an_error_of_the_mean_is_the_same_number_wherever_it_is_shown():
    """That of the bias, with the Monte Carlo part taken off; of chains that stand alone with it."""
    columns = {"mean_error": [0.2, 0.3, 0.25], "squared_bias": [0.03, 0.05, 0.04]}
    biased = setting(**columns)
    assert biased.bias().mean == pytest.approx(0.2)
    assert biased.estimate("mean_error") == biased.bias()
    (shown,) = biased.parts("mean_error")
    assert shown == (biased.bias(), True)
    study = study_of(list(biased.rows))
    table = comparison(study, study.variants[0]).frame.iloc[0]
    names = [f"mean_error{end}" for end in ("", "_low", "_high")]
    value = biased.bias()
    assert table[names].tolist() == [value.mean, value.low, value.high]
    (board,) = leaderboards(study)
    assert board.frame.iloc[0][names].tolist() == [value.mean, value.low, value.high]
    alone = setting(**columns | {"squared_bias": [None] * 3})
    assert alone.bias().mean == alone.estimate("mean_error").mean == pytest.approx(0.25)
