"""Every system call that writes an artefact fails once, or from then on, and leaves the old file or the new one."""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from implementations.infrastructure.files import Damaged
from implementations.run_files import read_draws, read_run, write_run
from implementations.tasks import prepare
from implementations.tuning.pilot import TunedApart
from records.artefacts import read_curves, read_metrics, write_metrics, write_tuning
from records.reference import reference
from records.summary import check_csv, read_summary, table_of, write_summary
from tests.workflows.made_up import MadeUp
from workflows.runs import write_mark, write_runs
from workflows.steps import __main__ as steps
from workflows.steps import data, report, summary
from workflows.study import load_study

CALLS = ("open", "write", "fsync", "rename")
#: A full disk stays full; the others pass.
IS_LASTING = {errno.EIO: False, errno.ENOSPC: True, errno.EACCES: False}
STUDY = Path(__file__).parents[2] / "workflows" / "studies" / "smoke.yaml"
RUN = "linear/full_mh/jax-cpu/seed0"


@contextmanager
def failing(kind: str, number: int, code: int) -> Iterator[list[OSError]]:
    """Python's own files, and the functions of ``os``, fail so in the block; the errors raised so far."""
    calls, raised, open_file = count(1), list[OSError](), io.open

    def fail(name: str) -> None:
        if name == kind and ((call := next(calls)) == number or (call > number and IS_LASTING[code])):
            raised.append(OSError(code, os.strerror(code)))
            raise raised[-1]

    class Raw(io.FileIO):
        def write(self, content: Any) -> int:
            view = memoryview(content).cast("B")
            try:
                fail("write")
            except OSError:
                # A full disk takes a part.
                super().write(view[: len(view) // 2])
                raise
            return super().write(view)

    def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if not isinstance(file, int):
            fail("open")
        if not set(mode) & set("wax+"):
            return open_file(file, mode, *arguments, **named)
        binary = io.BufferedWriter(Raw(file, mode.replace("b", "").replace("t", "")))
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding="utf-8", newline="\n")

    def counted(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            fail(name)
            return own(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module in (io, builtins):
            patch.setattr(module, "open", opened)
        for name, kind_of in {"open": "open", "fsync": "fsync", "replace": "rename", "rename": "rename"}.items():
            patch.setattr(os, name, counted(kind_of, getattr(os, name)))
        yield raised


PROBLEM = prepare("linear", 0, progress=False)
REFERENCE = reference(PROBLEM, 100.0)
RUNS = load_study(STUDY).runs[:3]


def write_rows(folder: Path, number: int) -> None:
    write_summary(folder, table_of([{"study": folder.name, "run": RUN, "seed": number}]))


#: How each artefact is written, with a number that tells a new one from the old.
WRITERS: dict[str, Callable[[Path, int], object]] = {
    "problem": lambda folder, number: replace(PROBLEM, seed=number).save(folder / "a.npz"),
    "reference": lambda folder, number: replace(REFERENCE, seed=number).save(folder / "a.npz"),
    "tuning": lambda folder, number: write_tuning(folder / "a.json", TunedApart({"step_size": number}), {"run": RUN}),
    "run": lambda folder, number: write_run(folder, {"run": RUN}, {}, {"draws": np.full(9999, number)}),
    "metrics": lambda folder, number: write_metrics(folder, RUN, {}, {"curve": np.full(9, number)}, {}),
    "mark": lambda folder, number: write_mark(folder, "a", "sampled", RUNS[number:]),
    "runs": lambda folder, number: write_runs(folder, [(run, "a") for run in RUNS[number:]], "some runs"),
    "summary": write_rows,
}
#: Artefacts of two files: whether they belong together is for their reader to say.
READERS: dict[str, Callable[[Path], object]] = {
    "run": lambda folder: (record := read_run(folder)) and read_draws(folder, record),
    "metrics": lambda folder: read_metrics(folder / "runs" / RUN) and read_curves(folder / "runs" / RUN),
    "summary": lambda folder: check_csv(folder, read_summary(folder)),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def restore(folder: Path, files: dict[str, bytes]) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("code", IS_LASTING, ids=errno.errorcode.get)
@pytest.mark.parametrize("kind", WRITERS)
def test_the_old_file_or_the_new_one_is_whole_and_the_next_call_succeeds(kind, code, tmp_path, monkeypatch, capsys):
    folder, write = tmp_path / "study", WRITERS[kind]
    write(folder, 1)
    new = contents(folder)
    write(folder, 0)
    old = contents(folder)
    assert new.keys() == old.keys() and new != old
    monkeypatch.setattr(data, "main", lambda folder: write(folder, 1))
    for call in CALLS:
        for number in count(1):
            restore(folder, old)
            with failing(call, number, code) as errors:
                status = steps.main(["data", str(folder)])
            found = contents(folder)
            if not errors:
                assert (status, found, number > 1) == (0, new, True)
                break
            if status == 0:
                # An old file that cannot be opened was moved aside.
                assert {name: found[name] for name in found if not name.endswith(".damaged")} == new
                continue
            # The step says so in one line.
            (line,) = capsys.readouterr().err.splitlines()
            assert (status, os.strerror(code) in line) == (1, True), line
            assert found.keys() <= old.keys(), "something is left behind"
            assert [name for name in found if found[name] not in (old[name], new[name])] == []
            # Files of two calls are no result.
            with nullcontext() if found in (old, new) or len(found) < len(old) else pytest.raises(Damaged):
                READERS.get(kind, contents)(folder)
            assert steps.main(["data", str(folder)]) == 0
            assert contents(folder).items() >= new.items()


@pytest.mark.parametrize("step", [summary, report])
def test_a_step_with_words_of_its_own_reports_a_failure_in_a_line_too(step, tmp_path, capsys):
    made_up = MadeUp(tmp_path)
    with failing("fsync", 1, errno.ENOSPC):
        assert step.main(["--results", str(made_up.results)]) == 1
    assert capsys.readouterr().err.splitlines() == ["[Errno 28] No space left on device"]
