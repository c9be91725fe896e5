"""The anchor of control variates: the mode of U_w, and a quadratic stand-in for every loss around it.

With one stochastic layer f_j(theta) is linear in theta. The proxy q_j is the second-order Taylor polynomial of the
loss l_j in the *outputs* around the anchor t, without its constant:

    q_j(theta) = g_j · u_j + u_j · H_j u_j / 2,   u_j = f_j(theta) - f_j(t),   g_j = dl_j/df,  H_j = d^2 l_j/df^2 at t

Its sum over all data is a quadratic form in theta, a vector and a matrix worked out once:

    (w/N) sum_j q_j(theta) = gradient · (theta - t) + (theta - t) · curvature (theta - t) / 2

What is left, l_j - l_j(t) - q_j, is of third order in the distance from the anchor, and zero for a Gaussian likelihood.
Per point only f_j(t) is stored beside the row: nothing here is of the size N x P.

With several layers q_j is the Taylor polynomial in theta (control_variates.network_proxies), the curvature of its sum
the Hessian, and nothing is stored per point. Above MAX_FULL_CURVATURE parameters there is no curvature, and the proxy
is of first order. The Gaussian at the mode has the Gauss-Newton curvature, which is never negative; for one layer it is
the Hessian.

The samplers are tested against an executable definition of q_j in NumPy and double precision (tests.oracle).
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from implementations.settings import MAX_FULL_CURVATURE
from implementations.tasks.derivatives import hessian, loss_and_gradient
from implementations.tasks.geometry import mean_curvature, preconditioner_factor, prior_precision
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem
from implementations.tasks.references.mode import find_mode
from implementations.tasks.references.network_mode import find_network_mode

#: Points at a time, whose outputs at all probes stay in the processor's cache.
PROBED_CHUNK = 256


@dataclass(frozen=True, eq=False)
class Anchor:
    """An anchor of the target of weight w, float64. Gradient and curvature are those of (w/N) sum_j l_j, no prior."""

    weight: float
    #: (P,): the anchor itself.
    position: np.ndarray
    #: (N, outputs): f_j at the anchor; (N, 0) for several layers.
    outputs: np.ndarray
    #: (P,): at the mode it balances the prior's.
    gradient: np.ndarray
    #: (P, P): the Hessian; (0, 0) where there is none.
    curvature: np.ndarray
    #: (P, P), or its diagonal (P,).
    gauss_newton: np.ndarray
    #: Processor seconds that it took to find.
    cpu_seconds: float


def find_anchor(problem: Problem, weight: float, position: np.ndarray | None = None, progress: bool = False) -> Anchor:
    """The anchor at the mode of U_w, or at a ``position`` (P,): right anywhere, useful near the mode alone."""
    started = time.process_time()
    is_network, is_full = not problem.is_linear, problem.num_parameters <= MAX_FULL_CURVATURE
    if position is None:
        search = find_mode if is_full and not is_network else find_network_mode
        position = search(problem, weight, progress)
    position = position.astype(np.float64)
    gauss_newton = weight * mean_curvature(problem, position)
    curvature = np.zeros((0, 0))
    if is_full:
        curvature = hessian(problem, position, weight) if is_network else gauss_newton
    outputs = np.zeros((problem.num_points, 0)) if is_network else _outputs(problem, position)
    gradient = loss_and_gradient(problem, position, weight)[1]
    return Anchor(
        weight=float(weight),
        position=position,
        outputs=outputs,
        gradient=gradient,
        curvature=curvature,
        gauss_newton=gauss_newton,
        cpu_seconds=time.process_time() - started,
    )


def _outputs(problem: Problem, position: np.ndarray) -> np.ndarray:
    matrix = position.reshape(problem.layers[0])
    outputs = np.empty((problem.num_points, problem.num_outputs))
    for chunk in problem.chunks():
        outputs[chunk] = problem.features[chunk].astype(np.float64) @ matrix
    return outputs


def distance_from_mode(problem: Problem, anchor: Anchor) -> float:
    """Newton's step from the anchor to the mode of U_w, in standard deviations of the Gaussian there.

    Where a Laplace prior holds a parameter at 0, the part of the gradient that its kink can balance does not count.
    """
    if problem.prior == "gaussian":
        slope = anchor.gradient + anchor.position / problem.prior_scale**2
    else:
        bound = 1 / problem.prior_scale
        slope = anchor.gradient + np.sign(anchor.position) * bound
        at_kink = np.sign(anchor.gradient) * np.maximum(np.abs(anchor.gradient) - bound, 0)
        # The search ends close to a kink, not on it.
        slope = np.where(np.abs(anchor.position) < 1e-4 * problem.prior_scale, at_kink, slope)
    precision, of_prior = anchor.gauss_newton, prior_precision(problem)
    if precision.ndim == 1:
        return float(np.sqrt(np.sum(slope**2 / (precision + of_prior))))
    return float(np.sqrt(slope @ np.linalg.solve(precision + of_prior * np.eye(len(slope)), slope)))


def at_anchor(problem: Problem, anchor: Anchor) -> np.ndarray:
    """What the samplers keep of every point at the anchor (N, columns): its predictions, or nothing."""
    likelihood = find_likelihood(problem.likelihood)
    if not problem.is_linear or not likelihood.num_kept(problem.num_outputs):
        return anchor.outputs[:, :0]
    return likelihood.predictions(anchor.outputs.copy())


class Probed(NamedTuple):
    """How far the outputs of some points move in draws of the Gaussian at the mode.

    Second moments of these moves tell which points matter most (control_variates.leverage), and by how much the slope
    of a loss changes on average (control_variates.averaging).
    """

    chunk: slice
    #: (probes, outputs, n) float32: u = f(theta) - f(t), t the anchor.
    moves: np.ndarray
    #: (columns, n) float32: what is kept of each at the anchor.
    kept: np.ndarray


def gaussian_factor(problem: Problem, anchor: Anchor) -> np.ndarray:
    """L of the covariance L L^T of the Gaussian at the mode: (P, P), or its diagonal (P,)."""
    there = replace(problem, curvature=anchor.gauss_newton / anchor.weight)
    return preconditioner_factor(there, anchor.weight, "full" if there.curvature.ndim == 2 else "diagonal")


def probed(problem: Problem, anchor: Anchor, num_probes: int) -> Iterator[Probed]:
    """All points of a problem with one stochastic layer; the mean over probes stands for the Gaussian's."""
    factor, count = gaussian_factor(problem, anchor), problem.num_parameters
    if count <= num_probes:
        # One along each parameter: their mean square is the covariance itself.
        normals = np.sqrt(count) * np.eye(count)
    else:
        # Always the same: what is prepared depends on the problem alone.
        normals = np.random.default_rng(0).standard_normal((num_probes, count))
    offsets = (normals @ factor.T if factor.ndim == 2 else normals * factor).astype(np.float32)
    (layer,) = problem.layers
    rows = offsets.reshape(-1, *layer).swapaxes(1, 2).reshape(-1, layer[0])
    kept = at_anchor(problem, anchor).astype(np.float32)
    for chunk in problem.chunks(PROBED_CHUNK):
        moves = (rows @ problem.features[chunk].T).reshape(len(offsets), layer[1], -1)
        yield Probed(chunk, moves, kept[chunk].T)
