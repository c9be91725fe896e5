"""What the study `tall` found: the posterior of all data from mini-batches."""

from records.display import format_number, format_rounded, method_name, task_name
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.claims.tall import FULL_DATA, fastest, is_right, tall_variants, widest
from reports.evidence import CONTROLLED, require, settings
from reports.types import Finding

REAL = ("mnist", "flights")


def _flat_in_n(study: StudyResults) -> Finding:
    sweeps = [widest(study, method) for method in CONTROLLED]
    growths = [sweep[-1].ratio(sweep[0], "evaluations_per_draw").mean or 0.0 for sweep in sweeps]
    best = [fastest(settings(study, variant=one, method=list(CONTROLLED))) for one in tall_variants(study)]
    require(min(growths) > 0 and max(growths) <= RULES[21]["growth"] and bool(best) and all(map(is_right, best)))
    times = " to ".join(dict.fromkeys(format_rounded(end(growths)) for end in (min, max)))
    smallest, largest = (sweeps[0][end]["num_points"] for end in (0, -1))
    widths = ", ".join(f"{format_number(one.mean('sd_ratio'))} times on {task_name(one)}" for one in best)
    return Finding(
        "With control variates, mini-batches sample the posterior of all data with the same number of evaluations, "
        "however large the data.",
        f"With control variates, an effective draw takes {times} times as many evaluations with N = {largest:,} points "
        f"as with {smallest:,}. The fastest chain is as wide as the gold standard: {widths}.",
    )


def _faster(study: StudyResults) -> Finding:
    numbers, ratios = [], []
    for variant in REAL:
        ours = [one for one in settings(study, variant=variant, method=list(CONTROLLED)) if is_right(one)]
        require(bool(ours))
        best, rival = fastest(ours), fastest(settings(study, variant=variant, method=list(FULL_DATA)))
        ratios.append(rival.ratio(best, "seconds_to_400").mean or 0.0)
        numbers.append(
            f"{format_rounded(ratios[-1])} times as fast as from {method_name(rival['method'])} on {variant} "
            f"(N = {best['num_points']:,})"
        )
    require(ratios == sorted(ratios) and ratios[0] > 2)
    return Finding(
        "The more data, the greater the lead of mini-batches over the best full-data sampler.",
        f"Warm-up included, 400 effective draws come {' and '.join(numbers)}.",
    )


def _gaussian(study: StudyResults) -> Finding:
    """Where no chain is needed at all."""
    errors = {
        variant: settings(study, variant=variant, method="laplace")[0].mean("point_error")
        for variant in ("digits", *REAL)
    }
    bound = RULES[25]["exact_place"]
    require(errors["flights"] <= bound < min(errors["digits"], errors["mnist"]))
    digits, mnist, flights = (format_number(error, 2) for error in errors.values())
    return Finding(
        "With many points per parameter, a Gaussian at the mode is enough.",
        f"No chain is needed there: its predictive means are off by {flights} own sd on flights, {mnist} on mnist and "
        f"{digits} on digits.",
    )


OF_TALL = (_flat_in_n, _faster, _gaussian)
