"""Statistics over seeds, against scipy's t tests."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.seeds import Estimate, mean_over_seeds, paired_difference

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


def test_one_seed_has_a_mean_and_no_interval():
    found = mean_over_seeds({7: 3.0, 8: None})
    assert found == Estimate(mean=3.0, low=None, high=None, num_seeds=1, num_missing=1)
    assert not found.excludes_zero


def test_no_seed_has_nothing():
    assert mean_over_seeds({}) == Estimate(None, None, None, 0, 0)
    assert paired_difference({0: 1.0}, {1: 1.0}) == Estimate(None, None, None, 0, 2)


def test_a_nan_is_not_taken_for_a_missing_seed():
    with pytest.raises(ValueError, match="seed 3 has the value nan"):
        paired_difference({3: math.nan}, {3: 1.0})
