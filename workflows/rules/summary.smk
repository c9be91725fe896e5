rule summary:
    """One row per run of the study, whatever became of it; the columns are explained in records/columns.py."""
    input:
        batches=expand(f"{BATCH}/evaluated.json", batch=BATCHES),
        timings=expand(TIMINGS, backend=TIMED),
    output:
        csv=f"{RESULTS}/summary.csv",
        parquet=f"{RESULTS}/summary.parquet",
    log:
        f"{RESULTS}/summary.log",
    localrule: True
    params:
        asked=asked_of(STUDY.runs),
        version=VERSIONS["summary"],
    message:
        "summary"
    shell:
        'exec "$PYTHON" -m workflows.steps.summary --results {RESULTS} > {log} 2>&1'
