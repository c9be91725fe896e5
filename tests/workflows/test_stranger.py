"""A method and a task from files outside the tree: command line, DAG, summary, MLflow and report, nothing edited."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from implementations import __main__ as command
from implementations.infrastructure.errors import SettingError
from implementations.methods import METHODS, find_method
from implementations.plugins import checksum
from implementations.sampling import sample
from implementations.tasks import prepare
from tests.workflows.snakemake import Workdir
from workflows.study import load_study

PLUGIN = Path(__file__).parents[1] / "plugins" / "barker.py"
TASK = Path(__file__).parents[2] / "templates" / "task.py"


@pytest.fixture
def plugin(tmp_path):
    """The file in a folder that has nothing to do with the suite."""
    return Path(shutil.copy(PLUGIN, tmp_path / "my_sampler.py"))


def test_the_command_line_runs_it_and_a_changed_file_is_another_method(plugin, tmp_path, capsys):
    words = ["--task", "linear", "--set", "num_steps=20", "--backend", "torch-cpu", "--out", str(tmp_path / "out")]
    assert command.main([*words, "--method", f"{plugin}:CARD", "--set", "sharpness=1.5"]) == 0
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["method"], record["method_source"]) == ("barker", f"{plugin}:CARD")
    assert record["settings"]["sharpness"] == 1.5
    assert record["likelihood_evaluations"] == 20 * 4 * 100
    again = [*words, "--method", f"{plugin}:CARD", "--set", "sharpness=1.5"]
    assert command.main(again) == 0
    assert "already holds this run" in capsys.readouterr().out
    # As long as before and within the same second, so that only its content tells it from the old one.
    plugin.write_text(plugin.read_text().replace("1 / (1 + exp(Delta))", "1 / (1 + exp(delta))"))
    assert command.main(again) == 2
    assert "holds another finished run (barker on linear" in capsys.readouterr().err
    assert command.main([*again, "--overwrite"]) == 0
    changed = json.loads((tmp_path / "out" / "run.json").read_text())
    assert changed["method_sha256"] != record["method_sha256"]


def test_a_module_is_known_by_its_content_too(plugin, tmp_path, monkeypatch):
    package = tmp_path / "someones_package"
    package.mkdir()
    (package / "__init__.py").touch()
    module = Path(shutil.copy(plugin, package / "barker.py"))
    monkeypatch.syspath_prepend(tmp_path)
    assert find_method("someones_package.barker:CARD").label == "Barker (toy)"
    assert checksum("someones_package.barker:CARD") == hashlib.sha256(module.read_bytes()).hexdigest()
    (package / "broken.py").write_text("import implementations.card\ntwo = 1 / 0\n")
    with pytest.raises(SettingError, match=r"^someones_package.broken, line 2: ZeroDivisionError"):
        find_method("someones_package.broken:CARD")


def test_a_row_of_the_suites_own_parts_needs_no_kernel(tmp_path):
    """Its acceptance is known, and its decisions are audited like those of any other row."""
    path = tmp_path / "row.py"
    path.write_text("""
from implementations.card import Card, Exactness
from implementations.methods.paper import ROWS
from implementations.kernels.metropolis import Metropolis

