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
    example: str
    module: str
    function: str


COMMANDS = {
    "list": Command("methods, tasks, studies and backends", "list methods", "pbnn_bench.listing", "list_names"),
    "info": Command("all about one of them: settings, defaults, an example", "info pbnn", "pbnn_bench.listing", "info"),
    "sample": Command(
        "one method on one task, into a folder",
        "sample --task regression --method pbnn --set batch_size=5 --out out",
        "implementations.__main__",
        "main",
    ),
    "run": Command("a study, from data to report", "run smoke --dry-run", "pbnn_bench.studies", "run"),
    "score": Command(
        "draws of any program against the reference of a task",
        "score draws.npz --task digits --weight data",
        "workflows.score",
        "main",
    ),
    "calibrate": Command(
        "which n calibrates best: on your own features, or in a study",
        "calibrate --features my_features.npz",
        "pbnn_bench.calibrate",
        "main",
    ),
    "compare": Command("two runs, or two studies, side by side", "compare out other_out", "pbnn_bench.runs", "compare"),
    "plot": Command("the reliability diagram of a run, or its density", "plot out", "pbnn_bench.runs", "plot"),
    "report": Command("the report of a study that has been run", "report smoke", "pbnn_bench.studies", "report"),
    "ui": Command("the tracked runs in MLflow's pages", "ui", "pbnn_bench.studies", "ui"),
    "completion": Command(
        "a script with which bash or zsh completes these words",
        "completion bash > ~/.local/share/bash-completion/completions/pbnn-bench",
        "pbnn_bench.completion",
        "main",
    ),
}


def usage() -> str:
    """The commands, an example of each."""
    names, examples = max(map(len, COMMANDS)) + 2, max(len(one.example) for one in COMMANDS.values()) + 2
    lines = [f"  {name:{names}}{command.summary}" for name, command in COMMANDS.items()]
    tries = [f"  {PROGRAM} {command.example:{examples}}".rstrip() for command in COMMANDS.values()]
    return "\n".join(
        [f"usage: {PROGRAM} COMMAND …", "", "commands:", *lines, "", "examples:", *tries, ""]
        + [f"{PROGRAM} COMMAND --help tells all that a command takes."]
    )


def _mistakes() -> tuple[type[Exception], ...]:
    """What is answered by one line. Imported once something has gone wrong: together they take a second."""
    from implementations.infrastructure.files import Damaged
    from implementations.tasks.download import DataError
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
    except BrokenPipeError:
        # Whoever read has seen enough, as with `| head`. Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _mistakes() as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return code
