rule reference:
    """The exact or gold-standard answer of a problem at one weight; where that fails, the reason in its place."""
    input:
        problem=f"{PROBLEM}/problem.npz",
    output:
        f"{REFERENCE}/reference.npz",
    log:
        f"{REFERENCE}/log.txt",
    priority: 1
    params:
        results=lambda wildcards: RESULTS,
    message:
        "reference of {wildcards.variant} at weight {wildcards.weight}, seed {wildcards.seed}"
    shell:
        '"$PYTHON" -m workflows.steps.reference --problem {input.problem} --weight {wildcards.weight}'
        " --seed {wildcards.seed} --out {output} --results {params.results} > {log} 2>&1"
