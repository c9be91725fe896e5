"""What a node of a cluster is told to do, without a cluster: Snakemake there is called for some jobs by name."""

from snakemake_interface_executor_plugins.utils import TargetSpec, encode_target_jobs_cli_args

from tests.workflows.snakemake import Workdir

STUDY = {
    "study": "jobs",
    "description": "runs whose names have commas or none",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "tasks": [{"task": "linear", "methods": {"full_mh": {}, "naive": {"batch_size": 2, "num_batches": 5}}}],
}


def test_a_job_on_a_node_is_the_run_it_was_submitted_for_although_its_name_has_commas(tmp_path):
    work = Workdir(tmp_path / "work", STUDY)
    names = ["linear/full_mh/torch-cpu/seed0", "linear/naive,batch_size=2,num_batches=5/torch-cpu/seed0"]
    targets = encode_target_jobs_cli_args([TargetSpec("sample", {"run": name}) for name in names])
    code, output = work.run("--dry-run", "--mode", "remote", "--target-jobs", *targets)
    assert code == 0, output
    assert [name for name in names if f": {name}\n" not in output] == []
