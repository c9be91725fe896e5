"""What weighs a move: the losses at its two ends, and the check of a rule's detailed balance on known differences."""

from collections.abc import Callable
from dataclasses import dataclass

from array_api_compat import array_namespace

from implementations.control_variates.proxies import proxy_difference
from implementations.kernels import estimates
from implementations.kernels.contract import Array, Data, Points, Target

#: Mini-batches that a move is weighed with again, each way, to see whether a method keeps detailed balance.
NUM_REDRAWN = 200


@dataclass(frozen=True)
class Losses:
    """The losses of a model; or, with control variates of an ``order``, what those leave of them."""

    target: Target
    order: str | None

    def at(self, position: Array, points: Data, data: Points) -> Array:
        """Of points, (…, n)."""
        if self.order:
            return self.target.remainders(position, points, data.anchor, self.order)
        return self.target.losses(position, points)

    def known_drop(self, position: Array, proposed: Array, data: Points) -> Array:
        """The part of U(theta') - U(theta) that takes no points: the prior's, and that of the proxies."""
        drop = self.target.log_prior(position) - self.target.log_prior(proposed)
        if self.order:
            drop = drop + proxy_difference(position, proposed, data.anchor, self.order)
        return drop

    def differences(self, position: Array, proposed: Array, indices: Array, data: Points) -> Array:
        """d_j = l_j(theta') - l_j(theta) of the points ``indices`` (chains, n) of each chain; of slots, weighed."""
        if data.selection:
            indices = data.selection.slots[indices]
        points = self.target.take(data.rows, indices[:, None], self.order)
        differences = self.differences_of(position, proposed, points, data)
        return differences * data.selection.scales[indices] if data.selection else differences

    def differences_of(self, position: Array, proposed: Array, points: Data, data: Points) -> Array:
        """d_j (chains, n) of points (chains, 1, n) that were taken."""
        pair = array_namespace(position).stack([position, proposed], axis=1)
        both = self.at(pair, points, data)
        return both[:, 1] - both[:, 0]

    def differences_of_all(self, position: Array, proposed: Array, data: Points) -> Array:
        """d_j of all points, (chains, N)."""
        before, after = (self.at(place, data.together, data) for place in (position, proposed))
        return after - before

    def drawn_from(self, differences: Array, data: Points) -> Array:
        """What mini-batches draw from, given the d_j of all points (chains, N): those, or all slots (chains, K)."""
        if not data.selection:
            return differences
        return (differences * data.selection.scales)[:, data.selection.slots]

    def true_difference(
        self, position: Array, proposed: Array, data: Points, weight: Array
    ) -> tuple[Array, Array, Array]:
        """U(theta') - U(theta) from all points; the known part of it; and all the d_j that mini-batches draw from."""
        differences, drop = (
            self.differences_of_all(position, proposed, data),
            self.known_drop(position, proposed, data),
        )
        return estimates.of_all(differences, drop, weight)[0], drop, self.drawn_from(differences, data)


def balance_of(acceptances: Callable[[int], Array], exact: Array) -> dict[str, Array]:
    """Both ways of one move, as ``metrics.decisions.balance`` wants them.

    ``acceptances`` of the way there (1) or back (-1) are the probabilities (k,) of decisions, each with randomness of
    its own; ``exact`` (1,) is the log of what the ratio of their means should be.
    """
    found = {"exact": exact}
    for way, sign in (("there", 1), ("back", -1)):
        acceptance = acceptances(sign)
        xp = array_namespace(acceptance)
        found[way] = xp.mean(acceptance)[None]
        found[f"{way}_variance"] = xp.var(acceptance, correction=1)[None] / len(acceptance)
    return found


def probability(log_accept: Array) -> Array:
    """min(1, A)."""
    xp = array_namespace(log_accept)
    return xp.exp(xp.where(log_accept < 0, log_accept, xp.zeros_like(log_accept)))
