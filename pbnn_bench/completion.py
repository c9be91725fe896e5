"""``pbnn-bench completion``: a script with which a shell completes commands, options and names.

All words stand in the script: to ask the program itself at every press of a key would take its seconds to start.
"""

import argparse
import contextlib
import io
import re
from collections.abc import Iterable, Sequence

from implementations.backends import BACKENDS
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import METHODS
from implementations.tasks import TASKS
from implementations.tasks.likelihoods import SUPERVISED
from implementations.tasks.task import PRIORS, STOCHASTIC
from pbnn_bench import command
from pbnn_bench.choice import CRITERIA
from pbnn_bench.listing import KINDS
from pbnn_bench.studies import STUDIES

#: What a shell has to do before it understands the script; zsh has bash's commands on request.
FIRST_LINES = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}

SCRIPT = """\
{first}_pbnn_bench() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "$previous" in
{values}
            *) case "${{COMP_WORDS[1]}}" in
{options}
            esac;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _pbnn_bench {program}
"""


def main(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Print a script with which a shell completes commands, options and names.",
        epilog=f'For this shell only: eval "$({program} bash)". Run it again when the suite has new methods or tasks.',
    )
    parser.add_argument("shell", help=" or ".join(FIRST_LINES))
    shell = parser.parse_args(argv).shell
    if shell not in FIRST_LINES:
        raise SettingError(unknown("shell", shell, FIRST_LINES))
    print(script(shell), end="")
    return 0


def script(shell: str) -> str:
    """What the shell has to read."""
    studies = sorted(path.stem for path in STUDIES.glob("*.yaml"))
    values: dict[str, Iterable[str]] = {
        "--method": METHODS,
        "--task": TASKS,
        "--backend": BACKENDS,
        "--likelihood": SUPERVISED,
        "--criterion": CRITERIA,
        "--prior": PRIORS,
        "--stochastic": STOCHASTIC,
        "--study": studies,
    }
    names = {
        "list": [*KINDS],
        "info": [*METHODS, *TASKS, *studies],
        "run": studies,
        "report": studies,
        "completion": [*FIRST_LINES],
    }
    words = {name: [*names.get(name, ()), *_options(name)] for name in command.COMMANDS}
    return SCRIPT.format(
        first=FIRST_LINES[shell],
        commands=" ".join(command.COMMANDS),
        values="\n".join(f'            {option}) words="{" ".join(found)}";;' for option, found in values.items()),
        options="\n".join(f'                {name}) words="{" ".join(found)}";;' for name, found in words.items()),
        program=command.PROGRAM,
    )


def _options(name: str) -> list[str]:
    """The options of a command, as its help has them."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        command.main([name, "--help"])
    # An option stands at the beginning of its line, or after its short form; the examples below have some too.
    lines = text.getvalue().partition("options:")[2].splitlines()
    return [found for line in lines for found in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", line)]
