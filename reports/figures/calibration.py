"""Is n a knob for calibration? The signed confidence gap against the weight of the target."""

import functools
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from implementations.card import Exactness
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior
from metrics.calibration import confidence_gap, coverage_reliability
from records.display import format_name, format_setting, format_value, method_name, task_name
from records.methods import facts_of, in_order
from records.setting_runs import SettingRuns, full_data, nearest, of_usual_size
from records.study import StudyResults
from reports import calibrate
from reports.figures.captions import runs_of, trend, unconverged_lines
from reports.figures.marks import draw_series, handle, hollow_handles, legend, panels
from reports.style import EXACT, LABELS, look_of
from reports.types import Drawing, NothingToShow

#: Weights that the exact curve is drawn through.
NUM_WEIGHTS = 40
#: Beyond this many training points the exact curve would take longer than the rest of the report.
MAX_POINTS = 100_000
#: The distance between methods at one weight, as a share of the axis.
DODGE = 0.006
#: What is drawn.
COLUMN = "confidence_gap"
#: One setting per weight, by method.
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
    figure, all_axes = panels(len(shown), height=3.1)
    sentences = []
    for axes, (variant, families) in zip(all_axes, shown.items(), strict=True):
        weights = np.geomspace(min(_weights(families)) / 2, max(_weights(families)), NUM_WEIGHTS)
        problems = _closed_forms(results, variant)
        if problems:
            axes.plot(weights, exact_gaps(problems, weights), color=EXACT, linestyle="--", linewidth=1.2, zorder=1)
        for number, (method, family) in enumerate(families.items()):
            # Side by side, as marks at one weight would hide each other.
            shift = (weights[-1] / weights[0]) ** (DODGE * (number - (len(families) - 1) / 2))
            place = functools.partial(_place, shift)
            draw_series(axes, family, place, "confidence_gap", *look_of(method))
        axes.axhline(0, color="black", linewidth=1)
        best = _chosen(results, variant)
        if best is not None:
            axes.axvline(
                float(best["batch_size"]), color=facts_of("pbnn").colour, linestyle=":", linewidth=1.8, zorder=1
            )
        axes.set(xscale="log", title=_title(variant, families), xlabel="weight w of the target")
        sentences.append(_sentence(variant, families, best))
    figure.supylabel(LABELS["confidence_gap"], fontsize=10)
    used = [setting for families in shown.values() for family in families.values() for setting in family]
    methods = in_order(method for families in shown.values() for method in families)
    handles = [
        *(handle(method_name(method), *look_of(method)) for method in methods),
        handle("exact, closed form", EXACT, marker="", linestyle="--"),
        handle("n chosen for PBNN", facts_of("pbnn").colour, marker="", linestyle=":"),
        *hollow_handles(used),
    ]
    legend(figure, handles, is_below=True, most=3)
    caption = (
        "Above 0 is overconfident, below underconfident. A target of weight w counts the data as w points: "
        "w = N is the posterior, w = n the target of mini-batches of n. Means over seeds with 95 % intervals."
    )
    way = trend((family for families in shown.values() for family in families.values() if len(family) > 1), COLUMN)
    title = "The smaller the weight of the data, the less confident the answer" if way == "rises" else ""
    return Drawing(figure, caption, runs_of(used), title, (*filter(None, sentences), *unconverged_lines(used)))


def _families(results: StudyResults, variant: str) -> Families:
    """For each method that keeps its target, or nearly so, one setting per weight: the one nearest to the defaults."""
    settings = [setting for setting in results.ran(variant=variant) if setting.has("confidence_gap")]
    families: Families = {}
    for method in in_order(setting["method"] for setting in settings):
        own = [setting for setting in settings if setting["method"] == method and setting["variance"] != "oracle"]
        if own and facts_of(method).exactness != Exactness.BIASED:
            weights = sorted({float(setting["target_weight"]) for setting in own})
            chosen = (nearest(setting for setting in own if setting["target_weight"] == weight) for weight in weights)
            families[method] = [setting for setting in chosen if setting is not None]
    return families


def _place(shift: float, setting: SettingRuns) -> float:
    return shift * float(setting["target_weight"])


def _weights(families: Families) -> set[float]:
    return {float(setting["target_weight"]) for family in families.values() for setting in family}


def _title(variant: str, families: Families) -> str:
    name = task_name(variant)
    return name if "N = " in name else f"{name}, N = {_num_points(families):,}"


def _num_points(families: Families) -> int:
    return int(next(setting for family in families.values() for setting in family)["num_points"])


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


def _sentence(variant: str, families: Families, best: SettingRuns | None) -> str:
    full = full_data([setting for family in families.values() for setting in family])
    parts = [] if full is None else [f"{format_name(full)} has a gap of {format_value(full, 'confidence_gap')}"]
    sizes = [
        f"{format_value(one, 'confidence_gap')} at {format_setting(one, 'batch_size')}"
        for one in families.get("pbnn", [])
        if one["weight"] == "batch"
    ]
    parts += [f"PBNN {', '.join(sizes)}"] if sizes else []
    if best is not None:
        gap, ece = (format_value(best, column) for column in ("confidence_gap", "ece"))
        parts.append(
            f"validation ECE chooses {format_setting(best, 'batch_size')} for PBNN, with a gap of {gap} and an ECE "
            f"of {ece}"
        )
    return f"{task_name(variant)}: {'; '.join(parts)}." if parts else ""
