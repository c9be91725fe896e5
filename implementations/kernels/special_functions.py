"""Special functions that the Array API has not, in plain arithmetic: the same lines for jax, torch and numpy."""

from array_api_compat import array_namespace

from implementations.kernels.contract import Array

#: erfc(x) = t exp(-x^2 + polynomial(t)), t = 1 / (1 + x / 2): Chebyshev's fit of Press et al. (Numerical Recipes), with
#: a relative error below 1.2e-7 everywhere.
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
         0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277)  # fmt: skip


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
