"""Cost of an effective draw, by hand."""

import pytest

from metrics.cost import Efficiency, efficiency


def test_efficiency_of_a_case_worked_by_hand():
    found = efficiency(
        ess=400, seconds=8, num_likelihoods=2_000_000, num_gradients=500_000, num_steps=1000, num_points=5000
    )
    assert found == Efficiency(50.0, 200.0, 800.0, data_fraction=0.5)


def test_an_undefined_ess_has_an_undefined_efficiency_but_a_data_fraction():
    assert efficiency(None, 1.0, 10, 10, 10, 10) == Efficiency(None, None, None, 0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": 0.0}, "seconds = 0.0"),
        ({"seconds": float("nan")}, "seconds = nan"),
        ({"num_steps": 0}, "num_steps = 0"),
    ],
)
def test_a_run_that_took_no_time_or_no_step_is_refused(change, message):
    arguments = {"ess": 1.0, "seconds": 1.0, "num_likelihoods": 1, "num_gradients": 1, "num_steps": 1, "num_points": 1}
    with pytest.raises(ValueError, match=message):
        efficiency(**(arguments | change))
