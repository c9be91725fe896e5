from reports.benchmarks import KEPT


rule report:
    """The page of a study, its figures, its tables and the verdicts on the paper's claims.

    The suite's benchmarks are on it where they are kept; without them it is made all the same.
    """
    input:
        RESULTS + "/summary.parquet",
        [str(KEPT)] if KEPT.exists() else [],
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
