"""What a study says about a claim: the outcome of its questions, and the reason in words."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from metrics.seeds import ALPHA
from records.display import format_estimate
from records.setting import Setting
from records.study import StudyResults
from reports.questions import Answer, Question, all_hold, answers_of
from reports.types import (
    IN_PART,
    INCONCLUSIVE,
    NOT_ASKED,
    NOT_REPRODUCED,
    PREMISE_NOT_MET,
    REPRODUCED,
    Evidence,
    NotAsked,
    NothingToShow,
    Verdict,
)

#: What is said before the names of parts.
HOLDS, FAILS, OPEN = "It holds", "It does not hold", "Too close to call"


@dataclass(frozen=True)
class Part:
    """One of the things that a claim says, which can hold where others do not."""

    #: Where or when, to follow "it holds" and "it does not hold".
    name: str
    questions: tuple[Question, ...]
    answer: Answer

    @classmethod
    def of(cls, name: str, *questions: Question) -> "Part":
        """One that holds where all its questions do."""
        return cls(name, questions, all_hold(answers_of(questions)))


def guarded(judge: Callable[[StudyResults], Verdict]) -> Callable[[StudyResults], Verdict]:
    """The same, *not asked* where the study has no such runs and *inconclusive* where none is evidence."""

    @functools.wraps(judge)
    def judged(study: StudyResults) -> Verdict:
        try:
            return judge(study)
        except NotAsked as error:
            return Verdict(NOT_ASKED, f"{error}.", is_absent=True)
        except NothingToShow as error:
            return Verdict(INCONCLUSIVE, f"{error}.", would_change="Runs that are evidence.", is_absent=True)

    return judged


def outcome_of(parts: Sequence[bool | None], premise: bool | None = True) -> str:
    """Of the parts of a claim, each of which holds, does not, or is not decided, and of what the claim presumes."""
    if premise is not True:
        return PREMISE_NOT_MET if premise is False else INCONCLUSIVE
    if True in parts and False in parts:
        return IN_PART
    if None in parts:
        return INCONCLUSIVE
    return REPRODUCED if True in parts else NOT_REPRODUCED


def judge_parts(
    parts: Sequence[Part],
    used: Iterable[Setting],
    *,
    numbers: str,
    conclusions: Mapping[str, str],
    premise: Part | None = None,
    more: Iterable[Evidence] = (),
    effect: Evidence | None = None,
    alpha: float = ALPHA,
) -> Verdict:
    """The outcome of a claim in parts.

    ``conclusions`` are sentences for outcomes, without their full stop; ``numbers`` follow. One that holds in part says
    where, and one that is not decided says which numbers do not decide.
    """
    asked = [*([premise] if premise else []), *parts]
    questions = [question for part in asked for question in part.questions]
    answers = [part.answer.at(alpha) for part in parts]
    presumed = premise.answer.at(alpha) if premise else True
    outcome = outcome_of(answers, presumed)
    condition, cases = "", {}
    if outcome == IN_PART:
        named = zip([HOLDS, FAILS, OPEN], [True, False, None], strict=True)
        cases = {words: _names(parts, answers, answer) for words, answer in named if answer in answers}
        lists = [f"{words} {'; '.join(names)}" for words, names in cases.items()]
        condition = lists[0]
        reason = f"{'. '.join(lists)}. {_sentence(numbers)}"
    elif outcome == INCONCLUSIVE:
        # What is presumed comes first: while that is open, nothing else matters.
        pending = premise.questions if premise and presumed is None else questions
        reason = f"{_open(pending, alpha)} {_sentence(numbers)}"
    else:
        reason = f"{conclusions[outcome]}: {numbers}."
    deciding = [question for part in parts for question in part.questions]
    if premise and presumed is not True:
        deciding, effect = list(premise.questions), None
    return Verdict(
        outcome,
        reason,
        tuple(dict.fromkeys([*(question.evidence for question in questions), *more])),
        _runs(used),
        effect or deciding[0].evidence,
        condition,
        cases,
        "" if outcome == INCONCLUSIVE else _sentence(numbers),
        _would_change(outcome, deciding, alpha),
        _p_value(outcome, [part.answer for part in parts], premise),
    )


def _sentence(numbers: str) -> str:
    return f"{numbers[0].upper()}{numbers[1:]}."


def _names(parts: Sequence[Part], answers: Sequence[bool | None], wanted: bool | None) -> tuple[str, ...]:
    """The parts with this answer."""
    return tuple(part.name for part, answer in zip(parts, answers, strict=True) if answer is wanted)


def verdict(
    questions: Sequence[Question],
    used: Iterable[Setting],
    *,
    holds: bool | Answer | None,
    conclusions: Mapping[bool, str],
    more: Iterable[Evidence] = (),
    effect: Evidence | None = None,
    alpha: float = ALPHA,
) -> Verdict:
    """The outcome of a claim that ``holds`` or not; ``conclusions`` are its reasons for yes and no.

    Where neither, the reason lists the numbers that do not decide.
    """
    answer = holds.at(alpha) if isinstance(holds, Answer) else holds
    outcome = outcome_of([answer])
    evidence = dict.fromkeys([*(question.evidence for question in questions), *more])
    return Verdict(
        outcome,
        _open(questions, alpha) if answer is None else conclusions[answer],
        tuple(evidence),
        _runs(used),
        effect or questions[0].evidence,
        would_change=_would_change(outcome, questions, alpha),
        p_value=_p_value(outcome, [holds], None) if isinstance(holds, Answer) else None,
    )


def _runs(used: Iterable[Setting]) -> tuple[str, ...]:
    return tuple(sorted({row["run"] for setting in used for row in setting.evidence}))


def _p_value(outcome: str, answers: Sequence[Answer], premise: Part | None) -> float | None:
    """The chance of the numbers if the outcome were wrong: that of its least certain part."""
    if outcome == INCONCLUSIVE:
        return None
    if outcome == PREMISE_NOT_MET:
        return premise.answer.p_no if premise else None
    if outcome == REPRODUCED:
        return max([answer.p_yes for answer in answers] + ([premise.answer.p_yes] if premise else []))
    if outcome == NOT_REPRODUCED:
        return max(answer.p_no for answer in answers)
    # That it holds somewhere, and somewhere does not: the surest of either.
    return max(min(answer.p_yes for answer in answers), min(answer.p_no for answer in answers))


def _open(questions: Sequence[Question], alpha: float, most: int = 3) -> str:
    """What keeps questions open."""
    undecided = [question for question in questions if question.answer.at(alpha) is None]
    if not undecided and questions:
        nearest = _nearest(questions)
        return (
            f"Too close to call with {len(questions)} questions at once (Holm), though each is decided on its own: the "
            f"closest is whether {format_evidence(nearest.evidence)} lies {nearest.border}."
        )
    few = [question.evidence for question in undecided if question.evidence.value.low is None]
    if few:
        return f"Too few seeds for an interval: {'; '.join(map(format_evidence, few[:most]))}."
    lines = [f"{format_evidence(one.evidence)} is not entirely {one.border}" for one in undecided[:most]]
    return f"Too close to call: {'; '.join(lines)}."


def _nearest(questions: Sequence[Question]) -> Question:
    """The least certain of those that are decided."""
    return max(questions, key=lambda one: min(one.answer.p_yes, one.answer.p_no))


def _would_change(outcome: str, questions: Sequence[Question], alpha: float) -> str:
    """What it would take: of what decided the number nearest to its border, of what did not any that is open."""
    if outcome == INCONCLUSIVE:
        pending = [question for question in questions if question.answer.at(alpha) is None] or [_nearest(questions)]
        return f"More seeds or longer chains, until {pending[0].evidence.label} lies {pending[0].border}."
    decided = [question for question in questions if question.answer.at(alpha) is not None] or questions
    nearest = _nearest(decided)
    return (
        f"The closest call is {format_evidence(nearest.evidence)}. The verdict would be open if that interval were not "
        f"entirely {nearest.border}."
    )


def contradictions(questions: Iterable[Question]) -> str:
    """The numbers that say no."""
    return "; ".join(format_evidence(question.evidence) for question in questions if question.holds is False)


def format_evidence(evidence: Evidence) -> str:
    """``sd ratio of naive 1.85 [1.71, 1.99]``"""
    return f"{evidence.label} {format_estimate(evidence.value)}{evidence.unit and ' ' + evidence.unit}"
