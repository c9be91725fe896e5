"""The shape of a tail whose law is known, and the library made for it."""

import math

import numpy as np
import pytest
from arviz_stats.base import array_stats

from metrics.pareto import pareto_k


@pytest.mark.parametrize("count", [30, 224, 300, 1000])
@pytest.mark.parametrize("sd", [1e-6, 0.2, 3.0])
def test_it_is_that_of_arviz(count, sd):
    log_weights = sd * np.random.default_rng(count).standard_normal(count)
    # It takes log likelihoods, which weigh as their inverse.
    assert pareto_k(log_weights) == pytest.approx(float(array_stats.psislw(-log_weights)[1]), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_it_is_the_shape_of_a_pareto_tail(shape):
    """Weights U^-k have a tail of that shape exactly; 950 of 100,000 tell it to some 5 per cent."""
    uniform = np.random.default_rng(0).random(100_000)
    assert pareto_k(-shape * np.log(uniform)) == pytest.approx(shape, abs=0.15)


def test_equal_weights_and_few_have_no_tail():
    assert pareto_k(np.zeros(1000)) == math.inf
    assert pareto_k(np.arange(24.0)) == math.inf
