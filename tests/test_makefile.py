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


class Checkout:
    """A folder with the Makefile and what it reads, and nothing else of the project."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        self.lock("six==1.17.0\n")
        self.pretend("import sys; sys.version_info = (3, 12, 0, 'final', 0)")

    def lock(self, text: str) -> None:
        (self.folder / "requirements.lock").write_text(text)

    def pretend(self, code: str) -> None:
        stand_in = self.folder / "python-stand-in"
        stand_in.write_text(STAND_IN.format(real=sys.executable, pretend=code))
        stand_in.chmod(0o755)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        # The variables of a make around this test would change the one inside it.
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        command = ["make", "PYTHON=./python-stand-in", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=outside | variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **variables)
        output, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def calls(self) -> list[str]:
        """The first word of each piece of work done so far."""
        file = self.folder / "calls"
        return [line.split(" ")[0] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(params=["checkout", "a folder with spaces", "$(touch made) `touch made` \"'"])
def checkout(request, tmp_path):
    return Checkout(tmp_path / request.param)


def wait_for_call(checkout: Checkout, call: str) -> None:
    deadline = time.monotonic() + 300
    while call not in checkout.calls():
        assert time.monotonic() < deadline, f"{call} was not called"
        time.sleep(0.02)


def test_setup_builds_once_and_then_does_nothing(checkout):
    first = checkout.make("setup")
    assert first.returncode == 0, first.stderr
    assert checkout.calls() == ["venv", "pip", "pip"]
    second = checkout.make("setup")
    assert second.returncode == 0
    assert "up to date" in second.stdout
    assert checkout.calls() == ["venv", "pip", "pip"]


def test_the_stamp_carries_the_checksum_of_the_lock(checkout):
    checkout.make("setup")
    checksum = hashlib.sha256((checkout.folder / "requirements.lock").read_bytes()).hexdigest()
    assert (checkout.folder / ".venv" / f"complete-{checksum}").exists()


def test_a_changed_lock_rebuilds_from_scratch_and_a_touched_one_does_not(checkout):
    checkout.make("setup")
    leftover = checkout.folder / ".venv" / "leftover"
    leftover.touch()
    (checkout.folder / "requirements.lock").touch()
    checkout.make("setup")
    assert checkout.calls() == ["venv", "pip", "pip"]
    checkout.lock("six==1.16.0\n")
    checkout.make("setup")
    assert checkout.calls() == ["venv", "pip", "pip", "venv", "pip", "pip"]
    assert not leftover.exists()


def test_an_interrupted_build_is_rebuilt_from_scratch(checkout):
    hold = checkout.folder / "hold"
    hold.touch()
    build = checkout.start("setup")
    wait_for_call(checkout, "pip")
    os.killpg(build.pid, 9)
    build.communicate(timeout=300)
    (checkout.folder / ".venv" / "leftover").touch()
    hold.unlink()

    assert checkout.make("setup").returncode == 0
    assert checkout.calls() == ["venv", "pip", "venv", "pip", "pip"]
    assert not (checkout.folder / ".venv" / "leftover").exists()
    assert (checkout.folder / ".venv" / "bin" / "installed").exists()


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is not installed")
def test_two_makes_at_once_build_once(checkout):
    hold = checkout.folder / "hold"
    hold.touch()
    first = checkout.start("setup")
    wait_for_call(checkout, "pip")
    second = checkout.start("setup")
    # The second says that it waits before it does; only then may the first go on.
    assert second.stdout is not None
    assert "waiting" in second.stdout.readline()
    hold.unlink()
    for process in (first, second):
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert checkout.calls() == ["venv", "pip", "pip"]


def test_an_environment_whose_python_went_away_is_rebuilt(checkout):
    checkout.make("setup")
    (checkout.folder / ".venv" / "bin" / "python").unlink()
    assert checkout.make("setup").returncode == 0
    assert checkout.calls() == ["venv", "pip", "pip", "venv", "pip", "pip"]


@pytest.mark.parametrize("version", ["(2, 7, 18)", "(3, 10, 9)", "(3, 14, 0)"])
def test_an_unsupported_python_gets_a_sentence(checkout, version):
    checkout.pretend(f"import sys; sys.version_info = {version}")
    result = checkout.make("setup")
    assert result.returncode != 0
    found = ".".join(re.findall(r"\d+", version)[:2])
    assert f"./python-stand-in is Python {found}; Python >=3.11,<3.14 is needed" in result.stderr
    assert "make setup PYTHON=/path/to/python3.12" in result.stderr
    assert "Traceback" not in result.stderr
    assert checkout.calls() == []


def test_a_missing_python_gets_a_sentence(checkout):
    result = checkout.make("setup", "PYTHON=no-such-python3")
    assert result.returncode != 0
    assert "no working Python found as 'no-such-python3'; Python >=3.11,<3.14 is needed" in result.stderr
    assert "make setup PYTHON=/path/to/python3.12" in result.stderr
    assert "not found" not in result.stderr


def test_a_python_without_venv_gets_a_sentence(checkout):
    checkout.pretend("import sys; sys.version_info = (3, 12, 0); sys.modules['ensurepip'] = None")
    result = checkout.make("setup")
    assert result.returncode != 0
    assert "its venv module is missing" in result.stderr
    assert "Traceback" not in result.stderr
    assert checkout.calls() == []


def test_a_failed_download_gets_a_sentence_and_is_tried_again(checkout):
    (checkout.folder / "offline").touch()
    result = checkout.make("setup")
    assert result.returncode != 0
    assert "the packages of requirements.lock could not be installed" in result.stderr
    (checkout.folder / "offline").unlink()
    assert checkout.make("setup").returncode == 0
    assert checkout.calls() == ["venv", "pip", "venv", "pip", "pip"]


def test_lock_writes_what_was_installed_without_local_tags_and_cuda_libraries(checkout):
    frozen = "zipp==4.0\ntorch==2.13.0+cpu\nnvidia-cublas==13.1\ntriton==3.7\nABC==1.0\nbcd==2.0\n"
    (checkout.folder / "frozen").write_text(frozen)
    result = checkout.make("lock")
    assert result.returncode == 0, result.stderr
    first, *lines = (checkout.folder / "requirements.lock").read_text().splitlines()
    assert first.startswith("#")
    assert "make lock" in first
    pins = [line for line in lines if not line.startswith("#")]
    assert pins == ["ABC==1.0", "bcd==2.0", "torch==2.13.0", "zipp==4.0"]
    assert not (checkout.folder / ".venv").exists()


def test_a_failed_lock_leaves_the_old_one(checkout):
    (checkout.folder / "offline").touch()
    assert checkout.make("lock").returncode != 0
    assert (checkout.folder / "requirements.lock").read_text() == "six==1.17.0\n"


def test_run_and_smoke_start_snakemake_with_the_given_arguments(checkout):
    for target in ("run", "smoke"):
        result = checkout.make(target, "ARGS=--dry-run")
        assert result.returncode == 0, result.stderr
    calls = (checkout.folder / "calls").read_text().splitlines()
    assert calls[-2] == "snakemake: -m snakemake --cores all --dry-run"
    smoke = "workflows/studies/smoke.yaml"
    assert calls[-1] == f"snakemake: -m snakemake --cores all --configfile {smoke} --dry-run"
    assert (ROOT / smoke).exists()


def test_another_study_is_checked_before_it_is_run(checkout):
    name = '$(touch made)" my study.yaml'
    result = checkout.make("run", "ARGS=-n", STUDY=name)
    assert result.returncode == 0, result.stderr
    *_, check, run = (checkout.folder / "calls").read_text().splitlines()
    assert check == f"workflows.study: -m workflows.study {name}"
    assert run == f"snakemake: -m snakemake --cores all --configfile {name} -n"
    assert not (checkout.folder / "made").exists()


def test_no_target_runs_what_the_folder_is_called(checkout):
    (checkout.folder / "Snakefile").touch()
    for target in ("test", "test-slow", "run", "smoke", "bench", "regress", "lint"):
        result = checkout.make(target)
        assert result.returncode == 0, result.stderr
    assert not (checkout.folder / "made").exists()


@pytest.mark.parametrize("home", ["writable", "not"])
def test_caches_go_beside_the_results_where_the_home_folder_cannot_be_written_to(checkout, tmp_path, home):
    (checkout.folder / "show.mk").write_text('include Makefile\nshow:\n\t@echo "$$XDG_CACHE_HOME"\n')
    home_folder = str(tmp_path) if home == "writable" else "/dev/null/home"
    result = checkout.make("-f", "show.mk", "show", HOME=home_folder, XDG_CACHE_HOME="")
    beside = str(checkout.folder / "results" / ".cache" / "home")
    assert result.stdout.strip() == ("" if home == "writable" else beside)


def test_test_is_lint_and_pytest(checkout):
    (checkout.folder / "Snakefile").touch()
    assert checkout.make("test", "ARGS=-x").returncode == 0
    assert checkout.calls() == [
        "venv",
        "pip",
        "pip",
        "ruff:",
        "ruff:",
        "mypy:",
        "snakefmt:",
        "pytest:",
    ]


def test_ui_is_that_of_the_front_door(checkout):
    assert checkout.make("ui", "ARGS=--port 5001").returncode == 0
    assert (checkout.folder / "calls").read_text().splitlines()[-1] == "pbnn_bench: -m pbnn_bench ui --port 5001"


def test_clean_keeps_what_cannot_be_regenerated_and_distclean_takes_the_downloads_too(checkout):
    checkout.make("setup")
    kept = ["results/README.md", "results/baselines/cpu.json", "data/mnist.gz", ".venv/bin/python"]
    kept += ["results/.shared/reference/0123/reference.npz"]
    removed = ["results/paper/summary.csv", "results/mlflow.db", ".snakemake/log", "metrics/__pycache__/a.pyc"]
    for name in kept + removed:
        path = checkout.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert checkout.make("clean").returncode == 0
    assert [name for name in kept + removed if (checkout.folder / name).exists()] == kept
    assert checkout.make("distclean").returncode == 0
    assert [name for name in kept if (checkout.folder / name).exists()] == kept[:2]


def test_help_is_the_default_and_lists_every_target(checkout):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    declared = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert declared is not None
    # A step of others, not a command.
    targets = set(declared[1].split()) - {"supported-python"}
    assert targets >= {"help", "setup", "run", "test", "lint", "smoke", "ui", "clean", "distclean", "lock"}
    result = checkout.make()
    assert {line.split()[1] for line in result.stdout.splitlines()} == targets
    assert checkout.calls() == []
