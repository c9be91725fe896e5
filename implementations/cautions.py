"""What a reader of a run must know before believing it: sentences, recorded with the run.

Control variates around a wrong anchor, and chains that begin far out, are right in the end but noisy, and noise beyond
its budget is bias. None of it stops a run; all of it is said.
"""

from collections.abc import Mapping

import numpy as np

from implementations.backends import Draws
from implementations.card import Card
from implementations.inputs import anchor_of, far_from_mode
from implementations.settings import Settings
from implementations.tasks.problem import Problem
from implementations.tuning.noise_budget import largest_variance, shared_skewness

#: A chain that accepts fewer of its moves stays where it began.
LEAST_ACCEPTANCE = 0.005


def cautions(
    problem: Problem, card: Card, settings: Settings, draws: Draws, audit: Mapping[str, np.ndarray]
) -> list[str]:
    """Of a run with these settings, all of them numbers, the draws it kept, and the moves that were audited, if any."""
    found = []
    anchor = anchor_of(problem, card, settings)
    if anchor is not None and (sentence := far_from_mode(problem, anchor)):
        found.append(sentence)
    if card.always_accepts or not draws.acceptance.size:
        return found
    # The worst chain: one far out hides among others that are not.
    limit = largest_variance(card.acceptance, settings.shapes, shared_skewness(audit, settings.shapes))
    variance = np.median(draws.variance, axis=1).max()
    if variance > limit:
        found.append(
            f"the variance of the loss difference is {variance:.2g} (median of the noisiest chain), and {limit:.2g} is "
            "what the bias budget allows; lower step_size, raise num_batches, or let 'auto' choose"
        )
    stuck = np.flatnonzero(draws.acceptance.mean(axis=1) < LEAST_ACCEPTANCE)
    if len(stuck):
        found.append(
            f"chains {', '.join(map(str, stuck))} accept less than {LEAST_ACCEPTANCE:.1%} of their moves and are where "
            "they began; lower step_size, or begin nearer to the mode"
        )
    return found
