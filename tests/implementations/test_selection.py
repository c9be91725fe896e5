"""Mini-batches by leverage: unbiased whatever the leverages, with less noise where these are right."""

from itertools import combinations

import numpy as np
import pytest

from benchmarks.known_problems import known_problem
from implementations.backends import Inputs, anchor_at
from implementations.control_variates import leverage
from implementations.methods import METHODS, resolve
from implementations.sampling import sample
from implementations.tasks.geometry import mean_curvature
from tests import oracle
from tests.implementations.chains import BACKENDS
from tests.implementations.test_control_variates import make_sampler, tiny, weigh_all

both = pytest.mark.parametrize("backend", BACKENDS)


@both
@pytest.mark.parametrize("method", ["pbnn_cv", "pbnn_cn", "pbnn_mala_cv"])
@pytest.mark.parametrize("task", ["two_classes", "logistic"])
def test_delta_is_unbiased_over_all_mini_batches_of_slots(problem, backend, method, task):
    """All 190 pairs of the twenty slots of five points: against the losses, evaluated point by point."""
    few = tiny(known_problem(task) if task == "two_classes" else problem(task), 5)
    given = {"batch_size": 2, "num_batches": 1, "weight": 3.0, "selection": "leverage", "step_size": 0.2}
    if method == "pbnn_mala_cv":
        # Without a mini-batch of its own, so that all the moves are one.
        given["gradient"] = "proxy"
    sampler = make_sampler(few, method, backend, **given)
    slots = np.asarray(sampler.points.selection.slots)
    assert len(set(np.bincount(slots, minlength=5))) > 1, "points that are all drawn alike would show nothing"
    batches = np.array(list(combinations(range(20), 2)))[:, None, :]
    position, normals = np.random.default_rng(1).normal(size=(2, 1, few.num_parameters))
    here, noise = (np.repeat(part, len(batches), axis=0) for part in (position, normals))
    found = weigh_all(sampler, here, batches, noise)
    assert found["delta"].std() > 1e-4
    assert found["delta"].mean() == pytest.approx(found["true_delta"][0], rel=1e-5)
    np.testing.assert_allclose(found["true_variance"], found["delta"].var(), rtol=1e-5)
    assert found["variance"].mean() == pytest.approx(found["delta"].var(), rel=1e-5)
    if method == "pbnn_cv":
        there = position[0] + np.sqrt(0.4) * np.asarray(sampler.values.factor) @ normals[0]
        losses = [oracle.point_losses(place, few, np.arange(5)) for place in (there, position[0])]
        priors = [oracle.log_prior(place, few) for place in (there, position[0])]
        exact = priors[1] - priors[0] + 3.0 / 5 * (losses[0] - losses[1]).sum()
        np.testing.assert_allclose(found["true_delta"], exact, atol=1e-5)


@pytest.mark.parametrize("sizes", [np.random.default_rng(0).gamma(0.2, size=1000), np.zeros(7), np.eye(1, 50)[0]])
def test_slots_are_shared_out_in_proportion_and_every_point_has_one(sizes):
    total = 4 * len(sizes)
    counts = leverage.shared_out(sizes, total)
    assert counts.sum() == total and counts.min() >= 1
    share = sizes / sizes.sum() if sizes.any() else np.full(len(sizes), 1 / len(sizes))
    assert abs(counts - 1 - share * (total - len(sizes))).max() <= 1


@pytest.mark.parametrize("task", ["linear", "digits", "logistic", "counts"])
def test_leverages_add_up_to_the_parameters_that_the_data_determine(problem, task):
    """(w / N) sum_j h_j = tr(C A), A the curvature of (w / N) sum_j l_j and C the covariance of the Gaussian."""
    prepared = problem(task)
    weight = float(prepared.num_points)
    anchor = anchor_at(prepared, weight)
    curvature = weight * mean_curvature(prepared, anchor.position)
    precision = curvature + np.eye(len(curvature)) / prepared.prior_scale**2
    expected = np.trace(np.linalg.solve(precision, curvature))
    # A mean of squares of NUM_PROBES normal vectors: its relative sd is sqrt(2 / (probes x parameters)) at the most.
    error = np.sqrt(2 / (leverage.NUM_PROBES * expected))
    assert leverage.leverages(prepared, anchor).sum() == pytest.approx(expected, rel=4 * error)


@both
def test_there_is_less_noise_than_of_points_drawn_alike(problem, backend, compiled_soon):
    digits = problem("digits")
    given = {"batch_size": 50, "num_steps": 300, "num_warmup": 100, "chains": 2, "step_size": 0.003}
    alike, selected = (
        sample(digits, "pbnn_cv", given | {"selection": how}, backend).audit for how in leverage.SELECTIONS
    )
    assert selected["true_variance"].mean() < 0.6 * alike["true_variance"].mean()
    assert abs(selected["skewness"]).mean() < abs(alike["skewness"]).mean()


def test_what_it_takes_counts_as_warm_up(problem):
    digits = problem("digits")
    given = {"num_steps": 300, "num_warmup": 0, "selection": "leverage"}
    found = sample(digits, "pbnn_cn", given, "jax-cpu", is_audited=False)
    settings = resolve("pbnn_cn", given, digits)
    table = Inputs(digits, METHODS["pbnn_cn"], settings).selection
    assert found.progress.cpu_seconds["warmup"] == table.cpu_seconds > 0
