rule report:
    """The page of a study, its figures, its tables, a page for each run and the verdicts on the paper's claims.

    The suite's benchmarks are on it where they are kept; without them it is made all the same.
    """
    input:
        summary=rules.summary.output.parquet,
        benchmarks=[str(KEPT)] if KEPT.exists() else [],
    output:
        page=f"{RESULTS}/report.html",
        claims=f"{RESULTS}/claims.json",
        captions=f"{RESULTS}/figures.json",
        figures=directory(f"{RESULTS}/figures"),
        tables=directory(f"{RESULTS}/tables"),
        pages=directory(f"{RESULTS}/pages"),
    log:
        f"{RESULTS}/report.log",
    localrule: True
    params:
        description=STUDY.description,
    message:
        "report"
    shell:
        'exec "$PYTHON" -m workflows.steps.report --results {RESULTS} > {log} 2>&1'
