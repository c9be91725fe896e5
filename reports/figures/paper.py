"""The paper's figures 1 to 4, on our runs: bands of f, and reliability. Its "BNN" is the posterior of all data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem
from metrics.calibration import NUM_BINS
from metrics.seeds import mean_over_seeds
from records.display import format_name, format_number, format_settings, format_value, method_name
from records.methods import facts_of
from records.reference import Reference
from records.setting_runs import POSTERIOR, SettingRuns, full_data, nearest
from records.study import StudyResults
from reports.drawing import (
    INK,
    PAPER,
    SOFT,
    Axis,
    Band,
    Dots,
    Drawing,
    Guide,
    Key,
    Line,
    Look,
    Panel,
    thinned,
    values_of,
)
from reports.figures.series import SAME_WIDTH, figure_of, listed
from reports.reliability import add_curve, reliability_panel
from reports.types import NothingToShow

#: Points that a curve over the inputs is drawn through, and data that are shown: enough to see, and a small file.
CURVE_POINTS, DATA_POINTS = 120, 400
#: Exact standard deviations that the strips of figures 2 and 4 show; a chain that has gone astray leaves them.
STRIP = 5
BAND_NOTE = "Observation noise is not in a band."
DATA, EXACT = Key("data", Look(SOFT)), Key("exact", Look(INK), "5 3", has_mark=False)


# Bands over the inputs


@dataclass(frozen=True, eq=False)
class Bands:
    """Mean and sd of f over the inputs of one run, and of the exact answer for its target where there is one."""

    problem: Problem
    inputs: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    exact_mean: np.ndarray | None = None
    exact_sd: np.ndarray | None = None


def common_seed(settings: Sequence[SettingRuns]) -> int:
    """The lowest seed that all have converged at; without one that all have ended well at; without one the first's."""
    converged = set.intersection(*({row["seed"] for row in setting.evidence} for setting in settings))
    ended = set.intersection(*(setting.seeds for setting in settings))
    return min(converged or ended or {settings[0].evidence[0]["seed"]})


def bands_of(results: StudyResults, setting: SettingRuns, seed: int) -> Bands:
    """The bands of a setting's run of a seed, at no more than CURVE_POINTS of the test inputs."""
    row = next(row for row in setting.ok if row["seed"] == seed)
    problem = results.problem(row)
    order = np.argsort(problem.test_inputs[:, 0])
    order = order[list(thinned(order, CURVE_POINTS))]
    curves = results.curves(row["run"])
    ours = problem.test_inputs[order, 0], curves["predictive_mean"][order], curves["predictive_sd"][order]
    exact = results.reference(row)
    if not isinstance(exact, Reference) or not exact.is_usable:
        return Bands(problem, *ours)
    return Bands(problem, *ours, exact.predictive_mean[order, 0], exact.predictive_sd[order, 0])


def _data(problem: Problem) -> Dots:
    places = list(thinned(problem.targets, DATA_POINTS))
    is_dense = problem.num_points > DATA_POINTS
    size, opacity = (2.0, 0.5) if is_dense else (3.5, 0.8)
    return Dots(problem.inputs[places, 0], problem.targets[places], SOFT, size=size, opacity=opacity)


def _notes(settings: Sequence[SettingRuns]) -> tuple[str, ...]:
    """The width of each band over its seeds, and its runs that have not converged."""
    return tuple(
        f"{format_name(one)}: sd {format_value(one, 'sd_ratio')} times the exact one, mean off by "
        f"{format_value(one, 'mean_error')} of it; {len(one.converged)} of {len(one.ok)} runs have converged."
        for one in settings
    )


