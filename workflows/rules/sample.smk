rule sample:
    """A part of the study: some runs of one task and backend, one after the other in one process.

    Every run has its own files, log and times, and what becomes of one is nothing to the others: one that diverges, fails
    or lacks its device ends well too, with a run.json that says so. Snakemake's last lines tell of failed ones and clear
    them away, so that the next call makes them again. What is finished stays, unless its problem or settings have changed.
    The output is a mark that all are made; Snakemake, which takes away the outputs of a job that was killed, has no hand
    in the runs themselves.
    """
    input:
        problems=lambda wildcards: problems_of(part_of(wildcards)),
        tunings=lambda wildcards: tunings_of(part_of(wildcards)),
    output:
        f"{PART}/sampled.json",
    log:
        f"{PART}/sample.log",
    priority: 1
    resources:
        gpu=lambda wildcards: int(BACKENDS[part_of(wildcards).backend][1] == "gpu"),
        # Minutes, for a cluster: many times what is expected, because machines differ.
        runtime=lambda wildcards, attempt: attempt * round(10 + part_of(wildcards).seconds / 5),
    params:
        results=lambda wildcards: RESULTS,
        variant=lambda wildcards: part_of(wildcards).variant,
        backend=lambda wildcards: part_of(wildcards).backend,
        runs=lambda wildcards: json.dumps([planned(run) for run in part_of(wildcards).runs]),
    message:
        "{wildcards.part}"
    shell:
        '"$PYTHON" -m workflows.steps.sample --results {params.results} --variant {params.variant}'
        " --backend {params.backend} --runs {params.runs:q} --out {output} 2> {log}"
