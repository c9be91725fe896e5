import dataclasses

from implementations.plugins import checksum

VARIANTS = {run.variant.label: run.variant for run in STUDY.runs}


def fetched_of(wildcards):
    """What came of the download of a variant's task, where it has one."""
    task = VARIANTS[wildcards.variant].definition
    return f"{FETCHED.format(task=task.name)}/fetched.json" if task.fetch else []


rule network:
    """Data, trained network, MAP and curvature of one task and seed: the problem that all methods share.

    Where that fails, the reason stands in the place of the problem, and its runs become rows that say so.
    """
    input:
        fetched=fetched_of,
    output:
        f"{PROBLEM}/problem.npz",
    log:
        f"{PROBLEM}/log.txt",
    # All else waits for it.
    priority: 2
    params:
        variant=lambda wildcards: list(dataclasses.asdict(VARIANTS[wildcards.variant]).items()),
        # A task's file that has changed is another task.
        task_sha256=lambda wildcards: checksum(VARIANTS[wildcards.variant].task) or "",
        version=VERSIONS["problem"],
    message:
        "network of {wildcards.variant}, seed {wildcards.seed}"
    shell:
        STEP + " network {RESULTS} {wildcards.variant:q} {wildcards.seed} > {log} 2>&1"
