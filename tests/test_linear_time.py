"""Every parser of files and addresses takes about twice the time for twice the input, however hostile the input."""

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml

from implementations.infrastructure.artefact import read_arrays, read_record, write_arrays, write_record
from pbnn_bench.own_data import read_own_data
from reports.claim_file import parse_claims
from reports.findings import GUARD
from workflows.study import read_yaml
from workflows.tracking.client import hide

#: Twice is linear and four times quadratic; between them is the clock of a machine that has other things to do.
MOST = 3.2
SECRETS = "postgresql://me:{}@host/runs"
ADDRESS = SECRETS.format("s3cret")


def text(content: Callable[[int], str]) -> Callable[[Path, int], object]:
    return lambda path, size: path.write_text(content(size))


def record(path: Path, size: int) -> None:
    write_record(path, "run", {"rows": [{"a": number} for number in range(size)]})


def array(path: Path, size: int) -> None:
    write_arrays(path, "draws", {"x": np.zeros(size)}, {})


def arrays(path: Path, size: int) -> None:
    write_arrays(path, "draws", {f"x{number}": np.zeros(1) for number in range(size)}, {})


def own_arrays(path: Path, size: int) -> None:
    np.savez(path, features=np.zeros((size, 4)), targets=np.arange(size) % 3)


def claims(size: int) -> str:
    entry = {"seeds": 5, "rule": "a rule", "runs": [{"method": "pbnn"}] * 5, "above": 1.0}
    return yaml.safe_dump({"shared": {}, "claims": dict.fromkeys(range(size), entry)})


def secret(path: Path) -> str:
    return hide("an error", path.read_text())


#: What is read, from which kind of file, what writes one of a size, and a size that takes some hundredths of a second.
PARSERS: dict[str, tuple[Callable[[Path], object], str, Callable[[Path, int], object], int]] = {
    "keys": (read_yaml, ".yaml", text(lambda n: "".join(f"k{key}: 1e-{key % 9}\n" for key in range(n))), 800),
    "words": (read_yaml, ".yaml", text(lambda n: f"a: [{'word, ' * n}]"), 1000),
    "a long number": (read_yaml, ".yaml", text(lambda n: "a: " + "9" * n), 48_000),
    "a long number with points": (read_yaml, ".yaml", text(lambda n: "a: " + "0." * n), 24_000),
    "a long text": (read_yaml, ".yaml", text(lambda n: 'a: "' + "b\\n " * n + '"'), 6000),
    "anchors": (
        read_yaml,
        ".yaml",
        text(lambda n: "k: &a0 [1]\n" + "".join(f"k{k}: &a{k + 1} [*a{k}]\n" for k in range(n))),
        500,
    ),
    "a record": (lambda path: read_record(path, "run"), ".json", record, 40_000),
    "an array": (lambda path: read_arrays(path, "draws"), ".npz", array, 4_000_000),
    "many arrays": (lambda path: read_arrays(path, "draws"), ".npz", arrays, 300),
    "own arrays": (read_own_data, ".npz", own_arrays, 150_000),
    "a table": (
        read_own_data,
        ".csv",
        text(lambda n: "a,target\n" + "".join(f"{k / 7},{k % 3}\n" for k in range(n))),
        60_000,
    ),
    "a password": (secret, ".txt", text(lambda n: SECRETS.format("x@:/" * n)), 100_000),
    "a password of words": (secret, ".txt", text(lambda n: SECRETS.format("/".join(map(str, range(n))))), 3000),
    "options": (
        secret,
        ".txt",
        text(lambda n: "postgresql://host/runs?" + "".join(f"a{k}=b{k}&" for k in range(n))),
        500,
    ),
    "a long address": (secret, ".txt", text(lambda n: ADDRESS + "".join(f"/{k}" for k in range(n))), 10_000),
    "a long line": (lambda path: hide(path.read_text(), ADDRESS), ".txt", text(lambda n: ADDRESS * n), 15_000),
    "claims": (lambda path: parse_claims(path.read_text()), ".yaml", text(claims), 800),
    "guards": (lambda path: GUARD.findall(path.read_text()), ".md", text(lambda n: "<!-- if a " * n), 100_000),
}


def seconds(read: Callable[[Path], object], path: Path) -> float:
    """The best of three, of the processor."""
    found = []
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        # What is refused has been read too.
        with suppress(ValueError):
            read(path)
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.parametrize("name", PARSERS)
def test_twice_the_input_takes_about_twice_the_time(name, tmp_path):
    read, ending, write, size = PARSERS[name]
    path, times = tmp_path / f"file{ending}", []
    for factor in (1, 2):
        write(path, factor * size)
        times.append(seconds(read, path))
    # Below that the clock says little.
    assert times[1] < max(MOST * times[0], 0.03), times
