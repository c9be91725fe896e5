rule reference:
    """The exact or gold-standard answer of a problem at one weight; where that fails, the reason in its place."""
    input:
        problem=PROBLEM + "/problem.npz",
    output:
        REFERENCE + "/reference.npz",
    log:
        REFERENCE + "/log.txt",
    message:
        "reference of {wildcards.variant} at weight {wildcards.weight}, seed {wildcards.seed}"
    shell:
        "{PYTHON} -m workflows.steps.reference --problem {input.problem} --weight {wildcards.weight}"
        " --seed {wildcards.seed} --out {output} > {log} 2>&1"
