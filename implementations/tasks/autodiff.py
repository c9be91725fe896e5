"""Gradient, Hessian and Gauss-Newton curvature of the loss of anybody's network, in double precision by jax.

What implementations.tasks.derivatives and .geometry write out for layers. The likelihood's part stays in NumPy: with
J = df / dtheta, r = dl/df and H = d^2 l / df^2 summed over the points,

    gradient = J^T r,     Hessian v = J^T H J v + d(J^T r) / dtheta · v with r held fixed,     Gauss-Newton = J^T H J
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from implementations.tasks.networks import Network

#: Numbers of a Jacobian that are held at once: 40 MB.
MAX_NUMBERS = 5_000_000


class Functions(NamedTuple):
    """Compiled functions of a network: theta (P,), features (n, inputs + 1)."""

    outputs: Callable[..., Array]  # (theta, features) -> f (n, K)
    back: Callable[..., Array]  # (theta, features, signals (n, K)) -> J^T s (P,)
    along: Callable[..., Array]  # (theta, features, directions (k, P)) -> J v (k, n, K)
    back_of_many: Callable[..., Array]  # (theta, features, signals (k, n, K)) -> (k, P)
    back_along: Callable[..., Array]  # (theta, features, signals, directions) -> d(J^T s) / dtheta · v (k, P)
    rows: Callable[..., Array]  # (theta, features) -> J (n, K, P)


@lru_cache
def functions_of(network: Network) -> Functions:
    def back(parameters: Array, features: Array, signals: Array) -> Array:
        return jax.vjp(lambda place: network(place, features), parameters)[1](signals)[0]

    def along(parameters: Array, features: Array, direction: Array) -> Array:
        return jax.jvp(lambda place: network(place, features), (parameters,), (direction,))[1]

    def back_along(parameters: Array, features: Array, signals: Array, direction: Array) -> Array:
        return jax.jvp(lambda place: back(place, features, signals), (parameters,), (direction,))[1]

    return Functions(
        jax.jit(network),
        jax.jit(back),
        jax.jit(jax.vmap(along, (None, None, 0))),
        jax.jit(jax.vmap(back, (None, None, 0))),
        jax.jit(jax.vmap(back_along, (None, None, None, 0))),
        jax.jit(jax.jacrev(network)),
    )


def loss_and_gradient(network: Network, parameters: np.ndarray, part: Any) -> tuple[float, np.ndarray]:
    """Of the sum of the losses of a part (implementations.tasks.derivatives.Part)."""
    with jax.enable_x64(True):
        functions, place = functions_of(network), jnp.asarray(parameters, float)
        loss, residuals = part.loss(np.asarray(functions.outputs(place, part.features)))
        return loss, np.asarray(functions.back(place, part.features, residuals))


def products(network: Network, parameters: np.ndarray, part: Any, directions: np.ndarray) -> np.ndarray:
    """Products (k, P) of the Hessian of that sum with directions (k, P)."""
    with jax.enable_x64(True):
        functions, place = functions_of(network), jnp.asarray(parameters, float)
        outputs = np.asarray(functions.outputs(place, part.features))
        residuals = part.loss(outputs)[1]
        bent = part.product(outputs, np.asarray(functions.along(place, part.features, directions)))
        total = functions.back_of_many(place, part.features, bent)
        return np.asarray(total + functions.back_along(place, part.features, residuals, directions))


def jacobian(network: Network, parameters: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f (n, K) and J (n, K, P)."""
    with jax.enable_x64(True):
        functions, place = functions_of(network), jnp.asarray(parameters, float)
        return np.asarray(functions.outputs(place, features)), np.asarray(functions.rows(place, features))
