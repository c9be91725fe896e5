"""The command ``pbnn-bench``: one tree of parsers, from which a shell's completion is made too."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from implementations import __main__ as single_run
from implementations.backends import BACKENDS
from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import METHODS, find_method
from implementations.plugins import is_plugin
from implementations.settings import Setting
from implementations.tasks import TASKS, find_task
from implementations.tasks.likelihoods import SUPERVISED
from implementations.tasks.task import PRIORS, STOCHASTIC, Task
from pbnn_bench.packages import STUDIES, find_study

PROGRAM = "pbnn-bench"
SHELLS = ("bash", "zsh", "tcsh")

#: What can be done with references.
ACTIONS = {
    "list": "what there is, and which checks it passed",
    "verify": "check every file against its checksum and every gate against its bounds",
    "export": "write means, sds and quantiles at the test points as CSV, for any language",
    "score": "score predictions of your own against a reference",
}


class Command(NamedTuple):
    """A command: ``function``, given as ``module:name``, takes the parsed arguments."""

    summary: str
    #: The first is shown with all commands, all of them with the command's own help.
    examples: tuple[str, ...]
    options: Callable[[argparse.ArgumentParser], object]
    function: str
    #: Do arguments that the command does not know go to another program?
    takes_others: bool = False


def _list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", metavar="KIND", help=f"{', '.join(KINDS)}; all of them if not given")


def _info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a name from `list`, or path/to/file.py:CARD, my_task.py:TASK")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="a study's name (`list studies`), or a file of your own")
    parser.add_argument("--cores", default="all", help="processors to use (default: %(default)s)")
    parser.add_argument(
        *("--dry-run", "-n"), action="store_true", help="check the study, and say what would run: minutes and disk"
    )


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="a study's name, or its file")
    _results(parser)


def _ui(parser: argparse.ArgumentParser) -> None:
    _results(parser)
    parser.add_argument("--port", type=int, default=5000, help="port of the server (default: %(default)s)")


def _results(parser: argparse.ArgumentParser) -> None:
    help = "folder of all results (default: %(default)s)"
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help=help)


def _compare(parser: argparse.ArgumentParser) -> None:
    for name in ("A", "B"):
        parser.add_argument(name, help="the folder of a run, or of a study; at a commit, COMMIT:FOLDER")


def _plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder with a run.json")
    help = "the SVG file (default: reliability.svg or density.svg in the run's folder)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=help)


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", help=" or ".join(SHELLS))


def _score(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("draws", type=Path, nargs="?", metavar="DRAWS", help="a file with the array 'draws' (chains, draws, P)")
    add("--task", required=True, metavar="NAME", help="a task (`list tasks`), or a file of yours: path/to/file.py:TASK")
    add("--seed", type=int, default=0, help="seed of the task's data and network (default: %(default)s)")
    add("--num-points", type=int, metavar="N", help="number of training points (default: the task's own)")
    add("--stochastic", default="last", metavar="LAYERS", help="sampled layers: last or all (default: %(default)s)")
    add("--weight", default="data", help="w of the target: data, or a number (default: %(default)s)")
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="folder of downloads (default: %(default)s)")
    add("--reference", type=Path, metavar="FILE", help="a study's …/reference.npz (default: compute it)")
    add("--problem", type=Path, metavar="FILE", help="write the data and the network here, so that you can make draws")
    add("--board", type=Path, metavar="FILE", help="add the draws to this leaderboard of a report, a CSV file")
    add("--name", default="yours", help="name of the draws on the leaderboard (default: %(default)s)")
    help = "losses and gradients of single points that the draws took, for their rank"
    add("--evaluations", type=float, metavar="NUMBER", help=help)


def _calibrate(parser: argparse.ArgumentParser) -> None:
    def add(name: str, help: str, **given: Any) -> None:
        default = "" if given.get("default") in (None, []) else " (default: %(default)s)"
        parser.add_argument(name, help=help + default, **given)

    add(
        "--features",
        "what goes into the last layer, with the targets: .npz, .csv or .parquet",
        type=Path,
        metavar="FILE",
    )
    add("--target", "column of the targets in a table", default="target", metavar="NAME")
    help = "column of a table that says train, validation or test; if there is none, rows are split at random"
    add("--split", help, default="split", metavar="NAME")
    add("--likelihood", f"{', '.join(SUPERVISED)} (default: guessed from the targets)", metavar="NAME")
    add("--noise-sd", "noise of a regression (default: that of a least-squares fit)", type=float, metavar="NUMBER")
    add("--prior-scale", "prior sd of every weight", type=float, default=1.0, metavar="NUMBER")
    add("--components", "replace the features by their first K principal components", type=int, metavar="K")
    add("--sizes", "the n to try (default: 10, 30, 100, 300, … and all)", type=_sizes, metavar="N,N,…")
    add("--method", "the sampler: a method, or file.py:CARD; of a study, pbnn", metavar="NAME")
    help = "a setting of the method; may be repeated"
    add("--set", help, action="append", default=[], type=_pair, dest="settings", metavar="NAME=VALUE")
    add("--criterion", "choose by nll or ece", default="nll", metavar="NAME")
    add("--backend", "see `list backends`", default="jax-cpu", metavar="NAME")
    add("--seed", "seed of a random split and of the chains", type=int, default=0)
    page = Path("calibration.html")
    add("--out", "where to write the report, an HTML page", type=Path, default=page, metavar="FILE")
    add("--study", "instead of features: a study that has been run, or that is published", metavar="NAME")
    add("--task", "of the study: a task, or a variant of one such as regression-all", metavar="NAME")
    _results(parser)


def _references(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", help="; ".join(f"{name}: {text}" for name, text in ACTIONS.items()))
    add("names", nargs="*", metavar="NAME", help="such as boston-tanh, or boston-tanh/weight100/split3 (default: all)")
    add("--folder", type=Path, metavar="DIR", help="folder of the references (default: the suite's)")
    add("--data", type=Path, metavar="DIR", help="folder of downloads, to read the rows that a reference is of")
    add("--predictions", type=Path, metavar="FILE", help="score: .npz with outputs (draws, T) or (draws, T, K)")
    add("--noise-sd", type=float, metavar="NUMBER", help="score: sd of the noise, in sds of the training targets")
    add("--out", type=Path, metavar="FILE", help="export: the CSV file (default: the screen)")


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 10,30,100") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in num_steps=20000")
    return name, value


COMMANDS = {
    "list": Command(
        "list methods, tasks, studies and backends", ("list", "list methods"), _list, "pbnn_bench.cli:list_names"
    ),
    "info": Command(
        "describe a method, a task or a study: settings, defaults, an example",
        ("info pbnn", "info mnist_conv", "info smoke", "info my_task.py:TASK"),
        _info,
        "pbnn_bench.cli:info",
    ),
    "sample": Command(
        "run one method on one task",
        (
            "sample --task regression --method pbnn --set batch_size=5 --out out",
            "sample --task my_task.py:TASK --method my_method.py:CARD --backend torch-cpu --out out",
        ),
        single_run.add_options,
        "implementations.__main__:run_once",
    ),
    "run": Command(
        "run a study with Snakemake, from data to report; finished results are kept",
        ("run smoke --dry-run", "run smoke", "run my_study.yaml --cores 4", "run smoke --keep-going    # Snakemake's"),
        _run,
        "pbnn_bench.results:run",
        takes_others=True,
    ),
    "score": Command(
        "compare draws of any program with the right answer of a task",
        (
            "score draws.npz --task digits --weight data",
            "score --task digits --problem problem.npz    # write the data to sample",
            "score draws.npz --task digits --weight 100 --board leaderboard_digits-w100.csv --evaluations 4e8",
        ),
        _score,
        "pbnn_bench.scoring:main",
    ),
    "calibrate": Command(
        "find the mini-batch size that calibrates your own network, or the best in a study",
        (
            "calibrate --features my_features.npz    # arrays features, targets and, optionally, splits",
            "calibrate --features house.csv --target price    # a table; every other column is a feature",
            "calibrate --features visits.npz --likelihood poisson    # targets are counts",
            "calibrate --features resnet.npz --components 100    # principal components of many features",
            "calibrate --features my_features.npz --sizes 30,100,300 --method pbnn --set num_steps=40000",
            "calibrate --study paper --task regression    # the best n of a finished study",
        ),
        _calibrate,
        "pbnn_bench.calibrate:main",
    ),
    "references": Command(
        "right answers for whole networks: list, verify, export and score against them",
        (
            "references list",
            "references export boston-tanh/weight455/split0 --out boston.csv",
            "references score boston-tanh/weight455/split0 --predictions mine.npz --noise-sd 0.28",
        ),
        _references,
        "pbnn_bench.references:main",
    ),
    "compare": Command(
        "compare two finished runs, or two studies: verdicts that changed, numbers that moved beyond their error",
        (
            "compare out other_out",
            "compare results/paper reports/published/paper    # two studies",
            "compare HEAD~5:reports/published/paper HEAD:reports/published/paper    # at two commits",
        ),
        _compare,
        "pbnn_bench.results:compare",
    ),
    "plot": Command(
        "draw the reliability diagram of a finished run; for a density, the density",
        ("plot out", "plot out --out diagram.svg"),
        _plot,
        "pbnn_bench.results:plot",
    ),
    "report": Command(
        "render the report of a finished study again",
        ("report smoke", "report my_study.yaml"),
        _report,
        "pbnn_bench.results:report",
    ),
    "ui": Command(
        "open the runs of all studies in MLflow, or in the store of MLFLOW_TRACKING_URI, on this machine only",
        ("ui", "ui --port 5001"),
        _ui,
        "pbnn_bench.results:ui",
        takes_others=True,
    ),
    "completion": Command(
        "print a script with which a shell completes commands, options and names",
        ("completion bash > ~/.local/share/bash-completion/completions/pbnn-bench", "completion zsh"),
        _completion,
        "pbnn_bench.cli:completion",
    ),
}


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line, like all other mistakes."""

    def error(self, message: str) -> Any:
        raise SettingError(f"{message}; see {self.prog} --help")


