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
        everything,
    message:
        "all of {STUDY.name}"


onstart:
    keep_others_out()
    STUDY.write(Path(RESULTS))
    watch_progress()


onsuccess:
    tell_last_progress()
    tell_what_came_of_it()


onerror:
    tell_last_progress()
    summarise_what_there_is()
    tell_what_came_of_it()
