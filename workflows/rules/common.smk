# What all rules share: the study, its paths, and the environment of its jobs.
import atexit
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from implementations.backends import BACKENDS
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.provenance import machine
from implementations.plugins import checksum
from records.summary import is_complete, read_rows, report_failures, tracking_failure
from records.usage import metered
from reports.benchmarks import KEPT
from workflows import recovery
from workflows.study import load_study
from workflows.locks import Held, hold, take
from workflows.batches import in_batches
from workflows.plan import plan_lines
from workflows.progress import Progress, hush
from workflows.summary import closing_lines
from workflows.timing import timed_sizes
from workflows.tracking.client import chosen_store, without_secrets


def chosen_study_file():
    """The file that --configfile names. Snakemake's own reading of it drops keys that stand twice."""
    files = workflow.overwrite_configfiles or [Path(workflow.basedir, "workflows", "studies", "paper.yaml")]
    if len(files) > 1:
        sys.exit(f"--configfile names {len(files)} files; a study is one")
    if workflow.config_settings.config:
        sys.exit("--config changes nothing here; edit the study's file, or a copy of it")
    return str(files[0])


STUDY_FILE = chosen_study_file()
try:
    STUDY = load_study(Path(STUDY_FILE))
except SettingError as mistakes:
    sys.exit(str(mistakes))

RESULTS = f"results/{STUDY.name}"
# Folders, each with its log.txt.
FETCHED = f"{RESULTS}/data/{{task}}"
PROBLEM = f"{RESULTS}/problems/{{variant}}/seed{{seed}}"
REFERENCE = f"{RESULTS}/references/{{variant}}/weight{{weight}}/seed{{seed}}"
TUNING = f"{RESULTS}/tunings/{{variant}}/{{tuned}}/{{backend}}"
PART = f"{RESULTS}/parts/{{part}}"
TIMINGS = f"{RESULTS}/timings/{{backend}}.json"

VARIANTS = {run.variant.label: run.variant for run in STUDY.runs}
# By name, where each comes from: a row of the table, or a file.
TASKS = {variant.name: variant.task for variant in VARIANTS.values()}


# What is timed at several N, by backend.
TIMED = timed_sizes(STUDY.runs)

# One run of each setting whose step is tuned for all seeds at once, by where that is kept.
TUNED_APART = {
    str(run.tuning_path(Path(RESULTS))): run for run in STUDY.runs if run.is_tuned_apart
}

PARTS = {batch.name: batch for batch in STUDY.batches}


def part_of(wildcards):
    return PARTS[wildcards.part]


def all_evaluated():
    """The marks of all batches."""
    return expand(f"{PART}/evaluated.json", part=list(PARTS))


def problem_of(run):
    return str(run.problem_path(Path(RESULTS)))


def reference_of(run):
    """The right answer for its target; None where the study asks for none."""
    return run.reference_path(Path(RESULTS))


def problems_of(part):
    return list(dict.fromkeys(map(problem_of, part.runs)))


def references_of(part):
    return list(dict.fromkeys(str(path) for path in map(reference_of, part.runs) if path))


def tuning_of(run):
    """Where its step is kept that was tuned apart; None where it has one of its own."""
    path = run.tuning_path(Path(RESULTS))
    return str(path) if path else None


def tunings_of(part):
    return list(dict.fromkeys(path for path in map(tuning_of, part.runs) if path))


def run_to_tune(wildcards):
    """One of the runs that a tuning is for, on the problem of the pilots."""
    run = TUNED_APART[f"{TUNING.format(**wildcards)}/tuned.json"]
    return dataclasses.replace(run, seed=STUDY.pilot_seed)


def evaluated(run):
    """A run as the step that evaluates it reads it; without the weight there is no reference."""
    return [run.path, run.seed, run.target_weight if run.has_reference else None]


def problems_timed(backend):
    return list(dict.fromkeys(problem_of(size.run) for sizes in TIMED[backend] for size in sizes))


def timed_size(size):
    """One of the N at which a step is timed, as its step reads it."""
    return planned(size.run) | {"variant": size.run.variant.label, "paths": size.paths}


def planned(run):
    """A run as its step reads it."""
    return {
        "path": run.path,
        "method": run.source or run.method,
        "settings": run.settings.as_dict(),
        "seed": run.seed,
        **({"tuned": tuning_of(run)} if run.is_tuned_apart else {}),
    }


def folder_of(run):
    return run.folder(Path(RESULTS))


def marks_of(part):
    """The marks of a part, and the files that each was made for."""
    folder = Path(PART.format(part=part.name))
    return {
        folder / mark: [folder_of(run) / name for run in part.runs]
        for mark, name in (("sampled.json", "run.json"), ("evaluated.json", "metrics.json"))
    }


def fetched_of(wildcards):
    """What came of the download of a variant's task, where it has one."""
    task = VARIANTS[wildcards.variant].definition
    return f"{FETCHED.format(task=task.name)}/fetched.json" if task.fetch else []


