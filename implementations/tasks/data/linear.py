"""Bayesian linear regression, the paper's first figure: y = 0.3 + 0.8 x + 0.5 noise."""

from implementations.tasks.data.synthetic import drawn_task, on_curve

NOISE_SD = 0.5

TASK = drawn_task(
    on_curve(lambda inputs: 0.3 + 0.8 * inputs, NOISE_SD),
    num_points=100,
    num_validation=100,
    num_test=1000,
    has_fresh=True,
    name="linear",
    summary="Bayesian linear regression with known noise: intercept and slope",
    layers=((2, 1),),
    likelihood="gaussian",
    noise_sd=NOISE_SD,
)
