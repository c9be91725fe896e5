rule track:
    """The study in MLflow, at MLFLOW_TRACKING_URI or in results/mlflow.db.

    A store that cannot be reached fails nothing: the output says so, and so do Snakemake's last lines; the next call
    tries again.
    """
    input:
        summary=rules.summary.output,
    output:
        f"{RESULTS}/tracked.json",
    log:
        f"{RESULTS}/track.log",
    localrule: True
    params:
        # Not in the command, which would show a password; another store is reason enough to run again.
        store=without_secrets(chosen_store(Path("results"))),
    message:
        "tracking in MLflow"
    shell:
        'exec "$PYTHON" -m workflows.steps.track --results {RESULTS} --out {output} > {log} 2>&1'
