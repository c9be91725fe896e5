"""What a study says about a claim: the outcome of its questions, and the reason in words."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from metrics.seeds import ALPHA
from records.display import format_estimate
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.questions import OPEN as UNKNOWN
from reports.questions import Answer, Question, all_hold, answers_of, any_holds
from reports.types import (
    IN_PART,
    INCONCLUSIVE,
    NOT_ASKED,
    NOT_REPRODUCED,
    PREMISE_NOT_MET,
    REPRODUCED,
    Decider,
    Evidence,
    NotAsked,
    NothingToShow,
    Verdict,
)

#: What is said before the names of parts.
HOLDS, FAILS, OPEN = "It holds", "It does not hold", "Too close to call"


#: How the answers of questions make one.
Combine = Callable[[Sequence[Answer]], Answer]


@dataclass(frozen=True)
class Part:
    """One of the things that a claim says, which can hold where others do not."""

    #: Where or when, to follow "it holds" and "it does not hold".
    name: str
    questions: tuple[Question, ...]
    combine: Combine = all_hold
    #: The beginning of the name that it shares with others, which are then listed together.
    topic: str = ""

    @classmethod
    def of(cls, name: str, *questions: Question, topic: str = "") -> "Part":
        """One that holds where all its questions do."""
        return cls(name, questions, topic=topic)

    @cached_property
    def answer(self) -> Answer:
        return self.combine(answers_of(self.questions))

    def without(self, number: Evidence) -> "Part":
        """The same where this number decides nothing."""
        questions = (replace(one, answer=UNKNOWN) if one.evidence == number else one for one in self.questions)
        return replace(self, questions=tuple(questions))

    def pending(self, alpha: float) -> list[Question]:
        """The questions that keep it open; all, where each is decided on its own and their number leaves it open."""
        if self.answer.at(alpha) is not None:
            return []
        return [one for one in self.questions if one.answer.at(alpha) is None] or list(self.questions)


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
    used: Iterable[SettingRuns],
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
    where, and one that is not decided says which numbers do not decide. Each part is judged at the whole level.
    """
    outcome = _outcome(parts, premise, alpha)
    condition, cases = "", {}
    if outcome == IN_PART:
        answers = [part.answer.at(alpha) for part in parts]
        named = zip([HOLDS, FAILS, OPEN], [True, False, None], strict=True)
        cases = {words: _names(parts, answer, alpha) for words, answer in named if answer in answers}
        lists = [f"{words} {'; '.join(names)}" for words, names in cases.items()]
        condition = lists[0]
        reason = f"{'. '.join(lists)}. {_sentence(numbers)}"
    elif outcome == INCONCLUSIVE:
        reason = f"{_open(_pending(parts, premise, alpha), alpha)} {_sentence(numbers)}"
    else:
        reason = f"{conclusions[outcome]}: {numbers}."
    found = _verdict(reason, parts, used, premise=premise, more=more, effect=effect, alpha=alpha)
    said = "" if outcome == INCONCLUSIVE else _sentence(numbers)
    return replace(found, condition=condition, cases=cases, numbers=said)


def verdict(
    questions: Sequence[Question],
    used: Iterable[SettingRuns],
    *,
    conclusions: Mapping[bool, str],
    combine: Combine = all_hold,
    more: Iterable[Evidence] = (),
    effect: Evidence | None = None,
    alpha: float = ALPHA,
) -> Verdict:
    """The outcome of a claim that holds or not; ``conclusions`` are its reasons for yes and no.

    Where neither, the reason lists the numbers that do not decide.
    """
    whole = Part("", tuple(questions), combine)
    answer = whole.answer.at(alpha)
    reason = _open(whole.pending(alpha), alpha) if answer is None else conclusions[answer]
    return _verdict(reason, [whole], used, more=more, effect=effect, alpha=alpha)


def _verdict(
    reason: str,
    parts: Sequence[Part],
    used: Iterable[SettingRuns],
    *,
    more: Iterable[Evidence],
    effect: Evidence | None,
    alpha: float,
    premise: Part | None = None,
) -> Verdict:
    """All of a verdict that follows from its parts."""
    outcome = _outcome(parts, premise, alpha)
    asked = [*([premise] if premise else []), *parts]
    deciding: Sequence[Part] = parts
    if premise and premise.answer.at(alpha) is not True:
        deciding, effect = [premise], None
    pending = _pending(parts, premise, alpha)
    counts = [question.evidence.value.num_seeds for part in deciding for question in part.questions]
    return Verdict(
        outcome,
        reason,
        tuple(dict.fromkeys([*(one.evidence for part in asked for one in part.questions), *more])),
        _runs(used),
        effect or _effect(outcome, deciding, pending, alpha),
        would_change=_would_change(outcome, parts, premise, alpha),
        p_value=_p_value(outcome, parts, premise, alpha),
        answers=tuple((part.name, part.answer.at(alpha)) for part in parts),
        undecided=tuple(sorted({run for question in pending for run in question.evidence.value.runs})),
        num_open_seeds=max((question.evidence.value.num_seeds for question in pending), default=0),
        num_seeds=(min(counts), max(counts)),
        deciders=tuple(dict.fromkeys(Decider(one.evidence, one.margins) for part in asked for one in part.questions)),
    )