def keep_others_out():
    """One Snakemake a study. Its own lock outlives a kill -9, so the profiles turn that off."""
    try:
        hold(Path(RESULTS), is_patient=False)
    except Held:
        sys.exit(f"another Snakemake is running the study {STUDY.name}; wait for it, or stop it")
    take(Path(RESULTS))


def clear_failures():
    """Take away what failed or is damaged, so that Snakemake finds it missing and makes it again; name the damaged."""
    jobs = [recovery.Job(folder_of(run), Path(problem_of(run)), reference_of(run)) for run in STUDY.runs]
    pilots = [dataclasses.replace(run, seed=STUDY.pilot_seed) for run in TUNED_APART.values()]
    of_pilots = [Path(path) for run in pilots for path in (problem_of(run), reference_of(run))]
    lines = recovery.clear_failures(Path(RESULTS), jobs, of_pilots)
    for part in PARTS.values():
        lines += recovery.clear_marks(marks_of(part))
    for line in lines:
        print(f"{line}; it is made again", file=sys.stderr)


def clear_conclusions():
    """The same for what is made of all runs. Not at the end of a call, when a person wants to read it."""
    for line in recovery.clear_conclusions(Path(RESULTS), [run.path for run in STUDY.runs]):
        print(f"{line}; it is made again", file=sys.stderr)


@functools.cache
def clear_what_was_left():
    """Clear away, once, what an earlier call left behind. Where another Snakemake is at work, that is said later."""
    try:
        hold(Path(RESULTS), is_patient=False)
    except Held:
        return
    clear_failures()
    clear_conclusions()


PROGRESS = []


def watch_progress():
    """Tell of runs as they finish; what Snakemake says of its jobs goes to its log file alone, but for --verbose."""
    cores = workflow.resource_settings.cores or os.cpu_count() or 1
    PROGRESS.append(Progress(STUDY.runs, Path(RESULTS), sys.stderr, cores))
    PROGRESS[-1].start()
    if not workflow.output_settings.verbose:
        hush(logger, sys.stderr)


def tell_last_progress():
    for progress in PROGRESS:
        progress.stop()


@functools.cache
def tell_plan():
    """What would be done, in four lines at the end, instead of a line per job; with --verbose before these."""
    lines = plan_lines(STUDY, Path(RESULTS), workflow.resource_settings.cores)
    atexit.register(lambda: print("", *lines, sep="\n", file=sys.stderr))
    if not workflow.output_settings.verbose:
        hush(logger, None)


def everything(wildcards):
    """The results of a study.

    Snakemake asks for them first of all, before it looks at any file, and when it knows whether it is to run or to look.
    """
    if workflow.is_main_process and workflow.execution_settings and not (workflow.dryrun or workflow.touch):
        # With a limit, be it never reached, every job that ends adds a timer, and each wakes the scheduler every second
        # from then on (snakemake's pull request 3744): a sixth of the paper study's processor time.
        workflow.scheduling_settings.max_jobs_per_timespan = None
        clear_what_was_left()
    if workflow.is_main_process and workflow.dryrun:
        tell_plan()
    return [*all_evaluated(), *rules.summary.output, *rules.track.output, *rules.report.output]


def run_step(name, *arguments, log=None):
    """Run a step outside of the DAG; its exit code."""
    command = [sys.executable, "-m", f"workflows.steps.{name}", "--results", RESULTS, *arguments]
    with Path(RESULTS, log or os.devnull).open("w") as file:
        return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT if log else None).returncode


def summarise_what_there_is():
    """Summary, tracking and report of a study that could not be finished: what is not there is a row too."""
    if run_step("summary"):
        sys.exit("the summary could not be written, see above; when the cause is gone, the same command goes on")
    run_step("track", "--out", f"{RESULTS}/tracked.json", log="track.log")
    if run_step("report", log="report.log"):
        # One of an earlier call would tell of other runs.
        Path(RESULTS, "report.html").unlink(missing_ok=True)


def tell_what_came_of_it():
    """The last lines, and an exit code other than 0 where something is missing or failed.

    Failures that have been reported are cleared away, so that the next call finds them missing and makes them again.
    """
    with metered(Path(RESULTS), "snakemake") as meter:
        # Starting it is its own work.
        meter.phases.clear()
    if not Path(RESULTS, "summary.csv").exists():
        # Only a part of the study was asked for.
        return
    rows = read_rows(Path(RESULTS, "summary.csv"))
    print("", *closing_lines(rows, Path(RESULTS)), sep="\n", file=sys.stderr)
    is_broken = not is_complete(rows) or report_failures(Path(RESULTS))
    if is_broken or tracking_failure(Path(RESULTS)):
        clear_failures()
    # No run is lost where tracking failed, so the study is complete all the same.
    if is_broken:
        sys.exit(1)


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
