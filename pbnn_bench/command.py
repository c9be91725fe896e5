"""The command ``pbnn-bench``: one word says what to do, the rest is that command's own."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from implementations.infrastructure.errors import SettingError, unknown

PROGRAM = "pbnn-bench"


class Command(NamedTuple):
    """A command: ``function`` of ``module`` takes the words after it and the name it was called by."""

    summary: str
    #: Its first line is shown with all commands, all of them with its own help.
    examples: tuple[str, ...]
    module: str
    function: str


COMMANDS = {
    "list": Command(
        "list methods, tasks, studies and backends", ("list", "list methods"), "pbnn_bench.listing", "list_names"
    ),
    "info": Command(
        "describe one of them: settings, defaults, an example",
        ("info pbnn", "info mnist_conv", "info smoke", "info my_task.py:TASK"),
        "pbnn_bench.listing",
        "info",
    ),
    "sample": Command(
        "run one method on one task",
        (
            "sample --task regression --method pbnn --set batch_size=5 --out out",
            "sample --task my_task.py:TASK --method my_method.py:CARD --backend torch-cpu --out out",
            "sample --method pbnn --help    # the settings of pbnn, with their defaults",
        ),
        "pbnn_bench.listing",
        "sample",
    ),
    "run": Command(
        "run a study, from data to report",
        ("run smoke --dry-run", "run smoke", "run my_study.yaml --cores 4"),
        "pbnn_bench.studies",
        "run",
    ),
    "score": Command(
        "compare draws of any program with the right answer of a task",
        (
            "score draws.npz --task digits --weight data",
            "score --task digits --problem problem.npz    # write the data to sample",
            "score draws.npz --task digits --weight 100 --board leaderboard_digits-w100.csv --evaluations 4e8",
        ),
        "workflows.score",
        "main",
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
        "pbnn_bench.calibrate",
        "main",
    ),
    "compare": Command(
        "compare two runs or two studies",
        (
            "compare out other_out",
            "compare results/paper reports/published/paper    # two studies",
            "compare HEAD~5:reports/published/paper HEAD:reports/published/paper    # at two commits",
        ),
        "pbnn_bench.runs",
        "compare",
    ),
    "plot": Command(
        "draw the reliability diagram of a run",
        ("plot out", "plot out --out diagram.png"),
        "pbnn_bench.runs",
        "plot",
    ),
    "report": Command(
        "render the report of a finished study again",
        ("report smoke", "report my_study.yaml"),
        "pbnn_bench.studies",
        "report",
    ),
    "ui": Command("open the runs in MLflow", ("ui", "ui --port 5001"), "pbnn_bench.studies", "ui"),
    "completion": Command(
        "print a script for bash or zsh that completes these words",
        ("completion bash > ~/.local/share/bash-completion/completions/pbnn-bench", "completion zsh"),
        "pbnn_bench.completion",
        "main",
    ),
}


def usage() -> str:
    """The commands, an example of each."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:{width}}{command.summary}" for name, command in COMMANDS.items()]
    firsts = [command.examples[0].partition("  #")[0].rstrip() for command in COMMANDS.values()]
    return "\n".join(
        [f"usage: {PROGRAM} COMMAND …", "", "commands:", *lines, "", _listed(firsts), ""]
        + [f"{PROGRAM} COMMAND --help explains a command, with more examples."]
    )


def _listed(examples: Sequence[str]) -> str:
    return "\n".join(["examples:", *(f"  {PROGRAM} {example}" for example in examples)])


def _mistakes() -> tuple[type[Exception], ...]:
    """What is answered by one line. Imported once something has gone wrong: together they take a second."""
    from implementations.infrastructure.files import Damaged
    from implementations.tasks.data.download import DataError
    from records.failures import Absent
    from reports.types import NothingToShow

    return SettingError, DataError, Damaged, Absent, NothingToShow, OSError


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the first word says; a mistake of the person who typed is one line."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = words
    try:
        if name not in COMMANDS:
            raise SettingError(unknown("command", name, COMMANDS))
        command = COMMANDS[name]
        code: int = getattr(importlib.import_module(command.module), command.function)(rest, f"{PROGRAM} {name}")
    except SystemExit as end:
        # argparse ends so after the help; what all commands have is added here.
        if not end.code:
            print(f"\n{_listed(command.examples)}")
        raise
    except BrokenPipeError:
        # Whoever read has seen enough, as with `| head`. Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _mistakes() as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return code
