"""``pbnn-bench list`` and ``pbnn-bench info``: what there is, and all about one of it."""

import argparse
from collections.abc import Callable, Iterable, Sequence

from implementations.backends import BACKENDS
from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import METHODS, find_method
from implementations.plugins import is_plugin
from implementations.settings import Setting
from implementations.tasks import TASKS, find_task
from implementations.tasks.task import Task
from pbnn_bench.studies import STUDIES, find_study
from workflows.study import read_yaml

Pair = tuple[str, str]


def _methods() -> list[Pair]:
    return [(name, card.summary) for name, card in METHODS.items()]


def _tasks() -> list[Pair]:
    return [(name, task.summary) for name, task in TASKS.items()]


def _studies() -> list[Pair]:
    return [(path.stem, " ".join(read_yaml(path)["description"].split())) for path in sorted(STUDIES.glob("*.yaml"))]


def _backends() -> list[Pair]:
    return [(name, f"{library} on the {device}") for name, (library, device) in BACKENDS.items()]


KINDS: dict[str, Callable[[], list[Pair]]] = {
    "methods": _methods,
    "tasks": _tasks,
    "studies": _studies,
    "backends": _backends,
}


def list_names(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(prog=program, description="List the names that other commands take.")
    parser.add_argument("kind", nargs="?", help=f"{', '.join(KINDS)}; all of them if not given")
    kind = parser.parse_args(argv).kind
    if kind is not None and kind not in KINDS:
        raise SettingError(unknown("list", kind, KINDS))
    tables = {name: make() for name, make in KINDS.items() if kind in (None, name)}
    width = max(len(name) for table in tables.values() for name, _ in table) + 2
    print("\n\n".join("\n".join([f"{name}:", *_indented(table, width)]) for name, table in tables.items()))
    return 0


def _indented(pairs: Iterable[Pair], width: int) -> list[str]:
    return [f"  {name:{width}}{text}".rstrip() for name, text in pairs]


def info(argv: Sequence[str], program: str) -> int:
    parser = argparse.ArgumentParser(prog=program, description="Describe a method, a task or a study.")
    parser.add_argument("name", metavar="NAME", help="a name from `list`, or path/to/file.py:CARD, my_task.py:TASK")
    print("\n".join(_about(parser.parse_args(argv).name)))
    return 0


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
    from implementations.__main__ import help_of

    facts = {
        "what it is": card.summary,
        "source": card.citation,
        "its target": ": ".join(filter(None, [card.exactness, card.condition])),
        "reads": "mini-batches" if card.is_minibatch else "all points in every step",
        "runs in": " and ".join(card.libraries),
    }
    width = max(map(len, card.settings)) + 2
    settings = [(one.name, f"{default_of(one):17}{help_of(one)}") for one in card.settings.values()]
    return [
        f"{card.name}: {card.label}",
        *_indented(facts.items(), width),
        "",
        "settings, with their defaults:",
        *_indented(settings, width),
        "",
        f"  pbnn-bench sample --task regression --method {name} --set num_steps=20000 --out out",
    ]


def sample(argv: Sequence[str], program: str) -> int:
    """``pbnn-bench sample``; its help, where a method is named, is that of the method."""
    from implementations import __main__ as single_run

    words = [part for word in argv for part in word.split("=", 1)]
    if "--method" in words[:-1] and {"-h", "--help"} & set(words):
        name = words[words.index("--method") + 1]
        print(single_run.parser(program).format_usage())
        print("\n".join(about_method(find_method(name), name)))
        raise SystemExit(0)
    return single_run.main(argv, program)


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
    return [
        f"{task.name}:",
        *_indented(facts.items(), 18),
        "",
        f"  pbnn-bench sample {words} --method pbnn --out out",
    ]
