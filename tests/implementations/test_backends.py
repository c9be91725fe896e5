"""One thread, and flags of XLA that all count, those of the user last; the environment stays as it was."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from implementations.backends import use_one_thread

# Twice, as a process with several samplers does.
use_one_thread("jax-cpu")
use_one_thread("jax-cpu")

import jax

jax.jit(lambda x: x + 1)(1.0).block_until_ready()
"""

#: The threads that XLA has made for its work.
COUNT_THREADS = """
from pathlib import Path

print(sum("XLAEigen" in path.read_text() for path in Path("/proc/self/task").glob("*/comm")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the names of threads")
def test_xla_works_on_one_thread():
    command = [sys.executable, "-c", PROGRAM + COUNT_THREADS]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "1\n"


def test_sampling_leaves_the_environment_as_it_was():
    program = """
import os

from implementations.sampling import sample
from implementations.tasks import prepare

before = dict(os.environ)
sample(prepare("linear", 0), "pbnn", {"num_steps": 10, "num_warmup": 0}, is_audited=False)
assert dict(os.environ) == before, dict(os.environ).items() ^ before.items()
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PJRT_NPROC")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def flags_in_use(folder, given):
    """What XLA compiled with, as it wrote it down itself; values that are its defaults are left out."""
    environment = os.environ | {"XLA_FLAGS": f"{given} --xla_dump_to={folder}", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)
    return "".join(path.read_text() for path in folder.glob("*debug_options"))


def test_xla_takes_every_flag(tmp_path):
    found = flags_in_use(tmp_path, "")
    assert "xla_cpu_multi_thread_eigen: false" in found
    assert "xla_backend_optimization_level: 2" in found


def test_a_flag_of_the_user_stays(tmp_path):
    found = flags_in_use(tmp_path, "--xla_backend_optimization_level=1 --xla_cpu_multi_thread_eigen=false")
    assert "xla_backend_optimization_level: 1" in found
    assert "xla_cpu_multi_thread_eigen: false" in found
