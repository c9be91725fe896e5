from workflows.steps.timing import timed_sizes

TIMINGS = f"{RESULTS}/timings/{{backend}}.json"
# What is timed at several N, by backend.
TIMED = timed_sizes(STUDY.runs)


rule timing:
    """The same step at every N of the study, in interleaved rounds; the summary has the times, and a claim asks for them.

    It has the machine to itself: what shares the cache with it takes it from the larger data first.
    """
    input:
        problems=lambda wildcards: list(
            dict.fromkeys(str(size.run.problem_path(RESULTS)) for sizes in TIMED[wildcards.backend] for size in sizes)
        ),
    output:
        TIMINGS,
    log:
        f"{RESULTS}/timings/{{backend}}.log",
    # More than there are: Snakemake takes as many as it has. `workflow.cores` is an error on a cluster, which has no such number.
    threads: 10_000
    params:
        asked=lambda wildcards: [asked_of(size.run for size in sizes) for sizes in TIMED[wildcards.backend]],
        version=VERSIONS["timing"],
    message:
        "steps at several N on {wildcards.backend}"
    shell:
        STEP + " timing {RESULTS} {wildcards.backend} > {log} 2>&1"
