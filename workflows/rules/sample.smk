rule sample:
    """A batch of the study: some runs of one task and backend, one after the other in one process.

    Every run has its own files, log and times, and what becomes of one is nothing to the others: one that diverges, fails
    or lacks its device ends well too, with a run.json that says so. The next call makes failed ones again. What is
    finished stays, unless its problem or settings have changed.
    The output is a mark that all are made; Snakemake, which takes away the outputs of a job that was killed, has no hand
    in the runs themselves.
    """
    input:
        problems=lambda wildcards: files_of(batch_of(wildcards), "problem"),
        tunings=lambda wildcards: files_of(batch_of(wildcards), "tuning"),
    output:
        f"{BATCH}/sampled.json",
    log:
        f"{BATCH}/sample.log",
    priority: 1
    resources:
        gpu=lambda wildcards: int(BACKENDS[batch_of(wildcards).backend][1] == "gpu"),
        # Minutes, for a cluster: many times what is expected, because machines differ.
        runtime=lambda wildcards, attempt: attempt * round(10 + batch_of(wildcards).seconds / 5),
    params:
        asked=lambda wildcards: asked_of(batch_of(wildcards).runs),
        version=VERSIONS["run"],
    message:
        "{wildcards.batch}"
    shell:
        STEP + " sample {RESULTS} {wildcards.batch:q} 2> {log}"
