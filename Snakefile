# A study, from data to report:  snakemake --cores all --configfile workflows/studies/smoke.yaml
# Without --configfile it is the study `paper`. Settings of Snakemake itself are in profiles/.
from snakemake.utils import min_version

min_version("9.27")


include: "workflows/rules/common.smk"
include: "workflows/rules/data.smk"
include: "workflows/rules/network.smk"
include: "workflows/rules/reference.smk"
include: "workflows/rules/tune.smk"
include: "workflows/rules/sample.smk"
include: "workflows/rules/timing.smk"
include: "workflows/rules/evaluate.smk"
include: "workflows/rules/summary.smk"
include: "workflows/rules/track.smk"
include: "workflows/rules/report.smk"


rule all:
    """Everything of a study by name."""
    default_target: True
    input:
        rules.summary.output,
        rules.track.output,
        rules.report.output,
    message:
        "all of {STUDY.name}"


onstart:
    start()


onsuccess:
    close()


onerror:
    conclude()
    close()
