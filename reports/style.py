"""How figures look: one colour per method everywhere, labels that a reader knows, and the theme of all figures."""

from collections.abc import Iterator
from contextlib import contextmanager

#: The colour of the exact answer.
EXACT = "#555555"

#: Axis labels of the columns that figures show.
LABELS = {
    "acceptance_rate": "acceptance rate",
    "confidence_gap": "confidence gap (+ is overconfident)",
    "sd_ratio": "predictive sd / exact sd",
    "mean_error": "error of the mean, in exact sd",
    "point_error": "error of a predictive mean, in its exact sd",
    "sliced_w2": "sliced W2 to the target, in its sd",
    "batch_size": "n, points in a mini-batch",
    "num_batches": "M, mini-batches per step",
    "step_size": "step size η",
    "num_points": "N, training points",
    "chains": "chains, side by side",
}


@contextmanager
def theme() -> Iterator[None]:
    """The look of every figure, inside a ``with`` block."""
    # Not at the top: seaborn takes seconds to import, and many callers only want a colour.
    import matplotlib as mpl
    import seaborn as sns

    with (
        sns.axes_style("whitegrid"),
        sns.plotting_context("notebook", font_scale=0.9),
        mpl.rc_context(
            {
                "figure.dpi": 110,
                # Two pixels for each of a page 800 wide.
                "savefig.dpi": 200,
                "figure.constrained_layout.use": True,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "grid.alpha": 0.4,
                "legend.frameon": False,
                "svg.fonttype": "path",
                # The same figure is the same file.
                "svg.hashsalt": "pbnn-bench",
                "font.family": "DejaVu Sans",
            }
        ),
    ):
        yield
