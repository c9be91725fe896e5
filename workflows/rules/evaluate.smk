rule evaluate:
    """Metrics and curves of the runs of a part, in the folder of each; what has not changed stays as it is."""
    input:
        sampled=f"{PART}/sampled.json",
        problems=lambda wildcards: problems_of(part_of(wildcards)),
        references=lambda wildcards: references_of(part_of(wildcards)),
    output:
        f"{PART}/evaluated.json",
    log:
        f"{PART}/evaluate.log",
    params:
        results=lambda wildcards: RESULTS,
        variant=lambda wildcards: part_of(wildcards).variant,
        runs=lambda wildcards: json.dumps(list(map(evaluated, part_of(wildcards).runs))),
    message:
        "evaluation of {wildcards.part}"
    shell:
        '"$PYTHON" -m workflows.steps.evaluate --results {params.results} --variant {params.variant}'
        " --runs {params.runs:q} --out {output} > {log} 2>&1"
