"""Files that are whole or absent, and what is left of an attempt that was killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from implementations.infrastructure.files import ABANDONED_SECONDS, atomic_path, clear_abandoned, write_json

KILLED = """
import os, signal, sys
from pathlib import Path
from implementations.infrastructure.files import atomic_path
with atomic_path(Path(sys.argv[1])) as temporary:
    temporary.write_text("half of it")
    Path(f"{temporary}-journal").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_attempt_leaves_the_old_file_and_what_it_left_is_removed_when_it_is_nobodys(tmp_path):
    path = tmp_path / "mlflow[1].db"
    path.write_text("whole")
    others = [tmp_path / name for name in (".mlflow[1].db", ".mlflow1.db.x", ".lock")]
    for other in others:
        other.touch()
        os.utime(other, (0, 0))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert killed.returncode == -signal.SIGKILL
    left = [file for file in tmp_path.iterdir() if file not in (path, *others)]
    assert len(left) == 2 and path.read_text() == "whole"
    # It might still be somebody's.
    clear_abandoned(path)
    assert all(file.exists() for file in left)
    for file in left:
        os.utime(file, (time.time() - ABANDONED_SECONDS - 1,) * 2)
    clear_abandoned(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_an_attempt_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half of it")
        raise RuntimeError
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
