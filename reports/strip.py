"""The verdicts of a report in a few words each, for its first screen: what is claimed, and where it holds."""

import re
from collections.abc import Iterable, Sequence

from reports.types import Claim, Verdict

#: What the first screen calls a claim, by its id; of one that is not here, its whole statement.
SHORT = {
    1: "Without the penalty, mini-batches give the wrong distribution",
    2: "The penalty removes the bias of mini-batches",
    3: "Larger mini-batches: less noise, more moves accepted",
    4: "More mini-batches: less variance",
    5: "The penalty costs acceptance",
    6: "Small mini-batches calibrate an overconfident regression",
    7: "On MNIST PBNN is nearly as accurate as full data",
    8: "On MNIST PBNN is better calibrated than full data",
    9: "SGLD's answer depends on its step size, PBNN's does not",
    10: "Tempering gives another answer than PBNN",
    11: "The cost of a step does not grow with the data",
    12: "The noise becomes normal as mini-batches are added",
    13: "A smaller n calibrates an overconfident network on MNIST",
    14: "The variance of the noise differs from move to move",
    15: "A Langevin proposal mixes faster than a random walk",
    16: "Ceperley and Dewing's correction helps with few mini-batches",
    17: "PBNN samples the posterior of a Laplace prior",
    18: "A step that decays brings SGLD nearer to its target",
    19: "A Metropolis test rejects nearly all of SGLD's moves",
    20: "PBNN samples a network whose layers are all stochastic",
    21: "With control variates the cost of a draw does not grow with N",
    22: "The processor time of such a step hardly grows with N",
    23: "Chains with control variates sample the posterior of all data",
    24: "Such chains beat full data 20 times on mnist, 500 on flights",
    25: "Digits and mnist need a chain, flights do not",
    41: "Methods that are exact on paper are exact here",
    42: "With a small bias, mini-batches beat full data per evaluation",
    51: "Networks trained to overfit are overconfident",
    52: "Networks trained as their task asks are not overconfident",
    53: "The wider the prior, the more confident the network",
    54: "The n chosen on validation beats temperature scaling",
}
#: What is left of two that differ in such things only: ``at M=10 and at M=10``.
TWICE = re.compile(r"(\w+ \S+)(?: and \1\b)+")
#: Cases that are named; of more, their number is said.
MOST_CASES = 3
#: What the name of a case says beyond what is asked: what is in brackets, after a comma, and the estimate's fine print.
DETAIL = re.compile(r" \((?:[^()]|\([^()]*\))*\)|, \w+[^,]*?(?= and |$)| for a finite data set| at [\d.]+ %.*")


def short(claim: Claim) -> str:
    """Of a claim of the suite; one of a user's own may have the same number."""
    return SHORT[claim.id] if claim.registered and claim.id in SHORT else claim.statement.rstrip(".")


def where(verdict: Verdict) -> str:
    """Where a claim that holds in part does: ``with M=10; not with M=2; 4 cases too close to call``."""
    # Where it holds, and where it does not; the rest is only counted.
    holds, fails, *_ = verdict.cases.values()
    answers = [answer for _, answer in verdict.answers]
    plain = [list(dict.fromkeys(TWICE.sub(r"\1", DETAIL.sub("", name)) for name in names)) for names in (holds, fails)]
    # Details tell cases apart where nothing else does.
    told = plain if not set(plain[0]) & set(plain[1]) else [holds, fails]
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
