"""Austerity: a sequential t-test decides on as few points as a given rate of errors allows."""

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.acceptance import student_tail
from implementations.kernels.contract import Array, Values
from implementations.kernels.sequential import Seen, Sequential
from implementations.methods.control_variates import OPTIONAL_PROXY
from implementations.settings import BATCH_SIZE, STEP_SIZE, WEIGHT, Setting, random_walk_step


def enough(seen: Seen, num_points: int, values: Values) -> tuple[Array, Array]:
    """Korattikara, Chen and Welling (2014), Algorithm 1: is delta on this side of -log u, at level epsilon?

        t = |delta + log u| / s,   enough once P(T_{n-1} > t) < epsilon

    s^2 is the variance of delta with the finite-population factor, so that with all points nothing is left open. Looks
    are repeated without a correction for it, as published: the rate of wrong decisions exceeds epsilon.
    """
    xp = array_namespace(seen.delta)
    tiny = xp.finfo(seen.delta.dtype).tiny
    distance = xp.abs(seen.delta + seen.log_uniforms) / xp.sqrt(seen.variance + tiny)
    dof = xp.where(seen.count > 2, seen.count - 1, xp.ones_like(seen.count))
    return student_tail(distance, dof) < values.own["epsilon"], -seen.delta


CARD = Card(
    name="austerity",
    label="austerity",
    summary="random walk whose acceptance is a sequential t-test on growing mini-batches",
    citation="Korattikara, Chen and Welling (2014)",
    kernel=Sequential(enough),
    exactness=Exactness.BIASED,
    condition="wrong decisions, at a rate set by epsilon",
    own_settings=(
        BATCH_SIZE.but(default=50),
        STEP_SIZE.but(default=random_walk_step),
        WEIGHT,
        OPTIONAL_PROXY,
        Setting(
            "epsilon",
            "level of the t-test: the probability that more data would change the decision",
            float,
            0.05,
            0,
            0.5,
        ),
    ),
    needs=frozenset({"rows", "anchor"}),
    is_compiled=False,
    accepts="sequential",
    colour="#a6611a",
)
