"""Check that no number changed; with ``--record`` the present numbers become the golden ones.

Bits depend on the processor and on versions of packages: on others, draws and the smoke study are not compared.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

from implementations.infrastructure.provenance import machine, versions
from tests.golden import Entry, differences, load, save, smoke, verdicts

MOST_LINES = 20
CACHE = smoke.ROOT / "results" / ".cache" / "golden"


def short_chains() -> list[Entry]:
    """The chains of ``tests.golden.draws``, in a fresh process whose environment does not depend on the caller's."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PJRT_NPROC"), "1")
    environment = os.environ | one_thread
    environment |= {
        # Those of a job that samples, from the first use of jax on.
        "XLA_FLAGS": "--xla_backend_optimization_level=2 --xla_cpu_multi_thread_eigen=false",
        "JAX_COMPILATION_CACHE_DIR": str(CACHE / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TORCHINDUCTOR_CACHE_DIR": str(CACHE / "torch"),
    }
    command = [sys.executable, "-m", "tests.golden.draws"]
    done = subprocess.run(command, cwd=smoke.ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return [(key, values) for key, values in json.loads(done.stdout)]


PARTS: dict[str, Callable[[], Iterable[Entry]]] = {
    "verdicts": verdicts.entries,
    "draws": short_chains,
    "smoke": smoke.entries,
}


def origin() -> dict[str, object]:
    """What bits depend on."""
    here = machine()
    return {"cpu": here["cpu"], "system": here["system"], "versions": versions()}


def check(part: str) -> list[str]:
    """Compare a part with what was recorded: one line for each entry that differs."""
    recorded, about = load(part)
    if part != "verdicts" and about != origin():
        print(f"{part}: recorded on another processor or with other versions, not compared")
        return []
    started = time.monotonic()
    lines = differences(PARTS[part](), recorded, smoke.DROPPED)
    print(f"{part}: {len(lines)} of {len(recorded)} entries differ, {time.monotonic() - started:.0f} s", flush=True)
    return [f"{part}: {line}" for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="make the present numbers the golden ones")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="these parts alone")
    arguments = parser.parse_args()
    if arguments.record:
        for part in arguments.only:
            save(part, PARTS[part](), {} if part == "verdicts" else origin())
        return 0
    lines = [line for part in arguments.only for line in check(part)]
    for line in lines[:MOST_LINES]:
        print(line, file=sys.stderr)
    if len(lines) > MOST_LINES:
        print(f"and {len(lines) - MOST_LINES} more", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
