"""The verdicts of a report in a few words each, for its first screen: what is claimed, and where it holds."""

import re
from collections.abc import Iterable, Mapping, Sequence

from reports.types import Claim

#: What the first screen calls a claim, by its id; of one that is not here, its whole statement.
SHORT = {
    1: "Without the penalty, mini-batches give the wrong distribution",
    2: "The penalty removes this bias",
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
    22: "Nor does the processor time of a step",
    23: "Such chains sample the posterior of all data",
    24: "They are 20 times as fast as full data on mnist, 500 on flights",
    25: "Digits and mnist need a chain, flights do not",
    41: "Methods that are exact on paper are exact here",
    42: "With a small bias, mini-batches beat full data per evaluation",
    51: "Networks trained to overfit are overconfident",
    52: "Networks trained as their task asks are not",
    53: "The wider the prior, the more confident the network",
    54: "The n chosen on validation beats temperature scaling",
}
#: Cases that are named; of more, their number is said.
MOST_CASES = 3
#: What a case says beyond its first words: `` with M=10, N finite``, `` on linear (N = 1,000)``.
DETAIL = re.compile(r", .*| \(.*| at [\d.]+ %.*")


def short(claim: Claim) -> str:
    """Of a claim of the suite; one of a user's own may have the same number."""
    return SHORT[claim.id] if claim.registered and claim.id in SHORT else claim.statement.rstrip(".")


def where(cases: Mapping[str, Sequence[str]]) -> str:
    """Where a claim holds and where not, in a line: ``with M=10; not with M=2; 4 cases too close to call``.

    ``cases`` are those of a verdict, in its order: where it holds, where it does not, what is too close to call.
    """
    if not cases:
        return ""
    holds, fails, *still_open = cases.values()
    plain = [list(dict.fromkeys(DETAIL.sub("", name) for name in names)) for names in (holds, fails)]
    # Details tell cases apart where nothing else does.
    told = plain if not set(plain[0]) & set(plain[1]) else [holds, fails]
    words = [_named(told[0]), f"not {_named(told[1])}"]
    if still_open:
        amount = len(still_open[0])
        words.append(f"{amount} case{'' if amount == 1 else 's'} too close to call")
    return "; ".join(words)


def _named(names: Sequence[str]) -> str:
    """``on linear with M=5 and M=10, on regression with M=40``, or how many cases."""
    ends: dict[str, list[str]] = {}
    for name in names:
        start, _, end = name.rpartition(" ")
        ends.setdefault(start, []).append(end)
    if len(names) > MOST_CASES:
        return f"in {len(names)} cases"
    return ", ".join(f"{start} {_listed(found)}".strip() for start, found in ends.items())


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
