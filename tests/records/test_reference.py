"""References: which kind, their numbers, their gate, their file."""

import json
from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import signal

from implementations.infrastructure.errors import SettingError
from implementations.tasks.problem import Problem
from implementations.tasks.references import all_layers
from implementations.tasks.references.closed_form import gaussian_posterior
from implementations.tasks.references.mode import find_mode
from implementations.tasks.references.one_layer import Chains
from records import reference as module
from records.reference import Reference, predictions, reference
from tests.implementations.networks import tiny_network_problem


@pytest.fixture(scope="module")
def tiny_network() -> Problem:
    return tiny_network_problem()


@pytest.fixture(scope="module")
def digits_reference(problem) -> Reference:
    return reference(problem("digits"), 100.0)


def test_a_linear_gaussian_problem_gets_its_closed_form(problem) -> None:
    prepared = problem("regression")
    answer, exact = reference(prepared, 10.0), gaussian_posterior(prepared, 10.0)
    assert (answer.kind, answer.is_usable, answer.reason) == ("closed_form", True, "")
    np.testing.assert_array_equal(answer.mean, exact.mean)
    outputs = np.linalg.cholesky(exact.covariance).T @ prepared.test_features.T.astype(float)
    np.testing.assert_allclose(answer.predictive_sd[:, 0], np.sqrt((outputs**2).sum(axis=0)), rtol=1e-6)
    np.testing.assert_allclose(answer.predictive_mean[:, 0], prepared.test_features @ exact.mean, rtol=1e-6)
    assert answer.predictive_mean.shape == (2000, 1) and not answer.predictive_mcse.any()
    whitened = np.linalg.solve(np.linalg.cholesky(exact.covariance), (answer.draws - exact.mean).T)
    assert np.abs(whitened.mean(axis=1)).max() < 5 / np.sqrt(2000)
    np.testing.assert_allclose(np.cov(whitened), np.eye(21), atol=5 * np.sqrt(2 / 2000))


def chains_of(levels: list[float], num_draws: int = 500) -> Chains:
    """Chains of the tiny network around the given last biases, and log likelihoods with them."""
    random = np.random.default_rng(0)
    draws = 0.1 * random.standard_normal((len(levels), num_draws, 7))
    draws[:, :, 4] += np.array(levels)[:, None]
    return Chains(draws, draws[:, :, 4] - 20, num_divergences=0, acceptance=0.8, num_steps=31)


