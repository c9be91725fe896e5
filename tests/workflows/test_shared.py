"""What studies share: made once, found by what it follows from, checked whenever it is read."""

from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.files import read_npz, write_npz
from implementations.tasks.likelihoods import poisson
from implementations.tuning import ladder
from metrics import predictive
from tests.workflows.test_steps import make_problem, make_reference
from workflows import evaluation, judge, shared
from workflows.shared import STORE, provide
from workflows.steps import network, reference, tune


class Maker:
    """Writes a file and counts how often."""

    def __init__(self) -> None:
        self.num_made = 0

    def __call__(self, path: Path) -> None:
        self.num_made += 1
        write_npz(path, {"numbers": np.arange(5.0)})


def test_another_study_finds_what_one_has_made_and_another_origin_is_something_else(tmp_path, monkeypatch):
    make = Maker()
    one, other = tmp_path / "results" / "one", tmp_path / "results" / "other"
    for results in (one, other, one):
        provide(results / "deep" / "reference.npz", results, {"weight": 1.0}, make)
    assert make.num_made == 1
    assert (one / "deep" / "reference.npz").read_bytes() == (other / "deep" / "reference.npz").read_bytes()
    provide(one / "reference.npz", one, {"weight": 2.0}, make)
    assert make.num_made == 2
    monkeypatch.setattr(shared, "code_of", lambda *places: "changed")
    provide(one / "reference.npz", one, {"weight": 2.0}, make)
    assert make.num_made == 3
    (folder, *_) = (tmp_path / "results" / STORE / "reference").iterdir()
    assert {path.name for path in folder.iterdir()} >= {"reference.npz", "reference.sha256", "origin.json"}


def test_all_code_counts_that_shared_files_follow_from(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.py").write_text("A = 1")
    before = shared.code_of.__wrapped__(tmp_path)
    (tmp_path / "deep" / "one.py").write_text("A = 2")
    assert shared.code_of.__wrapped__(tmp_path) != before
    for places, modules in ((shared.CODE, (poisson, predictive)), (tune.CODE, (ladder, judge, evaluation))):
        for module in modules:
            assert any(Path(module.__file__).is_relative_to(place) for place in places), module


DAMAGES = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:50]),
    "another": lambda path: write_npz(path, {"numbers": np.arange(6.0)}),
    "removed": lambda path: path.unlink(),
    "without its list": lambda path: path.with_suffix(".sha256").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_what_it_was_is_made_again(tmp_path, damage, capsys):
    make, results = Maker(), tmp_path / "results" / "one"
    provide(results / "reference.npz", results, {}, make)
    (path,) = (tmp_path / "results" / STORE).rglob("reference.npz")
    DAMAGES[damage](path)
    provide(results / "reference.npz", results, {}, make)
    assert make.num_made == 2
    assert (
        read_npz(results / "reference.npz")["numbers"].tolist() == read_npz(path)["numbers"].tolist() == [0, 1, 2, 3, 4]
    )
    assert (f"{path} is" in capsys.readouterr().err) == (damage != "without its list")


def test_a_copy_that_a_study_damages_is_its_own_and_a_failure_is_not_kept(tmp_path):
    make, results = Maker(), tmp_path / "results" / "one"
    provide(results / "reference.npz", results, {}, make)
    (results / "reference.npz").write_bytes(b"")
    provide(results / "reference.npz", results, {}, make)
    assert make.num_made == 1 and read_npz(results / "reference.npz")

    def broken(path: Path) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        provide(results / "reference.npz", results, {"weight": 1.0}, broken)
    provide(results / "reference.npz", results, {"weight": 1.0}, make)
    assert make.num_made == 2


def test_a_second_study_prepares_no_problem_and_finds_no_reference_again(tmp_path, monkeypatch):
    first, second = (tmp_path / "results" / name for name in ("first", "second"))
    problem = make_problem(first)
    answer = make_reference(first, problem)

    def no_work(*arguments: object, **more: object) -> None:
        raise AssertionError("it is there already")

    monkeypatch.setattr(network, "prepare", no_work)
    monkeypatch.setattr(reference, "reference", no_work)
    again = make_problem(second)
    assert again.read_bytes() == problem.read_bytes()
    assert make_reference(second, again).read_bytes() == answer.read_bytes()
