rule summary:
    """One row per run of the study, whatever became of it; the columns are explained in records/columns.py."""
    input:
        parts=all_evaluated(),
        timings=expand(TIMINGS, backend=TIMED),
        study=STUDY_FILE,
    output:
        csv=f"{RESULTS}/summary.csv",
        parquet=f"{RESULTS}/summary.parquet",
    log:
        f"{RESULTS}/summary.log",
    localrule: True
    params:
        results=lambda wildcards, output: Path(output.csv).parent,
    message:
        "summary"
    shell:
        '"$PYTHON" -m workflows.steps.summary --results {params.results} > {log} 2>&1'
