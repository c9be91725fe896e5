"""Statistics over seeds, against scipy's t tests."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.seeds import (
    DISTANCE,
    POSITIVE,
    bounded,
    holm,
    mean_over_seeds,
    p_above,
    p_below,
    paired_difference,
    paired_ratio,
    root_of_mean,
    widened,
    with_shared_error,
)

numbers = st.lists(st.floats(-100, 100), min_size=2, max_size=8).filter(lambda values: np.ptp(values) > 1e-3)


@given(numbers)
@settings(max_examples=40)
def test_the_interval_of_a_mean_is_that_of_the_t_test_whatever_the_order(values):
    found = mean_over_seeds(dict(enumerate(values)))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-9)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert found.low <= found.mean <= found.high
    backwards = mean_over_seeds(dict(reversed(list(enumerate(values)))))
    assert backwards.low == pytest.approx(found.low, abs=1e-9)


def test_a_paired_difference_is_that_of_the_paired_t_test():
    rng = np.random.default_rng(0)
    shared = 10 * rng.normal(size=6)
    ours, theirs = shared + 1 + 0.1 * rng.normal(size=6), shared
    found = paired_difference(dict(enumerate(ours)), dict(enumerate(theirs)))
    expected = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    # What the seeds share cancels: the unpaired interval of either is tens of times wider.
    assert found.excludes_zero and not mean_over_seeds(dict(enumerate(ours))).excludes_zero


def test_three_seeds_cover_the_truth_as_often_as_promised():
    rng = np.random.default_rng(1)
    estimates = [mean_over_seeds(dict(enumerate(rng.normal(size=3)))) for _ in range(4000)]
    wrong = np.mean([estimate.excludes_zero for estimate in estimates])
    assert wrong == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 4000))


def test_seeds_pair_by_their_number_and_the_missing_are_counted():
    ours = {0: 5.0, 3: 1.0, 1: 2.0, 4: None}
    theirs = {1: 1.0, 0: 3.0, 2: 9.0, 4: 7.0, 3: None}
    found = paired_difference(ours, theirs)
    assert found.mean == 1.5  # Seeds 0 and 1: 5 - 3 and 2 - 1.
    assert (found.num_seeds, found.num_missing) == (2, 3)


def test_a_nan_is_not_taken_for_a_missing_seed():
    with pytest.raises(ValueError, match="seed 3 has the value nan"):
        paired_difference({3: math.nan}, {3: 1.0})


# P-values


@given(numbers, st.floats(-50, 50))
@settings(max_examples=40)
def test_p_values_are_those_of_the_one_sided_t_test(values, bound):
    found = mean_over_seeds(dict(enumerate(values)))
    expected = stats.ttest_1samp(values, bound, alternative="greater").pvalue
    assert p_above(found, bound) == pytest.approx(expected, abs=1e-9)
    assert p_below(found, bound) == pytest.approx(1 - expected, abs=1e-9)


@pytest.mark.parametrize(
    "value",
    [
        mean_over_seeds({0: 1.0, 1: 1.4, 2: 0.9}),
        widened(mean_over_seeds({0: 1.0, 1: 1.0, 2: 1.01}), {0: 0.2, 1: 0.2, 2: 0.2}),
        bounded(mean_over_seeds({0: 1.0, 1: 1.4, 2: 0.9}), POSITIVE),
        bounded(mean_over_seeds({0: 1.0, 1: 3.4, 2: 0.9}), DISTANCE),
        paired_ratio({0: 2.0, 1: 2.5, 2: 1.9}, {0: 1.0, 1: 1.5, 2: 0.7}),
        root_of_mean({0: 1.0, 1: 2.0, 2: 0.7}),
        with_shared_error(mean_over_seeds({0: 1.0, 1: 1.4, 2: 0.9}), 0.3),
        mean_over_seeds({0: 1.0, 1: 1.4, 2: 0.9}).scaled(100.0),
        root_of_mean({0: 1.0, 1: 2.0, 2: 0.7}).scaled(3.0),
        paired_ratio({0: 2.0, 1: 2.5, 2: 1.9}, {0: 1.0, 1: 1.5, 2: 0.7}).scaled(0.1),
    ],
)
def test_a_p_value_says_what_the_interval_says(value):
    """At the upper end of the 95 % interval the chance beyond is 2.5 %, on whatever scale it was made."""
    assert p_below(value, value.high) == pytest.approx(0.025, rel=1e-6)
    assert p_below(value, value.high * 1.001) < 0.025 < p_below(value, value.high * 0.999)
    if value.low > 0:
        assert p_above(value, value.low) == pytest.approx(0.025, rel=1e-6)


def test_holm_is_that_of_the_textbook():
    # Holm (1979) as worked in R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm").
    assert holm([0.03, 0.01, 0.05, 0.02, 0.04]) == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_is_wrong_in_one_family_of_twenty():
    rng = np.random.default_rng(2)
    wrong = np.mean([min(holm(rng.random(12).tolist())) <= 0.05 for _ in range(4000)])
    assert wrong == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 4000))


#: Squared distances over seeds: of a normal deviation in so many directions about a mean, in its sd.
DEVIATIONS = [(0.0, 1), (0.5, 1), (2.0, 1), (0.0, 3), (0.5, 10)]


@pytest.mark.parametrize("taken_off", [0.0, 0.5])
@pytest.mark.parametrize(("mean", "num_directions"), DEVIATIONS)
def test_the_root_of_a_mean_square_covers_the_truth_as_often_as_promised(mean, num_directions, taken_off):
    """Skewed squares, from few seeds: a t interval of theirs ends below the truth in up to 18 studies of 100."""
    rng = np.random.default_rng(6)
    truth = mean**2 + 1 - taken_off
    for num_seeds in (3, 6, 12, 16):
        with_noise = ((mean + rng.normal(size=(1000, num_seeds, num_directions))) ** 2).mean(axis=2)
        above = below = 0
        for values in with_noise:
            found = root_of_mean(dict(enumerate(values - taken_off)), dict(enumerate(np.sqrt(values))))
            above += found.low**2 > truth
            below += found.high**2 < truth
        # 2.5 % on either side, as many more as a thousand studies can show by chance.
        assert max(above, below) / 1000 < 0.025 + 4 * math.sqrt(0.025 * 0.975 / 1000)
        assert (above + below) / 1000 < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)


def test_squares_that_hardly_scatter_have_the_t_interval():
    """There is nothing skewed about them, so that no decision is lost."""
    squares = {0: 0.0100, 1: 0.0102, 2: 0.0101}
    found, usual = root_of_mean(squares), mean_over_seeds(squares)
    assert (found.low**2, found.high**2) == pytest.approx((usual.low, usual.high), rel=2e-3)
    # Of these all is noise, of which as much has been taken off: they are not skewed either.
    noise = {seed: square - 0.01 for seed, square in squares.items()}
    distances = {seed: math.sqrt(square) for seed, square in squares.items()}
    assert root_of_mean(noise, distances).high ** 2 == pytest.approx(usual.high - 0.01, rel=0.1)
    assert root_of_mean(noise).high > 2 * root_of_mean(noise, distances).high


def test_an_interval_with_a_shared_error_covers_the_truth_as_often_as_promised():
    """With the seeds' own degrees of freedom it would cover more, and decide less."""
    rng = np.random.default_rng(5)
    num_studies, covered, widths = 4000, 0, 0.0
    for own, shared in zip(rng.normal(size=(num_studies, 6)), rng.normal(0, 0.6, num_studies), strict=True):
        found = with_shared_error(mean_over_seeds(dict(enumerate(own + shared))), 0.6)
        covered += found.low <= 0 <= found.high
        widths += (found.high - found.low) / num_studies
    assert covered / num_studies == pytest.approx(0.95, abs=0.015)
    assert widths < 2 * stats.t.ppf(0.975, 5) * math.hypot(0.6, 1 / math.sqrt(6))


# Looks
