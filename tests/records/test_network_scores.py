"""Practitioners' baselines on whole networks: closed forms where there are any, and scores worked out by hand."""

import jax
import numpy as np
import pytest
from scipy import stats

from implementations.networks import baselines
from implementations.networks.baselines import Baselines, Predictions
from implementations.networks.network import Network
from implementations.networks.tasks import NetworkData
from records.network_references import Gate, NetworkReference
from records.network_scores import log_densities, score

NOISE = 0.4


@pytest.fixture(scope="module")
def linear():
    """A network without hidden layers on 64 points, and its exact posterior at three test points."""
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((64, 3)).astype(np.float32)
    # Correlated inputs, so that a diagonal covariance is not the posterior's.
    inputs[:, 1] = 0.8 * inputs[:, 0] + 0.6 * inputs[:, 1]
    targets = (inputs @ [0.5, -1.0, 0.3] + NOISE * generator.standard_normal(64)).astype(np.float32)
    test_inputs = generator.standard_normal((3, 3)).astype(np.float32)
    data = NetworkData(inputs, targets, test_inputs, np.zeros(3, np.float32))
    design, test = (np.column_stack([np.ones(len(rows)), rows]) for rows in (inputs, test_inputs))
    precision = design.T @ design / NOISE**2 + np.diag([1.0, 3.0, 3.0, 3.0])
    mean = np.linalg.solve(precision, design.T @ targets / NOISE**2)
    return Baselines(Network((3, 1), noise_sd=NOISE), data), test, mean, precision


def test_a_mode_is_the_posterior_mean_and_all_starts_find_it(linear):
    found, test, mean, _ = linear
    # Adam's last steps are small, not none.
    np.testing.assert_allclose(found.ensemble(3).outputs, np.tile(test @ mean, (3, 1)), atol=0.02)
    assert found.ensemble(3).passes == 3 * found.map().passes


@pytest.mark.parametrize("method", ["last_layer", "ggn"])
def test_laplace_is_the_posterior_of_a_linear_model(linear, method):
    found, test, mean, precision = linear
    outputs = getattr(found, method)().outputs
    sd = np.sqrt(np.einsum("ti,ij,tj->t", test, np.linalg.inv(precision), test))
    np.testing.assert_allclose(outputs.mean(axis=0), test @ mean, atol=4 * sd.max() / np.sqrt(len(outputs)) + 0.02)
    np.testing.assert_allclose(outputs.std(axis=0) / sd, 1, atol=4 / np.sqrt(2 * len(outputs)))


def test_mean_field_has_the_inverse_diagonal_of_the_precision(linear):
    """The Gaussian nearest to N(m, A^-1) in reverse divergence has means m and variances 1 / A_ii."""
    found, test, mean, precision = linear
    outputs = found.mean_field().outputs
    sd = np.sqrt(test**2 @ (1 / np.diag(precision)))
    np.testing.assert_allclose(outputs.mean(axis=0), test @ mean, atol=0.03)
    np.testing.assert_allclose(outputs.std(axis=0) / sd, 1, atol=0.16)
    # The posterior's own widths are others.
    exact = np.sqrt(np.einsum("ti,ij,tj->t", test, np.linalg.inv(precision), test))
    assert np.abs(sd / exact - 1).max() > 0.2


def test_swag_has_the_moments_of_the_path(linear):
    found, test, _, _ = linear
    path = found._path(found._networks(1)[0], 0.05)[-baselines.SWAG_KEPT :]
    moves = found.network.scale * test  # of the predictions, by parameter
    outputs = found.swag(0.05).outputs
    centre = path.mean(axis=0)
    last = (path[-baselines.SWAG_RANK :] - centre) @ moves.T
    # Half of the variance is diagonal, half is that of the last deviations.
    variance = 0.5 * moves**2 @ path.var(axis=0) + 0.5 * (last**2).sum(axis=0) / (baselines.SWAG_RANK - 1)
    np.testing.assert_allclose(outputs.std(axis=0) / np.sqrt(variance), 1, atol=4 / np.sqrt(2 * len(outputs)))
    np.testing.assert_allclose((outputs.mean(axis=0) - moves @ centre) / np.sqrt(variance / len(outputs)), 0, atol=4)


def test_a_mask_of_dropped_units_has_the_mean_one():
    (mask,) = baselines._masks(jax.random.key(0), (20_000,), 1, 0.2)
    assert set(np.unique(mask).round(3)) == {0.0, 1.25}
    assert float(mask.mean()) == pytest.approx(1, abs=4 * 0.5 / np.sqrt(20_000))


