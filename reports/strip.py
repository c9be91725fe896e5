"""The verdicts of a report in a few words each, for its first screen: what is claimed, and where it holds."""

import re
from collections.abc import Iterable, Sequence

from reports.types import Claim, Verdict

#: What is left of two that differ in such things only: ``at M=10 and at M=10``.
TWICE = re.compile(r"(\w+ \S+)(?: and \1(?!\S))+")
#: Cases that are named; of more, their number is said.
MOST_CASES = 3
#: What the name of a case says beyond what is asked: what is in brackets, after a comma, and the estimate's fine print.
DETAIL = re.compile(r" \((?:[^()]|\([^()]*\))*\)|, \w+[^,]*?(?= and |$)| for a finite data set| at [\d.]+ %.*")


def short(claim: Claim) -> str:
    """What the first screen calls a claim."""
    return claim.short or claim.statement.rstrip(".")


def where(verdict: Verdict) -> str:
    """Where a claim that holds in part does: ``with M=10; not with M=2; 4 cases too close to call``."""
    # Where it holds, and where it does not; the rest is only counted.
    holds, fails, *_ = verdict.cases.values()
    answers = [answer for _, answer in verdict.answers]
    plain = [list(dict.fromkeys(TWICE.sub(r"\1", DETAIL.sub("", name)) for name in names)) for names in (holds, fails)]
    told: list[Sequence[str]] = [*plain]
    # Details tell cases apart where nothing else does; many of them are for the verdict itself.
    if set(plain[0]) & set(plain[1]):
        if max(len(holds), len(fails)) > MOST_CASES:
            return f"in {answers.count(True)} of {len(answers)} cases"
        told = [holds, fails]
    words = [_named(told[0], answers.count(True)), f"not {_named(told[1], answers.count(False))}"]
    if amount := answers.count(None):
        words.append(f"{amount} case{'' if amount == 1 else 's'} too close to call")
    return "; ".join(words)


def _named(names: Sequence[str], num_cases: int) -> str:
    """``on linear with M=5 and M=10, on regression with M=40``, or how many cases."""
    if len(names) > MOST_CASES:
        return f"in {num_cases} cases"
    ends: dict[str, list[str]] = {}
    for name in names:
        start, _, end = name.rpartition(" ")
        ends.setdefault(start, []).append(end)
    return ", ".join(f"{start} {_listed(found)}".strip() for start, found in ends.items())


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
