"""What a verdict is made of: the settings of a study that are evidence, the questions put to them, and the outcome.

A claim is judged by questions, each about one number with its 95 % interval: does the interval lie wholly where the
claim says (yes), wholly elsewhere (no), or across the border (not decided)?
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from implementations.backends import BACKENDS
from metrics.fidelity import RESOLUTION
from metrics.seeds import Estimate, mean_over_seeds, paired_difference
from reports.parts import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Evidence, NothingToShow, Verdict
from reports.study import MAX_R_HAT, StudyResults, is_converged

#: Two bands of +-1 sd look the same when neither their height nor their place differs by more than a tenth of the
#: height, which is 2 sd: the sd by a tenth of it, the mean by a fifth.
SAME_WIDTH = 0.1
SAME_MEAN = 0.2


# The settings


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """The runs of one setting on one backend, by seed."""

    rows: tuple[Row, ...]

    def __getitem__(self, name: str) -> Any:
        """What all its runs share: a setting, or another column such as ``target_weight``; None where it is empty."""
        return next((row[name] for row in self.rows if row[name] is not None), None)

    @property
    def runs(self) -> tuple[str, ...]:
        """Those that are evidence."""
        return tuple(row["run"] for row in self.rows if row["is_evidence"])

    def values(self, column: str) -> dict[int, float | None]:
        """One value a seed, None where the run is not evidence."""
        return {row["seed"]: row[column] if row["is_evidence"] else None for row in self.rows}


def ended_well(rows: pd.DataFrame) -> pd.Series:
    """What is evidence where nothing depends on the draws."""
    return rows["status"] == "ok"


def settings(
    study: StudyResults, is_evidence: Callable[[pd.DataFrame], pd.Series] = is_converged, **wanted: Any
) -> list[Setting]:
    """The settings with these values in their columns and at least one run that is evidence, in order of their labels.

    A setting that ran on several backends stands once, on the one with the most such runs.
    NothingToShow says what is wrong where none is left.
    """
    rows = study.rows(**wanted)
    if rows.empty:
        raise NothingToShow(f"Missing runs: the study has none of {_words(wanted)}")
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in _records(rows, is_evidence(rows)):
        groups.setdefault((row["variant"], row["label"]), {}).setdefault(row["backend"], []).append(row)
    chosen = []
    for _, of_backend in sorted(groups.items()):
        backends = sorted(of_backend, key=list(BACKENDS).index)
        candidates = [Setting(tuple(sorted(of_backend[name], key=lambda row: row["seed"]))) for name in backends]
        chosen.append(max(candidates, key=lambda one: len(one.runs)))
    found = [setting for setting in chosen if setting.runs]
    if not found:
        raise NothingToShow(f"No run of {_words(wanted)} is evidence: {_shortcomings(rows)}")
    return found


def _records(rows: pd.DataFrame, is_evidence: pd.Series) -> Iterator[Row]:
    """The rows as plain values, None where empty, with what claims need and the summary leaves to its readers."""
    for values, counts in zip(rows.to_dict("records"), is_evidence, strict=True):
        row = {str(name): None if pd.isna(value) else value for name, value in values.items()}
        yield {**row, "is_evidence": bool(counts), **_derived(row)}


def _derived(row: Row) -> Row:
    def number(column: str) -> float:
        return math.nan if row[column] is None else float(row[column])

    steps = number("num_steps") * number("chains")
    evaluations = number("likelihood_evaluations") + number("gradient_evaluations")
    numbers = {
        "log_variance": _log(number("mean_variance")),
        "acceptance_cost": number("audit_exact_acceptance") - number("audit_acceptance"),
        "log_step_seconds": _log(number("wall_clock_s") / steps),
        "log_step_evaluations": _log(evaluations / steps),
    }
    return {name: None if math.isnan(value) else value for name, value in numbers.items()}


def _log(value: float) -> float:
    return math.log(value) if value > 0 else math.nan


def _words(wanted: Mapping[str, Any]) -> str:
    """``method pbnn or naive, batch_size 5``"""
    texts = {
        name: " or ".join(map(str, value if isinstance(value, list) else [value])) for name, value in wanted.items()
    }
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _shortcomings(rows: pd.DataFrame) -> str:
    """Why runs are not evidence: ``2 diverged, 1 not converged (R-hat up to 1.3, at most 1.05 is)``."""
    counts = rows.loc[rows["status"] != "ok", "status"].value_counts().sort_index()
    reasons = [f"{count} {status}" for status, count in counts.items()]
    ended_well = rows[rows["status"] == "ok"]
    if len(ended_well):
        worst = ended_well["r_hat"].max()
        largest = "undefined" if pd.isna(worst) else f"up to {worst:.3g}"
        reasons.append(f"{len(ended_well)} not converged (R-hat {largest}, accepted to {MAX_R_HAT})")
    return ", ".join(reasons)


def sweeps(candidates: Iterable[Setting], over: str, same: Sequence[str]) -> list[list[Setting]]:
    """Settings that share the columns ``same`` and differ in ``over``, ascending; of equals the longest run."""
    groups: dict[tuple[Any, ...], dict[Any, Setting]] = {}
    for setting in sorted(candidates, key=lambda one: (one["num_steps"], one["label"])):
        if setting[over] is not None:
            groups.setdefault(tuple(setting[name] for name in same), {})[setting[over]] = setting
    found = [[group[value] for value in sorted(group)] for group in groups.values() if len(group) > 1]
    return sorted(found, key=lambda sweep: sweep[0]["run"])


def required_sweeps(candidates: Sequence[Setting], over: str, same: Sequence[str]) -> list[list[Setting]]:
    """The same, or NothingToShow."""
    found = sweeps(candidates, over, same)
    if not found:
        names = sorted({setting["method"] for setting in candidates})
        raise NothingToShow(
            f"Missing runs: no two converged settings of {' or '.join(names)} differ in {over} alone "
            f"(same {', '.join(same)})"
        )
    return found


# Estimates


def estimate(setting: Setting, column: str) -> Estimate:
    """Mean over seeds with its interval: that of the seeds or that of the Monte Carlo error, whichever is wider.

    Three seeds can agree by chance; what the chains' own length leaves open stays open.
    """
    return widened(mean_over_seeds(setting.values(column)), _errors(setting, column))


def difference(setting: Setting, baseline: Setting, column: str) -> Estimate:
    """The paired difference over seeds, with its interval found in the same way."""
    ours, theirs = _errors(setting, column), _errors(baseline, column)
    errors = {seed: math.hypot(ours[seed], theirs[seed]) for seed in ours.keys() & theirs.keys()}
    return widened(paired_difference(setting.values(column), baseline.values(column)), errors)


def _errors(setting: Setting, column: str) -> dict[int, float]:
    if f"{column}_mc" not in setting.rows[0]:
        return dict.fromkeys((seed for seed, value in setting.values(column).items() if value is not None), 0.0)
    return {seed: error for seed, error in setting.values(f"{column}_mc").items() if error is not None}


def widened(over_seeds: Estimate, errors: Mapping[int, float]) -> Estimate:
    """The estimate with an interval of at least what the Monte Carlo errors of its values leave open."""
    if over_seeds.mean is None or over_seeds.low is None or over_seeds.high is None or not errors:
        return over_seeds
    half_width = RESOLUTION * math.sqrt(sum(error**2 for error in errors.values())) / len(errors)
    return replace(
        over_seeds,
        low=min(over_seeds.low, over_seeds.mean - half_width),
        high=max(over_seeds.high, over_seeds.mean + half_width),
    )


# Questions


@dataclass(frozen=True)
class Question:
    """One number, and whether it lies where the claim says; None is not decided."""

    evidence: Evidence
    holds: bool | None
    #: Where the interval would have to lie to decide.
    border: str


def lies_above(evidence: Evidence, bound: float) -> Question:
    """Does the interval lie above ``bound``?"""
    holds = _answer(evidence, lambda low, high: True if low > bound else False if high < bound else None)
    return Question(evidence, holds, f"on one side of {bound:g}")


def lies_below(evidence: Evidence, bound: float) -> Question:
    return negated(lies_above(evidence, bound))


def lies_within(evidence: Evidence, low: float, high: float) -> Question:
    """Does the interval lie between the bounds (yes), or apart from what is between them (no)?"""

    def answer(lowest: float, highest: float) -> bool | None:
        return True if low <= lowest and highest <= high else False if highest < low or lowest > high else None

    return Question(evidence, _answer(evidence, answer), f"inside or outside {low:g} to {high:g}")


def negated(question: Question) -> Question:
    return replace(question, holds=None if question.holds is None else not question.holds)


def _answer(evidence: Evidence, decide: Callable[[float, float], bool | None]) -> bool | None:
    low, high = evidence.value.low, evidence.value.high
    return None if low is None or high is None else decide(low, high)


def unanimous(answers: Iterable[bool | None]) -> bool | None:
    """Yes where all are yes, no where all are no."""
    found = set(answers)
    return found.pop() if len(found) == 1 else None


def every(answers: Iterable[bool | None]) -> bool | None:
    """Yes where all are, no where one is no."""
    found = list(answers)
    return False if False in found else None if None in found else True


def some(answers: Iterable[bool | None]) -> bool | None:
    """Yes where one is, no where all are no."""
    found = list(answers)
    return True if True in found else None if None in found else False


# The verdict


def guarded(judge: Callable[[StudyResults], Verdict]) -> Callable[[StudyResults], Verdict]:
    """The same, *inconclusive* with the reason where the study lacks the runs."""

    @functools.wraps(judge)
    def judged(study: StudyResults) -> Verdict:
        try:
            return judge(study)
        except NothingToShow as error:
            return Verdict(INCONCLUSIVE, f"{error}.")

    return judged


OUTCOMES = {True: REPRODUCED, False: NOT_REPRODUCED, None: INCONCLUSIVE}


def verdict(
    questions: Sequence[Question],
    used: Iterable[Setting],
    *,
    holds: bool | None,
    conclusions: Mapping[bool, str],
    more: Iterable[Evidence] = (),
) -> Verdict:
    """The outcome of a claim that ``holds`` or not; ``conclusions`` are its reasons for yes and no.

    Where neither, the reason lists the numbers that do not decide.
    """
    reason = _open(questions) if holds is None else conclusions[holds]
    runs = dict.fromkeys(run for setting in used for run in setting.runs)
    evidence = dict.fromkeys([*(question.evidence for question in questions), *more])
    return Verdict(OUTCOMES[holds], reason, tuple(evidence), tuple(sorted(runs)))


def _open(questions: Sequence[Question], most: int = 3) -> str:
    """What keeps questions open."""
    undecided = [question for question in questions if question.holds is None]
    if not undecided:
        return f"Settings contradict each other: {'; '.join(told(question.evidence) for question in questions[:most])}."
    few = [question.evidence for question in undecided if question.evidence.value.low is None]
    if few:
        return f"Too few seeds for an interval: {'; '.join(map(told, few[:most]))}."
    lines = [f"{told(one.evidence)} does not lie wholly {one.border}" for one in undecided[:most]]
    return f"The interval does not decide: {'; '.join(lines)}."


def contradictions(questions: Iterable[Question]) -> str:
    """The numbers that say no."""
    return "; ".join(told(question.evidence) for question in questions if question.holds is False)


def told(evidence: Evidence) -> str:
    """``sd ratio of naive 1.85 [1.71, 1.99]``"""
    return f"{evidence.label} {interval(evidence.value)}{evidence.unit and ' ' + evidence.unit}"


def interval(value: Estimate) -> str:
    """``1.85 [1.71, 1.99]``, with as many digits as the interval's width deserves."""
    if value.mean is None:
        return "without a value"
    if value.low is None or value.high is None:
        return f"{value.mean:.3g} ({value.num_seeds} seed)"
    width = value.high - value.low
    # A constant's spread is that of rounding.
    is_constant = width <= 1e-12 * max(1.0, abs(value.mean))
    digits = 3 if is_constant else max(0, 1 - math.floor(math.log10(width)))
    return f"{value.mean:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"
