"""What a node of a cluster has to do, without a cluster: Snakemake there is called for some jobs by name."""

from snakemake_interface_executor_plugins.utils import TargetSpec, encode_target_jobs_cli_args

from tests.workflows.snakemake import Workdir

METHODS = {"full_mh": {}, "naive": {"batch_size": 2, "num_batches": 5}}
STUDY = {
    "study": "jobs",
    "description": "runs whose names have one part or several",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "tasks": [{"task": "linear", "methods": METHODS}, {"task": "linear", "prior_scale": 0.5, "methods": METHODS}],
}


def planned_on_a_node(work: Workdir, *targets: TargetSpec) -> str:
    arguments = encode_target_jobs_cli_args(list(targets))
    code, output = work.run("--dry-run", "--mode", "remote", "--target-jobs", *arguments)
    assert code == 0, output
    return output


def test_a_job_on_a_node_is_the_part_it_was_submitted_for(tmp_path):
    work = Workdir(tmp_path / "work", STUDY)
    sampled, evaluated = "linear/torch-cpu/batch0", "linear-scale0.5/torch-cpu/batch0"
    output = planned_on_a_node(
        work, TargetSpec("sample", {"batch": sampled}), TargetSpec("evaluate", {"batch": evaluated})
    )
    assert f": {sampled}\n" in output and f": evaluation of {evaluated}\n" in output
    assert f": evaluation of {sampled}\n" not in output
