"""The structure of a study's file: which keys there are, what kind of value each has, and what is wrong with them."""

import reprlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError

from implementations.backends import BACKENDS
from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import find_method
from implementations.plugins import absolute, is_reference
from implementations.tasks import TASKS, find_task
from implementations.tasks.task import PRIORS, STOCHASTIC

SCHEMA = Path(__file__).parent / "schemas" / "study.schema.yaml"

#: Where in the file: the keys and list positions from its top.
Place = tuple[str | int, ...]


class Mistakes:
    """What is wrong in a file, each once, in the order found."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, place: Place, message: str) -> None:
        line = f"{where(place)}: {message}" if place else message
        self._lines[line] = None
        if len(self._lines) == 1000:
            self.raise_any()

    def raise_any(self, most: int = 20) -> None:
        """One wrong value of a large grid can be wrong in many combinations, so the list is cut at ``most``."""
        lines = list(self._lines)
        if len(lines) > most:
            lines[most:] = [f"and {len(lines) - most} more"]
        if lines:
            raise SettingError("\n".join(lines))


def where(place: Place) -> str:
    """``tasks[1].methods.pbnn.step_size``"""
    names = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
    return "".join(name if name.isprintable() else repr(name) for name in names).lstrip(".")


def cards_from_files(content: Any, folder: Path, mistakes: Mistakes) -> dict[str, Card]:
    """The methods that a study takes from files, by what it calls them; paths are relative to the study's file."""
    tasks = content.get("tasks") if isinstance(content, dict) else None
    cards: dict[str, Card] = {}
    for number, entry in enumerate(tasks if isinstance(tasks, list) else []):
        methods = entry.get("methods") if isinstance(entry, dict) else None
        for name in methods if isinstance(methods, dict) else []:
            if isinstance(name, str) and is_reference(name) and name not in cards:
                try:
                    if not name.isprintable():
                        raise SettingError(f"no method {name!r}")
                    card = find_method(absolute(name, folder))
                except SettingError as error:
                    mistakes.add(("tasks", number, "methods"), str(error))
                    continue
                if any(card.name == other.name and card is not other for other in cards.values()):
                    mistakes.add(("tasks", number, "methods"), f"{name}: another file has a method {card.name!r} too")
                cards[name] = card
    return cards


def tasks_from_files(content: Any, folder: Path, mistakes: Mistakes) -> dict[str, str]:
    """The tasks that a study takes from files: what it calls them, and the same from any working directory."""
    found: dict[str, str] = {}
    entries = content.get("tasks") if isinstance(content, dict) else None
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        name = entry.get("task") if isinstance(entry, dict) else None
        if isinstance(name, str) and is_reference(name) and name not in found:
            place: Place = ("tasks", number, "task")
            try:
                if not name.isprintable():
                    raise SettingError(f"no task {name!r}")
                reference = absolute(name, folder)
                task = find_task(reference)
            except SettingError as error:
                mistakes.add(place, str(error))
                continue
            if any(task.name == find_task(other).name and reference != other for other in found.values()):
                mistakes.add(place, f"{name}: another file has a task {task.name!r} too")
            found[name] = reference
    return found


@cache
def _validator(methods: tuple[str, ...], tasks: tuple[str, ...]) -> Draft202012Validator:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    tables: dict[str, Iterable[str]] = {
        "task": (*TASKS, *tasks),
        "stochastic": STOCHASTIC,
        "prior": PRIORS,
        "method": methods,
        "backend": BACKENDS,
    }
    for name, table in tables.items():
        schema["$defs"][name]["enum"] = list(table)
    return Draft202012Validator(schema)


def check_structure(
    content: Any, cards: Mapping[str, Card], tasks: Iterable[str], mistakes: Mistakes
) -> set[int | None]:
    """Positions of the tasks that do not have the schema's form; None where something outside the tasks has not."""
    broken: set[int | None] = set()
    for error in _validator(tuple(cards), tuple(tasks)).iter_errors(content):
        place = tuple(error.path)
        broken.add(place[1] if len(place) > 1 and place[0] == "tasks" else None)
        _explain(error, place, mistakes)
    return broken


def _explain(error: ValidationError, place: Place, mistakes: Mistakes) -> None:
    # Typed as possibly unset, which they are only in an error that was never raised by a validator.
    schema: Any = error.schema
    instance: Any = error.instance
    expected: Any = error.validator_value
    if error.validator == "additionalProperties":
        for key in instance:
            if key not in schema["properties"]:
                mistakes.add((*place, key), unknown("key", key, schema["properties"]))
    elif error.validator == "required":
        for key in expected:
            if key not in instance:
                mistakes.add(place, f"the key {key!r} is missing")
    elif error.validator == "enum":
        # The name of a key is checked like a value, but its place is that of the mapping it stands in.
        place = (*place, instance) if "propertyNames" in error.schema_path else place
        # What is wrong with a file has been said.
        if not (schema["title"] in ("method", "task") and isinstance(instance, str) and is_reference(instance)):
            mistakes.add(place, unknown(schema["title"], instance, expected))
    else:
        # A wrong value can be half the file, so only its beginning is shown.
        mistakes.add(place, f"{reprlib.repr(instance)} is not {schema['description']}")
