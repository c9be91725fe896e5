rule network:
    """Data, trained network, MAP and curvature of one task and seed: the problem that all methods share.

    Where that fails, the reason stands in the place of the problem, and its runs become rows that say so.
    """
    input:
        fetched=fetched_of,
    output:
        f"{PROBLEM}/problem.npz",
    log:
        f"{PROBLEM}/log.txt",
    # All else waits for it.
    priority: 2
    params:
        results=lambda wildcards: RESULTS,
        variant=lambda wildcards: json.dumps(dataclasses.asdict(VARIANTS[wildcards.variant])),
        # A task's file that has changed is another task.
        task_sha256=lambda wildcards: checksum(VARIANTS[wildcards.variant].task) or "",
        fetched=lambda wildcards, input: f"--fetched {input.fetched}" if input.fetched else "",
    message:
        "network of {wildcards.variant}, seed {wildcards.seed}"
    shell:
        '"$PYTHON" -m workflows.steps.network --variant {params.variant:q} --seed {wildcards.seed} --data data'
        " {params.fetched} --out {output} --results {params.results} > {log} 2>&1"
