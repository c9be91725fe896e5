"""One run: what it leaves behind, how it ends, and that a killed one goes on as if nothing had happened."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from implementations import __main__ as command
from implementations import checkpoint
from implementations.backends import BACKENDS, build_sampler
from implementations.backends.torch import chain as torch_chain
from implementations.methods import METHODS, resolve
from implementations.run import Job, run
from implementations.sampling import sample
from implementations.schedule import chunks
from implementations.tasks.geometry import start_points

SHORT = {"num_steps": 60, "num_warmup": 20, "thin": 10, "chains": 2}
CPU = ("jax-cpu", "torch-cpu")


def make_job(problem, method="pbnn", backend="torch-cpu", seed=0, **given):
    return Job(problem, method, resolve(method, SHORT | given, problem), backend, seed)


def make_sampler(job):
    return build_sampler(job.backend, job.problem, METHODS[job.method], job.settings)


@pytest.mark.parametrize("backend", CPU)
def test_a_run_leaves_its_record_and_its_draws(problem, tmp_path, backend):
    record = run(make_job(problem("linear"), backend=backend, batch_size=5, num_batches=4), tmp_path, stream=StringIO())
    assert json.loads((tmp_path / "run.json").read_text()) == record
    assert record["status"] == "ok"
    assert record["likelihood_evaluations"] == 2 * 5 * 4 * 60 * 2
    assert record["gradient_evaluations"] == 0
    assert 0 < record["acceptance_rate"] <= 1
    assert record["mean_variance"] > 0
    assert min(record[name] for name in ("wall_clock_s", "cpu_s", "warmup_s", "peak_memory_mb")) > 0
    assert record["versions"]["torch"].startswith("2.")
    with np.load(tmp_path / "draws.npz", allow_pickle=False) as arrays:
        assert arrays["draws"].shape == (2, 6, 2)
        assert arrays["draws"].dtype == np.float32
        assert arrays["acceptance"].mean() == pytest.approx(record["acceptance_rate"])
        assert arrays["audit_true_delta"].shape == (12,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draws.npz", "run.json"]


@pytest.mark.parametrize("backend", CPU)
def test_runs_of_one_process_share_a_compiled_loop_and_have_the_draws_of_runs_alone(problem, tmp_path, backend):
    chain = importlib.import_module(f"implementations.backends.{backend.split('-')[0]}.chain")
    chain.loop_of.cache_clear()
    steps = {"first": 0.001, "second": 0.002, "alone": 0.002}
    records = {}
    for name, step_size in steps.items():
        if name == "alone":
            chain.loop_of.cache_clear()
        job = make_job(problem("linear"), backend=backend, batch_size=5, num_batches=4, step_size=step_size)
        records[name] = run(job, tmp_path / name, stream=StringIO())
    compiled = {name: record["has_compiled"] for name, record in records.items()}
    # Short runs in torch step eagerly.
    assert compiled == dict.fromkeys(steps, False) | ({"first": True, "alone": True} if backend == "jax-cpu" else {})
    if backend == "jax-cpu":
        assert records["second"]["compile_s"] < 0.1 * min(records[name]["compile_s"] for name in ("first", "alone"))
    second, alone = ((tmp_path / name / "draws.npz").read_bytes() for name in ("second", "alone"))
    assert second == alone


@pytest.mark.parametrize("backend", CPU)
@pytest.mark.parametrize("thin", [7, 64, 100])
def test_thinning_keeps_the_last_position_of_each_stride(problem, backend, thin):
    """Also where a block of noise holds several ends of strides or none, and nothing of an unfinished stride."""
    trails = []
    for stride in (1, thin):
        job = make_job(problem("linear"), backend=backend, num_steps=50_000, thin=stride)
        sampler = make_sampler(job)
        trails.append(sampler.advance(sampler.start(np.zeros((2, 2)), 0), 238)[1])
    dense, thinned = trails
    num_draws = 238 // thin
    assert dense.positions.shape == (2, 238, 2)
    assert np.array_equal(thinned.positions, dense.positions[:, thin - 1 :: thin])
    for means, values in ((thinned.acceptance, dense.acceptance), (thinned.variance, dense.variance)):
        strides = values[:, : num_draws * thin].reshape(2, num_draws, thin)
        np.testing.assert_allclose(means, strides.mean(axis=2), rtol=1e-4)


@pytest.mark.parametrize("backend", CPU)
def test_a_warm_up_shorter_than_a_stride_and_steps_left_over_are_fine(problem, tmp_path, backend):
    job = make_job(problem("linear"), backend=backend, num_warmup=3, num_steps=25)
    record = run(job, tmp_path, is_audited=False, stream=StringIO())
    assert (record["num_draws"], record["num_steps_done"]) == (2, 28)


def test_long_phases_are_cut_into_few_chunks_and_short_ones_not_at_all(problem):
    cut = list(chunks(make_job(problem("linear"), num_steps=100, num_warmup=100_000, thin=1).settings))
    assert [chunk.num_steps for chunk in cut] == [2000] * 50 + [100]
    cut = list(chunks(make_job(problem("linear"), num_steps=100_000, num_warmup=0, thin=3).settings))
    assert len(cut) == 50
    assert all(chunk.num_steps % 3 == 0 for chunk in cut[:-1])
    assert sum(chunk.num_steps for chunk in cut) == 100_000


def test_chains_begin_at_the_start_points(problem, tmp_path):
    """Which are wider than the posterior, so that R-hat means something: a tiny step leaves the chains there."""
    job = make_job(problem("linear"), "full_mh", step_size=1e-12, chains=64)
    run(job, tmp_path, stream=StringIO())
    expected = start_points(problem("linear"), 100.0, 64, 0)
    np.testing.assert_allclose(np.load(tmp_path / "draws.npz")["draws"][:, 0], expected, atol=1e-4)


@pytest.mark.parametrize("backend", CPU)
def test_the_same_seed_gives_the_same_draws_and_another_seed_others(problem, tmp_path, backend):
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        job = make_job(problem("linear"), backend=backend, seed=seed)
        run(job, tmp_path / name, is_audited=False, stream=StringIO())
    one, two, other = (np.load(tmp_path / name / "draws.npz")["draws"] for name in ("one", "two", "other"))
    assert np.array_equal(one, two)
    assert not np.isclose(one, other).any()


@pytest.mark.parametrize("backend", CPU)
def test_a_chain_that_leaves_the_finite_numbers_is_a_result(problem, tmp_path, backend):
    record = run(make_job(problem("linear"), "sgld", backend, step_size=1e4), tmp_path, stream=StringIO())
    assert record["status"] == "diverged"
    assert 1 < record["diverged_at_step"] <= 20
    assert str(record["diverged_at_step"]) in record["reason"]
    assert np.isfinite(np.load(tmp_path / "draws.npz")["draws"]).all()


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name.endswith("gpu")])
def test_a_missing_gpu_is_a_result(problem, tmp_path, backend, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    record = run(make_job(problem("linear"), backend=backend), tmp_path, stream=StringIO())
    if backend == "jax-gpu" and record["status"] == "ok":
        return  # this machine has one
    assert (record["status"], record["reason"]) == ("skipped", "no CUDA device")
    assert np.load(tmp_path / "draws.npz")["draws"].shape == (2, 0, 2)


@pytest.mark.parametrize("backend", CPU)
@pytest.mark.parametrize(
    ("method", "variance"),
    [("naive", None), ("pbnn", "batches"), ("pbnn", "single"), ("pbnn", "points"), ("pbnn_mala", "oracle")],
)
def test_the_audit_is_the_methods_own_rule_beside_the_full_data(problem, backend, method, variance):
    linear = problem("linear")
    given = {"batch_size": 4, "num_batches": 5, "dtype": "float64"} | ({"variance": variance} if variance else {})
    job = make_job(linear, method, backend, **given)
    sampler = make_sampler(job)
    positions = np.random.default_rng(0).normal(linear.map, 0.1, (400, 2))
    audit = sampler.weigh("audit", positions, np.zeros(400, int), 0)
    # delta is unbiased, and its spread is the true variance; both within four Monte Carlo errors.
    noise = (audit["delta"] - audit["true_delta"]) / np.sqrt(audit["true_variance"])
    assert abs(noise.mean()) < 4 / np.sqrt(400)
    assert noise.std() == pytest.approx(1, abs=0.2)
    if variance == "oracle":
        np.testing.assert_allclose(audit["variance"], audit["true_variance"], rtol=1e-9)
    penalty = 0 if method == "naive" else audit["variance"] / 2
    np.testing.assert_allclose(audit["log_accept"], audit["log_ratio_proposal"] - audit["delta"] - penalty)


@pytest.mark.parametrize("backend", CPU)
def test_the_audit_of_sgld_weighs_its_moves_at_the_step_size_they_were_made_with(problem, backend):
    linear = problem("linear")
    job = make_job(linear, "sgld", backend, step_size=0.5, decay=1.0, decay_start=1.0, dtype="float64")
    sampler = make_sampler(job)
    positions = np.tile(linear.map.astype(float), (300, 1))
    early, late = (sampler.weigh("audit", positions, np.full(300, step), 0) for step in (0, 9_999))
    assert (early["log_accept"] == np.inf).all()
    # From the mode a move of sd sqrt(2 eta) raises U by eta a parameter: 0.5 × 2 at first, next to nothing later.
    assert early["true_delta"].mean() > 0.3
    assert abs(late["true_delta"]).mean() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("backend", CPU)
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("sgld", {"decay": 0.5, "decay_start": 10.0}),
        ("mala", {"dtype": "float64"}),
        ("pbnn", {"num_warmup": 1200, "step_size": "auto"}),
    ],
)
def test_a_run_goes_on_from_any_checkpoint_to_the_same_draws(problem, tmp_path, backend, method, given, monkeypatch):
    """Stopped after the second chunk, which for the last one is still warm-up."""
    job = make_job(problem("linear"), method, backend, **{"num_steps": 1200, **given})
    run(job, tmp_path / "undisturbed", stream=StringIO())
    save, saved = checkpoint.save, []

    def save_and_stop(*arguments):
        save(*arguments)
        saved.append(arguments)
        if len(saved) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            run(job, tmp_path / "stopped", checkpoint_seconds=0, stream=StringIO())
    log = StringIO()
    run(job, tmp_path / "stopped", stream=log)
    assert "going on from" in log.getvalue()
    ours, theirs = (np.load(tmp_path / name / "draws.npz") for name in ("stopped", "undisturbed"))
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.files)


#: The command, in a process that is killed without warning once its third checkpoint is there.
KILLED = """
import os, signal, sys
from implementations import __main__ as command, checkpoint
from tests.conftest import compile_audits_quickly
compile_audits_quickly()
save, saved = checkpoint.save, []
def save_and_die(*arguments):
    save(*arguments)
    saved.append(arguments)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.save = save_and_die
