"""Installed into a fresh environment and used from another folder, by somebody who has never seen the checkout."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from implementations.tasks.problem import Problem
from pbnn_bench import packages

ROOT = Path(__file__).parents[2]

#: Ten lines, with a network of the user's own: what README.md promises.
TEN_LINES = """
import torch
from pbnn_bench import Problem, choose_batch_size
inputs, classes = torch.load("images.pt")
network = torch.load("network.pt", weights_only=False)
features = network[:-1](inputs).detach()
train, rest, new = slice(0, 600), slice(600, 1100), slice(1100, None)
problem = Problem.from_features(features[train], classes[train], validation=(features[rest], classes[rest]))
choice = choose_batch_size(problem, [100, 600], settings={"num_steps": 3000, "num_warmup": 500})
probabilities = choice.predict(features[new]).mean
print(choice.table())
"""

#: What the ten lines have to have made: a distribution that is as sure as it is right.
CHECK = """
import numpy as np
right = classes[new].numpy()
confidence, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == right
assert probabilities.shape == (len(right), 10) and np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
assert is_right.mean() > 0.85, is_right.mean()
# Two standard errors of 697 points are 0.02; the network trained to the end is further off.
assert abs(confidence.mean() - is_right.mean()) < 0.07, (confidence.mean(), is_right.mean())
import pbnn_bench, implementations, metrics
print(pbnn_bench.__file__, implementations.__file__, metrics.__file__, sep="\\n")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment into which a copy of the checkout was installed, and its folder.

    The dependencies are those of this environment, on a path of their own: installing them would take minutes.
    """
    folder = tmp_path_factory.mktemp("fresh")
    copy = folder / "checkout"

    def left_out(place: str, names: list[str]) -> set[str]:
        here = {name for name in names if name.startswith(".") or name == "__pycache__"}
        return here | ({"data", "build", "tests"} if Path(place) == ROOT else set())

    shutil.copytree(ROOT, copy, ignore=left_out, ignore_dangling_symlinks=True)
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    interpreter = environment / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([str(interpreter), "-c", where], capture_output=True, text=True, check=True)
    (Path(found.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--quiet"]
    done = subprocess.run(
        [*install, "--no-deps", "--no-build-isolation", "--no-index", str(copy)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(copy)
    return interpreter


def run(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *words], cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_ten_lines_with_a_network_of_ones_own_give_a_calibrated_distribution(python, tmp_path):
    save_a_network(tmp_path)
    (tmp_path / "mine.py").write_text(TEN_LINES + CHECK)
    assert len(TEN_LINES.strip().splitlines()) == 10
    done = run(python, tmp_path, "mine.py")
    assert done.returncode == 0, done.stderr
    # Not those of the checkout that this test stands in.
    *_, front, samplers, numbers = done.stdout.splitlines()
    assert str(ROOT) not in front + samplers + numbers
    assert samplers.endswith("/pbnn_bench/suite/implementations/__init__.py")


def save_a_network(folder: Path) -> None:
    """A classifier that its user has trained, and the images, as files."""
    import torch
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    inputs, classes = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(targets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)]
        network = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs[:600]), classes[:600]).backward()
        optimizer.step()
    torch.save((inputs, classes), folder / "images.pt")
    torch.save(network, folder / "network.pt")


def test_the_command_is_there_with_studies_and_all(python, tmp_path):
    command = python.with_name("pbnn-bench")
    of_study = ["calibrate", "--study", "paper", "--task", "regression"]
    for words, expected in ((["list"], "  pbnn_cn "), (of_study, "calibrates best on the validation points")):
        done = subprocess.run([str(command), *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


@pytest.mark.slow
def test_the_jobs_of_a_study_run_in_the_users_folder(python, tmp_path):
    (tmp_path / "mine.yaml").write_text("""
study: mine
description: one run
seeds: [0]
backends: [torch-cpu]
defaults: {num_steps: 200, num_warmup: 50}
tasks:
  - task: linear
    methods: {full_mh: {}}
""")
    command = str(python.with_name("pbnn-bench"))
    done = subprocess.run([command, "run", "mine.yaml", "--dry-run"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "results" / "mine").exists()
    # One job of it, which has to find the code.
    wanted = "results/mine/problems/linear/seed0/problem.npz"
    done = subprocess.run([command, "run", "mine.yaml", wanted], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Problem.load(tmp_path / wanted).task == "linear"


def test_a_module_of_the_users_with_the_name_of_a_package_is_named(python, tmp_path):
    (tmp_path / "metrics.py").write_text("accuracy = 1\n")
    done = run(python, tmp_path, "-c", "import pbnn_bench")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: pbnn_bench has a package 'metrics', and Python finds another one first: ")
    assert str(tmp_path / "metrics.py") in last


def test_in_a_checkout_the_packages_are_those_of_the_checkout():
    assert packages.folder() == ROOT