CARD = Card(
    name="naive_mala", label="naive MALA", summary="x", citation="x", exactness=Exactness.BIASED, condition="x",
    kernel=Metropolis(estimate="batches", proposal="langevin", gradient="batch", acceptance="naive"),
    own_settings=next(card for card in ROWS if card.name == "naive").own_settings, needs=frozenset({"rows"}),
)
""")
    assert find_method(f"{path}:CARD").acceptance == "naive"
    assert find_method(f"{PLUGIN}:CARD").acceptance == "own"
    found = sample(prepare("linear", 0, progress=False), f"{path}:CARD", {"num_steps": 20}, "torch-cpu")
    assert found.status == "ok" and "true_delta" in found.audit


@pytest.mark.slow
def test_a_study_takes_it_from_data_to_report(plugin, tmp_path):
    study = {
        "study": "stranger",
        "description": "a method from somebody's file beside one of the suite's",
        "seeds": [0, 1],
        "backends": ["torch-cpu"],
        "chains": 2,
        "defaults": {"num_steps": 100, "num_warmup": 20, "thin": 2},
        "tasks": [
            {"task": "linear", "methods": {"full_mh": {}, "my_sampler.py:CARD": {"sharpness": [1.0, 1.1]}}},
            {"task": "my_task.py:TASK", "seeds": [0], "methods": {"full_mh": {}}},
        ],
    }
    task = Path(shutil.copy(TASK, tmp_path / "my_task.py"))
    workdir = Workdir(tmp_path, study)
    code, output = workdir.run()
    assert code == 0, output
    assert "7 of 7 runs ok" in output
    (own,) = [row for row in workdir.rows() if row["variant"] == "my_task"]
    assert (own["task"], own["num_parameters"], own["reference_kind"]) == ("my_task", "9", "closed_form")
    assert len(list((tmp_path / "data" / "features").iterdir())) == 1
    rows = [row for row in workdir.rows() if row["method"] == "barker"]
    assert len(rows) == 4
    assert {row["own_settings"] for row in rows} == {'{"sharpness": 1.0}', '{"sharpness": 1.1}'}
    assert {(row["method_label"], row["method_exactness"]) for row in rows} == {("Barker (toy)", "exact")}
    assert all(row["method_source"] == f"{plugin}:CARD" and float(row["ece"]) >= 0 for row in rows)
    page = (workdir.results / "report.html").read_text()
    assert "Barker (toy)" in page
    assert ".method-barker" in page
    assert json.loads((workdir.results / "figures.json").read_text())
    client = MlflowClient(f"sqlite:///{tmp_path}/results/mlflow.db")
    experiment = client.get_experiment_by_name("stranger")
    tracked = client.search_runs([experiment.experiment_id], "params.method = 'barker'")
    assert {run.data.params["sharpness"] for run in tracked} >= {"1.0", "1.1"}
    # Nothing of it stays with the suite.
    assert "barker" not in METHODS
    # A task's file that has changed is another task, and nobody else's.
    task.write_text(task.read_text().replace("a noisy curve on", "a noisy curve, on"))
    assert workdir.planned()["network"] == 1


def write(path: Path, *changes: tuple[str, str]) -> str:
    text = PLUGIN.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return f"{path}:CARD"


class TestMistakesInTheFile:
    def refusal(self, reference: str) -> str:
        with pytest.raises(SettingError) as caught:
            find_method(reference)
        return str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        assert self.refusal(f"{tmp_path}/none.py:CARD") == f"no file {tmp_path}/none.py"

    def test_a_module_that_is_not_there(self):
        assert "No module named 'no_such_module'" in self.refusal("no_such_module:CARD")

    @pytest.mark.parametrize("how", ["file", "module", "module of a package", "name"])
    def test_what_imports_nothing_of_the_suite_is_not_run(self, tmp_path, monkeypatch, how):
        """Its author is not the one who names it: a study can name any file and module of the machine."""
        monkeypatch.syspath_prepend(tmp_path)
        package = tmp_path / f"package_{how.replace(' ', '_')}"
        package.mkdir()
        for name in ("__init__", "other"):
            (package / f"{name}.py").write_text(f"from pathlib import Path\nPath({str(tmp_path)!r}, 'run').touch()\n")
        where = {
            "file": f"{package}/other.py",
            "module": package.name,
            "module of a package": f"{package.name}.other",
            "name": f"{package.name}.absent",
        }[how]
        reason = "No module named" if how == "name" else "it imports nothing of the suite; it was not run"
        for name in ("CARD", "Path"):
            assert reason in self.refusal(f"{where}:{name}")
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("where", ["sys", "array", "", ".", "a..b", "..", "x y", "é"])
    def test_what_is_no_module_with_a_source_is_named(self, where):
        assert self.refusal(f"{where}:CARD") == f"No module named {where!r}"

    def test_another_name(self, plugin):
        assert self.refusal(f"{plugin}:CRAD").endswith("no Card 'CRAD'; did you mean 'CARD'?")

    def test_something_that_is_no_card(self, plugin):
        assert self.refusal(f"{plugin}:kernel").endswith("kernel is a function, not a Card")

    def test_bad_syntax_is_named_with_its_line(self, tmp_path):
        reference = write(tmp_path / "a.py", ("def kernel(target, shapes):", "def kernel(target, shapes)"))
        assert self.refusal(reference) == f"{tmp_path}/a.py, line 23: expected ':'"

    def test_a_missing_field_is_named_with_its_line(self, tmp_path):
        reference = write(tmp_path / "b.py", ('    citation="Barker (1965)",\n', ""))
        refusal = self.refusal(reference)
        assert refusal.startswith(f"{tmp_path}/b.py, line 50: TypeError")
        assert "'citation'" in refusal

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('name="barker"', 'name="pbnn"', "the suite has a method 'pbnn' of its own; choose another name"),
            ('name="barker"', 'name="a/b"', "name = 'a/b' must be small letters, digits and underscores"),
            ('needs=frozenset({"all"})', 'needs=frozenset({"everything"})', "needs: no kind of data 'everything'"),
            ("kernel=kernel", "kernel=None", "kernel is not a function of the model and the shapes"),
            ("        WEIGHT,\n", "", "own_settings lacks 'weight'"),
            ("exactness=Exactness.EXACT", 'exactness="exactly"', "no exactness 'exactly'; did you mean 'exact'?"),
            (".but(default=lambda dimension: 2 / dimension)", "", "the setting 'step_size' has no default"),
            ("float, 1.0, is_positive", "float, -1.0, is_positive", "sharpness = -1.0 must be positive"),
            (
                "float, 1.0, is_positive",
                "bool, True, is_positive",
                "'sharpness' must be an int, a float, or a str with",
            ),
            ('Setting("sharpness"', 'Setting("a=b"', "the setting 'a=b' must be small letters, digits and"),
            ('Setting("sharpness"', 'Setting("decay"', "has one of 'decay' and 'decay_start'; a schedule needs both"),
            ("needs=", 'libraries=("numpy",), needs=', "no library 'numpy'; valid: jax, torch"),
            ("needs=", 'libraries="jax", needs=', "libraries = 'jax' must be a tuple of names"),
            ("needs=", 'colour="C0", needs=', "colour = 'C0' must be written as #rrggbb"),
        ],
    )
    def test_a_card_that_cannot_be_right_is_refused_with_the_reason(self, tmp_path, old, new, message):
        assert message in self.refusal(write(tmp_path / "c.py", (old, new)))

    @pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('values.own["sharpness"]', 'values.own["sharpnes"]', "line 37: step: KeyError: 'sharpnes'"),
            (
                "        nothing = xp",
                '        raise ValueError("oh")\n        nothing = xp',
                "line 43: step: ValueError: oh",
            ),
            (
                'needs=frozenset({"all"})',
                'needs=frozenset({"rows"})',
                "line 30: init: evaluates all points, and the card'",
            ),
            ("    position: Any", "    place: Any", "line 28: init: the state State has no field 'position'"),
            (
                "State(position, values.weight",
                "State(position, (0,)) or (values.weight",
                "potential is a tuple, not an array",
            ),
            ("State(*chosen), Info", "tuple(chosen), Info", "line 33: step: the state is a tuple and was a State"),
            ("State(*chosen), Info(is_accepted, nothing, *costs)", "State(*chosen)", "the next state and an Info"),
            (
                "State(*chosen), I",
                "State(*(one[:1] for one in chosen)), I",
                "position has the shape (1, 2) and had (2, 2)",
            ),
            ("Info(is_accepted, nothing", "Info(is_accepted, None", "Info.variance is a NoneType, not an array (2,)"),
            (
                "counted(delta, 0)",
                "counted(delta[0], 0)",
                "Info.num_gradients has the shape (), not (2,), one number per",
            ),
            ("counted(delta, 0)", "nothing", "Info.num_gradients is"),
            ("random.log_uniforms(shape)", "random.log_uniforms(shape[1:])", "noise: log_uniforms has the shape"),
            ("return Kernel(init, noise, step)", "return init, noise, step", "kernel returns a tuple, not a Kernel"),
        ],
    )
    def test_a_kernel_that_breaks_the_contract_is_named_with_file_and_line(self, tmp_path, backend, old, new, message):
        """Two chains, so that a pair of numbers for all chains is not taken for one of each."""
        reference = write(tmp_path / "d.py", (old, new))
        with pytest.raises(SettingError) as caught:
            sample(prepare("linear", 0, progress=False), reference, {"chains": 2, "num_steps": 20}, backend)
        assert str(caught.value).startswith(f"{tmp_path}/d.py")
        assert message in str(caught.value)

    def test_a_study_names_the_place(self, tmp_path):
        study = {
            "study": "x",
            "description": "x",
            "seeds": [0],
            "backends": ["jax-cpu"],
            "tasks": [{"task": "linear", "methods": {"none.py:CARD": {}}}],
        }
        (tmp_path / "study.yaml").write_text(json.dumps(study))
        with pytest.raises(SettingError) as caught:
            load_study(tmp_path / "study.yaml")
        assert str(caught.value) == f"{tmp_path}/study.yaml: tasks[0].methods: no file {tmp_path}/none.py"

    def test_a_setting_it_does_not_have_is_named(self, plugin, tmp_path, capsys):
        words = ["--task", "linear", "--out", str(tmp_path / "out"), "--method", f"{plugin}:CARD"]
        assert command.main([*words, "--set", "sharpnes=2"]) == 2
        assert "no setting 'sharpnes'; did you mean 'sharpness'?" in capsys.readouterr().err
