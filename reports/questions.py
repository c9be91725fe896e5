"""Questions put to numbers: does an interval lie wholly where a claim says, wholly elsewhere, or across the border?

Every answer carries two p-values: the chance of such numbers if the answer were no (small: yes), and if it were yes
(small: no). At ALPHA they say the same as the 95 % interval; combinations correct them for how many were asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from metrics.seeds import ALPHA, p_above, p_below
from records.display import format_given
from reports.types import Evidence


@dataclass(frozen=True)
class Answer:
    """Yes where ``p_yes`` is small, no where ``p_no`` is; not both, as they cannot both be."""

    p_yes: float
    p_no: float

    @property
    def doubt(self) -> float:
        """The chance that it is wrong."""
        return min(self.p_yes, self.p_no)

    def at(self, alpha: float = ALPHA) -> bool | None:
        """The answer, wrong with a chance of ``alpha`` at most; None is not decided."""
        return True if self.p_yes <= alpha else False if self.p_no <= alpha else None


#: Of which nothing is known.
OPEN = Answer(1.0, 1.0)


@dataclass(frozen=True)
class Question:
    """One number, and whether it lies where the claim says; None is not decided."""

    evidence: Evidence
    holds: bool | None
    #: Where the interval would have to lie to decide.
    border: str
    answer: Answer = OPEN
    #: The ends of that place, one or two.
    margins: tuple[float, ...] = ()


def lies_above(evidence: Evidence, bound: float) -> Question:
    """Does the interval lie above ``bound``?"""
    answer = Answer(p_above(evidence.value, bound), p_below(evidence.value, bound))
    return Question(evidence, answer.at(), f"on one side of {format_given(bound)}", answer, (bound,))


def lies_below(evidence: Evidence, bound: float) -> Question:
    return negated(lies_above(evidence, bound))


def lies_within(evidence: Evidence, low: float, high: float) -> Question:
    """Does the interval lie between the bounds (yes), or apart from what is between them (no)?

    Yes takes two one-sided tests, against "at most low" and "at least high": the larger of their p-values counts.
    """
    value = evidence.value
    inside = max(p_above(value, low), p_below(value, high))
    answer = Answer(inside, min(p_below(value, low), p_above(value, high)))
    border = f"inside or outside {format_given(low)} to {format_given(high)}"
    return Question(evidence, answer.at(), border, answer, (low, high))


def negated(question: Question) -> Question:
    holds = None if question.holds is None else not question.holds
    return replace(question, holds=holds, answer=opposite(question.answer))


def opposite(answer: Answer) -> Answer:
    return Answer(answer.p_no, answer.p_yes)


def all_hold(answers: Sequence[Answer]) -> Answer:
    """Do all hold? One failure suffices for a no, so the more are asked, the surer it has to be (Holm's first step).

    For a yes every one has to pass, which needs no correction.
    """
    return Answer(
        max((one.p_yes for one in answers), default=1.0),
        min(1.0, len(answers) * min((one.p_no for one in answers), default=1.0)),
    )


def any_holds(answers: Sequence[Answer]) -> Answer:
    """Does one hold? The mirror image of ``all_hold``."""
    return opposite(all_hold([opposite(one) for one in answers]))


def answers_of(questions: Iterable[Question]) -> list[Answer]:
    return [question.answer for question in questions]
