"""Whatever happens to a file of a study, the next call names it and makes it again, and no number changes.

Most of it runs on the steps and on what every call begins with, called in this process; Snakemake itself is called at
each of its entrances once.
"""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import chdir
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.artefact import read_record, write_record
from implementations.infrastructure.files import Damaged
from pbnn_bench.results import load_run
from records.artefacts import load_problem, load_reference
from records.layout import timing_path
from records.study import StudyResults
from records.summary import read_rows
from tests.implementations.infrastructure.test_artefact import IN_ITS_PLACE
from tests.workflows.small_study import PASSING, Small, planned
from tests.workflows.snakemake import Workdir
from workflows.cache import STORE
from workflows.preflight import inspect

#: Two methods, two weights, two seeds.
RUNS = [
    planned(method, f"{method}+weight={weight}", seed, weight=weight, **given)
    for method, given in (("full_mh", {}), ("pbnn", {"batch_size": 2, "num_batches": 5}))
    for weight in (100, 50)
    for seed in (0, 1)
]
#: The artefacts of a run's folder.
OF_A_RUN = ("run.json", "draws.npz", "metrics.json", "curves.npz")
#: Every artefact of a study of one run.
ONE = planned("full_mh")


def artefacts_of(study: Small) -> list[Path]:
    (run,) = study.runs
    files = [run.problem_path(study.results), run.reference_path(study.results)]
    files += [run.folder(study.results) / name for name in OF_A_RUN]
    files += [study.results / f"summary.{kind}" for kind in ("csv", "parquet")]
    return [*files, study.mark("sampled"), study.mark("evaluated")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A study of one run that was called to its end."""
    study = Small(tmp_path_factory.mktemp("finished") / "results" / "small", ONE)
    assert study.call() == []
    return study.results.parent


@pytest.fixture
def study(finished, tmp_path) -> Small:
    shutil.copytree(finished, tmp_path / "results")
    return Small(tmp_path / "results" / "small", ONE)


@pytest.fixture
def in_a_minute():
    """No file may make a call wait for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(60)
    yield
    signal.alarm(0)


def assert_healed(study: Small, numbers: dict, *damaged: Path) -> None:
    """One call names what is damaged, makes it again with the same numbers, and the next finds nothing to say."""
    lines = study.call()
    assert all(any(f"{path} is " in line for line in lines) for path in damaged), lines
    assert study.numbers() == numbers
    assert study.call() == []


# Misplacement


@pytest.fixture(scope="module")
def eight(tmp_path_factory) -> Small:
    study = Small(tmp_path_factory.mktemp("eight") / "results" / "eight", *RUNS)
    assert study.call() == []
    return study


KINDS: dict[str, Callable[[Path], list[Path]]] = {
    "problem": lambda results: sorted(results.rglob("problem.npz")),
    "reference": lambda results: sorted(results.rglob("reference.npz")),
    **{name: lambda results, name=name: sorted(results.rglob(name)) for name in OF_A_RUN},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_in_the_place_of_every_other_of_its_kind_is_named(eight, kind):
    paths = KINDS[kind](eight.results)
    assert len(paths) == {"problem": 2, "reference": 4}.get(kind, 8)
    names = ("sampled.json", "evaluated.json", "summary.csv", "summary.parquet")
    others = [path for path in eight.results.rglob("*") if path.name in names]
    for source, target in permutations(paths, 2):
        around = (target, target.with_name("run.json"), target.with_name("metrics.json"), *others)
        kept = {path: path.read_bytes() for path in around if path.exists()}
        target.write_bytes(source.read_bytes())
        lines = inspect(eight.results, eight.study)
        assert any(f"{target} is damaged" in line for line in lines), (source, target)
        for path, content in kept.items():
            path.write_bytes(content)
    assert inspect(eight.results, eight.study) == []


def test_whole_folders_that_were_swapped_are_named_and_made_again(eight, tmp_path):
    shutil.copytree(eight.results.parent, tmp_path / "results")
    study = Small(tmp_path / "results" / "eight", *RUNS)
    numbers = study.numbers()
    one, other = (run.folder(study.results) for run in (RUNS[0], RUNS[3]))
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)
    references = [RUNS[0].reference_path(study.results), RUNS[2].reference_path(study.results)]
    shutil.copy(*references)
    assert_healed(study, numbers, one / "run.json", other / "run.json", references[1])


def test_a_shared_file_in_the_place_of_another_changes_no_draws(eight, tmp_path):
    shutil.copytree(eight.results.parent, tmp_path / "results")
    study = Small(tmp_path / "results" / "eight", *RUNS)
    numbers = study.numbers()
    for kind in ("problem", "reference"):
        paths = sorted((tmp_path / "results" / STORE / kind).rglob(f"{kind}.npz"))
        content = [path.read_bytes() for path in paths]
        for path, of_the_next in zip(paths, content[1:] + content[:1], strict=True):
            path.write_bytes(of_the_next)
        for path in study.results.rglob(f"{kind}.npz"):
            path.unlink()
    assert_healed(study, numbers)


# Damage


def another(path: Path) -> None:
    """A file that can be read, with something else in it."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            arrays = dict(archive)
        np.savez(path, **{name: array + 1 if array.dtype.kind == "f" else array for name, array in arrays.items()})
    elif path.suffix == ".parquet":
        import pandas as pd

        table = pd.read_parquet(path)
        table.assign(acceptance_rate=table["acceptance_rate"] / 2).to_parquet(path, index=False)
    else:
        text = path.read_text()
        digit = next(character for character in reversed(text) if character.isdigit())
        path.write_text(str((int(digit) + 1) % 10).join(text.rsplit(digit, 1)))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size)),
    "another": another,
    "removed": lambda path: path.unlink(),
    "older": lambda path: os.utime(path, (10**9, 10**9)),
}


@pytest.mark.parametrize("number", range(10))
def test_every_damage_to_every_file_is_healed(study, number, in_a_minute):
    numbers, path = study.numbers(), artefacts_of(study)[number]
    for damage, do in DAMAGES.items():
        before = path.read_bytes()
        do(path)
        assert_healed(study, numbers, *([] if damage in ("removed", "older") else [path]))
        assert path.is_file()
        if path.stem in ("problem", "draws"):
            assert path.read_bytes() == before


@pytest.mark.parametrize("what", IN_ITS_PLACE)
def test_whatever_stands_in_the_place_of_a_file_is_moved_aside(study, what, in_a_minute):
    numbers = study.numbers()
    for path in artefacts_of(study):
        path.unlink()
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            IN_ITS_PLACE[what](Path(path.name))
        finally:
            os.chdir(here)
        assert_healed(study, numbers, path)
        aside = [other for other in path.parent.iterdir() if other.name.startswith(f"{path.name}.damaged")]
        assert aside
        for other in aside:
            shutil.rmtree(other) if other.is_dir() and not other.is_symlink() else other.unlink()


@pytest.mark.parametrize("what", ["a FIFO", "a folder with a file", "a link loop"])
def test_what_stands_in_the_place_of_other_files_and_of_folders_stops_no_call(study, what, in_a_minute, monkeypatch):
    monkeypatch.chdir(study.results.parent.parent)
    study.results, numbers = Path("results", study.results.name), study.numbers()
    folder = study.runs[0].folder(study.results)
    # Where the record of a run is missing too, nobody has read what stands in the place of its draws.
    (folder / "run.json").unlink()
    (folder / "metrics.json").unlink()
    for name in (folder / "draws.npz", folder / "curves.npz", study.results / "runs.parquet", "figures.json"):
        path = study.results / name if isinstance(name, str) else name
        path.unlink(missing_ok=True)
        with chdir(path.parent):
            IN_ITS_PLACE[what](Path(path.name))
    study.study.write(study.results)
    study.call()
    assert study.numbers() == numbers
    if what != "a folder with a file":
        for name in ("runs", "problems", "references", "batches"):
            shutil.rmtree(study.results / name)
            with chdir(study.results):
                IN_ITS_PLACE[what](Path(name))
            assert any(f"{study.results / name} is no folder; moved to" in line for line in study.call())
            assert study.numbers() == numbers
    assert study.call() == []


def test_a_timing_of_another_backend_is_named(study):
    path = timing_path(study.results, "jax-cpu")
    write_record(path, "timing", {"backend": "torch-cpu", "runs": {}})
    (line,) = study.call()
    assert f"{path} is damaged: it belongs elsewhere: backend is 'torch-cpu', not 'jax-cpu'" in line


@pytest.mark.parametrize("name", ["problem", "reference"])
@pytest.mark.parametrize("damage", ["emptied", "truncated", "another"])
def test_damage_to_what_studies_share_gets_into_no_study(study, name, damage):
    numbers = study.numbers()
    (path,) = (study.results.parent / STORE / name).rglob(f"{name}.npz")
    DAMAGES[damage](path)
    next(study.results.rglob(f"{name}.npz")).unlink()
    assert_healed(study, numbers)


@pytest.mark.parametrize("number", range(6))
def test_a_job_whose_input_is_damaged_fails_in_a_line_and_moves_it_aside(study, number, capsys):
    """In the middle of a call, after what it begins with."""
    path = artefacts_of(study)[number]
    path.write_bytes(b"PK")
    step = {"problem.npz": "sample", "reference.npz": "evaluate"}.get(path.name, "evaluate")
    if path.name in ("metrics.json", "curves.npz"):
        # These are its outputs.
        assert study.step(step, study.batch) == 0
    elif path.name == "draws.npz":
        (path.parent / "metrics.json").unlink()
        assert study.step(step, study.batch) == 1
    else:
        assert study.step(step, study.batch) == 1
    error = capsys.readouterr().err
    assert f"{path} is damaged: " in error and "Traceback" not in error
    assert path.with_name(f"{path.name}.damaged").exists()


def test_readers_of_the_library_and_of_commands_refuse_it_too(study):
    (run,) = study.runs
    results, folder = study.results, run.folder(study.results)
    calls: dict[Path, Callable[[], object]] = {
        run.problem_path(results): lambda: load_problem(results, "linear", 0),
        run.reference_path(results): lambda: load_reference(results, "linear", 100.0, 0),
        folder / "run.json": lambda: load_run(folder),
        folder / "draws.npz": lambda: ((folder / "metrics.json").unlink(), load_run(folder)),
        folder / "curves.npz": lambda: StudyResults.load(results).curves(run.path),
        results / "summary.parquet": lambda: StudyResults.load(results),
    }
    for path, call in calls.items():
        path.write_bytes(path.read_bytes()[:300])
        with pytest.raises(Damaged, match=f"{path.name} is damaged: .*moved to"):
            call()
        study.call()


def test_commands_refuse_a_run_of_another_seed_and_metrics_of_another_run(eight, tmp_path):
    results = shutil.copytree(eight.results, tmp_path / "eight")
    one, other = (run.folder(results) for run in RUNS[:2])
    right = load_run(one).metrics["r_hat"]
    for name in ("run.json", "metrics.json"):
        kept = (one / name).read_bytes()
        shutil.copy(other / name, one / name)
        with pytest.raises(Damaged, match=f"{name} is damaged: it belongs elsewhere: run is .*seed1"):
            load_run(one)
        (one / name).write_bytes(kept)
    assert load_run(one).metrics["r_hat"] == right


# Through Snakemake

WHOLE = {
    "study": "one",
    "description": "a single run",
    "seeds": [0],
    "backends": ["torch-cpu"],
    "chains": 2,
    "defaults": {"num_steps": 100, "num_warmup": 20, "thin": 2},
    "tasks": [{"task": "linear", "methods": {"full_mh": {"preconditioner": "none", "step_size": 0.005}}}],
}
RUN = "runs/linear/full_mh+step_size=0.005+preconditioner=none/torch-cpu/seed0"
ENTRANCES = {
    "all": [],
    "a named target": ["--rerun-incomplete", "results/one/summary.csv"],
    "--until": ["--until", "evaluate"],
    "--forcerun": ["--forcerun", "sample", "--until", "summary"],
}


@pytest.mark.slow
def test_snakemake_heals_at_every_entrance_and_changes_no_number(tmp_path):
    work = Workdir(tmp_path / "work", WHOLE)
    code, output = work.run()
    assert code == 0, output

    def numbers() -> tuple[bytes, list[dict[str, str]]]:
        rows = read_rows(work.results / "summary.csv")
        kept = [{name: value for name, value in row.items() if name not in PASSING} for row in rows]
        return (work.results / RUN / "draws.npz").read_bytes(), kept

    before = numbers()
    for arguments in ENTRANCES.values():
        (work.results / RUN / "draws.npz").write_bytes(b"x" * 300)
        another(work.results / "summary.csv")
        (work.results / "problems/linear/seed0/problem.npz").unlink()
        (work.results / "problems/linear/seed0/problem.npz").mkdir()
        code, output = work.run(*arguments)
        assert code == 0 and "Traceback" not in output, (arguments, output)
        for name in (f"{RUN}/draws.npz", "summary.csv", "problems/linear/seed0/problem.npz"):
            assert f"results/one/{name} is damaged: " in output, (arguments, name)
        if "evaluate" in arguments:
            code, output = work.run("--until", "summary")
            assert code == 0, output
        assert numbers() == before, arguments
        assert "damaged" not in work.run("--dry-run")[1]
    # Killed before it could tell of a failed figure, the next call draws it again.
    (work.results / "figures.json").write_text('{"figures": [{"name": "a", "failure": "RuntimeError: no"}]}')
    database = work.folder / "results" / "mlflow.db"
    database.write_bytes(b"no database")
    code, output = work.run()
    assert code == 0 and "one: 1 of 1 runs ok" in output, output
    assert "not tracked in sqlite:///results/mlflow.db: file is not a database" in output
    # A person may have kept something there.
    database.unlink()
    assert "MLflow: tracked in" in work.run()[1]
    code, output = work.run()
    assert (code, "Nothing to be done" in output) == (0, True)
    assert read_record(work.results / "tracked.json", "tracked")["failure"] is None


@pytest.mark.slow
def test_a_part_of_a_study_can_be_asked_for_by_itself(tmp_path):
    work = Workdir(tmp_path / "work", WHOLE)
    code, output = work.run("--until", "network")
    assert code == 0, output
    assert (work.results / "problems/linear/seed0/problem.npz").exists()
    assert not (work.results / "runs").exists()