def _add_bands(panel: Panel, setting: SettingRuns, bands: Bands, sds: Sequence[int], less_exact: bool = False) -> None:
    """Mean and bands of so many sd, and dashed the widest of the exact ones; without the exact mean, if asked."""
    centre = bands.exact_mean if less_exact and bands.exact_mean is not None else np.zeros(len(bands.inputs))
    colour = facts_of(setting["method"]).colour
    for number in sds:
        low, high = bands.mean - number * bands.sd - centre, bands.mean + number * bands.sd - centre
        # Paper below it, so that a band over that of another method keeps its own colour.
        panel.add(*([Band(bands.inputs, low, high, PAPER, 1.0)] if len(sds) == 1 else []))
        panel.add(Band(bands.inputs, low, high, colour, 0.4 if len(sds) == 1 else 0.22))
    panel.add(Line(bands.inputs, bands.mean - centre, colour, width=1.2))
    if bands.exact_mean is not None and bands.exact_sd is not None:
        for number in (-max(sds), max(sds)):
            panel.add(Line(bands.inputs, bands.exact_mean + number * bands.exact_sd - centre, dash="5 3", width=1.1))


# Figure 1


def draw_linear(results: StudyResults) -> Drawing:
    """Naive subsampling, the penalty and the exact posterior of a linear regression."""
    settings = [setting for setting in results.ran(variant="linear") if setting["weight"] == "data"]
    naive = nearest((setting for setting in settings if setting["method"] == "naive"), batch_size=2)
    known = [one for one in settings if one["method"] == "pbnn" and one["variance"] == "oracle"]
    estimated = [one for one in settings if one["method"] == "pbnn" and one["variance"] != "oracle"]
    found: dict[str, SettingRuns | None] = {
        "variance known": nearest(known, batch_size=2),
        "variance estimated": nearest(estimated, batch_size=2, num_batches=5),
    }
    columns = {title: one for title, one in found.items() if one}
    used = [one for one in (naive, *columns.values()) if one]
    if not used:
        raise NothingToShow("no run of naive or pbnn with weight = data on the task 'linear' ended well")
    seed = common_seed(used)
    bands = {one: bands_of(results, one, seed) for one in used if seed in one.seeds}
    panels = []
    for name in columns or ["no penalty was run"]:
        # Bands of different data would not belong in one picture.
        shown = [one for one in (naive, columns.get(name)) if one in bands]
        title = f"{name}: {format_settings(shown[-1], 'weight', 'variance', 'preconditioner')}"
        widths = [f"{method_name(one['method'])} sd {format_number(one.mean('sd_ratio'))} × exact" for one in shown]
        data, residuals = Panel(title, Axis("x"), Axis("f(x), and the data")), Panel(" · ".join(widths), Axis("x"))
        for one in shown:
            _add_bands(data, one, bands[one], [1])
            _add_bands(residuals, one, bands[one], [1], less_exact=True)
        data.add(_data(bands[shown[0]].problem))
        panels += [data, residuals]
    # Pictures of the same thing have the same scale.
    heights = [value for panel in panels[1::2] for shape in panel.shapes for value in values_of(shape, "y")]
    for panel in panels[1::2]:
        panel.y = Axis("f(x) − exact mean", low=min(heights), high=max(heights))
    message = ""
    if naive and columns and naive.mean("sd_ratio") > 1 + SAME_WIDTH:
        left = listed(f"{format_number(one.mean('sd_ratio'))} ({name})" for name, one in columns.items())
        times = format_number(naive.mean("sd_ratio"), 2)
        message = f"Figure 1: without the penalty the band is {times} times as wide as it should be, with it {left}"
    return figure_of(
        panels,
        f"Mean ± 1 sd of f on the data of seed {seed}, and the same without the exact mean. "
        f"Every chain targets the posterior of all data (w = N). {BAND_NOTE}",
        used,
        message,
        notes=_notes(used),
        keys=[
            DATA,
            *(
                Key(f"{method_name(method)}, mean ± sd", Look(facts_of(method).colour), "", False, band=0.4)
                for method in dict.fromkeys(one["method"] for one in used)
            ),
            EXACT,
        ],
    )


# Figures 2 and 4: four targets, each over a strip with the sd


