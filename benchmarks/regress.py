"""The regression gate: has a change made a sampler wrong or slow?  ``make regress``, or this module with --help.

Three tiers, each against its file in results/baselines, and an exit code for each:

2  exact        evaluations a step makes, and the decisions of both backends fed with numpy's random numbers. In double
                precision and for 200 steps, where the closest decision is far wider than rounding: processors differ
                in the last bits and must not differ here. The backends' own random numbers play no part.
3  statistical  acceptance, bias and calibration over 128 independent chains on two problems with a known answer:
                ``linear``, and ``two_classes`` for softmax. The chains' spread is the Monte Carlo error; how many of
                them a value may be off its baseline, or the exact answer where the method is exact, follows from a
                rate of false alarms: of a thousand changes that only draw other random numbers, one is stopped.
4  timing       ratios of work timed in turns in one process, so that they carry over between machines of a kind; one
                baseline per processor model, and for another model the most lenient of them. The threshold follows
                from repeated runs of unchanged code: one further run in a hundred exceeds it, and what does is
                measured again before it counts.
5  nothing was measured, or a baseline is missing or broken, or the command makes no sense

The first tier that fails decides.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.statistical import Rows
from benchmarks.tiers import TIERS, bound, together

ROOT = Path(__file__).parents[1]
BASELINES = ROOT / "results" / "baselines"
#: The exit code when there is nothing to judge.
NOTHING = 5
#: Repeated runs that the spread of timings is taken from.
NUM_REPEATS = 10


class NothingMeasured(Exception):
    """Why there is nothing to judge."""


def in_fresh_process(tier: str) -> Rows:
    """A tier's rows: compiled afresh, with the settings of a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PYTHONPATH")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Repeated runs compile once.
    environment |= {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / "results" / ".cache" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, "-m", "benchmarks.regress", "--tiers", tier, "--write", str(path)]
        ended = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        if ended.returncode:
            raise NothingMeasured(ended.stderr.strip() or f"the measurement ended with {ended.returncode}")
        rows: Rows = json.loads(path.read_text(encoding="utf-8"))
    return rows


def read_baseline(tier: str) -> Rows:
    path = BASELINES / f"{tier}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows: Rows = _for_this_processor(content["machines"]) if tier == "timing" else content["rows"]
        if not rows or TIERS[tier].judge(rows, rows):
            raise ValueError("its rows do not pass their own gate")
    except FileNotFoundError:
        raise NothingMeasured(f"no {path}; make it with --refresh") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise NothingMeasured(f"{path} is broken ({reason}); take it from git, or make it with --refresh") from None
    return rows


def _for_this_processor(machines: Sequence[dict[str, Any]]) -> Rows:
    """The rows of this processor model, or of another with the widest bound, and a warning about each difference.

    A ratio depends on the machine, if less than a time does.
    """
    this = origin()
    here = {"cpu": this["cpu"], "system": this["system"]} | this["versions"]
    names = dict.fromkeys(name for machine in machines for name in machine["rows"])
    rows: Rows = {}
    differences: dict[str, None] = {}
    for name in names:
        having = [machine for machine in machines if name in machine["rows"]]
        candidates = [machine for machine in having if machine["cpu"] == here["cpu"]] or having
        chosen = max(candidates, key=lambda machine: bound(machine["rows"][name], len(names)))
        rows[name] = chosen["rows"][name]
        there = chosen | chosen["versions"]
        if other := [f"{key} {there.get(key)}, here {here[key]}" for key in here if there.get(key) != here[key]]:
            differences["; ".join([*other, f"measured at commit {str(chosen['git_commit'])[:12]}"])] = None
    for difference in differences:
        message = f"a baseline is of {difference}. Where that matters, --refresh it here from the code as it was"
        print(f"timing: {message}", file=sys.stderr)
    return rows


def refresh(tier: str, source: Mapping[str, Any]) -> list[str]:
    """Make the baseline of a tier from the code as it is, unless that fails its own gate: what is wrong then."""
    from implementations.infrastructure.files import write_json

    path = BASELINES / f"{tier}.json"
    others = _other_processors(path, source["cpu"]) if tier == "timing" else []
    runs = [in_fresh_process(tier) for _ in range(NUM_REPEATS if tier == "timing" else 1)]
    rows = together(runs) if tier == "timing" else runs[0]
    if not rows:
        raise NothingMeasured("no rows")
    complaints = TIERS[tier].judge(rows, rows)
    if complaints:
        print(f"{tier}: not written, {len(complaints)} values do not pass", file=sys.stderr)
        return complaints
    for machine in others:
        # What is no longer measured is compared with nothing.
        machine["rows"] = {name: row for name, row in machine["rows"].items() if name in rows}
    content = {"rows": rows, **source}
    write_json(path, {"machines": [*others, content]} if tier == "timing" else content)
    note = ", of code that is in no commit yet" if source["git_is_dirty"] else ""
    print(f"{tier}: {len(rows)} rows written to {path}{note}")
    return []


def _other_processors(path: Path, cpu: str) -> list[dict[str, Any]]:
    """What the baseline of timing has of other processors, to be kept."""
    try:
        machines = json.loads(path.read_text(encoding="utf-8"))["machines"]
        return [machine for machine in machines if machine["cpu"] != cpu]
    except FileNotFoundError:
        return []
    except (ValueError, LookupError, TypeError) as error:
        raise NothingMeasured(
            f"{path} is broken ({type(error).__name__}: {error}), and has what other processors measured; take it from "
            "git, or delete it to start over"
        ) from None


def origin() -> dict[str, Any]:
    """Where a measurement comes from."""
    from implementations.infrastructure.provenance import git_state, machine, versions

    return {"versions": versions(), **git_state(), **machine()}


def check(tier: str) -> tuple[int, list[str]]:
    """Measure and judge one tier: how many rows, and what is wrong with them."""
    baseline, judge = read_baseline(tier), TIERS[tier].judge

    def measured() -> Rows:
        rows = in_fresh_process(tier)
        if not rows or rows.keys() != baseline.keys():
            odd = ", ".join(sorted(rows.keys() ^ baseline.keys()))
            raise NothingMeasured(
                f"measured {len(rows)} rows, the baseline has {len(baseline)}; not in both: {odd}. Rows that are meant "
                "to come or go need --refresh"
            )
        return rows

    rows = measured()
    complaints = judge(rows, baseline)
    if tier == "timing" and complaints:
        # Another program can spoil one run; a slower sampler is slower in the next as well.
        again = measured()
        slow = {name: row for name, row in rows.items() if judge({name: again[name]}, baseline)}
        complaints = judge(slow, baseline)
    return len(rows), complaints


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.regress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiers", nargs="+", choices=list(TIERS), default=list(TIERS), help="default: all three")
    parser.add_argument(
        "--refresh", action="store_true", help="renew the baselines; docs/performance.md says when one may"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="measure one tier, write its rows, judge nothing")
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:
        # argparse would leave with 2, which means something else here.
        return NOTHING if end.code else 0
    if arguments.write and len(arguments.tiers) > 1:
        print("--write takes one tier", file=sys.stderr)
        return NOTHING
    if arguments.write:
        arguments.write.write_text(json.dumps(TIERS[arguments.tiers[0]].measure()), encoding="utf-8")
        return 0
    # Before the first baseline is written, which itself changes the tree.
    source = origin() if arguments.refresh else {}
    code = 0
    for tier in arguments.tiers:
        try:
            if arguments.refresh:
                complaints = refresh(tier, source)
            else:
                count, complaints = check(tier)
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