command.main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", CPU)
def test_a_run_killed_without_warning_goes_on_to_the_very_same_draws(tmp_path, backend, monkeypatch):
    load, resumed_at = checkpoint.load, []

    def noted(*arguments):
        progress, carry = load(*arguments)
        resumed_at.append(progress.num_steps)
        return progress, carry

    monkeypatch.setattr(checkpoint, "load", noted)
    words = ["--task", "linear", "--method", "pbnn", "--seed", "3", "--backend", backend, "--checkpoint-seconds", "0"]
    words += ["--set", "num_steps=1000", "--set", "num_warmup=300", "--set", "step_size=auto"]
    words += ["--set", "num_batches=auto", "--out"]
    out = tmp_path / "killed"
    killed = subprocess.run([sys.executable, "-c", KILLED, *words, str(out)], stderr=subprocess.PIPE, timeout=600)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (out / "checkpoint.npz").exists() and not (out / "run.json").exists()
    assert command.main([*words, str(out)]) == 0
    assert resumed_at == [560]
    assert not (out / "checkpoint.npz").exists()
    assert command.main([*words, str(tmp_path / "undisturbed")]) == 0
    ours, theirs = (np.load(tmp_path / name / "draws.npz") for name in ("killed", "undisturbed"))
    assert set(ours.files) == set(theirs.files)
    for name in ours.files:
        assert np.array_equal(ours[name], theirs[name]), name
    found, expected = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("killed", "undisturbed"))
    assert found["settings"]["step_size"] == "auto"
    assert found["tuning"] == expected["tuning"] and set(found["tuning"]["chosen"]) == {"step_size", "num_batches"}


