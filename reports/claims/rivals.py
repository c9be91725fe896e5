"""All methods on the same targets: do those that claim to be exact keep it, and does anything beat all the data?"""

from dataclasses import replace
from typing import NamedTuple

from implementations.card import Exactness
from metrics.seeds import Estimate
from records.display import format_estimate, format_name, format_number
from records.methods import facts_of
from records.setting_runs import SettingRuns, one_backend
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.leaderboard import CRITERION, target_text, weight_of
from reports.questions import Answer, Question, lies_above, lies_below, lies_within
from reports.tables import RESIDUAL, residual_of, why_not
from reports.types import IN_PART, NOT_REPRODUCED, REPRODUCED, Claim, Evidence, NotAsked, NothingToShow, Verdict
from reports.verdicts import Part, guarded, judge_parts, verdict


def _judged(study: StudyResults) -> list[SettingRuns]:
    """The settings whose chains have converged, with a reference to be compared with."""
    return [
        one for one in one_backend(study.all_settings) if one.converged and one.has("sd_ratio") and one.has(CRITERION)
    ]


def target_of(setting: SettingRuns) -> tuple[str, float]:
    return setting["variant"], weight_of(setting)


def _name(setting: SettingRuns) -> str:
    return f"{format_name(setting, 'preconditioner')} on {target_text(*target_of(setting))}"


@guarded
def _exact_is_exact(study: StudyResults) -> Verdict:
    rule = RULES[41]
    exact = [one for one in _judged(study) if facts_of(one["method"]).exactness == Exactness.EXACT]
    if not exact:
        raise NothingToShow("No exact method has converged on a target with a reference")
    questions = []
    for one in exact:
        width = Evidence(f"sd ratio, {_name(one)}", one.estimate("sd_ratio"))
        place = Evidence(f"error of the mean, {_name(one)}", one.estimate("mean_error"), "RMS sd")
        questions += [
            lies_within(width, 1 - rule["width"], 1 + rule["width"]),
            lies_below(place, rule["place"]),
        ]
    worst = max(abs(one.mean("sd_ratio") - 1) for one in exact)
    ran = [one for one in one_backend(study.all_settings) if one.ok]
    asked = [one for one in ran if facts_of(one["method"]).exactness == Exactness.EXACT]
    where = f"Of {len(asked)} cases (a method on a target) {len(exact)} have converged and have a reference"
    return verdict(
        questions,
        exact,
        conclusions={
            True: f"{where}; in all of these the sd is off by at most {format_number(100 * worst, 2)} %.",
            False: f"{where}; not all of these are right: an sd is off by {format_number(100 * worst, 2)} %.",
        },
        alpha=rule.alpha(study),
    )


class Contest(NamedTuple):
    """A target on which chains on all data are within the bias bound and chains on mini-batches ran."""

    target: tuple[str, float]
    #: The best chain on mini-batches within the bound; None where there is none.
    ours: SettingRuns | None
    #: The best on all data.
    theirs: SettingRuns

    @property
    def name(self) -> str:
        return target_text(*self.target)


def contests(study: StudyResults) -> list[Contest]:
    """One per target, of chains: draws of the Gaussian at the mode take no evaluations and are none."""
    boards: dict[tuple[str, float], list[SettingRuns]] = {}
    for one in one_backend(study.all_settings):
        if one.ok and one.mean("evaluations_per_draw") != 0:
            boards.setdefault(target_of(one), []).append(one)
    found = []
    for target, settings in boards.items():
        sides: dict[bool, list[SettingRuns]] = {True: [], False: []}
        for one in settings:
            sides[facts_of(one["method"]).is_minibatch].append(one)
        ours, theirs = (_best(sides[side]) for side in (True, False))
        if sides[True] and theirs is not None:
            found.append(Contest(target, ours, theirs))
    return found


def _best(settings: list[SettingRuns]) -> SettingRuns | None:
    right = [one for one in settings if why_not(one) is None and one.has(CRITERION)]
    return max(right, key=lambda one: one.mean(CRITERION), default=None)


def best_pairs(study: StudyResults) -> list[tuple[SettingRuns, SettingRuns]]:
    """On each target with both: the best chain on mini-batches within the bias bound, and the best on all data."""
    return [(one.ours, one.theirs) for one in contests(study) if one.ours is not None]


