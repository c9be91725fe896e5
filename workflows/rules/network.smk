def fetched(wildcards):
    task = VARIANTS[wildcards.variant].task
    return FETCHED.format(task=task) + "/fetched.json" if TASKS[task].fetch else []


rule network:
    """Data, trained network, MAP and curvature of one task and seed: the problem that all methods share.

    Where that fails, the reason stands in the place of the problem, and its runs become rows that say so.
    """
    input:
        fetched=fetched,
    output:
        PROBLEM + "/problem.npz",
    log:
        PROBLEM + "/log.txt",
    params:
        variant=lambda wildcards: json.dumps(dataclasses.asdict(VARIANTS[wildcards.variant])),
        fetched=lambda wildcards, input: f"--fetched {input.fetched}" if input.fetched else "",
    message:
        "network of {wildcards.variant}, seed {wildcards.seed}"
    shell:
        "{PYTHON} -m workflows.steps.network --variant {params.variant:q} --seed {wildcards.seed} --data data"
        " {params.fetched} --out {output} > {log} 2>&1"
