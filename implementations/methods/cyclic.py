"""Cyclic SG-MCMC: a step size that falls along a cosine and starts over, with draws from late in each cycle."""

from dataclasses import replace

from implementations.card import Card
from implementations.methods import control_variates, paper, sghmc, sgnht
from implementations.settings import Setting

#: Zhang, Li, Zhang, Chen and Wilson (2020), equation 1; the noise of a step stays on in the early part of a cycle too.
SCHEDULE = (
    Setting("num_cycles", "cycles of the step size over the whole run, warm-up included", int, 4, minimum=1),
    Setting("explored", "share of each cycle, at its large steps, whose draws are dropped", float, 0.5, 0, 0.99),
)


def cyclic(card: Card, name: str, label: str, summary: str, colour: str) -> Card:
    """A method whose step size cycles, in place of any other schedule."""
    settings = (setting for setting in card.own_settings if setting.name not in ("decay", "decay_start"))
    return replace(
        card,
        name=name,
        label=label,
        summary=f"{summary}, with a cyclic step size",
        citation=f"{card.citation}; Zhang, Li, Zhang, Chen and Wilson (2020)",
        own_settings=(*settings, *SCHEDULE),
        colour=colour,
    )


_SGLD, _SGLD_CV = (
    next(card for card in (*paper.ROWS, *control_variates.ROWS) if card.name == name) for name in ("sgld", "sgld_cv")
)

ROWS = (
    cyclic(_SGLD, "csgld", "cyclic SGLD", "stochastic gradient Langevin dynamics", "#e7298a"),
    cyclic(_SGLD_CV, "csgld_cv", "cyclic SGLD, control variates", "SGLD with control variates", "#b5006b"),
    cyclic(sghmc.CARD, "csghmc", "cyclic SGHMC", "stochastic gradient Hamiltonian Monte Carlo", "#5c5a00"),
    cyclic(sgnht.CARD, "csgnht", "cyclic SGNHT", "stochastic gradient Nosé-Hoover thermostat", "#808008"),
)
