"""A study file as the runs it asks for, all checked before the first one starts.

    python -m workflows.grid workflows/studies/paper.yaml

prints how many runs a study has. The format is documented in ``workflows/schemas/study.schema.yaml``.
"""

import argparse
import itertools
import math
import sys
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import ALL_SETTINGS, METHODS, source_of
from implementations.settings import Setting, Settings
from implementations.tasks import find_task
from implementations.tasks.task import PRIOR_SCALE
from records.layout import plain
from records.methods import in_order
from workflows.structure import Mistakes, Place, cards_from_files, check_structure, tasks_from_files, where
from workflows.study import SEPARATOR, Plan, Run, Study, Variant
from workflows.study_file import MAX_RUNS, read_study

VARIANT_OPTIONS = {
    "prior_scale": PRIOR_SCALE,
    "num_points": Setting("num_points", "N, training points, of a task whose data are drawn", int, minimum=2),
    "num_epochs": Setting("num_epochs", "passes over the data that train the network", int, minimum=1),
    "fresh_points": Setting("fresh_points", "newly drawn points for the chains to read", int, minimum=2),
}


def load_study(path: Path) -> Study:
    """The study of a file, expanded; or a SettingError with every mistake in it, one per line."""
    try:
        content = read_study(path)
        mistakes = Mistakes()
        cards = METHODS | cards_from_files(content, path.parent, mistakes)
        tasks = tasks_from_files(content, path.parent, mistakes)
        broken = check_structure(content, cards, tasks, mistakes)
        plan = None if None in broken else _plan(content, mistakes)
        growing: set[str] = set()
        placed_runs = [] if None in broken else list(_expand(content, cards, tasks, broken, plan, growing, mistakes))
        _check_distinct(placed_runs, mistakes)
        mistakes.raise_any()
    except SettingError as error:
        # A wrong value can be half the file, so only its beginning is shown.
        lines = [line if len(line) <= 500 else f"{line[:500]} …" for line in str(error).splitlines()]
        raise SettingError("\n".join(f"{path}: {line}" for line in lines)) from None
    runs = tuple(run for _, run in placed_runs)
    return Study(content["study"], content["description"].strip(), runs, plan, frozenset(growing))


def _plan(content: Mapping[str, Any], mistakes: Mistakes) -> Plan | None:
    """How seeds are added as needed, where the study says so."""
    given = content["seeds"]
    if not isinstance(given, dict):
        return None
    if given["at_most"] < given["start"]:
        mistakes.add(("seeds",), f"at_most = {given['at_most']} is below start = {given['start']}; raise it")
        return None
    return Plan(given["start"], given["at_most"], given.get("first", 0))


def _expand(
    content: dict[str, Any],
    cards: Mapping[str, Card],
    tasks: Mapping[str, str],
    broken: set[int | None],
    plan: Plan | None,
    growing: set[str],
    mistakes: Mistakes,
) -> Iterator[tuple[Place, Run]]:
    """The runs of all tasks but the broken ones, each with the place of the grid it comes from.

    Settings whose seeds are added as needed are put into ``growing``.
    """
    known = ALL_SETTINGS | {name: setting for card in cards.values() for name, setting in card.settings.items()}
    chains = _defaults({"chains": content["chains"]} if "chains" in content else {}, known, (), mistakes)
    study_defaults = chains | _defaults(content.get("defaults", {}), known, ("defaults",), mistakes)
    if chains.items() - study_defaults.items():
        mistakes.add(("chains",), f"differs from defaults.chains, {study_defaults['chains']}; drop one")
    num_runs = 0
    for number, entry in enumerate(content["tasks"]):
        if number in broken:
            continue
        place: Place = ("tasks", number)
        variant = _variant({**entry, "task": tasks.get(entry["task"], entry["task"])}, place, mistakes)
        defaults = study_defaults | _defaults(entry.get("defaults", {}), known, (*place, "defaults"), mistakes)
        has_reference = "reference" not in entry and "reference" not in content
        for method, grids in entry["methods"].items():
            card, source = cards[method], source_of(cards[method])
            for grid_place, grid in _grids(grids, (*place, "methods", method)):
                nearest = ChainMap(grid, entry, content)
                grows = isinstance(nearest["seeds"], dict)
                seeds = (plan.seeds(0, plan.start) if plan else []) if grows else nearest["seeds"]
                most = plan.seeds(0, plan.at_most) if grows and plan else seeds
                axes = {**grid, "seeds": most, "backends": nearest["backends"]}
                num_runs += math.prod(len(values) for values in axes.values() if isinstance(values, list))
                if num_runs > MAX_RUNS:
                    mistakes.add(grid_place, f"more than {MAX_RUNS:,} runs up to here; split the study, or drop values")
                    return
                for label, settings in _combinations(variant, card, grid, defaults, grid_place, mistakes):
                    for backend, seed in itertools.product(nearest["backends"], seeds):
                        run = Run(variant, card.name, settings, backend, int(seed), label, source, has_reference)
                        growing |= {run.setting} if grows else set()
                        yield grid_place, run


