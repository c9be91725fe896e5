rule timing:
    """The same step at every N of the study, timed by turns; the summary has the times, and a claim asks for them.

    It has the machine to itself: what shares the cache with it takes it from the larger data first.
    """
    input:
        problems=lambda wildcards: problems_timed(wildcards.backend),
    output:
        TIMINGS,
    log:
        f"{RESULTS}/timings/{{backend}}.log",
    # More than there are: Snakemake takes as many as it has. `workflow.cores` is an error on a cluster, which has no such number.
    threads: 10_000
    params:
        results=lambda wildcards: RESULTS,
        steps=lambda wildcards: json.dumps([list(map(timed_size, sizes)) for sizes in TIMED[wildcards.backend]]),
    message:
        "steps at several N on {wildcards.backend}"
    shell:
        '"$PYTHON" -m workflows.steps.timing --results {params.results} --backend {wildcards.backend}'
        " --steps {params.steps:q} --out {output} > {log} 2>&1"
