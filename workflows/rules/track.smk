from workflows.tracking import chosen_store, without_password


rule track:
    """The study in MLflow, at MLFLOW_TRACKING_URI or in results/mlflow.db.

    A store that cannot be reached fails nothing: the output says so, and so do Snakemake's last lines, which clear it away
    so that the next call tries again.
    """
    input:
        rules.summary.output,
    output:
        RESULTS + "/tracked.json",
    log:
        RESULTS + "/track.log",
    localrule: True
    # Not in the command, which would show a password; another store is reason enough to run again.
    params:
        store=without_password(chosen_store(Path("results"))),
    message:
        "tracking in MLflow"
    shell:
        "{TRACK_COMMAND} > {log} 2>&1"
