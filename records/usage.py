"""Where the processor time of a study went: ``python -m records.usage results/paper`` prints it.

Every step adds a line to ``usage.log`` in the study's folder when it ends, well or not; a process that was killed adds
none.
"""

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

Usage = dict[str, Any]

#: Kinds of work, and the steps whose time counts as that, but for what they name themselves.
WORK = {
    "sampling": "warm-up and steps of the chains",
    "compilation": "compiled loops, or looking them up in the cache",
    "imports": "starting processes, and their libraries",
    "audit": "checking decisions against all the data, with the compilation of that",
    "tuning": "pilots that find the step of a method: before its runs, and ahead of all seeds on whole networks",
    "files": "building samplers, the first state of chains, reading and writing",
    "networks": "data, training, modes and curvature",
    "references": "closed forms and gold standards",
    "evaluation": "metrics and curves",
    "timing": "the same step at several N, interleaved",
    "summary": "one row per run",
    "tracking": "MLflow",
    "report": "figures, tables, claims and the page",
    "snakemake": "reading the study, choosing and starting jobs",
}
#: The kind of work that the rest of a step's time counts as, besides the phases that it names.
REST = {
    "sample": "files",
    "network": "networks",
    "reference": "references",
    "tune": "tuning",
    "evaluate": "evaluation",
    "track": "tracking",
}
#: The kind of work of the processes that a step started, if it is another: compilers. Snakemake starts the other
#: steps, which have lines of their own.
OF_CHILDREN = {"sample": "compilation", "tune": "compilation", "snakemake": None}


class Meter:
    """Seconds of the phases that a step names, by the names of WORK."""

    def __init__(self) -> None:
        # Before this line there was Python itself, and what the step imports at its top.
        self.phases = {"imports": time.process_time()}

    def add(self, phase: str, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    @contextmanager
    def clock(self, phase: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.add(phase, time.process_time() - start)


@contextmanager
def metered(results: Path, step: str, what: str = "") -> Iterator[Meter]:
    """Add what this process has used, from its start to the end of the block, to the study's ``usage.log``."""
    meter = Meter()
    try:
        yield meter
    finally:
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
        line = {
            "step": step,
            "what": what,
            "cpu_s": time.process_time(),
            "children_s": of_children.ru_utime + of_children.ru_stime,
            "phases": meter.phases,
        }
        # No step fails for want of it.
        with suppress(OSError):
            results.mkdir(parents=True, exist_ok=True)
            with (results / "usage.log").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def read_usage(results: Path) -> list[Usage]:
    """The lines of a study; a line that was cut short is left out."""
    try:
        lines = (results / "usage.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    usages = []
    for line in lines:
        with suppress(ValueError, AttributeError):
            usage = json.loads(line)
            if {"step", "cpu_s", "children_s", "phases"} <= usage.keys():
                usages.append(usage)
    return usages


def budget(usages: Sequence[Usage]) -> dict[str, float]:
    """Seconds of each kind of WORK, the largest first; nothing where there are no records."""
    seconds: Counter[str] = Counter()
    for usage in usages:
        step, phases = str(usage["step"]), usage["phases"]
        rest = REST.get(step, step)
        seconds.update(phases)
        # The phases of a run that was killed and resumed include the time of the killed process.
        seconds[rest] += max(0.0, usage["cpu_s"] - sum(phases.values()))
        if (of_children := OF_CHILDREN.get(step, rest)) and usage["children_s"]:
            seconds[of_children] += usage["children_s"]
    return dict(seconds.most_common())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m records.usage", description="Where a study's time went.")
    parser.add_argument("results", type=Path, help="the folder of its results, results/<study>")
    arguments = parser.parse_args(argv)
    seconds = budget(read_usage(arguments.results))
    total = sum(seconds.values())
    if not seconds:
        print(f"{arguments.results} has no usage.log: run the study first", file=sys.stderr)
        return 2
    for kind, used in seconds.items():
        print(f"{kind:16} {used:8.1f} s {used / total:6.1%}  {WORK.get(kind, '')}")
    print(f"{'all':16} {total:8.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
