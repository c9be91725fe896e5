"""What is seen to before Snakemake begins: files it cannot read, and folders it cannot write to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflows.snakemake import ROOT
from tests.workflows.test_load_study import TRIAL
from workflows.early import check_named, use_writable_caches


@pytest.mark.parametrize("option", ["--configfile", "--configfiles"])
def test_snakemake_is_stopped_before_it_reads_what_cannot_be_read(tmp_path, option):
    (tmp_path / "folder").mkdir()
    good = tmp_path / "good.yaml"
    good.write_text(TRIAL)
    faults = {"latin.yaml": b"study: caf\xe9", "utf16.yaml": TRIAL.encode("utf-16")}
    for name, content in faults.items():
        (tmp_path / name).write_bytes(content)
    for name in (*faults, "folder", "absent.yaml"):
        with pytest.raises(SystemExit) as stopped:
            check_named(["--cores", "1", option, str(good), str(tmp_path / name), "-n"])
        assert str(stopped.value).startswith(f"{tmp_path / name}: ") and "\n" not in str(stopped.value)
    check_named(["--cores", "1", option, str(good)])
    check_named(["--cores", "1", option])
    check_named(["--config", "a=1"])


@pytest.mark.parametrize("profile", [[], ["--workflow-profile", "profiles/slurm"]])
def test_snakemake_itself_answers_a_file_that_is_no_text_in_a_line(tmp_path, profile):
    (tmp_path / "study.yaml").write_bytes(b"study: caf\xe9")
    words = ["-m", "snakemake", "-n", "--directory", str(tmp_path), "--configfile", str(tmp_path / "study.yaml")]
    ended = subprocess.run([sys.executable, *words, *profile], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    *_, line = ended.stderr.splitlines()
    assert line == f"{tmp_path / 'study.yaml'}: is not UTF-8 text; save it as UTF-8"


@pytest.mark.parametrize("is_writable", [True, False])
@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME"])
def test_caches_go_beside_the_results_where_there_is_no_other_place(tmp_path, monkeypatch, name, is_writable):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("XDG_CACHE_HOME", None)
    os.environ.pop("MPLCONFIGDIR", None)
    os.environ[name] = str(tmp_path / "there") if is_writable else "/dev/null/there"
    monkeypatch.setattr(Path, "home", lambda: Path(os.environ["HOME"]))
    before = dict(os.environ)
    use_writable_caches()
    if is_writable:
        assert os.environ == before
    else:
        assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "results" / ".cache" / "home")
        assert os.environ["MPLCONFIGDIR"].startswith(os.environ["XDG_CACHE_HOME"])
