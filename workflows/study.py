"""A study's file, read, checked and expanded once into the runs that it asks for.

    python -m workflows.study workflows/studies/paper.yaml

prints how many runs a study has. ``workflows/schemas/study.schema.yaml`` documents the format.
"""

import argparse
import itertools
import math
import re
import reprlib
import sys
from collections import ChainMap, Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import yaml
from jsonschema import Draft202012Validator

from implementations.backends import BACKENDS
from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import ALL_SETTINGS, find_method, source_of
from implementations.plugins import absolute, is_plugin
from implementations.settings import Setting, Settings
from implementations.tasks import find_task
from implementations.tasks.task import PRIOR_SCALE, PRIORS, STOCHASTIC
from records.layout import plain
from records.methods import in_order
from workflows.batches import Batch, in_batches
from workflows.runs import SEPARATOR, Run, Variant, write_runs

SCHEMA = Path(__file__).parent / "schemas" / "study.schema.yaml"
#: Far more than a study needs: a larger file, or grid, is a mistake.
MAX_BYTES, MAX_RUNS = 100_000, 20_000
#: Pilots that are made apart from the runs have a problem of this seed, or of the next that the study does not have.
PILOT_SEED = 1000
#: Keys of a task that change it, and what each may be.
VARIANT_OPTIONS = {
    "prior_scale": PRIOR_SCALE,
    "num_points": Setting("num_points", "N, training points, of a task whose data are drawn", int, minimum=2),
    "num_epochs": Setting("num_epochs", "passes over the data that train the network", int, minimum=1),
    "fresh_points": Setting("fresh_points", "newly drawn points for the chains to read", int, minimum=2),
}

#: Where in the file: the keys and list positions from its top.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Study:
    """A study's name, its line of description, and its runs in the order of the file."""

    name: str
    description: str
    runs: tuple[Run, ...]

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        return tuple(in_batches(self.runs))

    @property
    def pilot_seed(self) -> int:
        """A seed that no run has."""
        taken = {run.seed for run in self.runs}
        return next(seed for seed in itertools.count(PILOT_SEED) if seed not in taken)

    def write(self, results: Path) -> None:
        """Write ``runs.parquet`` into ``results``, the folder of this study's results."""
        names = {run.path: batch.name for batch in self.batches for run in batch.runs}
        write_runs(results, [(run, names[run.path]) for run in self.runs], self.description)


def load_study(path: Path) -> Study:
    """The study of a file; or a SettingError with every mistake in the file, one per line."""
    mistakes = Mistakes()
    try:
        content = read_yaml(path)
        broken = _check_structure(content, mistakes)
        placed_runs = [] if None in broken else list(_expand(content, path.parent, broken, mistakes))
        _check_distinct(placed_runs, mistakes)
        mistakes.raise_any()
    except SettingError as error:
        # A wrong value can be half the file, so only its beginning is shown.
        lines = [line if len(line) <= 500 else f"{line[:500]} …" for line in str(error).splitlines()]
        raise SettingError("\n".join(f"{path}: {line}" for line in lines)) from None
    return Study(content["study"], content["description"].strip(), tuple(run for _, run in placed_runs))


