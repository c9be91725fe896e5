"""All methods on the same targets: do those that claim to be exact keep it, and does anything beat all the data?"""

from implementations.card import Exactness
from records.display import format_estimate, format_name, format_number
from records.methods import facts_of
from records.setting import Setting, one_backend
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.leaderboard import CRITERION, target_text, weight_of
from reports.questions import lies_above, lies_below, lies_within
from reports.tables import why_not
from reports.types import Claim, Evidence, NothingToShow, Verdict
from reports.verdicts import guarded, verdict


def _judged(study: StudyResults) -> list[Setting]:
    """The settings whose chains have converged, with a reference to be compared with."""
    return [
        one for one in one_backend(study.all_settings) if one.converged and one.has("sd_ratio") and one.has(CRITERION)
    ]


def target_of(setting: Setting) -> tuple[str, float]:
    return setting["variant"], weight_of(setting)


def _name(setting: Setting) -> str:
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
        place = Evidence(f"error of the mean, {_name(one)}", one.estimate("mean_error"), "sd")
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


def best_pairs(study: StudyResults) -> list[tuple[Setting, Setting]]:
    """On each target with both: the best chain on mini-batches within the bias bound, and the best on all data."""
    boards: dict[tuple[str, float], list[Setting]] = {}
    for one in _judged(study):
        if why_not(one) is None:
            boards.setdefault(target_of(one), []).append(one)
    pairs = []
    for settings in boards.values():
        best: dict[bool, Setting] = {}
        for one in settings:
            is_minibatch = facts_of(one["method"]).is_minibatch
            best[is_minibatch] = max(best.get(is_minibatch, one), one, key=lambda each: each.mean(CRITERION))
        if len(best) == 2:
            pairs.append((best[True], best[False]))
    return pairs


@guarded
def _mini_batches_pay(study: StudyResults) -> Verdict:
    pairs = best_pairs(study)
    if not pairs:
        raise NothingToShow("On no target both a mini-batch method and one on all data are within the bias bound")
    questions = [
        lies_above(
            Evidence(
                f"effective draws per evaluation of {_name(ours)}, over {format_name(theirs, 'preconditioner')}",
                ours.ratio(theirs, CRITERION),
            ),
            1.0,
        )
        for ours, theirs in pairs
    ]
    numbers = "; ".join(
        f"{format_estimate(question.evidence.value)} on {target_text(*target_of(ours))}"
        for question, (ours, _) in zip(questions, pairs, strict=True)
    )
    return verdict(
        questions,
        [one for pair in pairs for one in pair],
        conclusions={
            True: f"On every target the best on mini-batches gives more effective draws per evaluation: {numbers}.",
            False: f"Not on every target; effective draws over those of the best on all data: {numbers}.",
        },
        alpha=RULES[42].alpha(study),
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
            "With a small bias, mini-batches beat full data per evaluation",
            "With the bias within the bound, mini-batches give more effective draws per evaluation than all data.",
            _mini_batches_pay,
        ),
    )
)
