"""The mini-batch Barker test: noise is welcome up to a variance of 1, and more data are read where it exceeds that."""

from implementations.card import Card, Exactness
from implementations.kernels.acceptance import barker, noisy_barker
from implementations.kernels.contract import Array, Values
from implementations.kernels.sequential import Seen, Sequential
from implementations.methods.control_variates import OPTIONAL_PROXY
from implementations.settings import BATCH_SIZE, STEP_SIZE, WEIGHT, noisy_step


def enough(seen: Seen, num_points: int, values: Values) -> tuple[Array, Array]:
    """Seita, Pan, Chen and Canny (2017), Algorithm 1: enough once the variance of delta is below 1."""
    return seen.variance < 1, noisy_barker(seen.delta, seen.variance)


CARD = Card(
    name="barker_test",
    label="Barker test",
    summary="mini-batch Barker test: the noise of the loss difference serves as part of the test's randomness",
    citation="Seita, Pan, Chen and Canny (2017); Barker (1965)",
    kernel=Sequential(enough, known=barker),
    exactness=Exactness.CONDITIONAL,
    condition="for Gaussian noise of known variance below 1",
    own_settings=(BATCH_SIZE.but(default=50), STEP_SIZE.but(default=noisy_step), WEIGHT, OPTIONAL_PROXY),
    needs=frozenset({"rows", "anchor"}),
    is_compiled=False,
    accepts="barker",
    colour="#1b7837",
)
