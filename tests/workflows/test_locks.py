"""One writer a folder, also after kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workflows.locks import Held, held, hold

ROOT = Path(__file__).parents[2]
HOLDER = "import sys, time; from pathlib import Path; from workflows.locks import hold; "


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER + code, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_folder_is_free_again_as_soon_as_its_holder_is_killed(tmp_path):
    holder = start("hold(Path(sys.argv[1]), is_patient=False); print('held', flush=True); time.sleep(60)", tmp_path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Held, match="another process works in"):
        hold(tmp_path, is_patient=False)
    waiter = start("hold(Path(sys.argv[1]), is_patient=True); print('held', flush=True)", tmp_path)
    assert "waiting for another process" in waiter.stderr.readline()
    time.sleep(0.2)
    assert waiter.poll() is None
    holder.kill()
    assert waiter.communicate(timeout=60)[0] == "held\n"
    holder.communicate()
    hold(tmp_path, is_patient=False)


def test_programs_started_by_the_holder_do_not_keep_the_lock(tmp_path):
    code = "import subprocess; hold(Path(sys.argv[1]), is_patient=False); "
    code += "child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True)"
    holder = start(code, tmp_path)
    child = int(holder.stdout.readline())
    try:
        holder.wait(timeout=60)
        hold(tmp_path, is_patient=False)
    finally:
        os.kill(child, signal.SIGKILL)
        holder.communicate()


def test_a_folder_that_cannot_be_locked_is_worked_in_without(tmp_path, capsys):
    (tmp_path / ".lock").mkdir()
    with held(tmp_path):
        assert "cannot be locked (Is a directory); going on without" in capsys.readouterr().err


def test_an_orphan_knows_that_it_is_one(tmp_path):
    code = "import os, sys, time; from workflows.locks import is_orphan; print(is_orphan(), flush=True)\n"
    code += "while not is_orphan(): time.sleep(0.01)\nopen(sys.argv[1], 'w').write('orphan')"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}, sys.argv[1]]); input()"
    path = tmp_path / "seen"
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(path)], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == "False\n"
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.stdin.close()
    process.stdout.close()