def build_parser() -> Parser:
    """The parsers of all commands, with examples below the help of each."""

    def examples(chosen: Iterable[str]) -> str:
        return "\n".join(["examples:", *(f"  {PROGRAM} {one}" for one in chosen)])

    firsts = [command.examples[0] for command in COMMANDS.values()]
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(PROGRAM, description="Mini-batch MCMC on Bayesian neural networks.", formatter_class=raw)
    parser.epilog = f"{examples(firsts)}\n\n{PROGRAM} COMMAND --help explains a command, with more examples."
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        description = f"{command.summary[0].upper()}{command.summary[1:]}."
        one = commands.add_parser(
            name, help=command.summary, description=description, formatter_class=raw, allow_abbrev=False
        )
        command.options(one)
        one.epilog = "\n\n".join(filter(None, [one.epilog, examples(command.examples)]))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the first word says; a mistake of the person who typed is one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A locale may lack a character of ours, and the name of a folder may be any bytes.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as with `| head`. Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _mistakes() as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return code


def _main(words: list[str]) -> int:
    parser = build_parser()
    if not words or words == ["help"]:
        parser.print_help()
        return 0
    if words[0] not in COMMANDS and not words[0].startswith("-"):
        raise SettingError(unknown("command", words[0], COMMANDS))
    try:
        arguments, others = parser.parse_known_args(words)
    except SystemExit:
        # After the help.
        return 0
    command = COMMANDS[arguments.command]
    if others and not command.takes_others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    arguments.others = others
    module, _, function = command.function.partition(":")
    code: int | None = getattr(importlib.import_module(module), function)(arguments)
    return code or 0


