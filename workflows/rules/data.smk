rule data:
    """The files of a task that has to be downloaded, in data/<task>.

    They are no outputs: Snakemake removes those before it makes them again, and these may be the user's own. Where no
    source has them, the output says why, and the runs of the task become rows that say so.
    """
    output:
        f"{FETCHED}/fetched.json",
    log:
        f"{FETCHED}/log.txt",
    localrule: True
    message:
        "data of {wildcards.task}"
    shell:
        STEP + " data {RESULTS} {wildcards.task:q} > {log} 2>&1"