class TestCheckpointsThatAreRefused:
    @pytest.fixture
    def out(self, problem, tmp_path, monkeypatch):
        """A folder with the checkpoint of an interrupted run."""

        def stop(*arguments):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("implementations.sampling._audited", stop)
            with pytest.raises(KeyboardInterrupt):
                run(make_job(problem("linear")), tmp_path, checkpoint_seconds=0, stream=StringIO())
        assert (tmp_path / "checkpoint.npz").exists()
        return tmp_path

    def test_its_own_is_taken(self, problem, out):
        log = StringIO()
        run(make_job(problem("linear")), out, stream=log)
        assert "going on from" in log.getvalue()

    def test_of_other_settings(self, problem, out):
        log = StringIO()
        record = run(make_job(problem("linear"), step_size=0.123), out, stream=log)
        assert "belongs elsewhere: step_size is 0.36, not 0.123" in log.getvalue()
        assert record["num_steps_done"] == 80

    def test_of_other_data(self, problem, out):
        log = StringIO()
        linear = problem("linear")
        run(make_job(replace(linear, targets=linear.targets + 1)), out, stream=log)
        assert "belongs elsewhere: problem_sha256" in log.getvalue()

    @pytest.mark.parametrize("damage", ["cut", "overwritten", "emptied"])
    def test_of_a_damaged_file(self, problem, out, damage):
        path = out / "checkpoint.npz"
        content = path.read_bytes()
        half = len(content) // 2
        path.write_bytes(
            {"cut": content[:half], "overwritten": content[:half] + b"x" * 40 + content[half + 40 :], "emptied": b""}[
                damage
            ]
        )
        log = StringIO()
        record = run(make_job(problem("linear")), out, stream=log)
        assert "checkpoint.npz is damaged" in log.getvalue() and (out / "checkpoint.npz.damaged").exists()
        assert record["status"] == "ok"