def _variant(entry: Mapping[str, Any], place: Place, mistakes: Mistakes) -> Variant:
    variant = Variant(**{key: entry[key] for key in ("task", "stochastic", "prior") if key in entry})
    try:
        variant.definition.check_stochastic(variant.stochastic)
    except SettingError as error:
        mistakes.add((*place, "stochastic"), str(error))
    for name, option in VARIANT_OPTIONS.items():
        if name in entry:
            try:
                variant = _checked_with(variant, name, option.parse(entry[name]))
            except SettingError as error:
                mistakes.add((*place, name), str(error))
    return variant


def _checked_with(variant: Variant, name: str, value: Any) -> Variant:
    """``variant`` with an option that its task has to allow; the task's own number of points is none."""
    changed = replace(variant, **{name: value})
    usual = find_task(variant.task)
    # Whether the task allows it is asked before anything else is.
    is_usual = changed.definition.num_points == usual.num_points and changed.fresh_points is None
    if is_usual:
        changed = replace(changed, num_points=None)
    if usual.training and changed.num_epochs == usual.training.num_epochs:
        changed = replace(changed, num_epochs=None)
    return changed


def _grids(grids: Any, place: Place) -> list[tuple[Place, dict[str, Any]]]:
    if isinstance(grids, list):
        return [((*place, number), grid) for number, grid in enumerate(grids)]
    return [(place, grids or {})]


def _combinations(
    variant: Variant,
    card: Card,
    grid: Mapping[str, Any],
    defaults: Mapping[str, Any],
    place: Place,
    mistakes: Mistakes,
) -> Iterator[tuple[str, Settings]]:
    """Every combination of a grid's values: the folder's name it gives, and all settings of the method."""
    axes = _axes(grid, card.settings, place, mistakes, others=("seeds", "backends"))
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

    ``others`` are keys that may stand beside them.
    """
    for key in given:
        if key not in settings and key not in others:
            mistakes.add((*place, key), unknown("setting", key, [*settings, *others]))
    axes: dict[str, list[Any]] = {}
    for name, setting in settings.items():
        if name not in given:
            continue
        values: dict[Any, None] = {}
        is_list = isinstance(given[name], list)
        for number, written in enumerate(given[name] if is_list else [given[name]]):
            value_place = (*place, name, number) if is_list else (*place, name)
            try:
                value = setting.parse(written)
            except SettingError as error:
                mistakes.add(value_place, str(error))
                continue
            if value in values:
                mistakes.add(value_place, f"{name} = {written!r} stands twice in this list; drop one")
            values[value] = None
        axes[name] = list(values)
    return axes


def _check_distinct(placed_runs: Iterable[tuple[Place, Run]], mistakes: Mistakes) -> None:
    """No two runs share a path, and none is there twice under two paths; the first clash is reported."""
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
    if study.plan:
        more = ", ".join(map(str, study.looks[1:])) or "no more"
        lines.append(f"as of {study.looks[0]} seeds; undecided claims are looked at again with {more}")
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
