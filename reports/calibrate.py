"""Which mini-batch size calibrates best? Chosen on the validation split, then judged on the test split.

    pbnn-bench calibrate --study paper --task regression

prints calibration for the batch sizes that a study has, the one to choose, and full data for comparison.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from implementations.infrastructure.errors import SettingError, unknown
from metrics.seeds import paired_difference
from records.display import format_estimate, format_name, format_value, task_name
from records.setting_runs import SettingRuns, estimate_of
from records.study import StudyResults
from reports import PUBLISHED
from reports.evidence import full_data_of, settings
from reports.types import NothingToShow


@dataclass(frozen=True)
class Choice:
    """The batch size that calibrates best on validation points, over all seeds and for each."""

    #: One setting per batch size, ascending, all with these seeds.
    candidates: tuple[SettingRuns, ...]
    seeds: tuple[int, ...]
    best: SettingRuns
    best_of_seed: dict[int, SettingRuns]


def choose(candidates: Iterable[SettingRuns]) -> Choice:
    """The least mean validation ECE over the seeds that every batch size has; of equals the smaller batch.

    Of several settings of one batch size, the one with most converged seeds counts, of equals the one with least noise
    (σ²), whose answer is nearest to its target.
    """
    of_size: dict[int, SettingRuns] = {}
    for setting in sorted(candidates, key=lambda one: (-len(one.converged), _noise(one), one["label"])):
        of_size.setdefault(int(setting["batch_size"]), setting)
    chosen = tuple(of_size[size] for size in sorted(of_size))
    values = [setting.present("validation_ece") for setting in chosen]
    seeds = tuple(sorted(set.intersection(*(set(value) for value in values)))) if values else ()
    if not seeds:
        raise NothingToShow("No seed has converged runs with a validation ECE at every batch size")
    means = [sum(value[seed] for seed in seeds) / len(seeds) for value in values]
    return Choice(
        chosen,
        seeds,
        chosen[means.index(min(means))],
        {seed: min(zip(values, chosen, strict=True), key=lambda pair: pair[0][seed])[1] for seed in seeds},
    )


def _noise(setting: SettingRuns) -> float:
    """Mean σ² over seeds; 0 for a method without noise in its decisions."""
    return setting.estimate("mean_variance").mean or 0.0


def batch_settings(study: StudyResults, variant: str, method: str) -> list[SettingRuns]:
    """The settings of a method whose target is tempered to the batch size, without those that need all data."""
    found = settings(study, variant=variant, method=method, weight="batch")
    practical = [setting for setting in found if setting["variance"] != "oracle"]
    if not practical:
        raise NothingToShow(f"Missing runs: {method} on {task_name(variant)} ran with variance oracle only")
    return practical


def format_choice(study: StudyResults, variant: str, method: str) -> list[str]:
    """The lines that the command prints."""
    choice = choose(batch_settings(study, variant, method))
    rows = [(str(one["batch_size"]), one, "  <- chosen" if one is choice.best else "") for one in choice.candidates]
    test = {seed: choice.best.values("ece")[seed] for seed in choice.seeds}
    own = {seed: one.values("ece")[seed] for seed, one in choice.best_of_seed.items()}
    each = ", ".join(f"seed {seed} n = {one['batch_size']}" for seed, one in sorted(choice.best_of_seed.items()))
    try:
        full = full_data_of(study, variant)
        rows.append(("all", full, ""))
        gain = format_estimate(paired_difference(test, full.values("ece")))
        comparison = f"test ECE minus that of full data, paired over seeds: {gain}"
    except NothingToShow as error:
        comparison = f"no comparison with full data: {error}"
    return [
        f"{study.name}: {method} on {task_name(variant)}, which mini-batch size n calibrates best?",
        "",
        _line("n", "seeds", *COLUMNS.values(), "run"),
        *(
            _line(
                size,
                str(len(one.converged)),
                *(format_value(one, column) for column in COLUMNS),
                f"{format_name(one)} on {one['backend']}{mark}",
            )
            for size, one, mark in rows
        ),
        "",
        "95 % intervals over the seeds of a row; gap: confidence minus accuracy, or nominal minus observed coverage",
        f"Below, over the {len(choice.seeds)} seeds that have converged at every n:",
        f"{_verdict(choice)}: test ECE {format_estimate(estimate_of(test, 'ece'))}",
        f"chosen for each seed: {each}: test ECE {format_estimate(estimate_of(own, 'ece'))}",
        comparison,
    ]


#: The numbers that the command prints for each n.
COLUMNS = {
    "validation_ece": "validation ECE",
    "validation_confidence_gap": "validation gap",
    "ece": "test ECE",
    "confidence_gap": "test gap",
}


def _line(size: str, seeds: str, *cells: str) -> str:
    *numbers, last = cells
    return f"{size:>5}  {seeds:>5}  " + "  ".join(f"{cell:<25}" for cell in numbers) + f"  {last}"


def _verdict(choice: Choice) -> str:
    """The choice, and whether the study could have chosen otherwise."""
    best = choice.best["batch_size"]
    if len(choice.candidates) == 1:
        return f"n = {best} is the only one that was run, so there was nothing to choose"
    ends = {choice.candidates[0]["batch_size"]: "smallest", choice.candidates[-1]["batch_size"]: "largest"}
    edge = f" (the {ends[best]} that was run, so one beyond it may be better)" if best in ends else ""
    return f"n = {best} calibrates best on the validation points, on the mean over seeds{edge}"


def choice_in_study(results: Path, name: str, variant: str, method: str) -> list[str]:
    """The lines about a study of this name; SettingError, Damaged or NothingToShow where there is no choice."""
    study = _load(results, name)
    _check("task", variant, study.summary["variant"], study)
    methods = [one["method"] for one in study.settings(variant=variant, weight="batch")]
    _check(f"runs on {variant!r} with weight = batch of method", method, methods, study)
    return format_choice(study, variant, method)


def _load(results: Path, name: str) -> StudyResults:
    """The study's results, or those published with the code, or a SettingError with the way to get them."""
    for folder in (results / name, PUBLISHED / name):
        if (folder / "summary.csv").is_file():
            return StudyResults.load(folder)
    studies = {path.stem for path in (Path(__file__).parents[1] / "workflows" / "studies").glob("*.yaml")}
    made = {path.parent.name for path in results.glob("*/summary.csv")}
    if name not in studies:
        raise SettingError(f"{unknown('study', name, sorted(studies | made))} (in {results})")
    raise SettingError(
        f"study {name!r} has not been run: {results / name / 'summary.csv'} is missing; "
        f"run it with: pbnn-bench run {name}"
    )


def _check(kind: str, name: str, present: Iterable[str], study: StudyResults) -> None:
    names = sorted(set(present))
    if not names:
        raise SettingError(f"study {study.name!r} has no {kind} {name!r}, nor of any other: no target there follows n")
    if name not in names:
        raise SettingError(f"study {study.name!r} has {unknown(kind, name, names)}")
