"""The posterior itself at a cost flat in N: control variates around the mode, and the Gaussian there.

Losses are replaced by their Taylor polynomials around the mode, whose sum over all points is known, and mini-batches
only estimate the rest (control_variates.proxies). Colours are darker and lighter kin of the bare methods'.
"""

from dataclasses import replace

from implementations.card import Card, Exactness
from implementations.control_variates.leverage import SELECTIONS
from implementations.control_variates.proxies import AVERAGED, ORDERS
from implementations.kernels.metropolis import Metropolis
from implementations.settings import (
    BATCH_SIZE,
    NUM_BATCHES,
    STEP_SIZE,
    UNADJUSTED_STEP,
    VARIANCE,
    WEIGHT,
    Setting,
    adjusted_langevin_step,
    random_walk_step,
)

PROXY = Setting("proxy", "kind of the control variates", str, "second", choices=ORDERS)
OPTIONAL_PROXY = Setting(
    "proxy", "kind of the control variates", str, "none", choices={"none": "the losses themselves", **ORDERS}
)
#: A hundred points in one mini-batch, whose spread tells the variance: more degrees of freedom than M - 1.
_POINTS = (
    BATCH_SIZE.but(default=100),
    NUM_BATCHES.but(default=1),
    VARIANCE.but(default="points"),
    WEIGHT,
    replace(PROXY, choices={**ORDERS, AVERAGED: "a quadratic with the mean slope of the loss: least noise; one layer"}),
    Setting("selection", "how the points of the loss difference are drawn", str, "uniform", choices=SELECTIONS),
)
_CONDITION = "for Gaussian noise of known variance, small near the mode"
#: Moves of 0.3 standard deviations: with some hundred points the noise stays below 1 on mnist.
CRANK_NICOLSON_STEP = 0.3**2 / 2


def crank_nicolson_setting(default: float) -> Setting:
    """``step_size`` of theta' - t = sqrt(1 - 2 eta) (theta - t) + sqrt(2 eta) L e; others write beta^2 for 2 eta."""
    return replace(
        STEP_SIZE.but(default),
        help="η = β²/2: drift η∇U and noise √(2η); at 0.5 every proposal is an independent draw",
        maximum=0.5,
    )


ROWS = (
    Card(
        name="pbnn_cv",
        label="PBNN, control variates",
        summary="pbnn with control variates: mini-batches estimate only what a quadratic around the mode leaves",
        citation="penalty of Ceperley and Dewing (1999), control variates of Bardenet, Doucet and Holmes (2017)",
        kernel=Metropolis(estimate="batches", proposal="random_walk", acceptance="penalty"),
        exactness=Exactness.CONDITIONAL,
        condition=_CONDITION,
        own_settings=(STEP_SIZE.but(default=random_walk_step), *_POINTS),
        needs=frozenset({"rows", "anchor"}),
        colour="#004a75",
    ),
    Card(
        name="pbnn_cn",
        label="PBNN, Crank–Nicolson",
        summary="pbnn_cv with Crank-Nicolson moves, which leave the Gaussian at the mode invariant",
        citation="Neal (1999); Cotter, Roberts, Stuart and White (2013)",
        kernel=Metropolis(estimate="batches", proposal="crank_nicolson", acceptance="penalty"),
        exactness=Exactness.CONDITIONAL,
        condition=_CONDITION,
        own_settings=(crank_nicolson_setting(CRANK_NICOLSON_STEP), *_POINTS),
        needs=frozenset({"rows", "anchor"}),
        colour="#7a4fa3",
    ),
    Card(
        name="pbnn_mala_cv",
        label="PBNN, MALA, control variates",
        summary="penalised MALA with control variates in the gradient and in the loss difference",
        citation="PBNN MH acceptance; Baker, Fearnhead, Fox and Nemeth (2019) for the gradient",
        kernel=Metropolis(estimate="batches", proposal="langevin", gradient="batch", acceptance="penalty"),
        exactness=Exactness.CONDITIONAL,
        condition=_CONDITION,
        own_settings=(
            STEP_SIZE.but(default=adjusted_langevin_step),
            *_POINTS,
            Setting(
                "gradient",
                "what the proposal's gradient is of",
                str,
                "batch",
                choices={"batch": "a mini-batch, with control variates", "proxy": "the quadratic: it costs no data"},
            ),
        ),
        needs=frozenset({"rows", "anchor"}),
        colour="#00553e",
    ),
    Card(
        name="sgld_cv",
        label="SGLD, control variates",
        summary="SGLD with control variates: mini-batches estimate only how the gradient differs from the mode's",
        citation="Baker, Fearnhead, Fox and Nemeth (2019)",
        kernel=Metropolis(estimate="none", proposal="langevin", gradient="batch", acceptance="always"),
        exactness=Exactness.BIASED,
        condition="discretisation, and the remaining noise of the gradient",
        own_settings=(
            BATCH_SIZE.but(default=100),
            STEP_SIZE.but(default=UNADJUSTED_STEP),
            WEIGHT,
            PROXY.but(default="first"),
        ),
        needs=frozenset({"rows", "anchor"}),
        colour="#8a3a66",
    ),
    Card(
        name="laplace",
        label="Laplace",
        summary="Laplace approximation: draws from the Gaussian at the mode; no chain",
        citation="MacKay (1992)",
        kernel=Metropolis(estimate="none", proposal="crank_nicolson", acceptance="always"),
        exactness=Exactness.BIASED,
        condition="unless the target is Gaussian",
        own_settings=(crank_nicolson_setting(0.5), WEIGHT),
        needs=frozenset({"anchor"}),
        colour="#a0522d",
    ),
)
