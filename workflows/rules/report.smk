rule report:
    """The page of a study, its figures, its tables, a page for each run and the verdicts on the paper's claims.

    The suite's benchmarks are on it where they are kept; without them it is made all the same.
    """
    input:
        study=STUDY_FILE,
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
        results=lambda wildcards, output: Path(output.page).parent,
    message:
        "report"
    shell:
        '"$PYTHON" -m workflows.steps.report --results {params.results} > {log} 2>&1'
