rule tune:
    """The step of a method on a whole network, for all seeds of a setting: by pilots on the problem of a seed that the study
    does not have, against the reference of that. Where that fails, the reason in its place.
    """
    input:
        problem=lambda wildcards: problem_of(run_to_tune(wildcards)),
        reference=lambda wildcards: str(reference_of(run_to_tune(wildcards))),
    output:
        f"{TUNING}/tuned.json",
    log:
        f"{TUNING}/log.txt",
    # Runs wait for it.
    priority: 2
    resources:
        gpu=lambda wildcards: int(BACKENDS[wildcards.backend][1] == "gpu"),
    params:
        results=lambda wildcards: RESULTS,
        run=lambda wildcards: json.dumps(planned(run_to_tune(wildcards))),
    message:
        "step of {wildcards.tuned} on {wildcards.variant}, {wildcards.backend}"
    shell:
        '"$PYTHON" -m workflows.steps.tune --results {params.results} --problem {input.problem}'
        " --reference {input.reference} --backend {wildcards.backend} --run {params.run:q}"
        " --out {output} > {log} 2>&1"
