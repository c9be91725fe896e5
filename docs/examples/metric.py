"""A proper score of an interval: wide ones pay for their width, narrow ones for what they miss."""

import numpy as np


def interval_score(draws: np.ndarray, targets: np.ndarray, level: float = 0.9) -> float:
    """Mean interval score of central intervals (Gneiting and Raftery, 2007); lower is better.

        S = (u - l) + 2 / a max(l - y, 0) + 2 / a max(y - u, 0),   a = 1 - level

    ``draws`` (draws, points) are of the predictive distribution; l and u are its quantiles a / 2 and 1 - a / 2.
    """
    share = 1 - level
    low, high = np.quantile(draws, [share / 2, 1 - share / 2], axis=0)
    missed = np.maximum(low - targets, 0) + np.maximum(targets - high, 0)
    return float(np.mean(high - low + 2 / share * missed))
