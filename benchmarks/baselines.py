"""The baselines in results/baselines: reading them, and making them again from the code as it is."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import processes, timing
from benchmarks.rows import NothingMeasured, Rows
from benchmarks.tiers import TIERS

BASELINES = processes.ROOT / "results" / "baselines"
#: Repeated runs that the spread of timings is taken from.
NUM_REPEATS = 10


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
    """The rows of this processor model; where it has none, those of another with the widest bound, and a word about it:
    a ratio depends on the machine, if less than a time does."""
    this = origin()
    here = {"cpu": this["cpu"], "system": this["system"]} | this["versions"]
    names = dict.fromkeys(name for machine in machines for name in machine["rows"])
    rows: Rows = {}
    differences: dict[str, None] = {}
    for name in names:
        having = [machine for machine in machines if name in machine["rows"]]
        candidates = [machine for machine in having if machine["cpu"] == here["cpu"]] or having
        bounds = [timing.bound(machine["rows"][name], len(names)) for machine in candidates]
        chosen = candidates[bounds.index(max(bounds))]
        rows[name] = chosen["rows"][name]
        there = chosen | chosen["versions"]
        other = [f"{key} {there.get(key)}, here {here[key]}" for key in here if there.get(key) != here[key]]
        if other:
            differences["; ".join([*other, f"measured at commit {str(chosen['git_commit'])[:12]}"])] = None
    for difference in differences:
        message = f"a baseline is of {difference}. Where that matters, --base COMMIT compares on this machine"
        print(f"timing: {message}", file=sys.stderr)
    return rows


def _other_processors(cpu: str) -> list[dict[str, Any]]:
    """What the baseline of timing has of other processors, to be kept."""
    path = BASELINES / "timing.json"
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


def refresh(tier: str, source: Mapping[str, Any]) -> list[str]:
    """Make the baseline of a tier from the code as it is, unless that fails its own gate: what is wrong then."""
    from implementations.infrastructure.files import write_json

    path = BASELINES / f"{tier}.json"
    others = _other_processors(source["cpu"]) if tier == "timing" else []
    runs = [processes.in_fresh_process(tier, processes.ROOT) for _ in range(NUM_REPEATS if tier == "timing" else 1)]
    rows = timing.together(runs) if tier == "timing" else runs[0]
    if not rows:
        raise NothingMeasured("no rows")
    complaints = TIERS[tier].judge(rows, rows)
    if complaints:
        print(f"{tier}: not written, {len(complaints)} values do not pass", file=sys.stderr)
    else:
        for machine in others:
            # What is no longer measured is compared with nothing.
            machine["rows"] = {name: row for name, row in machine["rows"].items() if name in rows}
        content = {"rows": rows, **source}
        write_json(path, {"machines": [*others, content]} if tier == "timing" else content)
        note = ", of code that is in no commit yet" if source["git_is_dirty"] else ""
        print(f"{tier}: {len(rows)} rows written to {path}{note}")
    return complaints


def origin() -> dict[str, Any]:
    """Where a measurement comes from."""
    from implementations.infrastructure.provenance import git_state, machine, versions

    return {"versions": versions(), **git_state(), **machine()}
