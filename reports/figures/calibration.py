"""Figures of targets: calibration against the weight of the data, and PBNN against tempering."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from implementations.card import Exactness
from implementations.tasks import TASKS
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior
from metrics.calibration import confidence_gap, coverage_reliability
from metrics.fidelity import RESOLUTION
from records.display import (
    format_name,
    format_number,
    format_setting,
    format_settings,
    format_value,
    method_name,
    task_name,
)
from records.methods import facts_of, in_order
from records.setting_runs import MARGINS, SettingRuns, nearest, of_usual_size, one_backend, sweeps
from records.study import StudyResults
from reports import calibrate
from reports.drawing import (
    MARKERS,
    SOFT,
    Axis,
    Bar,
    Drawing,
    Guide,
    Key,
    Line,
    Look,
    Panel,
    Point,
    look_of,
    tick_name,
)
from reports.evidence import Network, network_of, networks, settings
from reports.figures.series import (
    LABELS,
    SAME_WIDTH,
    draw_series,
    figure_of,
    point,
    sweep_panel,
    trend,
)
from reports.types import NothingToShow

# The confidence gap against the weight of the target

#: Weights that the exact curve is drawn through.
NUM_WEIGHTS = 40
#: Beyond this many training points the exact curve would take longer than the rest of the report.
MAX_POINTS = 100_000
#: One setting for each weight, by method.
Families = dict[str, list[SettingRuns]]


def draw_calibration(results: StudyResults) -> Drawing:
    """The gap against w = n, the full-data posterior at w = N, and the n that validation points choose."""
    ran = results.ran()
    usual = of_usual_size(ran)
    # A network that was trained for longer is a case of its own, whatever its size.
    wanted = dict.fromkeys(one["variant"] for one in ran if one in usual or one["num_epochs"] is not None)
    found = {variant: _families(results, variant) for variant in wanted}
    shown = {variant: families for variant, families in found.items() if len(_weights(families)) > 1}
    if not shown:
        raise NothingToShow(
            "no task has runs at two weights, such as full_mh (w = N) and pbnn with weight = batch (w = n)"
        )
    chosen = {variant: _chosen(results, variant) for variant in shown}
    every = [family for families in shown.values() for family in families.values()]
    used = [setting for family in every for setting in family]
    way = trend((family for family in every if len(family) > 1), "confidence_gap")
    methods = in_order(method for families in shown.values() for method in families)
    return figure_of(
        [_gap_panel(results, variant, families, chosen[variant]) for variant, families in shown.items()],
        "Above 0 is overconfident, below underconfident. A target of weight w counts the data as w points: "
        "w = N is the posterior, w = n the target of mini-batches of n. Means over seeds with 95 % intervals.",
        used,
        "The smaller the weight of the data, the less confident the answer" if way == "rises" else "",
        notes=(*(_choice(variant, best) for variant, best in chosen.items() if best),),
        keys=[
            *(Key(method_name(method), look_of(method), "") for method in methods),
            Key("exact, closed form", Look(SOFT), "5 3", has_mark=False),
            Key("n chosen for PBNN", Look(facts_of("pbnn").colour), "2 3", has_mark=False),
        ],
    )


def _families(results: StudyResults, variant: str) -> Families:
    """For each method that keeps its target, or nearly so, one setting per weight: the one nearest to the defaults."""
    found = [one for one in results.ran(variant=variant) if one.has("confidence_gap") and one["variance"] != "oracle"]
    families: Families = {}
    for method in in_order(setting["method"] for setting in found):
        own = [setting for setting in found if setting["method"] == method]
        if facts_of(method).exactness != Exactness.BIASED:
            weights = sorted({float(setting["target_weight"]) for setting in own})
            best = (nearest(setting for setting in own if setting["target_weight"] == weight) for weight in weights)
            families[method] = [setting for setting in best if setting is not None]
    return families


def _weights(families: Families) -> set[float]:
    return {float(setting["target_weight"]) for family in families.values() for setting in family}


def _gap_panel(results: StudyResults, variant: str, families: Families, best: SettingRuns | None) -> Panel:
    name = task_name(variant)
    num_points = next(iter(families.values()))[0]["num_points"]
    title = name if "N = " in name else f"{name}, N = {num_points:,}"
    panel = Panel(title, Axis("weight w of the target", "log"), Axis(LABELS["confidence_gap"]))
    panel.add(Guide("y", 0, ""))
    weights = np.geomspace(min(_weights(families)) / 2, max(_weights(families)), NUM_WEIGHTS)
    if problems := _closed_forms(results, variant):
        panel.add(Line(weights, exact_gaps(problems, weights), SOFT, "5 3"))
    if best is not None:
        panel.add(Guide("x", float(best["batch_size"]), "2 3", facts_of("pbnn").colour))
    for number, (method, family) in enumerate(families.items()):
        # Apart by 0.6 % of the axis, as marks at one weight would hide each other.
        shift = (weights[-1] / weights[0]) ** (0.006 * (number - (len(families) - 1) / 2))
        places = {one: shift * float(one["target_weight"]) for one in family}
        draw_series(panel, family, places.__getitem__, "confidence_gap", look_of(method), name=method_name(method))
    return panel


def _closed_forms(results: StudyResults, variant: str) -> list[Problem]:
    """The problem of each seed that was run on, where it has a closed form and is not too large for a figure."""
    by_seed = {row["seed"]: row for setting in results.ran(variant=variant) for row in setting.ok}
    rows = [by_seed[seed] for seed in sorted(by_seed)]
    is_quick = all(row["reference_kind"] == "closed_form" and row["num_points"] <= MAX_POINTS for row in rows)
    return [results.problem(row) for row in rows] if is_quick else []


def exact_gaps(problems: Sequence[Problem], weights: np.ndarray) -> np.ndarray:
    """The confidence gap of the closed-form posterior of each weight, on the test points, mean over problems."""
    return np.mean([[_exact_gap(problem, float(weight)) for weight in weights] for problem in problems], axis=0)


def _exact_gap(problem: Problem, weight: float) -> float:
    posterior = gaussian_posterior(problem, weight)
    features = problem.test_features.astype(np.float64)
    variance = np.einsum("ni,ij,nj->n", features, posterior.covariance, features) + problem.noise_sd**2
    pit = ndtr((problem.test_targets - features @ posterior.mean) / np.sqrt(variance))
    return confidence_gap(coverage_reliability(pit))


def _chosen(results: StudyResults, variant: str) -> SettingRuns | None:
    """The setting of pbnn that the validation points choose, where they have a choice."""
    try:
        choice = calibrate.choose(calibrate.batch_settings(results, variant, "pbnn"))
    except NothingToShow:
        return None
    return choice.best if len(choice.candidates) > 1 else None


def _choice(variant: str, best: SettingRuns) -> str:
    size, ece = format_setting(best, "batch_size"), format_value(best, "ece")
    return f"{task_name(variant)}: validation ECE chooses {size} for PBNN, with an ECE of {ece} on test points."


# PBNN against the tempered posterior of the same n
#
# Within a data set the mean of the mini-batch loss is the tempered loss, so a penalty of the exact variance keeps the
# tempered posterior. The error of an estimated variance and skewed noise shrinks with the step and with M; a distance
# that remains at a small step and a large M would be a difference of targets.

#: Measures of the distance, and their values at no distance.
COLUMNS = {"sd_ratio": 1.0, "mean_error": 0.0, "sliced_w2": 0.0}


def draw_targets(results: StudyResults) -> Drawing:
    """sd ratio, error of the mean and sliced W2 of PBNN against step size and M, and those of the tempered chain."""
    found = [one for one in one_backend(results.ran()) if one["weight"] == "batch" and one.has("sliced_w2")]
    penalised = [one for one in found if one["method"] == "pbnn" and one["variance"] != "oracle"]
    lines = {axis: families for axis in ("step_size", "num_batches") if (families := sweeps(penalised, axis))}
    if not lines:
        raise NothingToShow(
            "needs pbnn with weight = batch at two values of step_size or of num_batches, on a task with a reference"
        )
    same = [_tempered(found, family[0]) for families in lines.values() for family in families]
    levels = list({one["run"]: one for one in same if one is not None}.values())
    panels = []
    for axis, families in lines.items():
        for column, right in COLUMNS.items():
            # A distance is never below 0, whatever the interval of its mean.
            y = Axis(LABELS[column], low=None if right else 0.0)
            panels.append(sweep_panel(families, axis, column, y=y))
            panels[-1].add(Guide("y", right, ""), *(shape for one in levels for shape in _level(one, column)))
    used = [one for families in lines.values() for family in families for one in family]
    least = min(used, key=lambda one: one.mean("mean_variance"))
    noise = format_number(least.mean("mean_variance"), 2)
    title = ""
    if abs(least.mean("sd_ratio") - 1) <= SAME_WIDTH:
        width = format_number(least.mean("sd_ratio"))
        title = f"Where its noise is small, PBNN samples the tempered posterior: {width} of its width at σ² = {noise}"
    resolved = sum(bool(row["sliced_w2_resolved"]) for row in least.evidence)
    return figure_of(
        panels,
        "Solid, the tempered posterior of the same n; broken, the tempered chain's own distance, which is Monte Carlo "
        "error (subtracted from that of the mean). Noise grows with η and falls with M; a difference between targets "
        "would not.",
        [*used, *levels],
        title,
        notes=(
            f"Where the noise is least ({format_settings(least, 'preconditioner')}, σ² = {noise}) the sliced W2 is "
            f"{format_value(least, 'sliced_w2')}; in {resolved} of {len(least.evidence)} seeds it exceeds "
            f"{RESOLUTION:g} Monte Carlo errors.",
            *(f"{format_name(one, 'step_size')}: sliced W2 {format_value(one, 'sliced_w2')}." for one in levels),
        ),
        keys=[
            *(
                Key(f"{task_name(one)}: {format_name(one, 'step_size')}", look_of("tempered"), "5 3", has_mark=False)
                for one in levels
            )
        ],
    )


def _tempered(found: Sequence[SettingRuns], like: SettingRuns) -> SettingRuns | None:
    """The tempered chain of the same task and n."""
    same = [one for one in found if all(one[name] == like[name] for name in ("variant", "batch_size"))]
    return nearest(one for one in same if one["method"] == "tempered")


def _level(setting: SettingRuns, column: str) -> list[Guide | Bar]:
    value, colour = setting.estimate(column), look_of("tempered").colour
    shapes: list[Guide | Bar] = [] if value.mean is None else [Guide("y", value.mean, "5 3", colour)]
    if value.low is not None and value.high is not None:
        shapes.append(Bar(y=(value.low, value.high), colour=colour))
    return shapes


# Which networks are overconfident, and what n does about it

#: From a narrow prior to a wide one, light to dark.
PRIORS = tuple(map(Look, ("#f0a040", "#c8477a", "#3b1f7a"), MARKERS))


def draw_cure(results: StudyResults) -> Drawing:
    """Gap and NLL for each training, a line for each prior; the last n of a line is N."""
    found = []
    for variant in networks(results):
        try:
            found.append(network_of(results, variant))
        except NothingToShow:
            continue
    if not found:
        raise NothingToShow("no network on MNIST has converged chains at all data and at a smaller n")
    scales = sorted({float(one.full["prior_scale"]) for one in found})
    looks = {scale: PRIORS[place % len(PRIORS)] for place, scale in enumerate(scales)}
    by_training: dict[str, list[Network]] = {}
    for one in found:
        by_training.setdefault(_training(one.full), []).append(one)
    margin = MARGINS["overconfident"]
    panels = []
    for training, family in by_training.items():
        count = sum(map(_is_overconfident, family))
        part = "" if count == len(family) else f" at {count} of {len(family)} priors"
        premise = f"overconfident{part}" if count else "not overconfident"
        panels.append(_cure_panel(f"{training}: {premise}", family, "confidence_gap", "confidence gap", looks))
        panels[-1].add(Guide("y", 0, ""), Guide("y", margin))
        panels.append(_cure_panel(training, family, "nll", "NLL on test images", looks))
    used = [setting for one in found for setting in (*one.candidates, one.full)]
    longer = [_is_overconfident(one) for one in found if one.full["num_epochs"] is not None]
    usual = [_is_overconfident(one) for one in found if one.full["num_epochs"] is None]
    title = "Networks trained to overfit are overconfident, and the n that cures them depends on the prior"
    return figure_of(
        panels,
        f"Above {margin:g} (dotted) a network is overconfident: there a smaller n can help. Rings: the n with the "
        "least ECE on validation images. The last point of a line is the posterior of all data.",
        used,
        title if longer and usual and all(longer) and not any(usual) else "",
        keys=[
            *(Key(f"prior sd {scale:g}", look, "") for scale, look in looks.items()),
            Key("n chosen on validation images", Look(SOFT), is_hollow=True),
        ],
    )


def _training(setting: SettingRuns) -> str:
    """``10,000 images, 60 epochs``"""
    training = TASKS["mnist"].training
    assert training is not None, "it has a network"
    return f"{setting['num_points']:,} images, {setting['num_epochs'] or training.num_epochs} epochs"


def _is_overconfident(network: Network) -> bool:
    return network.full.mean("confidence_gap") > MARGINS["overconfident"]


def _weight(setting: SettingRuns) -> float:
    return float(setting["target_weight"])


def _cure_panel(title: str, family: Sequence[Network], column: str, label: str, looks: dict[float, Look]) -> Panel:
    weights = sorted({_weight(one) for network in family for one in (*network.candidates, network.full)})
    panel = Panel(title, Axis("n, or all data", "log", ticks=weights, name=tick_name), Axis(label))
    for network in family:
        # A ring lies under its mark.
        place = _weight(network.chosen), network.chosen.mean(column)
        panel.add(Point(*place, Look(SOFT), is_hollow=True, size=13))
        scale = float(network.full["prior_scale"])
        name = f"prior sd {scale:g}"
        draw_series(panel, [*network.candidates, network.full], _weight, column, looks[scale], name=name)
    return panel


# A network all of whose layers are stochastic


def draw_layers(results: StudyResults) -> Drawing:
    """Width and place of the predictive band over those of the reference, a row for each setting."""
    shown = [one for one in settings(results, variant="regression-all") if one.has("sd_ratio")]
    if not any(one["method"] == "pbnn" for one in shown):
        raise NothingToShow("no converged PBNN run on all layers has a reference that passed its gate")
    # The method of the claim first, then the nearest to the reference.
    shown.sort(key=lambda one: (one["method"] != "pbnn", abs(one.mean("sd_ratio") - 1)))
    rule = MARGINS
    names = [format_name(one, "weight", "preconditioner") for one in shown]
    width = Panel("", Axis("predictive sd / reference sd"), rows=names, height=14)
    place = Panel("", Axis("error of the mean, in RMS sd", low=0), rows=names, height=14)
    width.add(Bar((1 - rule["width"], 1 + rule["width"]), colour="#009e73"), Guide("x", 1, ""))
    place.add(Bar((0, rule["place"]), colour="#009e73"))
    for row, one in enumerate(shown):
        look = look_of(one["method"])
        for value, is_converged in one.parts("sd_ratio"):
            # Runs that have not converged are a little lower, so that they hide nothing.
            width.add(*point(row if is_converged else row + 0.3, value, look, is_converged, "x"))
        place.add(*point(row, one.bias(), look, along="x"))
    ours = shown[0].mean("sd_ratio")
    farthest = max(shown[1:], key=lambda one: one.mean("sd_ratio"), default=shown[0])
    title = f"On a whole network the penalty method's band is {format_number(ours)} times as wide as the reference's"
    if farthest.mean("sd_ratio") - 1 > rule["width"]:
        title += f", {method_name(farthest['method'])}'s up to {format_number(farthest.mean('sd_ratio'))} times"
    return figure_of(
        [width, place],
        "Against long Hamiltonian chains, all methods at the same target. Green: the margins within which claim 20 "
        "holds. Lines are 95 % intervals over seeds; a single seed has none.",
        shown,
        title if abs(ours - 1) <= rule["width"] else "",
    )
