"""Figure 3 of the paper, on our runs: reliability of the posterior of all data and of PBNN."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from implementations.tasks.likelihoods import find_likelihood
from metrics.calibration import NUM_BINS
from metrics.seeds import mean_over_seeds
from records.display import format_name, format_value
from records.methods import facts_of
from records.setting_runs import POSTERIOR, SettingRuns, full_data, nearest
from records.study import StudyResults
from reports.figures.captions import listed, runs_of, unconverged_names
from reports.figures.marks import NAME_LETTERS, SMALL, blank, wrapped
from reports.reliability import draw_reliability
from reports.style import is_narrow
from reports.types import Drawing, NothingToShow

#: Bins with fewer test points than this say too little for a mark; the bars of counts still show them.
MIN_COUNT = 10


def draw_reliability_diagrams(results: StudyResults) -> Drawing:
    """Reliability of the posterior and of PBNN, on the regression and on images."""
    pairs = {
        "regression": _pair(results, "regression", batch_size=5, num_batches=5),
        "mnist": _pair(results, "mnist", batch_size=100, num_batches=10),
    }
    is_substituted = not pairs["mnist"]
    if is_substituted:
        pairs["digits"] = _pair(results, "digits", batch_size=100, num_batches=10)
    pairs = {task: pair for task, pair in pairs.items() if pair}
    if not pairs:
        raise NothingToShow("no run of full_mh, mala or pbnn on the tasks 'regression', 'mnist' or 'digits' ended well")
    # High enough for squares as wide as their columns, so that the bars below stand under the diagram.
    likelihoods = {task: results.problem(pair[0].evidence[0]).likelihood for task, pair in pairs.items()}
    # Every level of coverage counts all points: nothing to show below.
    rows = {task: [4, 1][: 1 + find_likelihood(likelihood).has_classes] for task, likelihood in likelihoods.items()}
    ratios = [ratio for row in rows.values() for ratio in row] if is_narrow() else max(rows.values(), key=len)
    figure = blank(0.5 + 1.08 * sum(ratios), 1.0 if len(pairs) > 1 else 0.55)
    cells = figure.add_gridspec(len(ratios), 1 if is_narrow() else len(pairs), height_ratios=ratios)
    numbers: list[str] = []
    row = column = 0
    for task, pair in pairs.items():
        axes = figure.add_subplot(cells[row, column])
        counts = figure.add_subplot(cells[row + 1, column], sharex=axes) if len(rows[task]) > 1 else None
        for setting in pair:
            _draw_mean_reliability(axes, counts, results, setting, likelihoods[task])
        axes.set_title(task)
        axes.legend(loc="lower right", fontsize=SMALL)
        row, column = (row + len(rows[task]), 0) if is_narrow() else (0, column + 1)
        numbers += [f"{task}: {_calibration_text(one)}" for one in pair]
    used = [setting for pair in pairs.values() for setting in pair]
    caption = (
        "Below the diagonal is overconfident, above it underconfident. Means over seeds on the test points, with 95 % "
        f"intervals; bins of fewer than {MIN_COUNT} points are left out."
        + (" digits instead of mnist, where no run ended well." if is_substituted and "digits" in pairs else "")
    )
    return Drawing(figure, caption, runs_of(used), _message(pairs), (*numbers, *unconverged_names(used)))


def _message(pairs: Mapping[str, Sequence[SettingRuns]]) -> str:
    """The confidence gap of full data and of PBNN, where both are there."""
    gaps = {task: [one.mean("confidence_gap") for one in pair] for task, pair in pairs.items() if len(pair) == 2}
    parts = [f"{_signed(full)} to {_signed(pbnn)} on {task}" for task, (full, pbnn) in gaps.items()]
    return f"Figure 3: from full data to PBNN the confidence gap goes from {listed(parts)}" if parts else ""


def _signed(gap: float) -> str:
    text = f"{gap:+.3f}".replace("-", "−")
    # What rounds to nothing has no sign.
    return "0.000" if text.endswith("0.000") else text


def _pair(results: StudyResults, task: str, **preferred: float) -> list[SettingRuns]:
    """The posterior and PBNN with the target of its mini-batch, as far as they are there."""
    settings = results.ran(variant=task)
    pbnn = nearest((one for one in settings if one["method"] == "pbnn" and one["weight"] == "batch"), **preferred)
    return [setting for setting in (full_data(settings), pbnn) if setting is not None]


def _calibration_text(setting: SettingRuns) -> str:
    accuracy = f", accuracy {format_value(setting, 'accuracy')}" if setting.has("accuracy") else ""
    return (
        f"{format_name(setting, 'preconditioner')} has an ECE of {format_value(setting, 'ece')} and a confidence gap "
        f"of {format_value(setting, 'confidence_gap')}{accuracy}"
    )


def _draw_mean_reliability(
    axes: Axes, counts: Axes | None, results: StudyResults, setting: SettingRuns, likelihood: str
) -> None:
    mean, low, high = mean_reliability([results.curves(row["run"]) for row in setting.evidence], likelihood)
    name = format_name(setting, "step_size", "preconditioner")
    # Whichever chain samples it, the posterior of all data has one colour.
    method = "full_mh" if setting["method"] in POSTERIOR else setting["method"]
    style: dict[str, Any] = {"color": facts_of(method).colour, "label": wrapped(name, NAME_LETTERS)}
    if not setting.converged:
        style |= {"markerfacecolor": "white", "label": wrapped(f"{name}, not converged", NAME_LETTERS)}
    draw_reliability(axes, mean, likelihood, counts_axes=counts, **style)
    axes.fill_between(mean["test_nominal"], low, high, color=style["color"], alpha=0.2, linewidth=0)


def mean_reliability(
    curves: Sequence[dict[str, np.ndarray]], likelihood: str
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The mean over seeds of test curves, bin by bin, and the ends of the 95 % interval of what was observed.

    A bin is the mean over the seeds that have points in it; of a single seed the interval is the mean itself.
    """
    cells: dict[int, list[tuple[float, ...]]] = {}
    for curve in curves:
        parts = [curve[f"test_{part}"] for part in ("nominal", "observed", "counts")]
        # Classes: bins without points are left out, so that a bin's place in the array differs between seeds.
        has_classes = find_likelihood(likelihood).has_classes
        bins = np.minimum(parts[0] * NUM_BINS, NUM_BINS - 1) if has_classes else np.arange(len(parts[0]))
        for number, *cell in zip(bins.astype(int).tolist(), *(part.tolist() for part in parts), strict=True):
            cells.setdefault(number, []).append(tuple(cell))
    ordered = [np.array(cells[number]) for number in sorted(cells)]
    ordered = [cell for cell in ordered if cell[:, 2].mean() >= MIN_COUNT] or ordered
    means = np.array([cell.mean(axis=0) for cell in ordered]).T
    observed = [mean_over_seeds(dict(enumerate(cell[:, 1].tolist()))) for cell in ordered]
    low = np.array([value.mean if value.low is None else max(0.0, value.low) for value in observed], dtype=float)
    high = np.array([value.mean if value.high is None else min(1.0, value.high) for value in observed], dtype=float)
    return dict(zip(("test_nominal", "test_observed", "test_counts"), means, strict=True)), low, high
