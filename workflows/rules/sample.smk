def with_whole_names(build):
    """Put the names of runs together before Snakemake builds the DAG of a job on a node.

    It hands wildcards over in a list with commas and takes the list apart at all of them, also at those of a value
    (snakemake issue 2366).
    """

    def build_with_whole_names():
        for target in workflow.dag_settings.target_jobs:
            if target.rulename == "sample":
                (_, first), *others = target.wildcards_dict.items()
                target.wildcards_dict.clear()
                target.wildcards_dict["run"] = ",".join([first, *map("=".join, others)])
        build()

    return build_with_whole_names


if workflow.remote_exec:
    workflow._build_dag = with_whole_names(workflow._build_dag)


rule sample:
    """One method, setting, backend and seed on one task.

    A run that diverges, fails or lacks its device ends well too, with a run.json that says so. Snakemake's last lines tell of
    failed ones and clear them away, so that the next call makes them again.
    """
    input:
        problem=lambda wildcards: problem_of(RUNS[wildcards.run]) + "/problem.npz",
    output:
        record=RUN + "/run.json",
        draws=RUN + "/draws.npz",
    log:
        RUN + "/log.txt",
    # Where a cluster runs several in one job: those that need a GPU keep it busy all the time.
    group:
        lambda wildcards: BACKENDS[RUNS[wildcards.run].backend][1] + "_runs"
    resources:
        gpu=lambda wildcards: int(BACKENDS[RUNS[wildcards.run].backend][1] == "gpu"),
    params:
        method=lambda wildcards: RUNS[wildcards.run].method,
        backend=lambda wildcards: RUNS[wildcards.run].backend,
        seed=lambda wildcards: RUNS[wildcards.run].seed,
        settings=lambda wildcards: json.dumps(RUNS[wildcards.run].settings.as_dict()),
    message:
        "{wildcards.run}"
    shell:
        "{PYTHON} -m workflows.steps.sample --problem {input.problem} --method {params.method}"
        " --settings {params.settings:q} --backend {params.backend} --seed {params.seed}"
        " --out {output.record} 2> {log}"