def draw_regression(results: StudyResults) -> Drawing:
    """Bands of the posterior, of PBNN at two batch sizes, and of a chain without penalty."""
    settings = results.ran(variant="regression")
    # The paper's *usual delta* has N/n times the loss of a mini-batch: its target is the posterior of all data.
    of_all_data = [one for one in settings if one["weight"] == "data"]
    wanted = {
        "(a) BNN": full_data(settings),
        "(b) PBNN, n = 5": _of(settings, "pbnn", 5, num_batches=5),
        "(c) no penalty, n = 10": _of(of_all_data, "naive", 10),
        "(d) PBNN, n = 10": _of(settings, "pbnn", 10, num_batches=5),
    }
    message = "Figure 2: without the penalty the band is {c} times as wide as its target's, with it {d} times"
    return _draw_four(results, wanted, message)


def draw_alternatives(results: StudyResults) -> Drawing:
    """Bands of SGLD at its two largest steps, of the tempered posterior and of PBNN."""
    settings = results.ran(variant="regression")
    sgld = [one for one in settings if one["method"] == "sgld" and one["batch_size"] == 5]
    sgld = [one for one in sgld if one["preconditioner"] == "none"] or sgld
    larger, smaller, *_ = [*sorted({float(one["step_size"]) for one in sgld}, reverse=True), None, None]
    wanted = {
        "(a) SGLD, n = 5, larger step": nearest(one for one in sgld if one["step_size"] == larger),
        "(b) SGLD, n = 5, smaller step": nearest(one for one in sgld if one["step_size"] == smaller),
        "(c) tempered, n = 5": _of(settings, "tempered", 5),
        "(d) PBNN, n = 5": _of(settings, "pbnn", 5, num_batches=5),
    }
    message = (
        "Figure 4: SGLD's band is {a} or {b} times as wide as its target's, depending on the step; PBNN's is {d} times"
    )
    return _draw_four(results, wanted, message)


def _of(settings: Sequence[SettingRuns], method: str, batch_size: int, **preferred: float) -> SettingRuns | None:
    found = (one for one in settings if one["method"] == method and one["batch_size"] == batch_size)
    return nearest(found, **preferred)


def _draw_four(results: StudyResults, wanted: Mapping[str, SettingRuns | None], message: str) -> Drawing:
    used = {title: one for title, one in wanted.items() if one}
    if not used:
        raise NothingToShow(f"no run on the task 'regression' ended well that shows {', '.join(wanted)}")
    common = common_seed(list(used.values()))
    seeds = {title: common if common in one.seeds else common_seed([one]) for title, one in used.items()}
    drawn = {title: bands_of(results, one, seeds[title]) for title, one in used.items()}
    # One scale for all panels, set by the data: a chain that has gone astray must not flatten the others.
    targets = next(iter(drawn.values())).problem.targets
    low, high = float(targets.min()), float(targets.max())
    y = Axis("f(x)", low=low - 0.2 * (high - low), high=high + 0.3 * (high - low))
    panels = []
    for title, setting in wanted.items():
        if setting is None:
            panels.append(Panel(f"{title}: no run ended well", Axis("x", low=0, high=1), y))
            continue
        panels.append(Panel(f"{title[:3]} {format_name(setting)}", Axis("x"), y, shapes=[_data(drawn[title].problem)]))
        _add_bands(panels[-1], setting, drawn[title], [3, 2, 1])
        panels.append(_strip(title, setting, drawn[title]))
    widths = {title[1]: format_number(one.mean("sd_ratio"), 2) for title, one in used.items() if one.has("sd_ratio")}
    return figure_of(
        panels,
        f"Mean and ± 1, 2, 3 sd of f, seed {', '.join(map(str, sorted(set(seeds.values()))))}; dashed, the exact ± 3 "
        f"sd of the panel's own target. Strips: ± 1 sd in units of the exact one. {BAND_NOTE}",
        used.values(),
        message.format(**widths) if len(widths) == len(wanted) else "",
        notes=_notes(list(used.values())),
        keys=[DATA, *(Key(f"± {sd} sd", Look(SOFT), None, False, band=0.22 * (4 - sd)) for sd in (1, 2, 3)), EXACT],
    )


