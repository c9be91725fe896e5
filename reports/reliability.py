"""The reliability diagram of a run: what its predictions claimed against what happened."""

from collections.abc import Mapping

import numpy as np

from implementations.tasks.likelihoods import find_likelihood
from reports.drawing import SOFT, Axis, Band, Drawing, Key, Line, Look, Panel, Point

#: Axis labels, nominal and observed, of classes and of numbers.
AXES = {
    True: ("confidence", "accuracy"),
    False: ("nominal coverage of central intervals", "observed coverage"),
}


def reliability_panel(likelihood: str, title: str = "") -> Panel:
    """A panel with the diagonal, which is perfect calibration; below it a run is overconfident."""
    labels = AXES[find_likelihood(likelihood).has_classes]
    panel = Panel(title, Axis(labels[0], low=0, high=1), Axis(labels[1], low=0, high=1), height=250)
    panel.add(Line([0, 1], [0, 1], SOFT, "5 3"))
    return panel


def add_curve(panel: Panel, nominal: np.ndarray, observed: np.ndarray, look: Look, is_hollow: bool = False) -> None:
    """A run's curve: accuracy against confidence for classes, observed against nominal coverage for numbers."""
    panel.add(Line(nominal, observed, look.colour))
    panel.add(*(Point(float(x), float(y), look, is_hollow, size=5) for x, y in zip(nominal, observed, strict=True)))


def diagram(curves: Mapping[str, np.ndarray], likelihood: str, title: str, colour: str) -> str:
    """The diagram of one run as an SVG file, from its ``curves.npz``."""
    panel = reliability_panel(likelihood)
    add_curve(panel, curves["test_nominal"], curves["test_observed"], Look(colour))
    return Drawing([panel], "", title=title).svg()


def density(curves: Mapping[str, np.ndarray], title: str, colour: str) -> str:
    """The same of a run whose task is a density: mean and twice the sd on the grid, with the truth."""
    inputs, mean, sd = (curves[f"grid_{part}"] for part in ("inputs", "mean", "sd"))
    look = Look(colour)
    keys = [Key("mean ± 2 sd over the draws", look, "", has_mark=False, band=0.25)]
    panel = Panel(x=Axis("input"), y=Axis("density, relative to the uniform one", low=0))
    panel.add(Band(inputs, mean - 2 * sd, mean + 2 * sd, colour), Line(inputs, mean, colour))
    if "grid_truth" in curves:
        panel.add(Line(inputs, curves["grid_truth"], SOFT, "5 3"))
        keys.append(Key("density of the data", Look(SOFT), "5 3", has_mark=False))
    return Drawing([panel], "", title=title, keys=keys).svg()
