"""A tier measured in a fresh process: of the code as it is, or of another commit."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks import timing
from benchmarks.rows import NothingMeasured, Rows

ROOT = Path(__file__).parents[1]
#: Runs of base and head, by turns.
NUM_TURNS = 2


def in_fresh_process(tier: str, root: Path) -> Rows:
    """A tier's rows from the code in ``root``: compiled afresh, with the settings of a process of its own."""
    settings = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Repeated runs compile once.
    settings |= {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / "results" / ".cache" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, "-m", "benchmarks.regress", "--tiers", tier, "--write", str(path)]
        environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PYTHONPATH")}
        ended = subprocess.run(command, cwd=root, env=environment | settings, stderr=subprocess.PIPE, text=True)
        if ended.returncode:
            raise NothingMeasured(ended.stderr.strip() or f"the measurement ended with {ended.returncode}")
        rows: Rows = json.loads(path.read_text(encoding="utf-8"))
    return rows


def timed_at(commit: str) -> tuple[Rows, Rows]:
    """Timing rows of a base commit and of the working tree, measured by turns with the working tree's benchmarks."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
        if archive.returncode:
            raise NothingMeasured(f"--base {commit}: {archive.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(base, filter="data")
        shutil.copytree(ROOT / "benchmarks", base / "benchmarks", dirs_exist_ok=True)
        before, after = [], []
        for _ in range(NUM_TURNS):
            # First, so that benchmarks which run nowhere are not put down to the base's age.
            after.append(in_fresh_process("timing", ROOT))
            try:
                before.append(in_fresh_process("timing", base))
            except NothingMeasured as error:
                reason = str(error).splitlines()[-1]
                raise NothingMeasured(f"--base {commit}: older than the benchmarks can measure: {reason}") from None
    return timing.together(before), timing.together(after)
