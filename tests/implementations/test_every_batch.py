"""Estimates of the loss difference and of its variance, over all mini-batches that a tiny data set has."""

from itertools import permutations

import numpy as np
import pytest

from implementations.kernels import estimates

NUM_POINTS, NUM_BATCHES, BATCH_SIZE, WEIGHT = 7, 3, 2, 5.0
COUNT = NUM_BATCHES * BATCH_SIZE
DIFFERENCES = np.random.default_rng(0).gamma(1.0, size=NUM_POINTS)
#: Every way to draw the mini-batches, each as likely as the others.
BATCHES = np.array(list(permutations(range(NUM_POINTS), COUNT))).reshape(-1, NUM_BATCHES, BATCH_SIZE)


@pytest.mark.parametrize("kind", [kind for kind in estimates.VARIANCES if kind != "oracle"])
def test_delta_is_unbiased_and_its_variance_is_what_the_name_says(kind):
    drop = np.full(len(BATCHES), 0.3)
    delta, variance = estimates.of_batches(DIFFERENCES[BATCHES], drop, WEIGHT, NUM_POINTS, kind)
    assert delta.mean() == pytest.approx(0.3 + WEIGHT * DIFFERENCES.mean(), rel=1e-12)
    count = BATCH_SIZE if kind in estimates.OF_ONE_BATCH else COUNT
    share = {"literal": 2.0}.get(kind, 1.0) * (NUM_POINTS / (NUM_POINTS - count) if kind in WITHOUT_FACTOR else 1.0)
    assert variance.mean() == pytest.approx(share * delta.var(), rel=1e-12)
    known = estimates.known_variance(DIFFERENCES[None], WEIGHT, count)
    assert known == pytest.approx(delta.var(), rel=1e-12)


#: Written out: an estimator in the wrong set must be seen.
WITHOUT_FACTOR = ("batches", "single", "literal", "points_infinite")
