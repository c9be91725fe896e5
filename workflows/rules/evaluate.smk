rule evaluate:
    """Metrics and curves of the runs of a batch, in the folder of each; what has not changed stays as it is."""
    input:
        sampled=f"{BATCH}/sampled.json",
        problems=lambda wildcards: files_of(batch_of(wildcards), "problem"),
        references=lambda wildcards: files_of(batch_of(wildcards), "reference"),
    output:
        f"{BATCH}/evaluated.json",
    log:
        f"{BATCH}/evaluate.log",
    params:
        version=VERSIONS["metrics"],
    message:
        "evaluation of {wildcards.batch}"
    shell:
        STEP + " evaluate {RESULTS} {wildcards.batch:q} > {log} 2>&1"