def _strip(title: str, setting: SettingRuns, bands: Bands) -> Panel:
    """The band in units of the exact one: where it is right it fills the space between the dashed lines."""
    missing = len(setting.ok) - len(setting.converged)
    state = f", {missing} of {len(setting.ok)} seeds not converged" if missing else ""
    text = f"{title[:3]} sd {format_number(setting.mean('sd_ratio'))} × exact{state}"
    y = Axis("(f − exact mean) / exact sd", low=-STRIP, high=STRIP, ticks=(-4, -2, 0, 2, 4))
    panel = Panel(text, Axis("x"), y, 110)
    panel.add(*(Guide("y", number, "5 3", INK) for number in (-1, 1)))
    if bands.exact_mean is not None and bands.exact_sd is not None:
        colour = facts_of(setting["method"]).colour
        middle, half = (bands.mean - bands.exact_mean) / bands.exact_sd, bands.sd / bands.exact_sd
        panel.add(Band(bands.inputs, middle - half, middle + half, colour, 0.35), Line(bands.inputs, middle, colour))
    return panel


# Figure 3

#: Bins with fewer test points than this say too little for a mark.
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
    used = [setting for pair in pairs.values() for setting in pair]
    gaps = {task: [one.mean("confidence_gap") for one in pair] for task, pair in pairs.items() if len(pair) == 2}
    parts = [f"{_signed(full)} to {_signed(pbnn)} on {task}" for task, (full, pbnn) in gaps.items()]
    return figure_of(
        [_reliability(results, task, pair) for task, pair in pairs.items()],
        "Below the diagonal is overconfident, above it underconfident. Means over seeds on the test points, with 95 % "
        f"intervals; bins of fewer than {MIN_COUNT} points are left out."
        + (" digits instead of mnist, where no run ended well." if is_substituted and "digits" in pairs else ""),
        used,
        f"Figure 3: from full data to PBNN the confidence gap goes from {listed(parts)}" if parts else "",
        notes=tuple(
            f"{task}, {format_name(one)}: ECE {format_value(one, 'ece')}, gap {format_value(one, 'confidence_gap')}, "
            f"accuracy {format_value(one, 'accuracy')}; {len(one.converged)} of {len(one.ok)} runs have converged."
            for task, pair in pairs.items()
            for one in pair
        ),
    )


def _pair(results: StudyResults, task: str, **preferred: float) -> list[SettingRuns]:
    """The posterior and PBNN with the target of its mini-batch, as far as they are there."""
    settings = results.ran(variant=task)
    pbnn = nearest((one for one in settings if one["method"] == "pbnn" and one["weight"] == "batch"), **preferred)
    return [setting for setting in (full_data(settings), pbnn) if setting is not None]


def _signed(gap: float) -> str:
    text = f"{gap:+.3f}".replace("-", "−")
    # A number that rounds to 0 has no sign.
    return "0.000" if text.endswith("0.000") else text


def _reliability(results: StudyResults, task: str, pair: Sequence[SettingRuns]) -> Panel:
    likelihood = results.problem(pair[0].evidence[0]).likelihood
    panel = reliability_panel(likelihood, task)
    keys = []
    for setting in pair:
        mean, low, high = mean_reliability([results.curves(row["run"]) for row in setting.evidence], likelihood)
        # Whichever chain samples it, the posterior of all data has one colour.
        look = Look(facts_of("full_mh" if setting["method"] in POSTERIOR else setting["method"]).colour)
        panel.add(Band(mean["test_nominal"], low, high, look.colour, 0.2))
        add_curve(panel, mean["test_nominal"], mean["test_observed"], look, not setting.converged)
        state = "" if setting.converged else ", not converged"
        keys.append(Key(f"{format_name(setting, 'step_size', 'preconditioner')}{state}", look, ""))
    panel.keys = keys
    return panel


def mean_reliability(
    curves: Sequence[Mapping[str, np.ndarray]], likelihood: str
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
