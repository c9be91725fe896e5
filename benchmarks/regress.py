"""The regression gate: has a change made a sampler wrong or slow?  ``make regress``, or this module with --help.

Three tiers, each against its file in results/baselines, and an exit code for each:

2  exact        evaluations a step makes, and the decisions of both backends fed with numpy's random numbers. In double
                precision and for 200 steps, where the closest decision is far wider than rounding: processors differ
                in the last bits and must not differ here. The backends' own random numbers play no part.
3  statistical  acceptance, bias and calibration over 128 independent chains on two problems with a known answer:
                ``linear``, and ``two_classes`` for softmax. The chains' spread is the Monte Carlo error; how many of
                them a value may be off its baseline, or the exact answer where the method is exact, follows from a
                rate of false alarms: of a thousand changes that only draw other random numbers, one is stopped.
4  timing       ratios of work timed by turns in one process, so that they carry over between machines of a kind; one
                baseline per processor model, and for another model the most lenient of them. The threshold follows
                from repeated runs of unchanged code: one further run in a hundred exceeds it, and what does is
                measured again before it counts.
5  nothing was measured, or a baseline is missing or broken, or the command makes no sense

The first tier that fails decides.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import baselines, processes
from benchmarks.rows import NothingMeasured
from benchmarks.tiers import TIERS

#: The exit code when there is nothing to judge.
NOTHING = 5


def check(tier: str, base: str | None) -> tuple[int, list[str]]:
    """Measure and judge one tier: how many rows, and what is wrong with them."""
    kept = baselines.read_baseline(tier)

    def judged() -> tuple[int, list[str]]:
        baseline = kept
        if tier == "timing" and base:
            before, rows = processes.timed_at(base)
            # The spread of unchanged code is the baseline's, the ratios are the base commit's. Means of two turns
            # differ by no more than one run from the mean of many, so the bound holds for them.
            baseline = {name: before[name] | {"ratios": kept[name]["ratios"]} for name in before.keys() & kept.keys()}
        else:
            rows = processes.in_fresh_process(tier, processes.ROOT)
        if not rows or rows.keys() != baseline.keys():
            odd = ", ".join(sorted(rows.keys() ^ baseline.keys()))
            raise NothingMeasured(
                f"measured {len(rows)} rows, the baseline has {len(baseline)}; not in both: {odd}. Rows that are meant "
                "to come or go need --refresh"
            )
        return len(rows), TIERS[tier].judge(rows, baseline)

    count, complaints = judged()
    if tier == "timing" and complaints:
        # Another program can spoil one run; a slower sampler is slower in the next as well.
        slow = {complaint.split(":")[0] for complaint in judged()[1]}
        complaints = [complaint for complaint in complaints if complaint.split(":")[0] in slow]
    return count, complaints


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.regress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiers", nargs="+", choices=list(TIERS), default=list(TIERS), help="default: all three")
    parser.add_argument(
        "--base", metavar="COMMIT", help="time that commit and the working tree by turns, and compare them"
    )
    parser.add_argument(
        "--refresh", action="store_true", help="renew the baselines; docs/performance.md says when one may"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="measure one tier, write its rows, judge nothing")
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:
        # argparse would leave with 2, which means something else here.
        return NOTHING if end.code else 0
    if (arguments.refresh and arguments.base) or (arguments.write and len(arguments.tiers) > 1):
        print("--refresh takes no --base, and --write takes one tier", file=sys.stderr)
        return NOTHING
    if arguments.write:
        arguments.write.write_text(json.dumps(TIERS[arguments.tiers[0]].measure()), encoding="utf-8")
        return 0
    # Before the first baseline is written, which itself changes the tree.
    origin = baselines.origin() if arguments.refresh else {}
    code = 0
    for tier in arguments.tiers:
        try:
            if arguments.refresh:
                complaints = baselines.refresh(tier, origin)
            else:
                count, complaints = check(tier, arguments.base)
                print(f"{tier}: {count} rows, {len(complaints)} of their values off")
        except NothingMeasured as error:
            print(f"{tier}: nothing measured: {error}", file=sys.stderr)
            code = code or NOTHING
            continue
        for complaint in complaints:
            print(f"  {complaint}", file=sys.stderr)
        if complaints:
            code = code or TIERS[tier].code
    return code


if __name__ == "__main__":
    sys.exit(main())