def _outcome(parts: Sequence[Part], premise: Part | None, alpha: float) -> str:
    return outcome_of([part.answer.at(alpha) for part in parts], premise.answer.at(alpha) if premise else True)


def _pending(parts: Sequence[Part], premise: Part | None, alpha: float) -> list[Question]:
    """The questions that keep parts open. What is presumed comes first: while that is open, nothing else matters."""
    if premise and premise.answer.at(alpha) is not True:
        return premise.pending(alpha)
    return [question for part in parts for question in part.pending(alpha)]


def _effect(outcome: str, parts: Sequence[Part], pending: Sequence[Question], alpha: float) -> Evidence:
    """A number that speaks for the outcome: where the claim holds, if it does anywhere."""
    if outcome == INCONCLUSIVE:
        return pending[0].evidence
    holding = [part for part in parts if part.answer.at(alpha)] if outcome == IN_PART else parts
    return holding[0].questions[0].evidence


def _sentence(numbers: str) -> str:
    return f"{numbers[0].upper()}{numbers[1:]}."


def _names(parts: Sequence[Part], wanted: bool | None, alpha: float) -> tuple[str, ...]:
    """The parts with this answer, by topic: ``on linear with M=2 and with M=5``.

    Of one that would be decided if there were one look only, that too.
    """
    topics: dict[str, list[str]] = {}
    for part in parts:
        if part.answer.at(alpha) is wanted:
            level = _at_level(alpha) if _is_looks(part.answer, alpha) else ""
            # One without a topic is its own.
            topic = part.topic or part.name
            topics.setdefault(topic, []).append((part.name.removeprefix(topic) + level).strip())
    return tuple(f"{topic} {' and '.join(details)}".strip() for topic, details in topics.items())


def _is_looks(answer: Answer, alpha: float) -> bool:
    """Is it open because there are several looks?"""
    return answer.at(alpha) is None and answer.at(ALPHA) is not None


def _at_level(alpha: float) -> str:
    return f" at {100 * (1 - 2 * alpha):.4g} %, the level of each look"


def _runs(used: Iterable[SettingRuns]) -> tuple[str, ...]:
    return tuple(sorted({row["run"] for setting in used for row in setting.evidence}))


def _p_value(outcome: str, parts: Sequence[Part], premise: Part | None, alpha: float) -> float | None:
    """The chance of the numbers if the outcome were wrong, that of its least certain part, at all looks together."""
    answers = [part.answer for part in parts]
    if outcome == INCONCLUSIVE:
        return None
    if premise and outcome == PREMISE_NOT_MET:
        found = premise.answer.p_no
    elif outcome == REPRODUCED:
        found = max([answer.p_yes for answer in answers] + ([premise.answer.p_yes] if premise else []))
    elif outcome == NOT_REPRODUCED:
        found = max(answer.p_no for answer in answers)
    else:
        # That it holds somewhere, and somewhere does not. One part suffices for either, so both are corrected for how
        # many there are (Holm's first step).
        found = max(any_holds(answers).p_yes, all_hold(answers).p_no)
    return min(1.0, found * ALPHA / alpha)


def _open(pending: Sequence[Question], alpha: float, most: int = 3) -> str:
    """What keeps questions open."""
    undecided = [question for question in pending if question.answer.at(alpha) is None]
    if not undecided:
        nearest = max(pending, key=lambda one: one.answer.doubt)
        return (
            f"Too close to call with {len(pending)} questions at once (Holm), though each is decided on its own: the "
            f"closest is whether {format_evidence(nearest.evidence)} lies {nearest.border}."
        )
    few = [question.evidence for question in undecided if question.evidence.value.low is None]
    if few:
        return f"Too few seeds for an interval: {'; '.join(map(format_evidence, few[:most]))}."
    lines = [
        f"{format_evidence(one.evidence)} is not entirely {one.border}"
        + (_at_level(alpha) if _is_looks(one.answer, alpha) else "")
        for one in undecided[:most]
    ]
    return f"Too close to call: {'; '.join(lines)}."


def _would_change(outcome: str, parts: Sequence[Part], premise: Part | None, alpha: float) -> str:
    """What it would take: of what is open, which numbers; of what is decided, the least certain that it hangs on."""
    if outcome == INCONCLUSIVE:
        first, *others = sorted(_pending(parts, premise, alpha), key=lambda one: -one.answer.doubt)
        more = f", and {len(others)} more where the rule says" if others else ""
        return f"More seeds or longer chains, until {first.evidence.label} lies {first.border}{more}."
    asked = [*([premise] if premise else []), *parts]
    decided = [one for part in asked for one in part.questions if one.answer.at(alpha) is not None]
    for question in sorted(decided, key=lambda one: -one.answer.doubt):
        opened = [part.without(question.evidence) for part in parts]
        if _outcome(opened, premise and premise.without(question.evidence), alpha) != outcome:
            return (
                f"The closest call that counts is {format_evidence(question.evidence)}. The verdict would be open if "
                f"that interval were not entirely {question.border}."
            )
    return "No single number: if any one of them were open, the verdict would be the same."


def format_evidence(evidence: Evidence) -> str:
    """``sd ratio of naive 1.85 [1.71, 1.99]``"""
    return f"{evidence.label} {format_estimate(evidence.value)}{evidence.unit and ' ' + evidence.unit}"
