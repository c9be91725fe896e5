"""The reliability diagram of a run: what its predictions claimed against what happened."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from implementations.tasks.likelihoods import find_likelihood
from metrics.calibration import NUM_BINS
from reports.style import EXACT, theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Axis labels, nominal and observed, of classes and of numbers.
AXES = {
    True: ("confidence", "accuracy"),
    False: ("nominal coverage of central intervals", "observed coverage"),
}


def draw_reliability(
    axes: "Axes",
    curves: Mapping[str, np.ndarray],
    likelihood: str,
    *,
    counts_axes: "Axes | None" = None,
    points: str = "test",
    **line: Any,
) -> None:
    """Add a run's curve to ``axes``; the diagonal is perfect calibration, below it a run is overconfident.

    ``curves`` is the run's curves.npz, ``likelihood`` that of its task, ``points`` its ``test`` or ``validation`` part.
    Classes are accuracy against confidence, and ``counts_axes`` gets the number of points in each bin; regression is
    observed against nominal coverage, where every level counts all points. ``line`` is for the curve: label, color.
    Runs of one task can share the axes, which then have one diagonal.
    """
    nominal, observed, counts = (curves[f"{points}_{part}"] for part in ("nominal", "observed", "counts"))
    has_classes = find_likelihood(likelihood).has_classes
    labels = AXES[has_classes]
    if not axes.lines:
        axes.plot([0, 1], [0, 1], color=EXACT, linestyle="--", linewidth=1, zorder=1)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=labels[0], ylabel=labels[1])
    usual: dict[str, Any] = {"marker": "o", "markersize": 4, "clip_on": False}
    axes.plot(nominal, observed, **usual | line)
    if counts_axes is not None and has_classes:
        axes.set_xlabel("")
        # The bins of metrics.calibration: confidence 1 belongs to the last one.
        bins = np.minimum((nominal * NUM_BINS).astype(int), NUM_BINS - 1)
        centres = (bins + 0.5) / NUM_BINS
        counts_axes.bar(centres, counts, width=1 / NUM_BINS, alpha=0.5, color=line.get("color"))
        counts_axes.set(xlim=(0, 1), yscale="log", xlabel=labels[0], ylabel="points")


def draw_density(curves: Mapping[str, np.ndarray], path: Path, title: str, colour: str) -> None:
    """What a run has instead where its task is a density: mean and twice the sd on the grid, with the truth, as PNG."""
    from matplotlib.figure import Figure

    inputs, mean, sd = (curves[f"grid_{part}"] for part in ("inputs", "mean", "sd"))
    with theme():
        figure = Figure(figsize=(5.5, 4.0))
        axes = figure.subplots()
        axes.fill_between(inputs, mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.25, linewidth=0)
        axes.plot(inputs, mean, color=colour, label="mean ± 2 sd over the draws")
        if "grid_truth" in curves:
            axes.plot(inputs, curves["grid_truth"], color=EXACT, linestyle="--", label="density of the data")
        axes.set(xlabel="input", ylabel="density, relative to the uniform one", ylim=(0, None))
        axes.set_title(title, fontsize="x-small")
        axes.legend(fontsize="small")
        figure.savefig(path)


class Diagrams:
    """Draws the diagrams of many runs as files, one figure per kind of diagram.

    Axes, labels and the diagonal take most of the time and are the same for all: they are drawn once, and on top of
    them for each run only its own part. A context manager, because the theme, which takes its time too, is set once.
    """

    def __init__(self) -> None:
        self._panels: dict[tuple[str, int], _Panel] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def draw(self, curves: Mapping[str, np.ndarray], likelihood: str, path: Path, title: str, colour: str) -> None:
        """Write a run's diagram to ``path``, a PNG file."""
        if not self._panels:
            self._stack.enter_context(theme())
        key = likelihood, int(curves["test_counts"].sum())
        if key not in self._panels:
            self._panels[key] = _Panel(*key)
        self._panels[key].draw(curves, path, title, colour)


class _Panel:
    """A figure with what the diagrams of equally many test points have in common."""

    def __init__(self, likelihood: str, num_points: int) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.likelihood, self.num_points = likelihood, num_points
        self.background: Any = None
        self.counts_axes: Axes | None = None
        if find_likelihood(likelihood).has_classes:
            self.figure = Figure(figsize=(4.5, 5.6))
            self.axes, self.counts_axes = self.figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        else:
            self.figure = Figure(figsize=(4.5, 4.7))
            self.axes = self.figure.subplots()
        self.canvas = FigureCanvasAgg(self.figure)

    def draw(self, curves: Mapping[str, np.ndarray], path: Path, title: str, colour: str) -> None:
        from PIL import Image

        draw_reliability(self.axes, curves, self.likelihood, counts_axes=self.counts_axes, color=colour)
        self.axes.set_title(title, fontsize="x-small")
        own: list[Any] = [self.axes.title, *self.axes.lines[1:]]
        if self.counts_axes is not None:
            self.counts_axes.set_ylim(0.7, 1.5 * self.num_points)
            own += self.counts_axes.patches
        if self.background is None:
            self._draw_all_but(own)
        self.canvas.restore_region(self.background)
        for artist in own:
            artist.draw(self.canvas.get_renderer())
        Image.fromarray(np.asarray(self.canvas.buffer_rgba())).save(path, compress_level=3)
        for artist in own[1:]:
            artist.remove()

    def _draw_all_but(self, artists: Iterable[Any]) -> None:
        for artist in artists:
            artist.set_animated(True)
        self.canvas.draw()
        self.background = self.canvas.copy_from_bbox(self.figure.bbox)
