"""The methods: a table of cards. A new one is a file with a card, here or anywhere else."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from implementations.card import Card
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import (
    austerity,
    barker,
    bounded,
    confidence,
    control_variates,
    cyclic,
    delayed_acceptance,
    outside,
    paper,
    pseudo_marginal,
    sghmc,
    sgnht,
    temperature,
)
from implementations.plugin_checks import Checked
from implementations.plugins import is_plugin, load
from implementations.settings import SETTINGS, Setting, Settings, Sized

METHODS: dict[str, Card] = {
    card.name: card
    for card in (
        *paper.ROWS,
        *control_variates.ROWS,
        temperature.CARD,
        sghmc.CARD,
        sgnht.CARD,
        *cyclic.ROWS,
        barker.CARD,
        austerity.CARD,
        confidence.CARD,
        *bounded.ROWS,
        delayed_acceptance.CARD,
        pseudo_marginal.CARD,
        *outside.ROWS,
    )
}

#: Every setting that some method has, the shared ones first.
ALL_SETTINGS: dict[str, Setting] = SETTINGS | {
    name: setting for card in METHODS.values() for name, setting in card.settings.items() if name not in SETTINGS
}

_SOURCES: dict[Card, str] = {}


def source_of(card: Card) -> str | None:
    """The path that a card which is not the suite's was found by."""
    return _SOURCES.get(card)


def find_method(name: str) -> Card:
    """The card of a name, or of ``path/to/file.py:CARD`` or ``package.module:CARD``. Raises SettingError."""
    if name in METHODS:
        return METHODS[name]
    if not is_plugin(name):
        raise SettingError(unknown("method", name, METHODS))
    card = load(name, Card)
    if card.name in METHODS:
        raise SettingError(f"{name}: the suite has a method {card.name!r} of its own; choose another name")
    return _checked(card, name)


@cache
def _checked(card: Card, path: str) -> Card:
    """A card whose kernel's mistakes are named with its file; the same one for the same file, which shares its code."""
    checked = replace(card, kernel=Checked(card.kernel, path.rpartition(":")[0]))
    _SOURCES[checked] = path
    return checked


def resolve(method: str, given: Mapping[str, Any], problem: Sized) -> Settings:
    """The checked settings of a method on a problem, or on a task's size."""
    return find_method(method).resolve(given, problem)
