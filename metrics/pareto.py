"""How heavy is the tail of importance weights? The shape k of a generalised Pareto law fitted to the largest of them.

Above 1/2 their variance is infinite (Vehtari et al. 2024, *Pareto smoothed importance sampling*).
"""

import math

import numpy as np
from scipy.special import softmax

#: The fit leans towards k = 1/2 as if it had seen so many more weights, which steadies it where there are few.
PRIOR_WEIGHTS = 10
#: Fewer weights than this have no tail to fit.
MIN_TAIL = 5


def pareto_k(log_weights: np.ndarray) -> float:
    """k of the largest 3 sqrt(S) of S weights, a fifth of them at most; infinite where these are too few or equal."""
    ordered = np.sort(log_weights.ravel())
    num_tail = math.floor(min(3 * math.sqrt(len(ordered)), len(ordered) / 5))
    if num_tail < MIN_TAIL or ordered[-num_tail] == ordered[-1]:
        return math.inf
    weights = np.exp(ordered[-num_tail - 1 :] - ordered[-1])
    fitted = _fitted_k(weights[1:] - weights[0])
    return (num_tail * fitted + PRIOR_WEIGHTS / 2) / (num_tail + PRIOR_WEIGHTS)


def _fitted_k(excess: np.ndarray) -> float:
    """k from the sorted excesses over a threshold: Zhang and Stephens (2009), the posterior mean of b = -k / sigma on a
    grid of their choice, and the k that is likeliest given it."""
    count = len(excess)
    num_grid = 30 + int(math.sqrt(count))
    quartile = excess[int(count / 4 + 0.5) - 1]
    grid = 1 / excess[-1] + (1 - np.sqrt(num_grid / (np.arange(1, num_grid + 1) - 0.5))) / (3 * quartile)
    shapes = np.log1p(-grid[:, None] * excess).mean(axis=1)
    posterior = softmax(count * (np.log(-grid / shapes) - shapes - 1))
    return float(np.log1p(-(grid @ posterior) * excess).mean())
