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
    resources:
        gpu=lambda wildcards: int(BACKENDS[RUNS[wildcards.run].backend][1] == "gpu"),
    params:
        method=lambda wildcards: RUNS[wildcards.run].method,
        backend=lambda wildcards: RUNS[wildcards.run].backend,
        seed=lambda wildcards: RUNS[wildcards.run].seed,
        settings=lambda wildcards: json.dumps(RUNS[wildcards.run].settings.as_dict()),
    # Where a cluster runs several in one job: those that need a GPU keep it busy all the time.
    group:
        lambda wildcards: BACKENDS[RUNS[wildcards.run].backend][1] + "_runs"
    message:
        "{wildcards.run}"
    shell:
        "{PYTHON} -m workflows.steps.sample --problem {input.problem} --method {params.method}"
        " --settings {params.settings:q} --backend {params.backend} --seed {params.seed}"
        " --out {output.record} 2> {log}"
