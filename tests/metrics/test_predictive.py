"""The one-pass predictive distribution, against the same numbers worked out from all draws at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logsumexp, softmax

from metrics.predictive import predictive, probe_points

NUM_POINTS, NUM_CLASSES, CHAINS, DRAWS = 30, 4, 2, 25
NOISE_SD = 0.3


def linear_outputs(features, num_outputs):
    """f = x W of a single layer, as a function of draws (b, P)."""
    return lambda draws: features @ draws.reshape(len(draws), features.shape[1], num_outputs)


def class_problem(dtype=np.float64):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(NUM_POINTS, 3)).astype(dtype)
    draws = rng.normal(size=(CHAINS, DRAWS, 3 * NUM_CLASSES)).astype(dtype)
    return linear_outputs(features, NUM_CLASSES), draws, rng.integers(0, NUM_CLASSES, NUM_POINTS)


def regression_problem():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(NUM_POINTS, 3))
    draws = 5 + rng.normal(size=(CHAINS, DRAWS, 3))
    return linear_outputs(features, 1), draws, features @ [5.0, 5.0, 5.0] + rng.normal(size=NUM_POINTS)


def all_outputs(outputs, draws):
    return outputs(draws.reshape(-1, draws.shape[-1])).astype(np.float64)


@given(draws_a_block=st.integers(1, 60))
@settings(max_examples=15)
def test_class_predictions_equal_the_one_shot_answer_for_any_block_size(draws_a_block):
    outputs, draws, targets = class_problem()
    found = predictive(outputs, draws, targets, "categorical", memory=4 * 8 * NUM_POINTS * NUM_CLASSES * draws_a_block)
    probabilities = softmax(all_outputs(outputs, draws), axis=-1)
    of_target = probabilities[:, np.arange(NUM_POINTS), targets]
    np.testing.assert_allclose(found.mean, probabilities.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.sd, probabilities.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.log_density, np.log(of_target.mean(axis=0)), rtol=1e-12)
    expected_trace = np.log(of_target).mean(axis=1).reshape(CHAINS, DRAWS)
    np.testing.assert_allclose(found.log_likelihood_trace, expected_trace, rtol=1e-12)
    probes = probe_points(NUM_POINTS)
    expected_probes = np.log(probabilities[:, probes, np.arange(len(probes)) % NUM_CLASSES])
    np.testing.assert_allclose(found.probe_trace, expected_probes.reshape(CHAINS, DRAWS, -1), rtol=1e-10)
    assert found.pit is None and found.crps is None


def test_log_odds_predict_like_the_two_classes_they_stand_for():
    rng = np.random.default_rng(3)
    features, draws = rng.normal(size=(NUM_POINTS, 3)), rng.normal(size=(CHAINS, DRAWS, 3))
    targets = rng.integers(0, 2, NUM_POINTS)
    found = predictive(linear_outputs(features, 1), draws, targets, "bernoulli")
    late = expit(draws.reshape(-1, 3) @ features.T)
    np.testing.assert_allclose(found.mean, np.stack([1 - late, late], axis=-1).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.sd[:, 0], late.std(axis=0), rtol=1e-9)
    of_target = np.where(targets == 1, late, 1 - late)
    np.testing.assert_allclose(found.log_density, np.log(of_target.mean(axis=0)), rtol=1e-12)
    expected_trace = np.log(of_target).mean(axis=1).reshape(CHAINS, DRAWS)
    np.testing.assert_allclose(found.log_likelihood_trace, expected_trace, rtol=1e-12)
    assert found.pit is None and found.crps is None


@given(draws_a_block=st.integers(1, 60))
@settings(max_examples=15)
def test_regression_predictions_equal_the_one_shot_answer_for_any_block_size(draws_a_block):
    outputs, draws, targets = regression_problem()
    found = predictive(outputs, draws, targets, "gaussian", NOISE_SD, memory=4 * 8 * NUM_POINTS * draws_a_block)
    function = all_outputs(outputs, draws)[..., 0]
    law = stats.norm(function, NOISE_SD)
    np.testing.assert_allclose(found.mean, function.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.sd, function.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.pit, law.cdf(targets).mean(axis=0), rtol=1e-12)
    expected = logsumexp(law.logpdf(targets), axis=0) - np.log(CHAINS * DRAWS)
    np.testing.assert_allclose(found.log_density, expected, rtol=1e-12)
    expected_trace = law.logpdf(targets).mean(axis=1).reshape(CHAINS, DRAWS)
    np.testing.assert_allclose(found.log_likelihood_trace, expected_trace, rtol=1e-12)
    expected_probes = function[:, probe_points(NUM_POINTS)].reshape(CHAINS, DRAWS, -1)
    np.testing.assert_allclose(found.probe_trace, expected_probes, rtol=1e-12)
    assert found.traces.shape == (CHAINS, DRAWS, len(probe_points(NUM_POINTS)) + 1)


@pytest.mark.parametrize("stride", [1, 3, 7])
def test_the_pairs_of_the_crps_are_of_every_draw_or_an_evenly_spaced_subset_across_blocks(stride, monkeypatch):
    outputs, draws, targets = regression_problem()
    # The least memory that leads to this stride.
    monkeypatch.setattr("metrics.predictive.CRPS_MEMORY", -(-CHAINS * DRAWS * NUM_POINTS * 4 // stride))
    found = predictive(outputs, draws, targets, "gaussian", NOISE_SD, memory=4 * 8 * NUM_POINTS * 4)
    function = all_outputs(outputs, draws)[:, :, 0]
    kept = function[::stride]
    pair_sd = np.sqrt(2) * NOISE_SD
    pairs = np.abs(kept[:, None] - kept[None])
    spread = stats.foldnorm(pairs / pair_sd, scale=pair_sd).mean().mean(axis=(0, 1))
    distance = stats.foldnorm(np.abs(targets - function) / NOISE_SD, scale=NOISE_SD).mean().mean(axis=0)
    np.testing.assert_allclose(found.crps, distance - spread / 2, rtol=1e-5)


def test_no_array_of_all_draws_and_points_is_ever_asked_for():
    outputs, draws, targets = class_problem()
    sizes = []

    def recording(block):
        sizes.append(len(block))
        return outputs(block)

    predictive(recording, draws, targets, "categorical", memory=4 * 8 * NUM_POINTS * NUM_CLASSES * 7)
    assert max(sizes) == 7
    assert sum(sizes) == CHAINS * DRAWS + 1  # One more, for the shape.


def test_float32_keeps_an_sd_far_below_the_mean():
    rng = np.random.default_rng(2)
    draws = (4 + 1e-3 * rng.normal(size=(2, 500, 2))).astype(np.float32)
    features = np.ones((5, 1), np.float32)
    draws[..., 1] = 0
    found = predictive(linear_outputs(features, 2), draws, np.zeros(5, int), "categorical")
    expected = softmax(draws.reshape(-1, 2).astype(np.float64), axis=1)
    np.testing.assert_allclose(found.sd[0], expected.std(axis=0), rtol=1e-3)  # sd 2e-5, float32 steps of 6e-8.
    np.testing.assert_allclose(found.mean[0], expected.mean(axis=0), rtol=1e-6)


def corrupted(position, value):
    outputs, draws, targets = class_problem()
    draws[position] = value
    return outputs, draws, targets


def test_a_draw_that_is_nan_is_named():
    with pytest.raises(
        ValueError, match="1 of 50 draws have parameters that are not finite, the first in chain 1, draw 3"
    ):
        predictive(*corrupted((1, 3, 2), np.nan), "categorical")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"likelihood": "cauchy"}, "no likelihood 'cauchy'; valid: gaussian, categorical, bernoulli, poisson"),
        ({"likelihood": "gaussian"}, "needs noise_sd > 0 and one output; got None and 4"),
        ({"likelihood": "bernoulli"}, r"outputs \(1, 30, 4\): a bernoulli likelihood has one output"),
        ({"targets": np.full(NUM_POINTS, NUM_CLASSES)}, "expected integers from 0 to 3"),
        ({"targets": np.zeros(NUM_POINTS)}, "targets of type float64"),
        ({"targets": np.zeros(3, int)}, r"targets \(3,\) and outputs \(1, 30, 4\)"),
        ({"draws": np.zeros((2, 0, 12))}, r"draws of shape \(2, 0, 12\)"),
    ],
)
def test_input_that_cannot_be_evaluated_is_refused_with_its_name(change, message):
    outputs, draws, targets = class_problem()
    arguments = {"outputs": outputs, "draws": draws, "targets": targets, "likelihood": "categorical"} | change
    with pytest.raises(ValueError, match=message):
        predictive(**arguments)


@pytest.mark.parametrize("problem", ["classes", "regression"])
def test_every_chain_has_its_own_mean(problem):
    outputs, draws, targets = class_problem() if problem == "classes" else regression_problem()
    rest = ("categorical",) if problem == "classes" else ("gaussian", NOISE_SD)
    found = predictive(outputs, draws, targets, *rest, memory=2000)
    for number, mean in enumerate(found.chain_means):
        alone = predictive(outputs, draws[number : number + 1], targets, *rest)
        np.testing.assert_allclose(mean, alone.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.chain_means.mean(axis=0), found.mean, rtol=1e-10, atol=1e-12)


def test_counts_are_a_mixture_of_poisson_laws():
    random = np.random.default_rng(4)
    features, draws = random.normal(size=(NUM_POINTS, 2)), 0.4 * random.normal(size=(2, 25, 2))
    targets = random.poisson(1.5, NUM_POINTS)
    found = predictive(linear_outputs(features, 1), draws, targets, "poisson", memory=4 * 8 * NUM_POINTS * 7)
    laws = stats.poisson(np.exp(draws.reshape(-1, 2) @ features.T))
    np.testing.assert_allclose(found.mean, laws.mean().mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.sd, laws.mean().std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.log_density, np.log(laws.pmf(targets).mean(axis=0)), rtol=1e-6)
    np.testing.assert_allclose(found.log_likelihood_trace.ravel(), laws.logpmf(targets).mean(axis=1), rtol=1e-6)
    below, up_to = laws.cdf(targets - 1).mean(axis=0), laws.cdf(targets).mean(axis=0)
    assert (below <= found.pit).all() and (found.pit <= up_to).all()
    # Where in its step a count lies is drawn at random: neither always its foot, nor its top.
    heights = (found.pit - below) / (up_to - below)
    assert 0.3 < heights.mean() < 0.7 and heights.std() > 0.2
    # CRPS = E|Y - y| - E|Y - Y'| / 2, with the law up to where nothing is left.
    values = np.arange(200)
    masses = laws.pmf(values[:, None, None]).mean(axis=1)
    to_target = np.einsum("kn,kn->n", masses, np.abs(values[:, None] - targets))
    apart = np.einsum("kn,kl,ln->n", masses, np.abs(values[:, None] - values), masses)
    np.testing.assert_allclose(found.crps, to_target - apart / 2, rtol=1e-5)
