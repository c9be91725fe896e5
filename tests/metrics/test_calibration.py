"""Calibration, against torchmetrics and against models whose miscalibration is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.calibration import (
    class_ece_by_chance,
    class_reliability,
    confidence_gap,
    coverage_ece_by_chance,
    coverage_reliability,
    ece,
    equal_mass_reliability,
)

SETTINGS = settings(max_examples=40)


def classes_with_confidence(confidence, true_confidence, rng):
    """Two classes: the model says ``confidence`` for class 0, which is the target with ``true_confidence``."""
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    return probabilities, (rng.random(len(confidence)) > true_confidence).astype(int)


def random_classes(seed, num_points=200, num_classes=4):
    rng = np.random.default_rng(seed)
    concentration = rng.choice([0.1, 1.0, 5.0])
    return rng.dirichlet(np.full(num_classes, concentration), num_points), rng.integers(0, num_classes, num_points)


@pytest.mark.parametrize("num_bins", [5, 15])
def test_ece_is_that_of_torchmetrics(num_bins):
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    probabilities, targets = random_classes(0, num_points=3000)
    expected = multiclass_calibration_error(
        torch.tensor(probabilities), torch.tensor(targets), num_classes=4, n_bins=num_bins, norm="l1"
    )
    # torchmetrics works in float32.
    assert ece(class_reliability(probabilities, targets, num_bins)) == pytest.approx(float(expected), rel=1e-5)


def test_a_reliability_curve_worked_by_hand():
    probabilities = np.array([[0.9, 0.1], [0.85, 0.15], [0.6, 0.4], [1.0, 0.0]])
    curve = class_reliability(probabilities, np.array([0, 1, 1, 0]), num_bins=5)
    # Bins [0.6, 0.8) and [0.8, 1]; the three below hold nothing and are left out.
    np.testing.assert_allclose(curve.nominal, [0.6, 2.75 / 3])
    np.testing.assert_allclose(curve.observed, [0.0, 2 / 3])
    assert curve.counts.tolist() == [1, 3]
    assert ece(curve) == pytest.approx(0.25 * 0.6 + 0.75 * 0.25)
    assert confidence_gap(curve) == pytest.approx(3.35 / 4 - 0.5)


@pytest.mark.parametrize("excess", [0.1, -0.1])
def test_the_gap_has_the_size_and_sign_of_a_known_overconfidence(excess):
    rng = np.random.default_rng(5)
    num_points = 40_000
    confidence = rng.uniform(0.65, 0.9, num_points)
    probabilities, targets = classes_with_confidence(confidence, confidence - excess, rng)
    tolerance = 4 * 0.5 / np.sqrt(num_points)
    for reliability in (class_reliability, equal_mass_reliability):
        curve = reliability(probabilities, targets)
        assert confidence_gap(curve) == pytest.approx(excess, abs=tolerance)
        assert ece(curve) == pytest.approx(abs(excess), abs=tolerance)


@given(st.integers(0, 1000))
@SETTINGS
def test_ece_lies_between_the_signed_gap_and_the_largest_gap_and_ignores_the_order_of_points(seed):
    probabilities, targets = random_classes(seed)
    order = np.random.default_rng(seed).permutation(len(targets))
    # Rounded, so that many confidences are equal.
    pit = np.random.default_rng(seed).random(200).round(1)
    curves = [
        (class_reliability(probabilities, targets), class_reliability(probabilities[order], targets[order])),
        (equal_mass_reliability(probabilities, targets), equal_mass_reliability(probabilities[order], targets[order])),
        (coverage_reliability(pit), coverage_reliability(pit[order])),
    ]
    for curve, shuffled in curves:
        gaps = np.abs(curve.nominal - curve.observed)
        assert abs(confidence_gap(curve)) <= ece(curve) + 1e-12
        assert ece(curve) <= gaps.max() + 1e-12 <= 1 + 1e-12
        assert ece(shuffled) == pytest.approx(ece(curve), abs=1e-12)


def test_coverage_of_the_right_law_is_nominal_and_of_a_narrow_one_too_small():
    rng = np.random.default_rng(6)
    num_points = 50_000
    targets = rng.normal(size=num_points)
    tolerance = 4 * 0.5 / np.sqrt(num_points)
    assert ece(coverage_reliability(stats.norm.cdf(targets))) < tolerance
    for sd in (0.5, 2.0):
        curve = coverage_reliability(stats.norm(0, sd).cdf(targets))
        # The interval of level c is +- sd Phi^-1((1 + c) / 2), and covers 2 Phi(that) - 1.
        expected = 2 * stats.norm.cdf(sd * stats.norm.ppf((1 + curve.nominal) / 2)) - 1
        np.testing.assert_allclose(curve.observed, expected, atol=tolerance)
        assert confidence_gap(curve) == pytest.approx(np.mean(curve.nominal - expected), abs=tolerance)
        assert np.sign(confidence_gap(curve)) == (1 if sd < 1 else -1)
    np.testing.assert_allclose(curve.nominal, np.arange(0.05, 0.951, 0.05))
    assert set(curve.counts) == {num_points}


@pytest.mark.parametrize("pit", [np.array([]), np.array([0.5, np.nan]), np.array([1.1])])
def test_values_that_are_no_probabilities_are_refused(pit):
    with pytest.raises(ValueError, match="expected values from 0 to 1"):
        coverage_reliability(pit)
    with pytest.raises(ValueError, match="probabilities"):
        class_reliability(pit[:, None], np.zeros(len(pit), int))


def test_the_chance_level_is_the_mean_ece_of_calibrated_models():
    """Fifteen bins have more chance than one: sqrt(2 a (1 - a) / (pi n)), that of one bin, is far below it."""
    rng = np.random.default_rng(9)
    confidence = rng.beta(7, 0.6, 3000) / 2 + 0.5
    observed = []
    for _ in range(100):
        probabilities, targets = classes_with_confidence(confidence, confidence, rng)
        observed.append(ece(class_reliability(probabilities, targets)))
    found, error = class_ece_by_chance(probabilities), np.std(observed) / np.sqrt(60)
    assert found == pytest.approx(np.mean(observed), abs=4 * error)
    accuracy = confidence.mean()
    assert found > 1.5 * np.sqrt(2 * accuracy * (1 - accuracy) / (np.pi * 3000))
    observed = [ece(coverage_reliability(rng.random(500))) for _ in range(200)]
    assert coverage_ece_by_chance(500) == pytest.approx(np.mean(observed), abs=4 * np.std(observed) / 10)
