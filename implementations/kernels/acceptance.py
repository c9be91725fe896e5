"""Acceptance: log A from the loss difference delta, its variance and that variance's degrees of freedom.

A proposal's log ratio is added by the step; values above 0 mean 1.
"""

import math
from functools import cache

import numpy as np
from array_api_compat import array_namespace, device

from implementations.kernels.contract import Array

#: erfc(x) = t exp(-x^2 + polynomial(t)), t = 1 / (1 + x / 2): Chebyshev's fit of Press et al. (Numerical Recipes), with
#: a relative error below 1.2e-7 everywhere.
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
         0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277)  # fmt: skip
#: Levels of the recurrence in ``penalty_corrected``: with the series for the rest, log A is right to one in a
#: thousand wherever A exceeds 1e-4, and to rounding wherever it exceeds a tenth.
NUM_LEVELS = 8


def exact(delta: Array, variance: Array, dof: float) -> Array:
    """Metropolis and Hastings (paper: *MH usual acceptance*): log A = -Delta."""
    return -delta


#: The same rule, fed a noisy difference as if it were the true one (paper: *usual delta*).
naive = exact


def penalty(delta: Array, variance: Array, dof: float) -> Array:
    """Gaussian noise of known variance (paper: *random walk penalty acceptance*): log A = -delta - variance / 2."""
    return -delta - 0.5 * variance


def penalty_corrected(delta: Array, variance: Array, dof: float) -> Array:
    """Gaussian noise whose variance is a chi-squared estimate with nu degrees of freedom (Ceperley and Dewing, 1999).

        log A = -delta + log 0F1(; nu / 2; -nu variance / 4)

    The mean of 0F1 over the law of the estimate is exp(-variance / 2), what the penalty needs. Beyond the function's
    first zero the move is rejected. With b = nu / 2 and x = nu variance / 4, the ratios c_b = F_b / F_{b+1} obey
    c_b = 1 - x / (b (b + 1) c_{b+1}) and stay positive up to that zero: F_b is their product, without cancellation.
    """
    if math.isinf(dof):
        # A known variance needs no correction.
        return penalty(delta, variance, dof)
    xp = array_namespace(delta)
    x = dof * variance / 4
    b = dof / 2 + NUM_LEVELS
    log_function = -_tail(x, b)
    ratio = xp.exp(_tail(x, b + 1) - _tail(x, b))
    is_before_zero = ratio > 0
    for level in range(NUM_LEVELS - 1, -1, -1):
        b = dof / 2 + level
        ratio = 1 - x / (b * (b + 1) * ratio)
        is_before_zero = is_before_zero & (ratio > 0)
        log_function = log_function + xp.log(xp.where(is_before_zero, ratio, 1))
    return xp.where(is_before_zero, -delta + log_function, -math.inf)


def _tail(x: Array, b: float) -> Array:
    """-log 0F1(; b; -x) for large b: x / b + x^2 / (2 b^2 (b + 1)) + …, from Rayleigh's sums over the zeros."""
    fourth = 3 * x * (5 * b + 6) / (8 * b * (b + 1) * (b + 3))
    return x / b * (1 + x / (2 * b * (b + 1)) * (1 + 4 * x / (3 * b * (b + 2)) * (1 + fourth)))


def barker(delta: Array, variance: Array, dof: float) -> Array:
    """Barker (1965), without noise: log A = -log(1 + exp(Delta)); a logistic variable exceeds Delta so often."""
    xp = array_namespace(delta)
    # In the form whose exponential cannot run over.
    return -xp.where(delta > 0, delta, xp.zeros_like(delta)) - xp.log1p(xp.exp(-xp.abs(delta)))


def noisy_barker(delta: Array, variance: Array) -> Array:
    """Barker's acceptance of a difference with Gaussian noise of variance s^2 < 1 (Seita, Pan, Chen and Canny, 2017).

        A = P(delta < X_nc + X_corr),   X_nc ~ N(0, 1 - s^2),   N(0, 1) + X_corr logistic

    The noise of delta and X_nc add up to N(0, 1), so the mean of A over the noise is Barker's 1 / (1 + exp(Delta)).
    X_corr has few values x_k, with probabilities p_k (``correction``): A = sum_k p_k P(N(0, 1 - s^2) > delta - x_k).
    """
    xp = array_namespace(delta)
    left = xp.sqrt(xp.where(variance < 1, 1 - variance, xp.zeros_like(variance)) + xp.finfo(delta.dtype).eps)
    values, shares = (xp.asarray(part, dtype=delta.dtype, device=device(delta)) for part in correction())
    return xp.log(xp.sum(shares * normal_tail((delta[..., None] - values) / left[..., None]), axis=-1))


@cache
def correction() -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of X_corr, by non-negative least squares: sum_k p_k Phi(v - x_k) = 1 / (1 + exp(-v)).

    Right to 1e-6 for every v. No X_corr would be exact: the logistic has lighter tails in frequency than the normal.
    """
    # Here, for the few runs that need it: scipy takes as long to import as all the rest.
    from scipy.optimize import nnls
    from scipy.special import expit, ndtr

    values, places = np.linspace(-12, 12, 241), np.linspace(-16, 16, 641)
    shares, _ = nnls(ndtr(places[:, None] - values), expit(places))
    shares = (shares + shares[::-1]) / (2 * shares.sum())
    return values[shares > 0], shares[shares > 0]


def normal_tail(z: Array) -> Array:
    """P(Z > z) of a standard normal, right to seven digits also far out."""
    xp = array_namespace(z)
    x = xp.abs(z) * 0.5**0.5
    t = 1 / (1 + 0.5 * x)
    polynomial = _ERFC[-1]
    for coefficient in _ERFC[-2::-1]:
        polynomial = polynomial * t + coefficient
    tail = 0.5 * t * xp.exp(-(x**2) + polynomial)
    return xp.where(z > 0, tail, 1 - tail)


def student_tail(t: Array, dof: Array) -> Array:
    """P(T > t) of Student's t, for t >= 0: by Wallace's (1959) normal deviate of the same tail,

        z = (8 nu + 1) / (8 nu + 3) sqrt(nu log(1 + t^2 / nu))

    right to two per cent of itself from nu = 5 on, for tails down to 1e-3.
    """
    xp = array_namespace(t)
    return normal_tail((8 * dof + 1) / (8 * dof + 3) * xp.sqrt(dof * xp.log1p(t**2 / dof)))


def always(delta: Array, variance: Array, dof: float) -> Array:
    """Every move is accepted (paper: *SGLD*, *ULA*): log A = infinity."""
    return array_namespace(delta).full_like(delta, math.inf)


ACCEPTANCES = {
    "exact": exact,
    "naive": naive,
    "penalty": penalty,
    "penalty_corrected": penalty_corrected,
    "always": always,
}
