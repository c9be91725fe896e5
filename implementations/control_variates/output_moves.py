"""How far the outputs of every point move in draws of the Gaussian at the mode, a few points at a time.

Second moments of these moves are what preparations need: which points tell most (control_variates.leverage), and by how
much the slope of a loss changes on average (control_variates.averaging).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from implementations.control_variates.anchor import Anchor, at_anchor
from implementations.tasks.geometry import preconditioner_factor
from implementations.tasks.problem import Problem

#: Points at a time, whose outputs at all probes stay in the processor's cache.
CHUNK = 256


class Probed(NamedTuple):
    """Some points."""

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
    for chunk in problem.chunks(CHUNK):
        moves = (rows @ problem.features[chunk].T).reshape(len(offsets), layer[1], -1)
        yield Probed(chunk, moves, kept[chunk].T)