def test_a_network_is_compared_by_its_predictions_alone(tiny_network, monkeypatch, tmp_path) -> None:
    run = chains_of([0.0, 0.0, 0.0, 0.0])
    monkeypatch.setattr(all_layers, "sample", lambda *_, **given: lengths.append(given) or run)
    lengths: list[dict] = []
    answer = reference(tiny_network, 5.0)
    assert (answer.kind, answer.is_usable, answer.reason) == ("gold_standard", True, "")
    made = "blackjax HMC, tempered, half of the chains from the prior: 4 chains of 1000 draws after 300, 31 steps"
    assert made in answer.method
    assert lengths[0] == {"seed": 0, "chains": 4, "num_warmup": 300, "num_draws": 1000}
    assert answer.mean.size == answer.covariance.size == 0 and answer.draws.shape[1] == 7
    # By hand: f = b + v tanh(W x).
    hidden = np.tanh(tiny_network.test_features @ run.draws[..., :4].reshape(4, 500, 2, 2))
    outputs = run.draws[..., 4, None] + np.einsum("cdnh,cdh->cdn", hidden, run.draws[..., 5:])
    # Of single precision, as the features are.
    np.testing.assert_allclose(answer.predictive_mean[:, 0], outputs.mean(axis=(0, 1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(answer.predictive_sd[:, 0], outputs.std(axis=(0, 1)), rtol=1e-5, atol=1e-6)
    answer.save(tmp_path / "reference.npz")
    assert Reference.load(tmp_path / "reference.npz").mean.size == 0


def test_chains_that_stay_in_modes_of_their_own_are_kept_but_marked(tiny_network, monkeypatch) -> None:
    monkeypatch.setattr(all_layers, "sample", lambda *_, **__: chains_of([0.0, 0.0, 0.0, 3.0]))
    answer = reference(tiny_network, 5.0)
    assert answer.kind == "gold_standard" and not answer.is_usable and answer.predictive_mean.shape == (9, 1)
    assert answer.reason.startswith("R-hat ") and "is above 1.01" in answer.reason
    assert answer.reason.endswith("first: -20.0 (0.1), -20.0 (0.1), -20.0 (0.1), -17.0 (0.1)")


def test_a_gold_standard_passes_its_gate_and_keeps_its_provenance(digits_reference) -> None:
    answer = digits_reference
    assert (answer.kind, answer.is_usable, answer.reason, answer.num_divergences) == ("gold_standard", True, "", 0)
    assert 1 <= answer.rhat <= 1.01 and answer.ess_bulk > 400 and answer.ess_tail > 400
    assert answer.draws.shape == (1500, 210) and answer.draws.dtype == np.float32
    assert "blackjax HMC" in answer.method and "4 chains of 750 draws after 100" in answer.method
    assert set(json.loads(answer.versions)) == {"numpy", "jax", "blackjax"} and answer.seconds > 0


@pytest.mark.parametrize("weight", [10_000.0, 100.0])
def test_the_gold_standard_of_log_odds_passes_its_gate(problem, weight) -> None:
    prepared = problem("logistic")
    answer = reference(prepared, weight)
    assert (answer.kind, answer.is_usable, answer.reason, answer.num_divergences) == ("gold_standard", True, "", 0)
    assert answer.predictive_mean.shape == (2000, 2)
    np.testing.assert_allclose(answer.predictive_mean.sum(axis=1), 1)
    assert (prepared.test_targets == answer.predictive_mean.argmax(axis=1)).mean() > 0.7


def test_importance_sampling_and_chains_agree_on_log_odds(problem) -> None:
    # A tenth of the data's weight: skewed enough for the weights to matter.
    prepared, weight = problem("logistic"), 1000.0
    weighted = module._weighted(prepared, weight, 0)
    assert "importance sampling" in weighted.method and weighted.ess_bulk > 1000 and weighted.ess_tail > 900
    chains = module._gold_standard(prepared, weight, 0, 4, 100, 750)
    errors = np.hypot(weighted.predictive_mcse, chains.predictive_mcse)
    # The chains' errors are from 80 batches; the largest of 2,000 normal deviations is about 3.5 of them.
    assert np.abs((weighted.predictive_mean - chains.predictive_mean) / errors).max() < 5
    np.testing.assert_allclose(weighted.predictive_sd, chains.predictive_sd, rtol=5 / np.sqrt(2 * chains.ess_bulk))
    scale = np.sqrt(chains.covariance.diagonal())
    np.testing.assert_allclose((weighted.mean - chains.mean) / scale, 0, atol=5 / np.sqrt(chains.ess_bulk))
    # What the weights correct for: without them the mean would be the mode's.
    assert np.abs((find_mode(prepared, weight) - chains.mean) / scale).max() > 5 / np.sqrt(chains.ess_bulk)


def test_importance_sampling_of_a_gaussian_is_its_closed_form(problem) -> None:
    prepared = problem("regression")
    answer, exact = module._weighted(prepared, 10.0, 0), gaussian_posterior(prepared, 10.0)
    np.testing.assert_allclose(answer.mean, exact.mean, atol=1e-6)
    np.testing.assert_allclose(answer.covariance, exact.covariance, atol=1e-6)
    assert answer.ess_tail == pytest.approx(1000)


def test_a_target_far_from_its_gaussian_is_left_to_chains(problem) -> None:
    assert module._weighted(problem("digits"), 100.0, 0) is None


def test_weights_with_a_heavy_tail_are_kept_but_marked(problem, monkeypatch) -> None:
    monkeypatch.setattr("metrics.convergence.pareto_k", lambda log_weights: 0.8)
    answer = module._weighted(problem("logistic"), 10_000.0, 0)
    assert not answer.is_usable and answer.reason == "Pareto k 0.80 of the weights is above 0.5"


def test_a_gold_standard_predicts_what_its_draws_predict(problem, digits_reference) -> None:
    answer, prepared = digits_reference, problem("digits")
    values = predictions(prepared, answer.draws.astype(float), prepared.test_features)
    np.testing.assert_allclose(values.sum(axis=-1), 1)
    # Half of the draws: their mean is off by about the error of the full one.
    assert np.abs(values.mean(axis=0) - answer.predictive_mean).max() < 5 * answer.predictive_mcse.max()
    np.testing.assert_allclose(answer.predictive_sd, values.std(axis=0), atol=0.02)
    assert ((answer.predictive_mcse > 0) & (answer.predictive_mcse < 0.2 * answer.predictive_sd)).all()
    np.testing.assert_allclose(answer.mean, answer.draws.mean(axis=0), atol=0.2)
    assert answer.covariance.shape == (210, 210)


def test_the_monte_carlo_error_of_a_prediction_is_that_of_arviz(problem) -> None:
    digits = problem("digits")
    prepared = replace(digits, test_features=digits.test_features[:5], test_targets=digits.test_targets[:5])
    # Chains with an autocorrelation of 0.5.
    noise = 0.3 * np.random.default_rng(0).standard_normal((4, 600, 210))
    draws = prepared.map + signal.lfilter([1], [1, -0.5], noise, axis=1)[:, 100:]
    mean, sd, mcse = module._predictive(prepared, draws)
    values = predictions(prepared, draws, prepared.test_features)
    expected = array_stats.mcse(values, chain_axis=0, draw_axis=1)
    # 80 batches know their own spread to 8 per cent; ignoring the autocorrelation would be off by 42.
    np.testing.assert_allclose(mcse, expected, rtol=0.3)
    np.testing.assert_allclose(mean, values.mean(axis=(0, 1)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sd, values.std(axis=(0, 1)), rtol=1e-5, atol=1e-6)


def test_far_too_few_draws_are_kept_but_marked(problem, tmp_path) -> None:
    answer = reference(problem("digits"), 100.0, num_warmup=1, num_draws=8)
    assert answer.kind == "gold_standard" and not answer.is_usable
    assert answer.reason.startswith("R-hat ") and "is above 1.01; raise num_draws" in answer.reason
    answer.save(tmp_path / "reference.npz")
    assert Reference.load(tmp_path / "reference.npz").reason == answer.reason


@pytest.mark.parametrize(
    ("rhat", "num_divergences", "expected"),
    [
        (1.01, 0, ""),
        (1.011, 0, "R-hat 1.011 is above 1.01; raise num_draws"),
        (float("nan"), 0, "R-hat nan is above 1.01; raise num_draws"),
        (1.0, 2, "2 divergent draws; raise num_draws"),
    ],
)
def test_the_gate_asks_for_a_small_rhat_and_no_divergence(rhat, num_divergences, expected) -> None:
    assert module._fault(rhat, num_divergences) == expected


def test_a_reference_file_needs_numpy_alone_and_comes_back_the_same(digits_reference, tmp_path) -> None:
    digits_reference.save(tmp_path / "reference.npz")
    with np.load(tmp_path / "reference.npz", allow_pickle=False) as archive:
        assert str(archive["kind"]) == "gold_standard" and bool(archive["is_usable"])
        assert archive["predictive_mean"].shape == (300, 10)
    again = Reference.load(tmp_path / "reference.npz")
    for name in Reference.__dataclass_fields__:
        before, after = getattr(digits_reference, name), getattr(again, name)
        assert type(before) is type(after)
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan")])
def test_a_weight_that_is_not_positive_is_refused(problem, weight) -> None:
    with pytest.raises(SettingError, match=r"weight = .* of a reference must be positive"):
        reference(problem("linear"), weight)