def _mistakes() -> tuple[type[Exception], ...]:
    """The errors that are one line. Imported once something has gone wrong: together they take a second."""
    from implementations.infrastructure.artefact import Failed
    from implementations.infrastructure.files import Damaged
    from implementations.tasks.data.download import DataError
    from reports.types import NothingToShow

    return SettingError, DataError, Damaged, Failed, NothingToShow, OSError


def completion(arguments: argparse.Namespace) -> None:
    """Print the script that ``shtab`` makes of the parsers, with the names that options take now."""
    import shtab

    from pbnn_bench.choice import CRITERIA

    if arguments.shell not in SHELLS:
        raise SettingError(unknown("shell", arguments.shell, SHELLS))
    studies = [path.stem for path in sorted(STUDIES.glob("*.yaml"))]
    names: dict[str, Sequence[str]] = {
        "kind": [*KINDS],
        "name": [*METHODS, *TASKS, *studies],
        "study": studies,
        "method": [*METHODS],
        "task": [*TASKS],
        "backend": [*BACKENDS],
        "likelihood": [*SUPERVISED],
        "criterion": [*CRITERIA],
        "prior": [*PRIORS],
        "stochastic": [*STOCHASTIC],
        "shell": SHELLS,
        "action": [*ACTIONS],
    }
    parser = build_parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for one in commands.choices.values():
        for action in one._actions:
            action.choices = names.get(action.dest, action.choices)
            if action.type in (Path, single_run.folder_of):
                action.complete = shtab.FILE
    print(shtab.complete(parser, arguments.shell))


