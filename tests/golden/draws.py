"""Short chains of every method in every library on this machine; run in a process of its own, with fixed flags."""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.known_problems import known_problem
from benchmarks.statistical import LIVELY
from implementations.methods import METHODS, find_method
from implementations.sampling import sample
from implementations.tasks import prepare
from tests.golden import Entry

SHORT = {"chains": 2, "num_steps": 200, "num_warmup": 100, "thin": 2}
#: Beside those of ``LIVELY``: a method that needs validation points, a card from a file, and settings that pilots find.
MORE: list[tuple[str, str, dict[str, Any]]] = [
    ("logistic", "temperature", {}),
    ("linear", "tests/plugins/barker.py:CARD", {}),
    ("linear", "full_mh", {"step_size": "auto"}),
    ("linear", "pbnn", {"batch_size": 5, "num_batches": "auto", "step_size": "auto", "weight": 20}),
    ("linear", "pbnn", {"batch_size": 5, "variance": "points", "dtype": "float64", "weight": 20}),
]


def digests(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The first half of the SHA-256 of each array: its bytes, type and shape."""
    found = {}
    for name, array in arrays.items():
        head = f"{array.dtype.str} {array.shape} ".encode()
        found[name] = hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:32]
    return found


def entries() -> Iterator[Entry]:
    """Draws, audits and counts of short runs."""
    lively = [(task, method, given) for task, methods in LIVELY.items() for method, given in methods.items()]
    assert {method for _, method, _ in lively + MORE} >= METHODS.keys(), "a method has no golden chain"
    for task, method, given in lively + MORE:
        problem = prepare(task, 0, num_points=200, progress=False) if task == "logistic" else known_problem(task)
        for library in find_method(method).libraries:
            sampled = sample(problem, method, SHORT | given, f"{library}-cpu", seed=1)
            draws, progress = sampled.draws, sampled.progress
            arrays = {"positions": draws.positions, "acceptance": draws.acceptance, "variance": draws.variance}
            values = {
                "status": sampled.status,
                "acceptance_rate": float(draws.acceptance.mean(dtype=float)),
                "num_likelihoods": progress.num_likelihoods,
                "num_gradients": progress.num_gradients,
                "chosen": None if progress.tuning is None else progress.tuning["chosen"],
                **digests(arrays | {f"audit_{name}": array for name, array in sorted(sampled.audit.items())}),
            }
            yield {"task": task, "method": method, "settings": given, "library": library}, values


if __name__ == "__main__":
    json.dump(list(entries()), sys.stdout)
