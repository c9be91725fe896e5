"""Acceptance: log A from the loss difference delta, its variance and that variance's degrees of freedom.

A proposal's log ratio is added by the step; values above 0 mean 1.
"""

import math

import torch
from torch import Tensor

#: Levels of the recurrence in ``penalty_corrected``: with the series for the rest, log A is right to one in a
#: thousand wherever A exceeds 1e-4, and to rounding wherever it exceeds a tenth.
NUM_LEVELS = 8


def exact(delta: Tensor, variance: Tensor, dof: float) -> Tensor:
    """Metropolis and Hastings (paper: *MH usual acceptance*): log A = -Delta."""
    return -delta


#: The same rule, fed a noisy difference as if it were the true one (paper: *usual delta*).
naive = exact


def penalty(delta: Tensor, variance: Tensor, dof: float) -> Tensor:
    """Gaussian noise of known variance (paper: *random walk penalty acceptance*): log A = -delta - variance / 2."""
    return -delta - 0.5 * variance


def penalty_corrected(delta: Tensor, variance: Tensor, dof: float) -> Tensor:
    """Gaussian noise whose variance is a chi-squared estimate with nu degrees of freedom (Ceperley and Dewing, 1999).

        log A = -delta + log 0F1(; nu / 2; -nu variance / 4)

    The mean of 0F1 over the law of the estimate is exp(-variance / 2), what the penalty needs. Beyond the function's
    first zero the move is rejected. With b = nu / 2 and x = nu variance / 4, the ratios c_b = F_b / F_{b+1} obey
    c_b = 1 - x / (b (b + 1) c_{b+1}) and stay positive up to that zero: F_b is their product, without cancellation.
    """
    if math.isinf(dof):
        # A known variance needs no correction.
        return penalty(delta, variance, dof)
    x = dof * variance / 4
    b = dof / 2 + NUM_LEVELS
    log_function = -_tail(x, b)
    ratio = torch.exp(_tail(x, b + 1) - _tail(x, b))
    is_before_zero = ratio > 0
    for level in range(NUM_LEVELS - 1, -1, -1):
        b = dof / 2 + level
        ratio = 1 - x / (b * (b + 1) * ratio)
        is_before_zero = is_before_zero & (ratio > 0)
        log_function = log_function + torch.log(torch.where(is_before_zero, ratio, 1))
    return torch.where(is_before_zero, -delta + log_function, -math.inf)


def _tail(x: Tensor, b: float) -> Tensor:
    """-log 0F1(; b; -x) for large b: x / b + x^2 / (2 b^2 (b + 1)) + …, from Rayleigh's sums over the zeros."""
    fourth = 3 * x * (5 * b + 6) / (8 * b * (b + 1) * (b + 3))
    return x / b * (1 + x / (2 * b * (b + 1)) * (1 + 4 * x / (3 * b * (b + 2)) * (1 + fourth)))


def always(delta: Tensor, variance: Tensor, dof: float) -> Tensor:
    """Every move is accepted (paper: *SGLD*, *ULA*): log A = infinity."""
    return torch.full_like(delta, math.inf)


ACCEPTANCES = {
    "exact": exact,
    "naive": naive,
    "penalty": penalty,
    "penalty_corrected": penalty_corrected,
    "always": always,
}
