"""A study file as the runs it asks for, all checked before the first one starts.

    python -m workflows.grid workflows/studies/paper.yaml

prints how many runs a study has. The format is documented in ``workflows/schemas/study.schema.yaml``.
"""

import argparse
import itertools
import re
import reprlib
import sys
from collections import ChainMap, Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError

from implementations.backends import BACKENDS
from implementations.methods import METHODS, SETTINGS, Setting, Settings, resolve, setting_names
from implementations.names import SettingError, unknown
from implementations.tasks import TASKS, find_task
from implementations.tasks.task import PRIORS, STOCHASTIC, Task

SCHEMA = Path(__file__).parent / "schemas" / "study.schema.yaml"
VARIANT_OPTIONS = {
    "prior_scale": Setting("standard deviation of the gaussian prior, b of the laplace", float, is_positive=True),
    "num_points": Setting("N, training points, of a task whose data are drawn", int, minimum=2),
}

#: Where in the file: the keys and list positions from its top.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Variant:
    """A task as a study asks for it: what is stochastic, under which prior, and with how many training points."""

    task: str
    stochastic: str = "last"
    prior: str = "gaussian"
    prior_scale: float = 1.0
    #: None for the task's own.
    num_points: int | None = None

    @property
    def definition(self) -> Task:
        return find_task(self.task, self.num_points)

    @property
    def label(self) -> str:
        """``regression``, ``regression-all-laplace``: the task and what departs from its usual form."""
        parts = [self.task]
        if self.stochastic != "last":
            parts.append(self.stochastic)
        if self.prior != "gaussian":
            parts.append(self.prior)
        if self.prior_scale != 1:
            parts.append(f"scale{plain(self.prior_scale)}")
        if self.num_points is not None:
            parts.append(f"points{self.num_points}")
        return "-".join(parts)


@dataclass(frozen=True)
class Run:
    """A method with its settings on one task, backend and seed: the chains that one job samples."""

    variant: Variant
    method: str
    settings: Settings
    backend: str
    seed: int
    #: The method and the settings its own entry gives, ``pbnn,batch_size=5,weight=data``.
    label: str

    @property
    def path(self) -> str:
        """Its folder below ``results/<study>/runs``."""
        return f"{self.variant.label}/{self.label}/{self.backend}/seed{self.seed}"


@dataclass(frozen=True)
class Study:
    """A study's name, its line of description, and its runs in the order of the file."""

    name: str
    description: str
    runs: tuple[Run, ...]


def load_study(path: Path) -> Study:
    """The study of a file, expanded; or a SettingError with every mistake in it, one a line."""
    try:
        content = _read(path)
        mistakes = _Mistakes()
        broken = _check_structure(content, mistakes)
        placed_runs = [] if None in broken else list(_expand(content, broken, mistakes))
        _check_distinct(placed_runs, mistakes)
        mistakes.raise_any()
    except SettingError as error:
        raise SettingError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None
    return Study(content["study"], content["description"].strip(), tuple(run for _, run in placed_runs))


def plain(value: object) -> str:
    """A setting's value as it stands in a path: ``0.001``, ``1e-05``, ``10``, ``data``."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


class _Mistakes:
    """What is wrong in a file, each once, in the order found."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def add(self, place: Place, message: str) -> None:
        self._lines[f"{_where(place)}: {message}" if place else message] = None

    def raise_any(self, most: int = 20) -> None:
        """One wrong value of a large grid can be wrong in many combinations, so the list is cut at ``most``."""
        lines = list(self._lines)
        if len(lines) > most:
            lines[most:] = [f"and {len(lines) - most} more"]
        if lines:
            raise SettingError("\n".join(lines))


def _where(place: Place) -> str:
    """``tasks[1].methods.pbnn.step_size``"""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")


# Reading


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice is an error and 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(scalars):
            if any(key.value == earlier.value for earlier in scalars[:number]):
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
        return super().construct_mapping(node, deep)


