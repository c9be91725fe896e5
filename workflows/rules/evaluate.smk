def part_of(wildcards):
    return PARTS[wildcards.variant, int(wildcards.seed), int(wildcards.part)]


rule evaluate:
    """Metrics and curves of some runs of one problem, as metrics.json and curves.npz in the folder of each.

    These are no outputs, because Snakemake would remove them all before it makes one anew: what has not changed since it
    was evaluated is left as it is.
    """
    input:
        problem=PROBLEM + "/problem.npz",
        runs=lambda wildcards: [folder_of(run) + "/run.json" for run in part_of(wildcards)],
        draws=lambda wildcards: [folder_of(run) + "/draws.npz" for run in part_of(wildcards)],
        references=lambda wildcards: [reference_of(run) + "/reference.npz" for run in part_of(wildcards)],
    output:
        EVALUATION + "/done",
    log:
        EVALUATION + "/log.txt",
    message:
        "evaluation of {wildcards.variant}, seed {wildcards.seed}, part {wildcards.part}"
    shell:
        "{PYTHON} -m workflows.steps.evaluate --problem {input.problem} --runs {input.runs}"
        " --references {input.references} --out {output} > {log} 2>&1"
