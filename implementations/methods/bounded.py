"""Methods that are exact by bounds on the change of every loss: TunaMH, and MH with scalable subsampling.

Bounds exist for one stochastic layer (control_variates.bounds); elsewhere these methods are not applicable, and a run
says so.
"""

from implementations.card import Card, Exactness
from implementations.kernels.poisson import Poisson
from implementations.methods.control_variates import PROXY
from implementations.settings import STEP_SIZE, WEIGHT, Setting, noisy_step, random_walk_step

_POINTS = Setting("batch_size", "points read at a time, until a decision has all that it asks for", int, 100, minimum=1)

ROWS = (
    Card(
        name="tunamh",
        label="TunaMH",
        summary="random walk, exact on a Poisson number of points drawn in proportion to bounds on their losses",
        citation="Zhang, Cooper and De Sa (2020)",
        kernel=Poisson("balanced"),
        exactness=Exactness.EXACT,
        own_settings=(
            _POINTS,
            STEP_SIZE.but(default=noisy_step),
            WEIGHT,
            Setting(
                "chi", "reads χC²M² more points for less noise, whose variance is then at most 1/χ", float, 0.01, 0
            ),
        ),
        needs=frozenset({"rows", "bounds"}),
        is_compiled=False,
        accepts="poisson",
        colour="#17becf",
    ),
    Card(
        name="mh_ss",
        label="MH-SS",
        summary="random walk that first has to pass a proxy of the losses, then is exact on a Poisson number of points",
        citation="Prado, Nemeth and Sherlock (2024)",
        kernel=Poisson("least"),
        exactness=Exactness.EXACT,
        own_settings=(_POINTS, STEP_SIZE.but(default=random_walk_step), WEIGHT, PROXY.but(default="first")),
        needs=frozenset({"rows", "anchor", "bounds"}),
        is_compiled=False,
        accepts="poisson",
        colour="#0e6e7a",
    ),
)
