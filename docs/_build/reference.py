"""The reference pages of the documentation, generated from what they describe when the site is built."""

import os
import subprocess
import sys

from docs._build.markdown import fenced, table, text
from docs._build.published import published_studies
from implementations.card import LIBRARIES, NEEDS, Card
from implementations.methods import ALL_SETTINGS, METHODS
from implementations.settings import SETTINGS, Setting
from implementations.tasks import TASKS
from pbnn_bench.cli import COMMANDS
from records.columns import COLUMNS, DERIVED, Column
from reports.benchmarks import HEADINGS, Benchmarks, is_met, words
from reports.claim_file import PAPER, Claim, claims_of

#: Commands of the checkout that ``pbnn-bench`` does not have.
MODULES = ("workflows.study", "reports.publish", "benchmarks.bench", "benchmarks.regress")
#: Defaults that depend on the number of parameters are shown for this number.
EXAMPLE_PARAMETERS = 100


def commands_page() -> str:
    """Every command with its own help."""
    commands = [("pbnn-bench", "pbnn_bench"), *((f"pbnn-bench {name}", f"pbnn_bench {name}") for name in COMMANDS)]
    commands += [(f"python -m {name}", name) for name in MODULES]
    return "# Commands\n\n`make help` lists the targets of the Makefile. Below is the help of each command.\n\n" + "\n".join(
        f"## {title}\n\n{fenced(_help(command), 'text')}" for title, command in commands
    )


def _help(name: str) -> str:
    command = [sys.executable, "-m", *name.split(), "--help"]
    environment = os.environ | {"COLUMNS": "100"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def methods_page() -> str:
    """The card of every method."""
    intro = (
        "# Methods\n\nThe card of every method. N is the number of training points, n the size of a mini-batch, M the "
        f"number of mini-batches per step, P the number of parameters. A default of a step size is shown for "
        f"P = {EXAMPLE_PARAMETERS}.\n\n"
    )
    return intro + "\n".join(_card(card) for card in METHODS.values())


def _card(card: Card) -> str:
    condition = f" ({text(card.condition)})" if card.condition else ""
    facts = {
        "called": text(card.label),
        "from": f"*{text(card.citation)}*",
        "keeps its target?": f"{card.exactness}{condition}",
        "a step reads": "mini-batches" if card.is_minibatch else "all N points",
        "needs": "; ".join(NEEDS[need] for need in sorted(card.needs)),
        "accepts by": card.acceptance,
    }
    if card.libraries != LIBRARIES:
        facts["runs in"] = ", ".join(card.libraries)
    own = [[f"`{setting.name}`", text(setting.help), _default(setting)] for setting in card.own_settings]
    about = table(["", ""], [[name, fact] for name, fact in facts.items()])
    return f"## {card.name}\n\n{text(card.summary)}\n\n{about}\n{table(['setting', 'meaning', 'default'], own)}"


def _default(setting: Setting) -> str:
    value = setting.default_for(EXAMPLE_PARAMETERS)
    shown = f"{value:.3g}" if isinstance(value, float) else f"`{value}`" if isinstance(value, str) else str(value)
    return f"{shown} (depends on P)" if callable(setting.default) else shown


def tasks_table() -> str:
    """The rows of TASKS."""
    rows = []
    for task in TASKS.values():
        sizes = task.num_points, task.num_parameters(), task.num_parameters("all")
        rows.append([f"`{task.name}`", text(task.summary), *(f"{size:,}" for size in sizes)])
    return table(["task", "what", "N", "parameters, last layer", "all layers"], rows)


def settings_table() -> str:
    """The settings of all methods, the shared ones first."""
    rows = [
        [f"`{name}`", text(setting.help), ", ".join(f"`{choice}`" for choice in setting.choices or ())]
        for name, setting in ALL_SETTINGS.items()
    ]
    return table(["setting", "meaning", "names it takes"], rows)


def choices_table() -> str:
    """What the words mean that a setting takes."""
    rows = [
        [f"`{name}`", f"`{choice}`", text(meaning)]
        for name, setting in SETTINGS.items()
        for choice, meaning in (setting.choices or {}).items()
    ]
    return table(["setting", "value", "meaning"], rows)


def columns_page() -> str:
    """The columns of the summary, and those that reports derive."""
    return (
        "# Columns\n\nThe columns of `summary.csv` and `summary.parquet`, one row per run. A cell is empty where the "
        "method has no such setting, where the task has no such metric, and where a run did not end well: `status` and "
        f"`reason` say which.\n\n{_columns(COLUMNS)}\n"
        f"## Derived\n\nReports compute these from a row.\n\n{_columns(DERIVED)}"
    )


def _columns(columns: dict[str, Column]) -> str:
    return table(
        ["column", "kind", "meaning"], [[f"`{name}`", one.kind, text(one.meaning)] for name, one in columns.items()]
    )


def claims_page() -> str:
    """Every claim with the rule that judges it, and the questions of the studies that ask their own."""
    parts = [
        "# Claims and their rules\n\nWhat the paper claims, in our words, where it does so, and the rule that judges it; then "
        "the questions of other studies. Only converged runs count, unless a rule says otherwise. The verdicts, with their "
        "evidence, are in the [reports](../findings.md).\n"
    ]
    parts += [_claim(claim, "##") for claim in claims_of(PAPER)]
    for study in (one.name for one in published_studies()):
        if own := [claim for claim in claims_of(study) if PAPER not in claim.studies]:
            parts += [f"## The questions of the study `{study}`\n", *(_claim(claim, "###") for claim in own)]
    return "\n".join(parts)


def _claim(claim: Claim, level: str) -> str:
    place = f"*{text(claim.place)}*\n\n" if claim.place else ""
    return f"{level} {claim.id}. {text(claim.statement)}\n\n{place}**Rule.** {text(claim.rule)}\n"


def performance(benchmarks: Benchmarks) -> str:
    """Performance targets of the samplers, and what was measured."""
    rows = [list((words(row) | ({} if is_met(row) else {"met?": "**no**"})).values()) for row in benchmarks.targets]
    origin = f"\n{benchmarks.cpu}, jax {benchmarks.versions['jax']}, torch {benchmarks.versions['torch']}.\n"
    return table(HEADINGS, rows) + origin

