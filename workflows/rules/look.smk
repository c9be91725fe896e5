checkpoint look:
    """A look at a study that takes seeds as needed: which settings get more, because a claim that rests on them is undecided.

    What comes after it is not known before it. A look whose runs have changed is taken again.
    """
    input:
        parts=lambda wildcards: evaluated_before(int(wildcards.number)),
        study=STUDY_FILE,
    output:
        f"{RESULTS}/looks/look{{number}}.json",
    log:
        f"{RESULTS}/looks/look{{number}}.log",
    localrule: True
    params:
        results=lambda wildcards: RESULTS,
        looks=lambda wildcards: STUDY.looks,
    message:
        "look {wildcards.number}"
    shell:
        '"$PYTHON" -m workflows.steps.look --study {input.study:q} --results {params.results}'
        " --number {wildcards.number} --out {output} > {log} 2>&1"
