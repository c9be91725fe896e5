"""The reliability diagram shows the curve, its counts, and nothing of another run."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from metrics.calibration import class_reliability, coverage_reliability
from reports.reliability import Diagrams, draw_reliability


def curves_of(likelihood: str, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    if likelihood == "categorical":
        curve = class_reliability(rng.dirichlet(np.full(10, 0.2), size=200), rng.integers(10, size=200))
    else:
        curve = coverage_reliability(rng.beta(2, 2, size=200))
    return {f"test_{name}": array for name, array in vars(curve).items()}


def test_classes_are_accuracy_against_confidence_with_the_points_of_each_bin_below():
    confidence = np.array([0.55, 0.62, 0.64, 0.97, 1.0])
    probabilities = np.stack([1 - confidence, confidence], axis=1)
    curve = class_reliability(probabilities, np.array([1, 1, 0, 1, 1]))
    axes, counts_axes = Figure().subplots(2, 1)
    curves = {f"test_{name}": array for name, array in vars(curve).items()}
    draw_reliability(axes, curves, "categorical", counts_axes=counts_axes, color="red")
    diagonal, line = axes.lines
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    # Bins of a fifteenth: 0.55 is in [8, 9), the next two in [9, 10), the last two in the last.
    assert line.get_xydata() == pytest.approx(np.array([[0.55, 1], [0.63, 0.5], [0.985, 1]]))
    bars = [(bar.get_x() * 15, bar.get_height()) for bar in counts_axes.patches]
    assert np.array(bars) == pytest.approx(np.array([(8, 1), (9, 2), (14, 2)]))


def test_runs_share_the_axes_and_the_diagonal():
    axes = Figure().subplots()
    for seed in range(2):
        draw_reliability(axes, curves_of("gaussian", seed), "gaussian", label=f"run {seed}")
    assert [line.get_label() for line in axes.lines][1:] == ["run 0", "run 1"]
    assert axes.get_xlabel() == "nominal coverage of central intervals"


@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
def test_a_diagram_drawn_after_others_is_the_same_as_one_drawn_alone(likelihood, tmp_path):
    with Diagrams() as many:
        many.draw(curves_of(likelihood, 0), likelihood, tmp_path / "other.png", "another run", "black")
        many.draw(curves_of(likelihood, 1), likelihood, tmp_path / "after.png", "this run", "blue")
    with Diagrams() as one:
        one.draw(curves_of(likelihood, 1), likelihood, tmp_path / "alone.png", "this run", "blue")
    after, alone, other = (imread(tmp_path / f"{name}.png") for name in ("after", "alone", "other"))
    assert np.array_equal(after, alone)
    assert not np.array_equal(after, other)
