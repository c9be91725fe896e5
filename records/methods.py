"""What reports know of a method: its card, or what a summary has kept of a card that is not the suite's.

A study with somebody's own methods can be read anywhere, also where their files are not: the summary has what readers
need of them, and reading it makes them known here.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from implementations.card import Card, Exactness
from implementations.methods import METHODS
from implementations.settings import Setting

if TYPE_CHECKING:
    # Who only checks a study should not wait for it.
    import pandas as pd

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


#: Methods of summaries that were read, by name.
_others: dict[str, Facts] = {}


def facts_of(method: str) -> Facts:
    """The facts of a method, by name."""
    if method in METHODS:
        card = METHODS[method]
        colour = card.colour or _colour(method)
        return Facts(card.label, card.exactness, card.acceptance, card.is_minibatch, colour, card.settings)
    # A benchmark may name things that are no methods.
    return _others.get(method) or Facts(method, Exactness.BIASED, "own", True, _colour(method))


def columns_of(card: Card) -> dict[str, Any]:
    """The columns of a summary that keep a card's facts."""
    return {
        "method_label": card.label,
        "method_exactness": card.exactness.value,
        "method_acceptance": card.acceptance,
        "method_is_minibatch": card.is_minibatch,
        "method_colour": card.colour,
    }


def learn(summary: "pd.DataFrame") -> None:
    """Make known the methods of a summary that are not the suite's."""
    if "method_label" not in summary:
        return
    rows: list[dict[Any, Any]] = summary[~summary["method"].isin(METHODS)].drop_duplicates("method").to_dict("records")
    for row in rows:
        _others[row["method"]] = Facts(
            row["method_label"],
            Exactness(row["method_exactness"]),
            row["method_acceptance"],
            bool(row["method_is_minibatch"]),
            row["method_colour"] if isinstance(row["method_colour"], str) else _colour(row["method"]),
        )


def in_order(names: Iterable[str]) -> list[str]:
    """Methods, each once: the suite's in the order of its table, then the others as they come."""
    found = dict.fromkeys(names)
    return [*(name for name in METHODS if name in found), *(name for name in found if name not in METHODS)]


def _colour(method: str) -> str:
    """One that follows from the name, and so is the same in every figure."""
    number = int(hashlib.sha256(method.encode()).hexdigest(), 16)
    return SPARE_COLOURS[number % len(SPARE_COLOURS)]
