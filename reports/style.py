"""How figures look: one colour a method everywhere, labels that a reader knows, and the theme of all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

#: The palette of Okabe and Ito, which colour-blind readers can tell apart, with two greys for ``ula`` and ``mala``.
COLOURS = {
    "full_mh": "#000000",
    "mala": "#6b6b6b",
    "ula": "#a8a8a8",
    "tempered": "#e69f00",
    "naive": "#d55e00",
    "pbnn": "#0072b2",
    "pbnn_corrected": "#56b4e9",
    "pbnn_mala": "#009e73",
    "sgld": "#cc79a7",
}
#: The colour of the exact answer.
EXACT = "#555555"

#: Axis labels of the columns that figures show.
LABELS = {
    "acceptance_rate": "acceptance rate",
    "confidence_gap": "confidence gap (+ is overconfident)",
    "sd_ratio": "predictive sd / exact sd",
    "mean_error": "error of the mean, in exact sd",
    "sliced_w2": "sliced W2 to the target, in its sd",
    "batch_size": "n, points in a mini-batch",
    "num_batches": "M, mini-batches a step",
    "step_size": "step size η",
    "num_points": "N, training points",
    "chains": "chains, side by side",
}


@contextmanager
def theme() -> Iterator[None]:
    """The look of every figure, inside a ``with`` block."""
    # seaborn takes seconds to import, which who only wants a colour should not pay.
    import matplotlib as mpl
    import seaborn as sns

    with (
        sns.axes_style("whitegrid"),
        sns.plotting_context("notebook", font_scale=0.9),
        mpl.rc_context(
            {
                "figure.dpi": 110,
                "savefig.dpi": 150,
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
