"""Settings of the whole test suite, and the problems that many tests share."""

import gc
import os
from functools import cache
from itertools import count

import pytest
from _pytest.nodeid import NodeId
from hypothesis import settings

from tests.workflows.snakemake import COMPILED

# Set before a test imports numpy, torch or jax: pytest-xdist runs several processes, and threads that compete for
# the same cores make all of them slower.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# Tests compile many small programs and run each for a moment: a quarter of the compile time, steps that take twice as
# long, the same results up to rounding. Studies, benchmarks and the gate do without the last two.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=2 --xla_cpu_multi_thread_eigen=false"
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
)
# Half the time of the suite is compilation. What one process has compiled serves all others, those of studies and of
# later calls among them; `make clean` takes it away.
os.environ |= {
    "JAX_COMPILATION_CACHE_DIR": str(COMPILED / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "TORCHINDUCTOR_CACHE_DIR": str(COMPILED / "torch"),
}
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

#: Modules whose tests were begun so far, and begun again.
MODULES = count()
# Compiling makes many objects and hardly any garbage.
gc.set_threshold(50_000, 20, 100)

# No deadline: the first example pays for a compilation.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


# Before xdist reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first, or one process would wait for them at the end; what shares work, in one process."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None:
            group = _shared_by(item)
            if group:
                item.add_marker(pytest.mark.xdist_group(group))
    if config.getoption("loadgroup", False):
        for item in items:
            mark = item.get_closest_marker("xdist_group")
            if mark is not None:
                # xdist 3.8 names a test's group in an attribute that pytest 9.2 does not read any more, so that each
                # process would make every module's fixtures and compile every method.
                item._id = NodeId.parse(f"{item.nodeid}@{mark.args[0]}")


def _shared_by(item: pytest.Function) -> str:
    """A name for the tests that share this one's fixtures of the module, or the compiled code of its method."""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    if any(definition[-1].scope == "module" for definition in definitions):
        return item.path.name
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    method, backend = parameters.get("method"), parameters.get("backend", "")
    return f"{item.path.name} {method} {backend}" if isinstance(method, str) else ""


def compile_audits_quickly() -> None:
    """Audits run for a moment: half the compile time again. In the environment it would slow down long chains too.

    A process whose numbers a test compares with its own calls this as well.
    """
    from implementations.backends.jax import chain

    chain.QUICK_TO_COMPILE["xla_backend_optimization_level"] = 0


@pytest.fixture(scope="session", autouse=True)
def quick_audits():
    compile_audits_quickly()


@pytest.fixture
def compiled_soon(monkeypatch):
    """Chains of few steps: a third of the compile time, and steps that take twice as long."""
    import jax

    as_asked = jax.stages.Lowered.compile
    level = {"xla_backend_optimization_level": 0}
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda lowered: as_asked(lowered, compiler_options=level))


@pytest.fixture(scope="module", autouse=True)
def few_collections():
    """A process ends with millions of objects, most of them compiled code's, and every run collects garbage.

    Looked through each time, they would take much of the suite's time: what is there is taken as there to stay, and
    looked through again once in a while, or evicted loops would stay as well.
    """
    if next(MODULES) % 20 == 19:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def problem():
    """``problem("regression", stochastic="all")``: the prepared problem of seed 0, made once."""
    from implementations.tasks import prepare

    return cache(lambda task, **options: prepare(task, 0, progress=False, **options))
