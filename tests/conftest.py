"""Settings of the whole test suite: one thread a process, and the same examples on every run."""

import os

from hypothesis import settings

# Set before a test imports numpy, torch or jax: pytest-xdist runs several processes, and threads that compete for
# the same cores make all of them slower.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# Tests compile many small programs and run each for a moment: half the compile time, the same results.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=2 --xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

# No deadline: the first example pays for a compilation.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")
