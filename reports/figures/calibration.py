"""Is n a knob for calibration? The signed confidence gap against the weight of the target."""

import functools
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from implementations.methods import METHODS
from implementations.tasks.exact import gaussian_posterior
from implementations.tasks.problem import Problem
from metrics.calibration import confidence_gap, coverage_reliability
from reports import calibrate
from reports.evidence import Setting, estimate, interval
from reports.figures.groups import (
    Group,
    choose,
    groups_of,
    of_usual_size,
    posterior_of,
    runs_of,
    told,
    unconverged_text,
)
from reports.figures.marks import draw_series, handle, hollow_handles, panels
from reports.parts import Drawing, NothingToShow
from reports.study import StudyResults
from reports.style import COLOURS, EXACT, LABELS

#: Weights that the exact curve is drawn through.
NUM_WEIGHTS = 40
#: Beyond this many training points the exact curve would take longer than the rest of the report.
MAX_POINTS = 100_000
#: The distance between methods at one weight, as a share of the axis.
DODGE = 0.015
#: One group a weight, by method.
Families = dict[str, list[Group]]


def draw_calibration(results: StudyResults) -> Drawing:
    """The gap against w = n, the full-data posterior at w = N, and the n that validation points choose."""
    found = {variant: _families(results, variant) for variant in of_usual_size(results.ok)["variant"].unique()}
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
            draw_series(axes, family, place, "confidence_gap", COLOURS[method])
        axes.axhline(0, color="black", linewidth=1)
        best = _chosen(results, variant)
        if best is not None:
            axes.axvline(float(best["batch_size"]), color=COLOURS["pbnn"], linestyle=":", linewidth=1.8, zorder=1)
        axes.set(xscale="log", title=f"{variant}, N = {_num_points(families):,}", xlabel="weight w of the target")
        sentences.append(_sentence(variant, families, best))
    figure.supylabel(LABELS["confidence_gap"], fontsize=10)
    used = [group for families in shown.values() for family in families.values() for group in family]
    methods = [method for method in METHODS if any(method in families for families in shown.values())]
    handles = [
        *(handle(method, COLOURS[method]) for method in methods),
        handle("exact, closed form", EXACT, marker="", linestyle="--"),
        handle("n chosen for pbnn", COLOURS["pbnn"], marker="", linestyle=":"),
        *hollow_handles(used),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8)
    caption = (
        "Above 0 is overconfident, below underconfident; means over seeds with 95 % intervals, test points. A target "
        "of weight w counts the data as w points: w = N is the posterior, w = n what a mini-batch of n stands for. "
        f"{' '.join(sentences)}{unconverged_text(used)}"
    )
    return Drawing(figure, caption, runs_of(used))


def _families(results: StudyResults, variant: str) -> Families:
    """For each method that keeps its target, or nearly so, one group a weight: the one nearest to the defaults."""
    groups = [group for group in groups_of(results.rows(variant=variant)) if group.best("confidence_gap") is not None]
    families: Families = {}
    for method, definition in METHODS.items():
        own = [group for group in groups if group["method"] == method and group["variance"] != "oracle"]
        if own and not definition.target.startswith("biased"):
            weights = sorted({float(group["target_weight"]) for group in own})
            chosen = (choose(group for group in own if group["target_weight"] == weight) for weight in weights)
            families[method] = [group for group in chosen if group is not None]
    return families


def _place(shift: float, group: Group) -> float:
    return shift * float(group["target_weight"])


def _weights(families: Families) -> set[float]:
    return {float(group["target_weight"]) for family in families.values() for group in family}


def _num_points(families: Families) -> int:
    return int(next(group for family in families.values() for group in family)["num_points"])


def _closed_forms(results: StudyResults, variant: str) -> list[Problem]:
    """The problem of each seed that was run on, where it has a closed form and is not too large for a figure."""
    rows = results.ok[results.ok["variant"] == variant].drop_duplicates("seed").sort_values("seed")
    is_quick = (rows["reference_kind"] == "closed_form") & (rows["num_points"] <= MAX_POINTS)
    return [results.problem(row) for row in rows.to_dict("records")] if is_quick.all() else []


def exact_gaps(problems: Sequence[Problem], weights: np.ndarray) -> np.ndarray:
    """The confidence gap of the closed-form posterior of each weight, on the test points, mean over problems."""
    return np.mean([[_exact_gap(problem, float(weight)) for weight in weights] for problem in problems], axis=0)


def _exact_gap(problem: Problem, weight: float) -> float:
    posterior = gaussian_posterior(problem, weight)
    features = problem.test_features.astype(np.float64)
    variance = np.einsum("ni,ij,nj->n", features, posterior.covariance, features) + problem.noise_sd**2
    pit = ndtr((problem.test_targets - features @ posterior.mean) / np.sqrt(variance))
    return confidence_gap(coverage_reliability(pit))


def _chosen(results: StudyResults, variant: str) -> Setting | None:
    """The setting of pbnn that the validation points choose, where they have a choice."""
    try:
        choice = calibrate.choose(calibrate.batch_settings(results, variant, "pbnn"))
    except NothingToShow:
        return None
    return choice.best if len(choice.candidates) > 1 else None


def _sentence(variant: str, families: Families, best: Setting | None) -> str:
    full = posterior_of([group for family in families.values() for group in family])
    parts = [] if full is None else [f"{full['method']} has a gap of {told(full, 'confidence_gap')}"]
    sizes = [
        f"{told(one, 'confidence_gap')} at n = {one['batch_size']}"
        for one in families.get("pbnn", [])
        if one["weight"] == "batch"
    ]
    parts += [f"pbnn {', '.join(sizes)}"] if sizes else []
    if best is not None:
        gap, ece = (interval(estimate(best, column)) for column in ("confidence_gap", "ece"))
        parts.append(
            f"validation ECE chooses n = {best['batch_size']} for pbnn, with a gap of {gap} and an ECE of {ece}"
        )
    return f"{variant}: {'; '.join(parts)}." if parts else ""
