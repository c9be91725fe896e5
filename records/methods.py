"""What reports know of a method: its card, or the columns in which a summary keeps the facts of another's card.

A study with methods from files can therefore be read anywhere, also where these files are not.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from implementations.card import Card, Exactness
from implementations.methods import METHODS
from implementations.settings import Setting

#: For methods whose card has no colour: Paul Tol's muted scheme, apart from the suite's own colours.
SPARE_COLOURS = ("#332288", "#117733", "#882255", "#999933", "#44aa99", "#aa4499", "#ddcc77", "#88ccee")


class Facts(NamedTuple):
    """The part of a card that results are read by."""

    label: str
    exactness: Exactness
    acceptance: str
    is_minibatch: bool
    colour: str
    #: Its settings with their defaults; none where the card is not at hand.
    settings: Mapping[str, Setting] = {}

    @property
    def always_accepts(self) -> bool:
        return self.acceptance == "always"


class MethodName(str):
    """The name of a method in a row of a summary, with the facts that the row has of it."""

    facts: Facts


def facts_of(method: str) -> Facts:
    """The facts of a method, by name."""
    if isinstance(method, MethodName):
        return method.facts
    if method in METHODS:
        card = METHODS[method]
        colour = card.colour or _colour(method)
        return Facts(card.label, card.exactness, card.acceptance, card.is_minibatch, colour, card.settings)
    # A benchmark may name things that are no methods.
    return Facts(method, Exactness.BIASED, "own", True, _colour(method))


def columns_of(card: Card) -> dict[str, Any]:
    """The columns of a summary that keep a card's facts."""
    return {
        "method_label": card.label,
        "method_exactness": card.exactness.value,
        "method_acceptance": card.acceptance,
        "method_is_minibatch": card.is_minibatch,
        "method_colour": card.colour,
    }


def named(row: Mapping[str, Any]) -> MethodName:
    """The method of a row, whose columns are those of ``columns_of``."""
    name = MethodName(row["method"])
    name.facts = facts_of(row["method"])
    if row["method"] not in METHODS and row["method_label"] is not None:
        name.facts = Facts(
            row["method_label"],
            Exactness(row["method_exactness"]),
            row["method_acceptance"],
            row["method_is_minibatch"],
            row["method_colour"] or _colour(row["method"]),
        )
    return name


def in_order(names: Iterable[str]) -> list[str]:
    """Methods, each once: the suite's in the order of its table, then the others as they come."""
    found = dict.fromkeys(names)
    return [*(name for name in METHODS if name in found), *(name for name in found if name not in METHODS)]


def _colour(method: str) -> str:
    """One that follows from the name, and so is the same in every figure."""
    number = int(hashlib.sha256(method.encode()).hexdigest(), 16)
    return SPARE_COLOURS[number % len(SPARE_COLOURS)]