class TestTheCommand:
    def run(self, *words):
        length = ["--set", "num_steps=20", "--set", "num_warmup=20"]
        return command.main(["--task", "linear", *length, "--backend", "torch-cpu", *words])

    def test_a_finished_run_is_not_run_again_nor_overwritten(self, tmp_path, capsys):
        words = ["--method", "pbnn", "--out", str(tmp_path)]
        assert self.run(*words) == 0
        assert "ok: 2 draws × 4 chains" in capsys.readouterr().out
        before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert set(before) == {"run.json", "draws.npz", "problem.npz"}
        assert self.run(*words) == 0
        assert "already holds this run" in capsys.readouterr().out
        assert self.run(*words, "--seed", "1") == 2
        assert "holds another finished run (pbnn on linear, torch-cpu, seed 0)" in capsys.readouterr().err
        assert before == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        assert self.run(*words, "--seed", "1", "--overwrite") == 0
        assert json.loads((tmp_path / "run.json").read_text())["seed"] == 1

    @pytest.mark.parametrize("damage", ["rewritten", "cut", "removed"])
    def test_a_run_whose_draws_are_damaged_is_made_again(self, tmp_path, capsys, damage):
        words = ["--method", "pbnn", "--out", str(tmp_path)]
        assert self.run(*words) == 0
        path = tmp_path / "draws.npz"
        before = path.read_bytes()
        if damage == "rewritten":
            with np.load(path) as archive:
                np.savez(path, **{name: np.full_like(archive[name], 7) for name in archive.files})
        elif damage == "cut":
            path.write_bytes(before[:100])
        else:
            path.unlink()
        assert self.run(*words) == 0
        assert f"{path} is " in capsys.readouterr().err
        assert path.read_bytes() == before
        assert self.run(*words) == 0
        assert "already holds this run" in capsys.readouterr().out

    def test_a_skipped_run_is_tried_again(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        for _ in range(2):
            assert self.run("--method", "pbnn", "--out", str(tmp_path), "--backend", "torch-gpu") == 0
            assert "skipped: no CUDA device" in capsys.readouterr().out

    def test_an_output_that_is_a_file_gets_a_sentence(self, tmp_path, capsys):
        (tmp_path / "file").touch()
        assert self.run("--method", "pbnn", "--out", str(tmp_path / "file")) == 2
        assert "Not a directory" in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["problem.npz", "run.json"])
    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY", b"[7]", b"{", b'{"status": 7}'])
    def test_what_is_no_problem_or_record_is_moved_aside_and_made_again(self, tmp_path, capsys, name, content):
        (tmp_path / name).write_bytes(content)
        assert self.run("--method", "pbnn", "--out", str(tmp_path)) == 0
        assert f"{tmp_path / name} is damaged" in capsys.readouterr().err
        assert (tmp_path / f"{name}.damaged").read_bytes() == content

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--method", "pbn"], "error: no method 'pbn'; did you mean 'pbnn'?"),
            (["--method", "pbnn", "--backend", "jax-gpus"], "error: no backend 'jax-gpus'; did you mean 'jax-gpu'?"),
            (["--method", "pbnn", "--set", "batch_size"], "error: --set 'batch_size': expected NAME=VALUE"),
            (["--method", "pbnn", "--set", "batch_size=200"], "exceeds the 100 training points of 'linear'"),
            (["--method", "pbnn", "--set", "thin=5", "--set", "thin=6"], "error: --set gives a setting twice"),
            (["--method", "pbnn", "--set", "thin=99999999999"], "must be at most 1e+09"),
            (["--method", "pbnn", "--seed", "4294967296"], "seed = 4294967296 must be a whole number from 0 to"),
            (["--method", "full_mh", "--task", "mnist", "--stochastic", "all"], "use 'diagonal'"),
            (["--method", "pbnn", "--task", "liner"], "error: no task 'liner'; did you mean 'linear'?"),
            (["--method", "pbnn", "--prior", "lapace"], "'lapace'; did you mean 'laplace'?"),
            (["--method", "pbnn", "--stochastic", "al"], "'al'; did you mean 'all'?"),
            (["--method", "pbnn", "--stochastic", "all"], "'linear' has one layer, so 'all' is 'last'; leave it out"),
            (["--method", "pbnn", "--set", "chains=1e30"], "chains = 1e30 must be at most 1e+12"),
            (["--method", "pbnn", "--checkpoint-seconds", "nan"], "checkpoint_seconds = nan is not a number"),
            (["--method", "pbnn", "--checkpoint-seconds", "-1"], "checkpoint_seconds = -1.0 must be at least 0"),
            (["--method", "pbnn", "--prior-scale", "1e308"], "prior_scale = 1e+308 must be at most 1e+18"),
        ],
    )  # fmt: skip
    def test_a_mistake_gets_a_sentence_and_no_files(self, tmp_path, capsys, words, message):
        assert self.run("--out", str(tmp_path / "out"), *words) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", ["--out", "--data"])
    @pytest.mark.parametrize("text", ["", " "])
    def test_nothing_is_no_folder(self, tmp_path, monkeypatch, capsys, name, text):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as stopped:
            self.run("--method", "pbnn", "--out", "out", name, text)
        assert stopped.value.code == 2
        assert f"argument {name}: {text!r} is not a folder" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []

    # jax warns of the many chains too.
    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize("backend", CPU)
    def test_too_little_memory_gets_a_sentence(self, tmp_path, capsys, backend):
        words = ["--method", "pbnn", "--set", "chains=1e12", "--out", str(tmp_path), "--backend", backend]
        assert self.run(*words) == 2
        error = capsys.readouterr().err
        assert "error: not enough memory: " in error and "lower chains" in error

    def test_a_folder_whose_name_is_no_text_is_fine(self, tmp_path, capsysbinary):
        out = tmp_path / os.fsdecode(b"\xff")
        assert self.run("--method", "full_mh", "--out", str(out)) == 0
        assert capsysbinary.readouterr().out.startswith(b"ok: 2 draws")
        assert self.run("--method", "full_mh", "--out", str(out)) == 0

    def test_help_lists_every_method_and_setting(self, capsys):
        with pytest.raises(SystemExit) as stopped:
            command.main(["--help"])
        assert stopped.value.code == 0
        text = capsys.readouterr().out
        for method in METHODS.values():
            assert method.summary in text


