"""The command pbnn-bench, from the words that are typed to what is printed or drawn."""

import argparse
import json
import os
import subprocess
import sys

import pytest

import pbnn_bench
from implementations.methods import METHODS
from implementations.tasks import TASKS
from pbnn_bench import cli, packages, results
from pbnn_bench.cli import COMMANDS, main


def printed(capsys, *words: str) -> str:
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys, *words: str) -> str:
    """The one line that a mistake gets."""
    assert main(words) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and error.startswith("error: ")
    return error


def options_of(name: str) -> set[str]:
    (commands,) = (one for one in cli.build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    return {option for action in commands.choices[name]._actions for option in action.option_strings}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples_whose_options_exist(name, capsys):
    text = printed(capsys, name, "--help")
    assert text.startswith(f"usage: pbnn-bench {name}")
    assert f"    {name}" in printed(capsys)
    for example in COMMANDS[name].examples:
        assert f"  pbnn-bench {example}\n" in text
        words = example.partition("  #")[0].split()
        assert words[0] == name
        if not COMMANDS[name].takes_others:
            assert {word for word in words if word.startswith("--")} <= options_of(name)


def test_mistakes_in_the_words_are_one_line(capsys):
    assert refused(capsys, "calibrat") == "error: no command 'calibrat'; did you mean 'calibrate'?\n"
    assert "the following arguments are required: RUN; see pbnn-bench plot --help" in refused(capsys, "plot")
    assert "unrecognized arguments: --colour" in refused(capsys, "plot", "out", "--colour")
    assert "no list 'metods'; did you mean 'methods'?" in refused(capsys, "list", "metods")
    assert "no shell 'bsah'; did you mean 'bash'?" in refused(capsys, "completion", "bsah")


def test_list_has_every_method_task_study_and_backend(capsys):
    text = printed(capsys, "list")
    for name in (*METHODS, *TASKS, "paper", "smoke", "jax-cpu"):
        assert f"  {name} " in text
    assert "  pbnn " not in printed(capsys, "list", "tasks")


def in_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = line.replace("pbnn-bench", f"{sys.executable} -m pbnn_bench")
    environment = {**os.environ, **environment}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=packages.folder(), env=environment)


