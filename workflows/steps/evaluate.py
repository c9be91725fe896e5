"""Evaluate runs of one problem: metrics.json and curves.npz beside each run's draws."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from implementations.files import read_npz, write_json, write_npz
from workflows.evaluation import evaluate
from workflows.failures import load_problem, load_reference, reason_of
from workflows.locks import hold


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.steps.evaluate", description=__doc__)
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, metavar="RUN.JSON")
    parser.add_argument("--references", type=Path, nargs="+", required=True, help="one for each run, at its weight")
    parser.add_argument("--out", type=Path, required=True, help="a file that stands for all of them")
    arguments = parser.parse_args(argv)
    hold(arguments.out.parent, is_patient=True)
    pairs = list(zip(arguments.runs, arguments.references, strict=True))
    pending = {run: (sha256, reference) for run, reference in pairs if (sha256 := pending_sha256(run, reference))}
    for number, (path, (sha256, reference)) in enumerate(pending.items(), start=1):
        print(f"{number} of {len(pending)}: {path.parent}", file=sys.stderr, flush=True)
        write_json(
            path.with_name("metrics.json"), {"inputs_sha256": sha256, **outcome(arguments.problem, path, reference)}
        )
    arguments.out.touch()
    return 0


def pending_sha256(path: Path, reference: Path) -> str | None:
    """A checksum of what the evaluation depends on, unless the metrics on file are of that already."""
    # A run.json has the time of its run in it, and so stands for the draws beside it.
    sha256 = hashlib.sha256(path.read_bytes() + reference.read_bytes()).hexdigest()
    try:
        on_file = json.loads(path.with_name("metrics.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return sha256
    return None if on_file["inputs_sha256"] == sha256 and not on_file["failure"] else sha256


def outcome(problem: Path, path: Path, reference: Path) -> dict[str, Any]:
    """The metrics of a run, its curves written beside it; none of a run that did not end well."""
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["status"] != "ok":
        return {"failure": None}
    try:
        arrays = read_npz(path.with_name("draws.npz"))
        metrics, curves = evaluate(load_problem(problem), record, arrays, load_reference(reference))
    except Exception as error:
        return {"failure": reason_of(error)}
    write_npz(path.with_name("curves.npz"), curves)
    return {"failure": None, **metrics}


if __name__ == "__main__":
    sys.exit(main())
