"""The confidence sampler: a decision waits until a concentration bound holds it certain enough."""

import math

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Array, Values
from implementations.kernels.sequential import Seen, Sequential
from implementations.methods.control_variates import OPTIONAL_PROXY
from implementations.settings import BATCH_SIZE, STEP_SIZE, WEIGHT, Setting, random_walk_step

#: Of the empirical Bernstein-Serfling inequality.
KAPPA = 7 / 3 + 3 / math.sqrt(2)


def enough(seen: Seen, num_points: int, values: Values) -> tuple[Array, Array]:
    """Bardenet, Doucet and Holmes (2014; 2017 with proxies): is -log u farther from delta than the bound at delta_k?

        |delta + log u| > s sqrt(2 rho log(5 / delta_k) / n) + kappa R log(5 / delta_k) / n,   kappa = 7/3 + 3/sqrt(2)

    s is the spread of w d_j, R their range; rho = 1 - (n - 1) / N up to half the points and (1 - n / N)(1 + 1 / n)
    beyond (Bardenet and Maillard, 2015). Look k is at level delta_k = delta / (2 k^2), so that all are wrong together
    with probability below delta pi^2 / 12.
    """
    xp = array_namespace(seen.delta)
    share = seen.count / num_points
    rho = xp.where(share <= 0.5, 1 - (seen.count - 1) / num_points, (1 - share) * (1 + 1 / seen.count))
    looks = xp.where(seen.num_looks > 1, seen.num_looks, xp.ones_like(share))
    log_level = xp.log(10 * looks**2 / values.own["delta"])
    width = xp.sqrt(2 * rho * seen.spread * log_level / seen.count) + KAPPA * seen.span * log_level / seen.count
    return xp.abs(seen.delta + seen.log_uniforms) > width, -seen.delta


CARD = Card(
    name="confidence",
    label="confidence sampler",
    summary="random walk that doubles its mini-batch until a concentration bound decides the acceptance",
    citation="Bardenet, Doucet and Holmes (2014, 2017)",
    kernel=Sequential(enough, growth=2.0, has_span=True),
    exactness=Exactness.BIASED,
    condition="wrong decisions, at a rate below delta",
    own_settings=(
        BATCH_SIZE.but(default=50),
        STEP_SIZE.but(default=random_walk_step),
        WEIGHT,
        OPTIONAL_PROXY.but(default="second"),
        Setting("delta", "tolerated probability of a wrong decision", float, 0.1, 1e-12, 1),
    ),
    needs=frozenset({"rows", "anchor", "bounds"}),
    is_compiled=False,
    accepts="sequential",
    colour="#4d3300",
)
