rule summary:
    """One row a run of the study, whatever became of it; the columns are explained in workflows/columns.py."""
    input:
        [EVALUATION.format(variant=variant, seed=seed, part=part) + "/done" for variant, seed, part in PARTS],
    output:
        csv=RESULTS + "/summary.csv",
        parquet=RESULTS + "/summary.parquet",
    log:
        RESULTS + "/summary.log",
    localrule: True
    message:
        "summary"
    shell:
        "{SUMMARY_COMMAND} > {log} 2>&1"