@pytest.mark.parametrize("backend", CPU)
def test_a_kept_draw_is_the_last_of_its_stride_and_its_means_are_over_the_stride(problem, backend):
    """The same steps with every one of them kept tell what strides of seven have to leave, over two chunks."""
    thinned, every = (
        make_sampler(job)
        for job in (
            make_job(problem("linear"), "pbnn", backend, thin=thin, num_steps=700, batch_size=5, num_batches=4)
            for thin in (7, 1)
        )
    )
    start = np.tile(problem("linear").map, (thinned.settings.chains, 1))
    carries = [sampler.start(start, 0) for sampler in (thinned, every)]
    for num_steps in (252, 35):
        carries[0], found, _ = thinned.advance(carries[0], num_steps)
        carries[1], steps, _ = every.advance(carries[1], num_steps)
        np.testing.assert_array_equal(found.positions, steps.positions[:, 6::7])
        assert 0 < steps.acceptance.mean() < 1
        for means, values in ((found.acceptance, steps.acceptance), (found.variance, steps.variance)):
            np.testing.assert_allclose(means, values.reshape(len(values), -1, 7).mean(axis=-1), rtol=1e-5)
        # A step that moved has been accepted, and the others have not.
        has_moved = (np.diff(steps.positions, axis=1) != 0).any(axis=-1)
        np.testing.assert_array_equal(has_moved, steps.acceptance[:, 1:] == 1)


