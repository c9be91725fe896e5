"""The verdicts of a report in a few words each, for its first screen: what is claimed, and where it holds."""

import re
from collections.abc import Iterable, Iterator, Sequence

from reports.types import Claim, Verdict

#: Cases that are named; of more, their number is said.
MOST_CASES = 3
#: What the name of a case says beyond what is asked: what is in brackets, after a comma, and the estimate's fine print.
DETAIL = re.compile(r" \((?:[^()]|\([^()]*\))*\)|, \w+[^,]*?(?= and |$)| for a finite data set| at [\d.]+ %.*")


def short(claim: Claim) -> str:
    """What the first screen calls a claim."""
    return claim.short or claim.statement.rstrip(".")


def where(verdict: Verdict) -> str:
    """Where a claim that holds in part does: ``with M=10; not with M=2; mixed with M=5; 4 cases too close to call``."""
    # Where it holds, and where it does not; the rest is only counted.
    holds, fails, *_ = verdict.cases.values()
    answers = [answer for _, answer in verdict.answers]
    plain = [list(dict.fromkeys(item for name in names for item in _items(name))) for names in (holds, fails)]
    mixed = [item for item in plain[0] if item in plain[1]]
    told = [[item for item in items if item not in mixed] for items in plain]
    # Details tell cases apart where nothing else does; many of them are for the verdict itself.
    if not any(told):
        if max(len(holds), len(fails)) > MOST_CASES:
            return f"in {answers.count(True)} of {len(answers)} cases"
        told, mixed = [list(holds), list(fails)], []
    named = {
        "": _named(told[0], answers.count(True)),
        "not ": _named(told[1], answers.count(False)),
        "mixed ": _named(mixed, len(mixed)),
    }
    words = [start + text for start, text in named.items() if text]
    if amount := answers.count(None):
        words.append(f"{amount} case{'' if amount == 1 else 's'} too close to call")
    return "; ".join(words)


def _items(name: str) -> Iterator[str]:
    """``on linear with M=2 and with M=5`` as two, each whole and without details."""
    first, *others = DETAIL.sub("", name).split(" and ")
    yield first
    for other in others:
        *start, _ = first.rsplit(" ", len(other.split()))
        # One that begins like the first is whole by itself: ``on linear and on mnist``.
        yield other if other.split()[0] == first.split()[0] else f"{start[0] if start else ''} {other}".strip()


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