def lost_targets(study: StudyResults) -> list[str]:
    """Where only chains on all data are within the bias bound."""
    return [one.name for one in contests(study) if one.ours is None]


def _pays(contest: Contest) -> Part:
    ours, theirs = contest.ours, contest.theirs
    if ours is None:
        none = Estimate(0.0, 0.0, 0.0, len(theirs.ok), 0, 0.0, 0.0)
        label = f"mini-batch methods within the bias bound on {contest.name}"
        return Part.of(f"on {contest.name}", Question(Evidence(label, none), False, "above 0", Answer(1.0, 0.0)))
    label = f"effective draws per evaluation of {_name(ours)}, over {format_name(theirs, 'preconditioner')}"
    return Part.of(f"on {contest.name}", lies_above(Evidence(label, ours.ratio(theirs, CRITERION)), 1.0))


@guarded
def _mini_batches_pay(study: StudyResults) -> Verdict:
    found = contests(study)
    if not found:
        raise NothingToShow("On no target a method on all data is within the bias bound and a mini-batch method ran")
    parts = [_pays(one) for one in found]
    texts = [
        f"{format_estimate(part.questions[0].evidence.value)} on {one.name}"
        for part, one in zip(parts, found, strict=True)
        if one.ours is not None
    ]
    lost = [one.name for one in found if one.ours is None]
    numbers = (
        [f"effective draws per evaluation over those of the best on all data: {'; '.join(texts)}"] if texts else []
    )
    if lost:
        numbers.append(f"no mini-batch method is within the bias bound on {', '.join(lost)}")
    judged = judge_parts(
        parts,
        [one for contest in found for one in (contest.ours, contest.theirs) if one is not None],
        numbers="; ".join(numbers),
        conclusions={
            REPRODUCED: "On every target the best on mini-batches gives more",
            NOT_REPRODUCED: "On no target the best on mini-batches gives more",
        },
        alpha=RULES[42].alpha(study),
    )
    if lost and texts and judged.outcome == IN_PART:
        # A count of none is no close call, whatever its part decides.
        return replace(judged, would_change=f"A mini-batch method within the bias bound on {' and on '.join(lost)}.")
    return judged


@guarded
def _decisions_are_balanced(study: StudyResults) -> Verdict:
    rule = RULES[43]
    exact = [one for one in one_backend(study.all_settings) if facts_of(one["method"]).exactness == Exactness.EXACT]
    audited = [one for one in exact if any(row[RESIDUAL] is not None for row in one.ok)]
    if not audited:
        raise NotAsked("Missing runs: no method that is exact on paper has audited decisions")
    questions = [
        lies_within(Evidence(f"residual, {_name(one)}", residual_of(one)), -rule["balanced"], rule["balanced"])
        for one in audited
    ]
    worst = max(questions, key=lambda one: abs(one.evidence.value.mean or 0.0)).evidence
    methods = len({one["method"] for one in audited})
    where = f"{len(audited)} cases ({methods} methods, each on its targets)"
    most = f"the largest residual is {format_estimate(worst.value)} ({worst.label.removeprefix('residual, ')})"
    return verdict(
        questions,
        audited,
        conclusions={
            True: f"In all of {where} the residual is 0 within the margin; {most}.",
            False: f"Not in all of {where}: {most}.",
        },
        alpha=rule.alpha(study),
    )


RIVALS = tuple(
    Claim(
        id=number,
        short=short,
        statement=statement,
        place="",
        rule=RULES[number].text,
        judge=judge,
        registered=RULES[number],
    )
    for number, short, statement, judge in (
        (
            41,
            "Methods that are exact on paper are exact here",
            "Methods that are exact on paper are exact here, wherever their chains have converged.",
            _exact_is_exact,
        ),
        (
            42,
            "Where a small bias is acceptable, mini-batches beat full data per evaluation",
            "Where a small bias is acceptable, mini-batches give more effective draws per evaluation than all data.",
            _mini_batches_pay,
        ),
        (
            43,
            "Decisions of methods that are exact on paper are in detailed balance",
            "Decisions of methods that are exact on paper are in detailed balance.",
            _decisions_are_balanced,
        ),
    )
)