def test_dropout_drops_the_same_units_at_all_points_and_keeps_the_mean():
    """One hidden layer, linear where units are small: the mean over masks is the network without dropout."""
    generator = np.random.default_rng(1)
    inputs = generator.standard_normal((64, 2)).astype(np.float32)
    data = NetworkData(inputs, inputs[:, 0], np.repeat(inputs[:1], 2, axis=0), np.zeros(2, np.float32))
    found = Baselines(Network((2, 30, 1), noise_sd=0.3), data).dropout(0.2)
    np.testing.assert_array_equal(found.outputs[:, 0], found.outputs[:, 1])
    assert found.outputs[:, 0].std() > 0.02
    assert found.outputs[:, 0].mean() == pytest.approx(inputs[0, 0], abs=0.2)


def test_classes_of_a_softmax_get_the_curvature_of_their_probabilities():
    """Last-layer draws against the Gauss-Newton matrix written out point by point."""
    generator = np.random.default_rng(2)
    inputs = generator.standard_normal((80, 2)).astype(np.float32)
    classes = (inputs[:, 0] + 0.5 * generator.standard_normal(80) > 0).astype(np.int32) + (inputs[:, 1] > 0.5)
    data = NetworkData(inputs, classes.astype(np.int32), inputs[:2], classes[:2].astype(np.int32))
    network = Network((2, 3), likelihood="softmax")
    found = Baselines(network, data)
    mode = found._networks(1)[0].astype(float)
    matrix = (mode * network.scale).reshape(3, 3)
    design = np.column_stack([np.ones(80), inputs])
    logits = design @ matrix
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    precision = np.eye(9)
    for row, p in zip(design, probabilities, strict=True):
        jacobian = np.kron(row, np.eye(3)) * network.scale  # outputs by parameters, row-major
        precision += jacobian.T @ (np.diag(p) - np.outer(p, p)) @ jacobian
    at_test = [np.kron(row, np.eye(3)) * network.scale for row in design[:2]]
    expected = [np.sqrt(np.diag(j @ np.linalg.inv(precision) @ j.T)) for j in at_test]
    np.testing.assert_allclose(found.last_layer().outputs.std(axis=0) / expected, 1, atol=0.16)


def _reference(mean, sd, **arrays):
    gate = Gate(1.001, 3000.0, 4000.0, 0.02, 0.03, 1.0, 3.0)
    return NetworkReference(
        "made-up", 0, 10.0, gate, {"scores": {"log_likelihood": -1.0}}, {"mean": mean, "sd": sd} | arrays
    )


def test_scores_of_numbers_are_in_sds_of_the_exact_posterior():
    reference = _reference(np.array([0.0, 1.0]), np.array([0.5, 0.25]))
    outputs = np.array([[0.5, 1.0], [0.5, 1.5]])
    data = NetworkData(np.zeros((1, 1)), np.zeros(1), np.zeros((2, 1)), np.array([0.4, 1.2]), target_sd=2.0)
    found = score(Predictions(outputs, np.array([0.3, 0.3]), 10.0, 1.0), reference, data)
    assert found.mean_error == pytest.approx(1.0)
    assert found.sd_ratio == pytest.approx(0.5)
    densities = stats.norm.pdf([[0.4, 1.2]], outputs, 0.3).mean(axis=0)
    assert found.log_likelihood == pytest.approx(np.log(densities / 2).mean())
    assert found.rmse == pytest.approx(2 * np.sqrt((0.1**2 + 0.05**2) / 2))
    assert found.coverage == 1.0
    assert found.floor == pytest.approx(4000**-0.5)


def test_nothing_is_judged_by_a_reference_that_failed_its_gate():
    bad = _reference(np.zeros(2), np.ones(2))
    bad = NetworkReference("made-up", 0, 10.0, Gate(1.3, 20.0, 90.0, 0.3, 0.2, 1.1, 3.0), bad.record, bad.arrays)
    data = NetworkData(np.zeros((1, 1)), np.zeros(1), np.zeros((2, 1)), np.zeros(2))
    with pytest.raises(ValueError, match=r"R-hat 1\.300"):
        score(Predictions(np.zeros((3, 2)), np.ones(3), 1.0, 1.0), bad, data)


def test_classes_are_scored_whatever_constant_is_added_to_their_outputs():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]])
    logits = np.log(probabilities)
    reference = _reference(logits - logits.mean(axis=1, keepdims=True), np.ones((2, 3)), probabilities=probabilities)
    data = NetworkData(np.zeros((1, 1)), np.zeros(1), np.zeros((2, 1)), np.array([0, 2], np.int32))
    found = score(Predictions(np.stack([logits + 5, logits - 3]), None, 1.0, 1.0), reference, data)
    assert found.mean_error == pytest.approx(0, abs=1e-12)
    assert found.total_variation == pytest.approx(0, abs=1e-12)
    assert (found.agreement, found.accuracy) == (1.0, 0.5)
    assert found.log_likelihood == pytest.approx(np.log([0.7, 0.3]).mean())
    np.testing.assert_allclose(log_densities(Predictions(logits[None], None, 1.0, 1.0), data), np.log([0.7, 0.3]))
