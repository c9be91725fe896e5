import dataclasses

TUNING = f"{RESULTS}/tunings/{{variant}}/{{tuned}}/{{backend}}"
# One run of each setting whose step is tuned for all seeds at once, by where that is kept.
TUNED = {str(run.tuning_path(RESULTS)): run for run in STUDY.runs if run.is_tuned_apart}


def tuned_run(wildcards):
    """One of the runs that a tuning is for."""
    return TUNED[f"{TUNING.format(**wildcards)}/tuned.json"]


def of_pilots(wildcards, kind):
    """The problem of the pilots, or its reference."""
    return str(getattr(dataclasses.replace(tuned_run(wildcards), seed=STUDY.pilot_seed), f"{kind}_path")(RESULTS))


rule tune:
    """The step of a method on a whole network, for all seeds of a setting: by pilots on the problem of a seed that the study
    does not have, against the reference of that. Where that fails, the reason in its place.
    """
    input:
        problem=lambda wildcards: of_pilots(wildcards, "problem"),
        reference=lambda wildcards: of_pilots(wildcards, "reference"),
    output:
        f"{TUNING}/tuned.json",
    log:
        f"{TUNING}/log.txt",
    # Runs wait for it.
    priority: 2
    resources:
        gpu=lambda wildcards: int(BACKENDS[wildcards.backend][1] == "gpu"),
    params:
        run=lambda wildcards: tuned_run(wildcards).path,
        seed=STUDY.pilot_seed,
        asked=lambda wildcards: asked_of([tuned_run(wildcards)]),
        version=VERSIONS["tuning"],
    message:
        "step of {wildcards.tuned} on {wildcards.variant}, {wildcards.backend}"
    shell:
        STEP + " tune {RESULTS} {params.run:q} {params.seed} > {log} 2>&1"