# YAML 1.1 asks for a dot and a signed exponent; people write 1e-4 and 2e5.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_bytes(), Loader=_Loader)
    except FileNotFoundError:
        siblings = sorted(other.name for other in path.parent.glob("*.yaml"))
        raise SettingError(unknown("study file", path.name, siblings)) from None
    except OSError as error:
        raise SettingError(f"cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingError(where + ", ".join(filter(None, [error.context, error.problem]))) from None
    except (yaml.YAMLError, ValueError) as error:
        # Bytes that are no text, or a date such as 2024-13-01, which YAML takes apart by itself.
        raise SettingError(f"is not YAML: {' '.join(str(error).split())}") from None


# Structure: which keys there are and what kind of value each has


def _validator() -> Draft202012Validator:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    tables: dict[str, Mapping[str, Any]] = {
        "task": TASKS,
        "stochastic": STOCHASTIC,
        "prior": PRIORS,
        "method": METHODS,
        "backend": BACKENDS,
    }
    for name, table in tables.items():
        schema["$defs"][name]["enum"] = list(table)
    return Draft202012Validator(schema)


def _check_structure(content: Any, mistakes: _Mistakes) -> set[int | None]:
    """Positions of the tasks that do not have the schema's form; None where something outside the tasks has not."""
    broken: set[int | None] = set()
    for error in _validator().iter_errors(content):
        place = tuple(error.path)
        broken.add(place[1] if len(place) > 1 and place[0] == "tasks" else None)
        _explain(error, place, mistakes)
    return broken


def _explain(error: ValidationError, place: Place, mistakes: _Mistakes) -> None:
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
        mistakes.add(place, unknown(schema["title"], instance, expected))
    else:
        # A wrong value can be half the file, so only its beginning is shown.
        mistakes.add(place, f"{reprlib.repr(instance)} is not {schema['description']}")


# Values: every list into its values, every combination checked with its method and task


def _expand(content: dict[str, Any], broken: set[int | None], mistakes: _Mistakes) -> Iterator[tuple[Place, Run]]:
    """The runs of all tasks but the broken ones, each with the place of the grid it comes from."""
    chains = {"chains": content["chains"]} if "chains" in content else {}
    study_defaults = _defaults(chains, (), mistakes) | _defaults(content.get("defaults", {}), ("defaults",), mistakes)
    for number, entry in enumerate(content["tasks"]):
        if number in broken:
            continue
        place: Place = ("tasks", number)
        variant = _variant(entry, place, mistakes)
        defaults = study_defaults | _defaults(entry.get("defaults", {}), (*place, "defaults"), mistakes)
        for method, grids in entry["methods"].items():
            for grid_place, grid in _grids(grids, (*place, "methods", method)):
                nearest = ChainMap(grid, entry, content)
                for label, settings in _combinations(variant, method, grid, defaults, grid_place, mistakes):
                    for backend, seed in itertools.product(nearest["backends"], nearest["seeds"]):
                        yield grid_place, Run(variant, method, settings, backend, int(seed), label)


def _variant(entry: Mapping[str, Any], place: Place, mistakes: _Mistakes) -> Variant:
    variant = Variant(**{key: entry[key] for key in ("task", "stochastic", "prior") if key in entry})
    if variant.stochastic != "last" and len(variant.definition.layers) == 1:
        mistakes.add((*place, "stochastic"), f"{variant.task!r} has one layer, so 'all' is 'last'; leave it out")
    for name, option in VARIANT_OPTIONS.items():
        if name in entry:
            try:
                variant = _checked_with(variant, name, option.parse(name, entry[name]))
            except SettingError as error:
                mistakes.add((*place, name), str(error))
    return variant


def _checked_with(variant: Variant, name: str, value: Any) -> Variant:
    """``variant`` with an option that its task has to allow; the task's own number of points is none."""
    changed = replace(variant, **{name: value})
    is_usual = changed.definition.num_points == TASKS[variant.task].num_points
    return replace(changed, num_points=None) if is_usual else changed


def _grids(grids: Any, place: Place) -> list[tuple[Place, dict[str, Any]]]:
    if isinstance(grids, list):
        return [((*place, number), grid) for number, grid in enumerate(grids)]
    return [(place, grids or {})]


def _combinations(
    variant: Variant,
    method: str,
    grid: Mapping[str, Any],
    defaults: Mapping[str, Any],
    place: Place,
    mistakes: _Mistakes,
) -> Iterator[tuple[str, Settings]]:
    """Every combination of a grid's values: the folder's name it gives, and all settings of the method."""
    names = setting_names(METHODS[method])
    axes = _axes(grid, [*names, "seeds", "backends"], place, mistakes)
    applicable = {name: defaults[name] for name in names if name in defaults}
    task = variant.definition
    for values in itertools.product(*axes.values()):
        own = dict(zip(axes, values, strict=True))
        try:
            settings = resolve(
                method,
                applicable | own,
                task=variant.task,
                num_points=task.num_points,
                num_parameters=task.num_parameters(variant.stochastic),
            )
        except SettingError as error:
            mistakes.add(place, str(error))
        else:
            yield ",".join([method, *(f"{name}={plain(value)}" for name, value in own.items())]), settings


def _defaults(given: Mapping[str, Any], place: Place, mistakes: _Mistakes) -> dict[str, Any]:
    return {name: value for name, values in _axes(given, SETTINGS, place, mistakes).items() for value in values}


def _axes(given: Mapping[str, Any], names: Collection[str], place: Place, mistakes: _Mistakes) -> dict[str, list[Any]]:
    """The checked values of each setting, in the order of SETTINGS; a single value counts as a list of one.

    ``names`` are the keys that may be given; those that are no setting are left to others.
    """
    for key in given:
        if key not in names:
            mistakes.add((*place, key), unknown("setting", key, names))
    axes: dict[str, list[Any]] = {}
    for name in SETTINGS:
        if name not in given or name not in names:
            continue
        axes[name] = []
        is_list = isinstance(given[name], list)
        for number, written in enumerate(given[name] if is_list else [given[name]]):
            value_place = (*place, name, number) if is_list else (*place, name)
            try:
                value = SETTINGS[name].parse(name, written)
            except SettingError as error:
                mistakes.add(value_place, str(error))
                continue
            if value in axes[name]:
                mistakes.add(value_place, f"{name} = {written!r} stands twice in this list; drop one")
            else:
                axes[name].append(value)
    return axes


def _check_distinct(placed_runs: Iterable[tuple[Place, Run]], mistakes: _Mistakes) -> None:
    """No two runs share a path, and none is there twice under two paths; the first clash is told."""
    by_path: dict[str, Place] = {}
    by_content: dict[Run, tuple[Place, Run]] = {}
    for place, run in placed_runs:
        other_place = by_path.setdefault(run.path, place)
        twin_place, twin = by_content.setdefault(replace(run, label=""), (place, run))
        if other_place is not place:
            mistakes.add(place, f"shares the path {run.path} with {_where(other_place)}; change the settings of one")
            return
        if twin is not run:
            mistakes.add(place, f"{run.path} is the same run as {twin.path} of {_where(twin_place)}; drop one")
            return


def describe(study: Study) -> str:
    """How many runs there are of each method on each task."""
    tasks = list(dict.fromkeys(run.variant.label for run in study.runs))
    methods = [name for name in METHODS if any(run.method == name for run in study.runs)]
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
    parser = argparse.ArgumentParser(prog="python -m workflows.grid", description="Check a study and count its runs.")
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
