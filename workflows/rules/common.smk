# What all rules share: the study, its paths, and the environment of its jobs.
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from snakemake.common.configfile import load_configfile

from implementations.backends import BACKENDS
from implementations.infrastructure.artefact import VERSIONS
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.provenance import machine
from records.summary import is_complete, read_rows, report_failures
from records.usage import metered
from reports.benchmarks import KEPT
from workflows.locks import Held, hold
from workflows.preflight import inspect
from workflows.progress import Progress, closing_lines, plan_lines
from workflows.study import load_study
from workflows.tracking.client import chosen_store, without_secrets

STUDY_FILES = workflow.configfiles or [Path(workflow.basedir, "workflows", "studies", "paper.yaml")]
if len(STUDY_FILES) > 1:
    sys.exit(f"--configfile names {len(STUDY_FILES)} files; a study is one")
try:
    # Snakemake's own reading of it drops keys that stand twice.
    STUDY = load_study(Path(STUDY_FILES[0]))
except SettingError as mistakes:
    sys.exit(str(mistakes))
if config != (load_configfile(STUDY_FILES[0]) if workflow.configfiles else {}):
    sys.exit("--config changes nothing here; edit the study's file, or a copy of it")

RESULTS = Path("results", STUDY.name)
# Folders, each with its log.txt.
FETCHED = f"{RESULTS}/data/{{task}}"
PROBLEM = f"{RESULTS}/problems/{{variant}}/seed{{seed}}"
REFERENCE = f"{RESULTS}/references/{{variant}}/weight{{weight}}/seed{{seed}}"
BATCH = f"{RESULTS}/batches/{{batch}}"
# A step in the place of the shell, so that it sees when Snakemake is killed.
STEP = 'exec "$PYTHON" -m workflows.steps'

BATCHES = {batch.name: batch for batch in STUDY.batches}


def batch_of(wildcards):
    return BATCHES[wildcards.batch]


def files_of(batch, kind):
    """The problems, references or tunings that the runs of a batch need."""
    paths = (getattr(run, f"{kind}_path")(RESULTS) for run in batch.runs)
    return list(dict.fromkeys(str(path) for path in paths if path))


def asked_of(runs):
    """All that a study says of runs, so that a change of it makes their jobs run again."""
    return [[run.path, run.source, run.has_reference, *run.settings.as_dict().items()] for run in runs]


def begin():
    """Read what earlier calls left, and say what there is to do. Where another Snakemake is at work, onstart says so."""
    try:
        if RESULTS.exists():
            hold(RESULTS, is_patient=False)
        print(*inspect(RESULTS, STUDY), *plan_lines(STUDY, RESULTS), sep="\n", file=sys.stderr)
    except Held:
        return
    except OSError as error:
        sys.exit(f"{RESULTS} cannot be put in order: {error}")


def start():
    """Keep others out, by a lock that ends with this process; Snakemake's own outlives a kill -9."""
    try:
        hold(RESULTS, is_patient=False)
        STUDY.write(RESULTS)
    except Held:
        sys.exit(f"another Snakemake is running the study {STUDY.name}; wait for it, or stop it")
    except OSError as error:
        sys.exit(f"{RESULTS} cannot be written: {error}")
    PROGRESS.start()


def conclude():
    """Summary, tracking and report of a study that could not be finished: what is not there is a row too."""
    PROGRESS.stop()
    for step, *more in (["summary"], ["track", "--out", RESULTS / "tracked.json"], ["report"]):
        command = [sys.executable, "-m", f"workflows.steps.{step}", "--results", RESULTS, *more]
        with (RESULTS / f"{step}.log").open("w") as log:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
        if code and step == "summary":
            sys.exit(f"no summary could be written, see {RESULTS}/summary.log; the same command goes on")
        if code and step == "report":
            # One of an earlier call would tell of other runs.
            (RESULTS / "report.html").unlink(missing_ok=True)


def close():
    """The last lines, and an exit code other than 0 where something is missing or failed."""
    PROGRESS.stop()
    with metered(RESULTS, "snakemake") as meter:
        # Starting it is its own work.
        meter.phases.clear()
    if not (RESULTS / "summary.csv").exists():
        # Only a part of the study was asked for.
        return
    rows = read_rows(RESULTS / "summary.csv")
    print("", *closing_lines(rows, RESULTS), sep="\n", file=sys.stderr)
    # No run is lost where tracking failed, so the study is complete all the same.
    if not is_complete(rows) or report_failures(RESULTS):
        sys.exit(1)


PROGRESS = Progress(STUDY.runs, RESULTS, sys.stderr, os.cpu_count() or 1)
# Jobs on the nodes of a cluster read this file too.
if int(os.environ.setdefault("STUDY_CALL", str(os.getpid()))) == os.getpid():
    begin()
os.environ |= {
    # What jobs are started with. In a command it would be a reason to run again when it moves.
    "PYTHON": sys.executable,
    # They run in the folder of the results, which need not be that of the code.
    "PYTHONPATH": os.pathsep.join(filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")])),
}
# One thread a job, so that wall-clock times can be compared.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Compiled code serves all seeds of a setting. Both libraries' caches may be shared by jobs that run at once, but not by
# processors of different kinds, which the nodes of a cluster may have.
CACHE = Path("results", ".cache", hashlib.sha256(machine()["cpu"].encode()).hexdigest()[:8]).absolute()
os.environ |= {
    "JAX_COMPILATION_CACHE_DIR": str(CACHE / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "TORCHINDUCTOR_CACHE_DIR": str(CACHE / "torch"),
}
