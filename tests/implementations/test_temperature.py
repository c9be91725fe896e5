"""Temperature scaling as a method: the one draw, against scipy and against the class of the calibrating command."""

import numpy as np
import pytest
from scipy import optimize, special

from implementations.sampling import sample
from implementations.tasks.references.mode import find_mode

SETTINGS = {"num_steps": 40, "num_warmup": 0, "chains": 2, "thin": 10}


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
@pytest.mark.parametrize("weight", ["data", 50.0])
def test_all_draws_are_the_mode_over_the_temperature_that_suits_the_validation_points(problem, backend, weight) -> None:
    digits = problem("digits")
    run = sample(digits, "temperature", SETTINGS | {"weight": weight, "dtype": "float64"}, backend)
    assert run.status == "ok" and run.progress.num_likelihoods == run.progress.num_gradients == 0 and not run.warnings
    mode = find_mode(digits, digits.num_points if weight == "data" else weight)
    logits = digits.validation_features.astype(float) @ mode.reshape(digits.layers[0])
    rows = np.arange(len(logits))

    def loss(log_temperature: float) -> float:
        scaled = special.log_softmax(logits / np.exp(log_temperature), axis=1)
        return -scaled[rows, digits.validation_targets].sum()

    temperature = np.exp(optimize.minimize_scalar(loss, bracket=(-1, 1)).x)
    found = run.draws.positions
    assert found.shape == (2, 4, digits.num_parameters)
    np.testing.assert_allclose(found, np.broadcast_to(mode / temperature, found.shape), rtol=1e-3, atol=1e-6)
    # Not the network as it is, which another number would be right for.
    assert abs(np.log(temperature)) > 0.01
