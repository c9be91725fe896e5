"""Mini-batches that draw a point the more often the more it matters, and weigh it the less for that.

Of most points control variates leave next to nothing, and of a few a lot. A table of K slots holds point j in c_j >= 1
of them; a mini-batch is slots, drawn without replacement, and a point's difference is weighed by K / (N c_j). Then

    1/K sum_slots d_j K / (N c_j) = 1/N sum_j d_j

so that delta and its variance are those of a plain mini-batch out of K values. One slot is every point's; the others
are shared out by leverage, the part of the Gaussian at the mode that a point determines:

    h_j = E[u_j · H_j u_j],   u_j = f_j(theta) - f_j(t),   H_j = d^2 l_j/df^2 at the anchor t

On mnist the variance is then three to four times smaller, and so is its skewness.
"""

import time
from dataclasses import dataclass

import numpy as np

from implementations.control_variates.anchor import Anchor, probed
from implementations.kernels.estimates import SLOTS_PER_POINT
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem

SELECTIONS = {
    "uniform": "every point as likely as any other",
    "leverage": "a point the more often the more it tells of the parameters, and weighed the less; one layer only",
}
#: Draws of theta that a leverage is the mean over: sixteen lose a tenth of what is to be gained on mnist.
NUM_PROBES = 16


@dataclass(frozen=True, eq=False)
class Selection:
    """A table of slots."""

    #: (K,): the point in each.
    slots: np.ndarray
    #: (N,): K / (N c_j).
    scales: np.ndarray
    #: Processor seconds that it took to make.
    cpu_seconds: float


def by_leverage(problem: Problem, anchor: Anchor) -> Selection:
    """The table for the target of an anchor."""
    started = time.process_time()
    counts = shared_out(leverages(problem, anchor), SLOTS_PER_POINT * problem.num_points)
    slots = np.repeat(np.arange(problem.num_points, dtype=np.int32), counts)
    return Selection(slots, SLOTS_PER_POINT / counts, time.process_time() - started)


def leverages(problem: Problem, anchor: Anchor) -> np.ndarray:
    """h_j of every point (N,), as a mean over probes of the Gaussian at the mode."""
    likelihood = find_likelihood(problem.likelihood)
    found = np.empty(problem.num_points)
    for chunk, moves, kept in probed(problem, anchor, NUM_PROBES):
        found[chunk] = likelihood.curvature_form(kept, moves, moves, problem.noise_sd).mean(axis=0)
    return found


def shared_out(sizes: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers (N,) with this total, at least 1 each, the rest in proportion to the sizes."""
    spare = total - len(sizes)
    share = sizes.sum()
    edges = np.cumsum(sizes) * (spare / share) if share > 0 else np.arange(1, len(sizes) + 1) * (spare / len(sizes))
    # What is left of a share below a whole number is carried over to the next point.
    whole = np.floor(edges + 0.5).astype(np.int64)
    whole[-1] = spare
    return 1 + np.diff(whole, prepend=0)
