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
        version=VERSIONS["reference"],
    message:
        "reference of {wildcards.variant} at weight {wildcards.weight}, seed {wildcards.seed}"
    shell:
        STEP + " reference {RESULTS} {wildcards.variant:q} {wildcards.weight} {wildcards.seed} > {log} 2>&1"
