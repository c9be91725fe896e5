# What all rules share: the study, its paths, and the environment of its jobs.
import dataclasses
import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from implementations.backends import BACKENDS
from implementations.names import SettingError
from implementations.provenance import machine
from implementations.tasks import TASKS
from workflows.grid import load_study, plain
from workflows.locks import Held, hold
from workflows.summary import closing_lines, is_complete, read_rows, report_failures, tracking_failure


def chosen_study_file():
    """The file that --configfile names. Snakemake's own reading of it drops keys that stand twice."""
    files = workflow.overwrite_configfiles or [Path(workflow.basedir, "workflows", "studies", "paper.yaml")]
    if len(files) > 1:
        sys.exit(f"--configfile names {len(files)} files; a study is one")
    if workflow.config_settings.config:
        sys.exit("--config changes nothing here; edit the study's file, or a copy of it")
    return files[0]


STUDY_FILE = chosen_study_file()
try:
    STUDY = load_study(STUDY_FILE)
except SettingError as mistakes:
    sys.exit(str(mistakes))

RESULTS = f"results/{STUDY.name}"
# Folders, each with its log.txt.
FETCHED = RESULTS + "/data/{task}"
PROBLEM = RESULTS + "/problems/{variant}/seed{seed}"
REFERENCE = RESULTS + "/references/{variant}/weight{weight}/seed{seed}"
RUN = RESULTS + "/runs/{run}"
EVALUATION = RESULTS + "/evaluations/{variant}/seed{seed}/part{part}"

RUNS = {run.path: run for run in STUDY.runs}
VARIANTS = {run.variant.label: run.variant for run in STUDY.runs}

PYTHON = shlex.quote(sys.executable)
SUMMARY_COMMAND = f"{PYTHON} -m workflows.steps.summary --study {shlex.quote(str(STUDY_FILE))} --results {RESULTS}"
TRACK_COMMAND = f"{PYTHON} -m workflows.steps.track --results {RESULTS} --out {RESULTS}/tracked.json"
REPORT_COMMAND = f"{PYTHON} -m workflows.steps.report --study {shlex.quote(str(STUDY_FILE))} --results {RESULTS}"


def in_parts(runs, size=25):
    """The runs of each problem, some at a time, by the problem's variant and seed and a number.

    They are evaluated in one process, because its imports take longer than the evaluation of one run.
    """
    problems = {}
    for run in runs:
        problems.setdefault((run.variant.label, run.seed), []).append(run)
    return {
        (variant, seed, part): members[start : start + size]
        for (variant, seed), members in problems.items()
        for part, start in enumerate(range(0, len(members), size))
    }


PARTS = in_parts(STUDY.runs)


def problem_of(run):
    return PROBLEM.format(variant=run.variant.label, seed=run.seed)


def reference_of(run):
    weights = {"data": run.variant.definition.num_points, "batch": run.settings.batch_size}
    weight = plain(float(weights.get(run.settings.weight, run.settings.weight)))
    return REFERENCE.format(variant=run.variant.label, weight=weight, seed=run.seed)


def folder_of(run):
    return RUN.format(run=run.path)


def keep_others_out():
    """One Snakemake a study. Its own lock outlives a kill -9, so the profiles turn that off."""
    try:
        hold(Path(RESULTS), is_patient=False)
    except Held:
        sys.exit(f"another Snakemake is running the study {STUDY.name}; wait for it, or stop it")


def summarise_what_there_is():
    """Summary, tracking and report of a study that could not be finished: what is not there is a row too."""
    if subprocess.run(SUMMARY_COMMAND, shell=True).returncode:
        sys.exit("the summary could not be written, see above; when the cause is gone, the same command goes on")
    subprocess.run(f"{TRACK_COMMAND} > {RESULTS}/track.log 2>&1", shell=True)
    if subprocess.run(f"{REPORT_COMMAND} > {RESULTS}/report.log 2>&1", shell=True).returncode:
        # One of an earlier call would tell of other runs.
        Path(RESULTS, "report.html").unlink(missing_ok=True)


def tell_what_came_of_it():
    """The last lines, and an exit code other than 0 where something is missing or failed.

    Failures that have been told are cleared away, so that the next call finds them missing and makes them again.
    """
    rows = read_rows(Path(RESULTS, "summary.csv"))
    print("", *closing_lines(rows, Path(RESULTS)), sep="\n", file=sys.stderr)
    if tracking_failure(Path(RESULTS)):
        # No run is lost by it, so the study is complete all the same.
        Path(RESULTS, "tracked.json").unlink()
    if not is_complete(rows):
        from workflows.failures import clear

        clear(Path(RESULTS))
        sys.exit(1)
    if report_failures(Path(RESULTS)):
        sys.exit(1)


# Jobs run in the folder of the results, which need not be that of the code.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")]))
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
