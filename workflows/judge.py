"""What a reference knows of its target, as pilots that tune a step ask for it."""

import numpy as np

from implementations.tasks.problem import Problem
from implementations.tuning.ladder import Bias, Known
from metrics.convergence import convergence
from records.reference import Reference
from workflows.evaluation import deviations_of, predictive_of


def known(problem: Problem, reference: Reference) -> Known:
    """The reference's draws, and the bias of predictions by the numbers that leaderboards go by."""

    def bias(draws: np.ndarray) -> Bias | None:
        """Of draws (chains, draws, P); None where they are too few, or stand still."""
        test = predictive_of(problem, draws.astype(np.float32), problem.test_features, problem.test_targets)
        ess = convergence(test.traces).min_bulk_ess
        if ess is None:
            return None
        found = deviations_of(test, ess, reference)
        error = found["sd_ratio"].monte_carlo_error
        assert error is not None, "there is an effective sample size"
        bias = Bias(found["mean_error"].value, found["sd_ratio"].value, error, ess)
        return bias if np.isfinite(bias).all() else None

    return Known(reference.draws, bias)
