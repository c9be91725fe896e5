rule report:
    """The page of a study, its figures, its tables and the verdicts on the paper's claims."""
    input:
        RESULTS + "/summary.parquet",
    output:
        page=RESULTS + "/report.html",
        claims=RESULTS + "/claims.json",
        captions=RESULTS + "/figures.json",
        figures=directory(RESULTS + "/figures"),
        tables=directory(RESULTS + "/tables"),
    log:
        RESULTS + "/report.log",
    localrule: True
    message:
        "report"
    shell:
        "{REPORT_COMMAND} > {log} 2>&1"
