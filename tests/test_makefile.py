"""The set-up logic of the Makefile, tried on a copy of it with a tiny lock and a stand-in for Python."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

#: Stands in for python3. It notes its work in the file `calls`, and "installs" by waiting until `hold` is gone, then
#: failing if there is a file `offline`. `pip freeze` tells the content of the file `frozen`. Version and modules come
#: from the real Python, altered by `pretend`.
STAND_IN = """#!/bin/sh
case "$1 $2" in
"-c "*) exec "{real}" -c "{pretend}
import sys; exec(sys.argv[1])" "$2" ;;
"-m venv") echo venv >> calls; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
"-m pip") if [ "$3" = freeze ]; then exec cat frozen; fi
    echo "pip $*" >> calls; for i in $(seq 1000); do [ -e hold ] || break; sleep 0.05; done
    if [ -e offline ]; then echo "ERROR: no connection" >&2; exit 1; fi
    touch "$(dirname "$0")/installed" ;;
"-m "*) echo "$2: $*" >> calls ;;
"--version ") echo "Python 3.12.0" ;;
esac
"""
BUILT = ["venv", "pip", "pip"]


class Checkout:
    """A folder with the Makefile and what it reads, and nothing else of the project."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        (folder / "requirements.lock").write_text("six==1.17.0\n")
        self.pretend("import sys; sys.version_info = (3, 12, 0, 'final', 0)")

    def pretend(self, code: str) -> None:
        stand_in = self.folder / "python-stand-in"
        stand_in.write_text(STAND_IN.format(real=sys.executable, pretend=code))
        stand_in.chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        # The variables of a make around this test would change the one inside it.
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        return subprocess.Popen(
            ["make", "PYTHON=./python-stand-in", *arguments],
            cwd=self.folder,
            env=outside | variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def make(self, *arguments: str, **variables: str) -> str:
        """What it prints; it has to succeed."""
        process = self.start(*arguments, **variables)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        return output

    def fail(self, *arguments: str) -> str:
        """What it says about its failure."""
        process = self.start(*arguments)
        _, errors = process.communicate(timeout=300)
        assert process.returncode != 0 and "Traceback" not in errors
        return errors

    @property
    def lines(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def calls(self) -> list[str]:
        """The first word of each piece of work done so far."""
        return [line.split(" ")[0] for line in self.lines]

    def wait_for(self, call: str) -> None:
        deadline = time.monotonic() + 300
        while call not in self.calls:
            assert time.monotonic() < deadline, f"{call} was not called"
            time.sleep(0.02)


@pytest.fixture
def checkout(tmp_path):
    """Its folder's name is worth being careful with."""
    return Checkout(tmp_path / "$(touch made) `touch made` \"' a")


def test_setup_builds_once_and_again_from_scratch_when_the_lock_changes(checkout):
    checkout.make("setup")
    assert checkout.calls == BUILT
    lock = checkout.folder / "requirements.lock"
    assert (checkout.folder / ".venv" / f"complete-{hashlib.sha256(lock.read_bytes()).hexdigest()}").exists()
    leftover = checkout.folder / ".venv" / "leftover"
    leftover.touch()
    lock.touch()
    assert "up to date" in checkout.make("setup")
    assert checkout.calls == BUILT and leftover.exists()
    lock.write_text("six==1.16.0\n")
    checkout.make("setup")
    assert checkout.calls == BUILT * 2 and not leftover.exists()
    # An upgrade of the system's Python can take it away.
    (checkout.folder / ".venv" / "bin" / "python").unlink()
    checkout.make("setup")
    assert checkout.calls == BUILT * 3


def test_an_interrupted_build_is_rebuilt_from_scratch(checkout):
    hold = checkout.folder / "hold"
    hold.touch()
    build = checkout.start("setup")
    checkout.wait_for("pip")
    os.killpg(build.pid, 9)
    build.communicate(timeout=300)
    (checkout.folder / ".venv" / "leftover").touch()
    hold.unlink()
    checkout.make("setup")
    assert checkout.calls == ["venv", "pip", *BUILT]
    assert not (checkout.folder / ".venv" / "leftover").exists()
    assert (checkout.folder / ".venv" / "bin" / "installed").exists()


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is not installed")
def test_two_makes_at_once_build_once(checkout):
    hold = checkout.folder / "hold"
    hold.touch()
    first = checkout.start("setup")
    checkout.wait_for("pip")
    second = checkout.start("setup")
    # The second says that it waits before it does; only then may the first go on.
    assert second.stdout is not None
    assert "waiting" in second.stdout.readline()
    hold.unlink()
    for process in (first, second):
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert checkout.calls == BUILT


def test_a_python_that_cannot_be_used_gets_a_sentence(checkout):
    for version in ((2, 7, 18), (3, 10, 9), (3, 14, 0)):
        checkout.pretend(f"import sys; sys.version_info = {version}")
        error = checkout.fail("setup")
        assert f"./python-stand-in is Python {version[0]}.{version[1]}; Python >=3.11,<3.14 is needed" in error
        assert "make setup PYTHON=/path/to/python3.12" in error
    checkout.pretend("import sys; sys.version_info = (3, 12, 0); sys.modules['ensurepip'] = None")
    assert "its venv module is missing" in checkout.fail("setup")
    assert "no working Python found as 'no-such-python3'" in checkout.fail("setup", "PYTHON=no-such-python3")
    assert checkout.calls == []


def test_a_failed_download_gets_a_sentence_and_is_tried_again(checkout):
    (checkout.folder / "offline").touch()
    assert "the packages of requirements.lock could not be installed" in checkout.fail("setup")
    checkout.fail("lock")
    assert (checkout.folder / "requirements.lock").read_text() == "six==1.17.0\n"
    (checkout.folder / "offline").unlink()
    checkout.make("setup")
    assert checkout.calls[-3:] == BUILT


def test_lock_writes_what_was_installed_without_local_tags_and_cuda_libraries(checkout):
    frozen = "zipp==4.0\ntorch==2.13.0+cpu\nnvidia-cublas==13.1\ntriton==3.7\nABC==1.0\nbcd==2.0\n"
    (checkout.folder / "frozen").write_text(frozen)
    checkout.make("lock")
    first, *lines = (checkout.folder / "requirements.lock").read_text().splitlines()
    assert first.startswith("#") and "make lock" in first
    pins = [line for line in lines if not line.startswith("#")]
    assert pins == ["ABC==1.0", "bcd==2.0", "torch==2.13.0", "zipp==4.0"]
    assert not (checkout.folder / ".venv").exists()


def test_targets_start_what_they_are_for_and_run_nothing_that_the_folder_is_called(checkout):
    (checkout.folder / "Snakefile").touch()
    study, smoke = '$(touch made)" my study.yaml', "workflows/studies/smoke.yaml"
    for target, variables, expected in (
        ("run", {}, ["snakemake: -m snakemake --cores all -n"]),
        ("smoke", {}, [f"snakemake: -m snakemake --cores all --configfile {smoke} -n"]),
        (
            "run",
            {"STUDY": study},
            [
                f"workflows.study: -m workflows.study {study}",
                f"snakemake: -m snakemake --cores all --configfile {study} -n",
            ],
        ),
        ("ui", {}, ["pbnn_bench: -m pbnn_bench ui -n"]),
        ("bench", {}, ["benchmarks.bench: -m benchmarks.bench"]),
    ):
        checkout.make(target, "ARGS=-n", **variables)
        assert checkout.lines[-len(expected) :] == expected
    assert (ROOT / smoke).exists()
    before = len(checkout.calls)
    checkout.make("test")
    assert checkout.calls[before:] == ["ruff:", "ruff:", "mypy:", "snakefmt:", "pytest:"]
    for target in ("test-slow", "regress", "golden"):
        checkout.make(target)
    assert not (checkout.folder / "made").exists()


@pytest.mark.parametrize("home", ["writable", "not"])
def test_caches_go_beside_the_results_where_the_home_folder_cannot_be_written_to(checkout, tmp_path, home):
    (checkout.folder / "show.mk").write_text('include Makefile\nshow:\n\t@echo "$$XDG_CACHE_HOME"\n')
    home_folder = str(tmp_path) if home == "writable" else "/dev/null/home"
    shown = checkout.make("-f", "show.mk", "show", HOME=home_folder, XDG_CACHE_HOME="").strip()
    assert shown == ("" if home == "writable" else str(checkout.folder / "results" / ".cache" / "home"))


def test_clean_keeps_what_cannot_be_regenerated_and_distclean_takes_the_downloads_too(checkout):
    checkout.make("setup")
    kept = ["results/README.md", "results/baselines/cpu.json", "data/mnist.gz", ".venv/bin/python"]
    kept += ["results/.shared/reference/0123/reference.npz"]
    removed = ["results/paper/summary.csv", "results/mlflow.db", ".snakemake/log", "metrics/__pycache__/a.pyc"]
    for name in kept + removed:
        path = checkout.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    checkout.make("clean")
    assert [name for name in kept + removed if (checkout.folder / name).exists()] == kept
    checkout.make("distclean")
    assert [name for name in kept if (checkout.folder / name).exists()] == kept[:2]


def test_help_is_the_default_and_lists_every_target(checkout):
    declared = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    # A step of others, not a command.
    targets = set(declared[1].split()) - {"supported-python"}
    assert {line.split()[1] for line in checkout.make().splitlines()} == targets
    assert checkout.calls == []