@pytest.fixture
def short_pieces(monkeypatch):
    """Compiled pieces of fewer steps, which compile sooner."""
    monkeypatch.setattr(torch_chain, "UNROLLED_STEPS", 2)
    torch_chain.loop_of.cache_clear()
    yield
    torch_chain.loop_of.cache_clear()


@pytest.mark.slow
# Of torch's own making.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize(
    ("task", "method", "given"),
    [
        # Hidden layers, gradients and both kinds of mini-batches.
        ("regression", "pbnn_mala", {"batch_size": 5, "num_batches": 5, "step_size": 1e-7}),
        ("digits", "pbnn", {"batch_size": 5, "num_batches": 5, "step_size": 0.01, "variance": "oracle"}),
        ("digits", "mala", {"step_size": 1e-2}),
    ],
)
def test_compiled_torch_steps_are_the_eager_ones(problem, task, method, given, short_pieces):
    """With an end that does not fill a compiled piece, and a resumed run."""
    given = given | {"num_steps": 60_000, "preconditioner": "none", "dtype": "float64", "thin": 3, "chains": 2}
    stochastic = "all" if task == "regression" else "last"
    job = make_job(problem(task, stochastic=stochastic), method, "torch-cpu", **given)
    start = np.tile(job.problem.map, (2, 1))
    trails = []
    for is_compiled in (False, True):
        sampler = make_sampler(job)
        carry = sampler.start(start, 0)
        if is_compiled:
            sampler.compile(carry)
            assert sampler.compiled is not None
        carry, first, _ = sampler.advance(carry, 78)
        if is_compiled:
            carry = sampler.from_arrays(sampler.to_arrays(carry))
        _, second, _ = sampler.advance(carry, 31)
        trails.append([np.concatenate(parts, axis=1) for parts in zip(first, second, strict=True)])
    eager, compiled = trails
    assert 0 < eager[1].mean() < 1
    for expected, found in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_compiler_that_fails_costs_speed_only(problem, monkeypatch):
    def fail(*arguments):
        raise AssertionError("no such instruction")

    monkeypatch.setattr("torch._inductor.compile", fail)
    job = make_job(problem("linear"), "sgld", "torch-cpu", num_steps=60_000, batch_size=5)
    sampler = make_sampler(job)
    carry = sampler.start(np.zeros((job.settings.chains, 2)), 0)
    with pytest.warns(UserWarning, match="no such instruction"):
        sampler.compile(carry)
    assert np.isfinite(sampler.advance(carry, 10)[1].positions).all()


@pytest.mark.parametrize("shape", [(5, 2), (4, 3), (2,)])
def test_start_points_of_another_shape_than_the_chains_are_refused(problem, shape):
    with pytest.raises(ValueError, match="start points"):
        sample(problem("linear"), "sgld", {"batch_size": 5}, "torch-cpu", start=np.zeros(shape))
