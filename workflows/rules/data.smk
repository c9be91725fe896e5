rule data:
    """The files of a task that has to be downloaded, in data/<task>.

    They are no outputs: Snakemake removes those before it makes them anew, and these may be the user's own. Where no
    source has them, the output says why, and the runs of the task become rows that say so.
    """
    output:
        FETCHED + "/fetched.json",
    log:
        FETCHED + "/log.txt",
    localrule: True
    message:
        "data of {wildcards.task}"
    shell:
        "{PYTHON} -m workflows.steps.data --task {wildcards.task} --data data --out {output} > {log} 2>&1"