@pytest.mark.parametrize("words", ["list", "--help", "calibrate --help"])
def test_a_reader_that_goes_away_and_a_locale_without_our_characters_are_no_error(words):
    done = in_shell(f"pbnn-bench {words} | head -1")
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""
    done = in_shell(f"pbnn-bench {words}", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0 and done.stdout.isascii() and done.stderr == ""


@pytest.mark.parametrize("words", [["--help"], ["list"]])
def test_what_only_lists_names_imports_nothing_that_takes_long(words):
    """Half a second instead of three: pandas, scipy and matplotlib are for those who draw or count."""
    code = f"import sys; from pbnn_bench.cli import main; main({words!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout and not {"pandas", "scipy", "matplotlib", "torch", "jax"} & set(done.stderr.split())


def test_every_public_name_is_there():
    for name in pbnn_bench.__all__:
        assert getattr(pbnn_bench, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Problm'"):
        pbnn_bench.Problm  # noqa: B018


@pytest.mark.parametrize("name", METHODS)
def test_info_of_a_method_has_its_settings_with_their_defaults(name, capsys):
    lines = printed(capsys, "info", name).splitlines()
    for setting in METHODS[name].settings.values():
        (line,) = [line for line in lines if line.startswith(f"  {setting.name} ")]
        assert setting.help in line
    (steps,) = [line for line in lines if line.startswith("  num_steps ")]
    assert "20,000" in steps


def test_info_knows_tasks_studies_and_files_and_the_nearest_name(capsys):
    assert "55,000" in printed(capsys, "info", "mnist")
    assert printed(capsys, "info", "mnist-conv") == printed(capsys, "info", "mnist_conv")
    assert "blackjax_nuts" in printed(capsys, "info", "smoke")
    assert "Barker" in printed(capsys, "info", "tests/plugins/barker.py:CARD")
    assert "did you mean 'digits'?" in refused(capsys, "info", "digitts")
    assert "no file nowhere.yaml" in refused(capsys, "info", "nowhere.yaml")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two short runs, as ``sample`` leaves them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, method in (("one", "full_mh"), ("other", "pbnn")):
        words = ["sample", "--task", "linear", "--method", method, "--backend", "torch-cpu", "--no-audit"]
        assert main([*words, "--set", "num_steps=400", "--set", "num_warmup=50", "--out", str(folder / name)]) == 0
    return folder


def test_compare_shows_what_differs_and_what_came_of_it(runs, capsys):
    lines = printed(capsys, "compare", str(runs / "one"), str(runs / "other")).splitlines()
    table = {line.split("  ")[0]: [cell.strip() for cell in line.split("  ")[1:] if cell.strip()] for line in lines}
    assert table["method"] == ["full_mh", "pbnn"]
    assert "num_steps" not in table and "seed" not in table
    record = json.loads((runs / "other" / "run.json").read_text())
    assert float(table["acceptance_rate"][1]) == pytest.approx(record["acceptance_rate"], rel=0.01)
    assert {"r_hat", "nll", "rmse", "ece", "likelihood_evaluations"} <= set(table)
    assert not any("different problems" in line for line in lines)


def test_plot_draws_a_picture(runs, tmp_path, capsys):
    path = tmp_path / "sub" / "reliability.svg"
    assert printed(capsys, "plot", str(runs / "one"), "--out", str(path)) == f"{path}\n"
    assert path.read_text().startswith("<svg")
    assert "end its name in .svg" in refused(capsys, "plot", str(runs / "one"), "--out", str(tmp_path / "a.png"))
    os.mkfifo(tmp_path / "pipe.svg")
    assert "a device or a pipe" in refused(capsys, "plot", str(runs / "one"), "--out", str(tmp_path / "pipe.svg"))


def test_what_is_not_there_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (("plot", str(tmp_path)), ("compare", str(tmp_path), str(tmp_path))):
        assert f"{tmp_path} has no run.json" in refused(capsys, *words)
    assert "no study 'smok'; did you mean 'smoke'?" in refused(capsys, "run", "smok")
    assert "no file mine.yaml" in refused(capsys, "run", "mine.yaml")
    assert "run the study first: pbnn-bench run smoke" in refused(capsys, "report", "smoke")
    (tmp_path / "mine.yaml").write_text("study: mine\n")
    assert main(["run", "mine.yaml"]) == 2
    assert "mine.yaml: the key 'tasks' is missing" in capsys.readouterr().err


def test_run_hands_the_study_and_other_arguments_to_snakemake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = []
    monkeypatch.setattr(
        results.subprocess,
        "run",
        lambda words, env, check: calls.append((words, env)) or subprocess.CompletedProcess(words, 7),
    )
    assert main(["run", "smoke", "--cores", "3", "--keep-going"]) == 7
    (words, environment), root = calls[0], packages.folder()
    expected = ["--snakefile", str(root / "Snakefile"), "--cores", "3", "--keep-going", "--configfile"]
    assert words == [sys.executable, "-m", "snakemake", *expected, str(root / "workflows/studies/smoke.yaml")]
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(root)


def test_ui_needs_tracked_runs_and_a_database_that_answers(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert "run one first" in refused(capsys, "ui")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://example.org")
    assert "open that address" in printed(capsys, "ui")
    (tmp_path / "damaged.db").write_text("no database")
    for store in ("postgresql://me:secret@127.0.0.1:1/runs", f"sqlite:///{tmp_path}/damaged.db", "nothing://x"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
        error = refused(capsys, "ui")
        assert "the database of the runs cannot be opened" in error and "secret" not in error


def test_ui_leads_to_the_means_of_each_tracked_study_on_the_pages_for_training(tmp_path):
    from mlflow import MlflowClient

    store = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(store)
    experiment = client.create_experiment("small", tags={results.VIEW_TAG: "a view"})
    client.create_experiment("of somebody else")
    pages = results.study_pages(store)
    assert list(pages) == ["small", "all"]
    assert pages["small"] == f"experiments/{experiment}/runs?viewStateShareKey=means&workflowType=machine_learning"


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    typed = " ".join(f"'{word}'" for word in ("pbnn-bench", *words))
    function = "$(complete -p pbnn-bench | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    lines = [script, f"COMP_WORDS=({typed})", f"COMP_CWORD={len(words)}", function, 'echo "${COMPREPLY[@]}"']
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_names(capsys):
    script = printed(capsys, "completion", "bash")
    assert completed(script, "ca") == ["calibrate"]
    assert set(completed(script, "info", "pbnn_c")) == {"pbnn_corrected", "pbnn_cv", "pbnn_cn"}
    assert completed(script, "sample", "--task", "cal") == ["california"]
    assert completed(script, "calibrate", "--comp") == ["--components"]
    assert completed(script, "run", "sm") == ["smoke"]
    assert completed(script, "run", "--dry") == ["--dry-run"]
    assert printed(capsys, "completion", "zsh").startswith("#compdef pbnn-bench")