def list_names(arguments: argparse.Namespace) -> None:
    """Print the names that other commands take."""
    kind = arguments.kind
    if kind is not None and kind not in KINDS:
        raise SettingError(unknown("list", kind, KINDS))
    tables = {name: make() for name, make in KINDS.items() if kind in (None, name)}
    width = max(len(name) for table in tables.values() for name in table) + 2
    print("\n\n".join("\n".join([f"{name}:", *_indented(table, width)]) for name, table in tables.items()))


def _studies() -> dict[str, str]:
    from workflows.study import read_yaml

    return {path.stem: " ".join(read_yaml(path)["description"].split()) for path in sorted(STUDIES.glob("*.yaml"))}


#: What ``list`` lists: names, and a line about each.
KINDS: dict[str, Callable[[], Mapping[str, str]]] = {
    "methods": lambda: {name: card.summary for name, card in METHODS.items()},
    "tasks": lambda: {name: task.summary for name, task in TASKS.items()},
    "studies": _studies,
    "backends": lambda: {name: f"{library} on the {device}" for name, (library, device) in BACKENDS.items()},
}


def _indented(texts: Mapping[str, str], width: int) -> list[str]:
    return [f"  {name:{width}}{text}".rstrip() for name, text in texts.items()]


def info(arguments: argparse.Namespace) -> None:
    """Print all about a method, a task or a study."""
    print("\n".join(_about(arguments.name)))


def _about(name: str) -> list[str]:
    if name in METHODS:
        return about_method(METHODS[name], name)
    if name.replace("-", "_") in TASKS:
        return about_task(find_task(name), find_task(name).name)
    if is_plugin(name):
        try:
            return about_method(find_method(name), name)
        except SettingError as error:
            if "not a Card" not in str(error):
                raise
            return about_task(find_task(name), name)
    # Imported where they are needed: `list` should answer at once.
    from workflows.study import describe, load_study

    studies = [path.stem for path in STUDIES.glob("*.yaml")]
    if name in studies or name.endswith((".yaml", ".yml")):
        return [describe(load_study(find_study(name)))]
    raise SettingError(unknown("method, task or study", name, [*METHODS, *TASKS, *studies]))


def about_method(card: Card, name: str) -> list[str]:
    """A method's card in words."""
    facts = {
        "what it is": card.summary,
        "source": card.citation,
        "its target": ": ".join(filter(None, [card.exactness, card.condition])),
        "reads": "mini-batches" if card.is_minibatch else "all points in every step",
        "runs in": " and ".join(card.libraries),
    }
    width = max(map(len, card.settings)) + 2
    settings = {one.name: f"{default_of(one):17}{single_run.help_of(one)}" for one in card.settings.values()}
    lines = [f"{card.name}: {card.label}", *_indented(facts, width)]
    lines += ["", "settings, with their defaults:", *_indented(settings, width)]
    return [*lines, "", f"  {PROGRAM} sample --task regression --method {name} --set num_steps=20000 --out out"]


def default_of(setting: Setting) -> str:
    """The default in words; one that follows the number of parameters as its value for a hundred of them."""
    from records.display import format_given

    if callable(setting.default):
        return f"{format_given(setting.default_for(100), 2)} at P=100"
    return setting.default if isinstance(setting.default, str) else format_given(setting.default)


def about_task(task: Task, name: str) -> list[str]:
    """A task in words."""
    parameters = f"{task.num_parameters('all'):,} in all"
    if not task.network:
        parameters = f"{task.num_parameters():,} in the last layer, {parameters}"
    words = f"--task {name}" + (" --stochastic all" if task.network else "")
    facts = {
        "what it is": task.summary,
        "training points": f"{task.num_points:,}" + (", or as many as num_points says" if task.resize else ""),
        "parameters": parameters,
        "likelihood": task.likelihood,
        "data": "downloaded when first needed, and checked" if task.fetch else "made or bundled: no download",
    }
    return [f"{task.name}:", *_indented(facts, 18), "", f"  {PROGRAM} sample {words} --method pbnn --out out"]