class Mistakes:
    """What is wrong in a file, each mistake once, in the order found."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, place: Place, message: str) -> None:
        self._lines[f"{where(place)}: {message}" if place else message] = None

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


# From text to plain values


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice is an error, and numbers are what people write: 1e-4, but not 0x10 or 1:30."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {reprlib.repr(key.value)} stands twice"
                    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


#: Text of more than 40 characters is no number, so no pattern is tried on it.
_SHORT = r"(?s:(?!.{41}))[-+]?"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("int", "float")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in (
    ("int", r"(0|[1-9][0-9]*)\Z"),
    ("float", r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(_SHORT + _pattern, re.ASCII), list("-+.0123456789")
    )


def read_yaml(path: Path) -> Any:
    """The plain values of a study's file, unchecked. Raises SettingError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SettingError(f"is larger than {MAX_BYTES:,} bytes, which is more than a study needs")
        return yaml.load(content.decode("utf-8-sig"), _Loader)
    except FileNotFoundError:
        siblings = sorted(other.name for other in path.parent.glob("*.yaml"))
        raise SettingError(unknown("study file", path.name, siblings)) from None
    except OSError as error:
        raise SettingError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError("is not UTF-8 text; save it as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingError(place + ", ".join(filter(None, [error.context, error.problem]))) from None
    # PyYAML takes the word of a tag such as !!bool, and lets through what its constructors raise.
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SettingError(f"is not YAML: {' '.join(str(error).split())}") from None


# The structure


@cache
def _validator() -> Draft202012Validator:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    tables: dict[str, Iterable[str]] = {"stochastic": STOCHASTIC, "prior": PRIORS, "backend": BACKENDS}
    for name, table in tables.items():
        schema["$defs"][name]["enum"] = list(table)
    return Draft202012Validator(schema)


def _check_structure(content: Any, mistakes: Mistakes) -> set[int | None]:
    """Positions of the tasks that do not have the schema's form; None if something outside the tasks has not."""
    broken: set[int | None] = set()
    for error in _validator().iter_errors(content):
        place = tuple(error.path)
        broken.add(place[1] if len(place) > 1 and place[0] == "tasks" else None)
        # Typed as possibly unset, which they are only in an error that no validator has raised.
        schema, instance, expected = cast(Any, (error.schema, error.instance, error.validator_value))
        if error.validator == "additionalProperties":
            for key in instance:
                if key not in schema["properties"]:
                    mistakes.add((*place, key), unknown("key", key, schema["properties"]))
        elif error.validator == "required":
            for key in expected:
                if key not in instance:
                    mistakes.add(place, f"the key {key!r} is missing")
        elif error.validator == "enum":
            mistakes.add(place, unknown(schema["title"], instance, expected))
        else:
            # A wrong value can be half the file, so only its beginning is shown.
            mistakes.add(place, f"{reprlib.repr(instance)} is not {schema['description']}")
    return broken


# From plain values to runs


def _expand(
    content: dict[str, Any], folder: Path, broken: Collection[int | None], mistakes: Mistakes
) -> Iterator[tuple[Place, Run]]:
    """The runs of all tasks that have the schema's form, each with the place of the grid it comes from."""
    entries = {number: entry for number, entry in enumerate(content["tasks"]) if number not in broken}
    cards = _cards(entries, folder, mistakes)
    known = ALL_SETTINGS | {name: setting for card in cards.values() for name, setting in card.settings.items()}
    chains = _defaults({"chains": content["chains"]} if "chains" in content else {}, known, (), mistakes)
    study_defaults = chains | _defaults(content.get("defaults", {}), known, ("defaults",), mistakes)
    if chains.items() - study_defaults.items():
        mistakes.add(("chains",), f"differs from defaults.chains, {study_defaults['chains']}; drop one")
    num_runs, files = 0, dict[str, str]()
    for number, entry in entries.items():
        place: Place = ("tasks", number)
        defaults = study_defaults | _defaults(entry.get("defaults", {}), known, (*place, "defaults"), mistakes)
        variant = _variant(entry, folder, place, mistakes)
        if variant is None:
            continue
        if is_plugin(variant.task) and files.setdefault(variant.name, variant.task) != variant.task:
            mistakes.add((*place, "task"), f"{entry['task']}: another file has a task {variant.name!r} too")
        has_reference = "reference" not in entry and "reference" not in content
        for method, grid_place, grid in _grids(entry["methods"], (*place, "methods")):
            if method not in cards:
                continue
            card, nearest = cards[method], ChainMap(grid, entry, content)
            copies = list(itertools.product(nearest["backends"], nearest["seeds"]))
            axes = _axes(grid, card.settings, grid_place, mistakes, others=("seeds", "backends"))
            num_runs += math.prod(map(len, axes.values())) * len(copies)
            if num_runs > MAX_RUNS:
                mistakes.add(grid_place, f"more than {MAX_RUNS:,} runs up to here; split the study, or drop values")
                return
            for label, settings in _combinations(variant, card, axes, defaults, grid_place, mistakes):
                for backend, seed in copies:
                    source = source_of(card)
                    run = Run(variant, card.name, settings, backend, int(seed), label, source, has_reference)
                    yield grid_place, run


def _cards(entries: Mapping[int, Any], folder: Path, mistakes: Mistakes) -> dict[str, Card]:
    """The methods that a study names, those from files too; a relative path is one from the study's folder."""
    cards: dict[str, Card] = {}
    for number, entry in entries.items():
        for name in entry["methods"]:
            place = ("tasks", number, "methods")
            if name in cards:
                continue
            try:
                card = find_method(absolute(name, folder) if is_plugin(name) else name)
            except SettingError as error:
                mistakes.add(place if is_plugin(name) else (*place, name), str(error))
                continue
            if any(card.name == other.name and card is not other for other in cards.values()):
                mistakes.add(place, f"{name}: another file has a method {card.name!r} too")
            cards[name] = card
    return cards


def _variant(entry: Mapping[str, Any], folder: Path, place: Place, mistakes: Mistakes) -> Variant | None:
    """The task of an entry, with the options that the task allows; None if there is no such task."""
    name = entry["task"]
    try:
        task = absolute(name, folder) if is_plugin(name) else name
        usual = find_task(task)
    except SettingError as error:
        mistakes.add((*place, "task"), str(error))
        return None
    variant = Variant(task, **{key: entry[key] for key in ("stochastic", "prior") if key in entry})
    try:
        usual.check_stochastic(variant.stochastic)
    except SettingError as error:
        mistakes.add((*place, "stochastic"), str(error))
    for option in [name for name in VARIANT_OPTIONS if name in entry]:
        try:
            changed = replace(variant, **{option: VARIANT_OPTIONS[option].parse(entry[option])})
            # Does the task allow it? Raises SettingError.
            found = changed.definition
        except SettingError as error:
            mistakes.add((*place, option), str(error))
            continue
        # What the task has anyway is no variant of it.
        if found.num_points == usual.num_points and changed.fresh_points is None:
            changed = replace(changed, num_points=None)
        if usual.training and changed.num_epochs == usual.training.num_epochs:
            changed = replace(changed, num_epochs=None)
        variant = changed
    return variant


def _grids(methods: Mapping[str, Any], place: Place) -> Iterator[tuple[str, Place, dict[str, Any]]]:
    """Each grid of each method, with its place; a single grid counts as a list of one."""
    for method, grids in methods.items():
        if isinstance(grids, list):
            yield from ((method, (*place, method, number), grid) for number, grid in enumerate(grids))
        else:
            yield method, (*place, method), grids or {}


def _combinations(
    variant: Variant,
    card: Card,
    axes: Mapping[str, Sequence[Any]],
    defaults: Mapping[str, Any],
    place: Place,
    mistakes: Mistakes,
) -> Iterator[tuple[str, Settings]]:
    """Every combination of a grid's values: the label it gives, and all settings of the method."""
    applicable = {name: defaults[name] for name in card.settings if name in defaults}
    for values in itertools.product(*axes.values()):
        own = dict(zip(axes, values, strict=True))
        try:
            settings = card.resolve(applicable | own, variant.size)
        except SettingError as error:
            mistakes.add(place, str(error))
        else:
            yield SEPARATOR.join([card.name, *(f"{name}={plain(value)}" for name, value in own.items())]), settings


def _defaults(
    given: Mapping[str, Any], known: Mapping[str, Setting], place: Place, mistakes: Mistakes
) -> dict[str, Any]:
    return {name: value for name, values in _axes(given, known, place, mistakes).items() for value in values}


def _axes(
    given: Mapping[str, Any],
    settings: Mapping[str, Setting],
    place: Place,
    mistakes: Mistakes,
    others: Collection[str] = (),
) -> dict[str, list[Any]]:
    """The checked values of each setting, in the order of ``settings``; a single value counts as a list of one.

    ``others`` are further keys that may be given.
    """
    for key in given:
        if key not in settings and key not in others:
            mistakes.add((*place, key), unknown("setting", key, [*settings, *others]))
    axes: dict[str, list[Any]] = {}
    for name in [name for name in settings if name in given]:
        is_list = isinstance(given[name], list)
        axes[name] = []
        for number, written in enumerate(given[name] if is_list else [given[name]]):
            value_place = (*place, name, number) if is_list else (*place, name)
            try:
                value = settings[name].parse(written)
            except SettingError as error:
                mistakes.add(value_place, str(error))
                continue
            if value in axes[name]:
                mistakes.add(value_place, f"{name} = {written!r} stands twice in this list; drop one")
                continue
            axes[name].append(value)
    return axes


def _check_distinct(placed_runs: Iterable[tuple[Place, Run]], mistakes: Mistakes) -> None:
    """No two runs share a path, and no run has two paths; the first clash is reported."""
    by_path: dict[str, Place] = {}
    by_content: dict[Run, tuple[Place, Run]] = {}
    for place, run in placed_runs:
        other_place = by_path.setdefault(run.path, place)
        twin_place, twin = by_content.setdefault(replace(run, label=""), (place, run))
        if other_place is not place:
            mistakes.add(place, f"shares the path {run.path} with {where(other_place)}; change the settings of one")
            return
        if twin is not run:
            mistakes.add(place, f"{run.path} is the same run as {twin.path} of {where(twin_place)}; drop one")
            return


# The command


def describe(study: Study) -> str:
    """How many runs there are of each method on each task."""
    tasks = list(dict.fromkeys(run.variant.label for run in study.runs))
    methods = in_order(run.method for run in study.runs)
    counts = Counter((run.method, run.variant.label) for run in study.runs)
    rows = [["method", *tasks, "all"]]
    for method in methods:
        row = [counts[method, task] for task in tasks]
        rows.append([method, *(str(count or "-") for count in row), str(sum(row))])
    columns = [sum(counts[method, task] for method in methods) for task in tasks]
    rows.append(["all", *map(str, columns), str(len(study.runs))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([f"{study.name}: {study.description}", "", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m workflows.study", description="Check a study and count its runs.")
    parser.add_argument("study", type=Path, help="a file such as workflows/studies/paper.yaml")
    arguments = parser.parse_args(argv)
    try:
        print(describe(load_study(arguments.study)))
    except SettingError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
