"""Where chains begin, on networks all of whose layers are stochastic; of one layer see test_geometry."""

import numpy as np
import pytest

from implementations.backends import Inputs
from implementations.methods import METHODS, resolve
from implementations.tasks.derivatives import loss_and_gradient
from implementations.tasks.geometry import start_points
from implementations.tasks.references.network_mode import find_network_mode
from implementations.tasks.starts import starts

CHAINS, WEIGHT = 64, 10.0


@pytest.fixture
def network(problem):
    return problem("regression", stochastic="all")


def potential(problem, points: np.ndarray) -> np.ndarray:
    priors = np.square(points).sum(axis=1) / (2 * problem.prior_scale**2)
    return priors + np.array([loss_and_gradient(problem, point, WEIGHT)[0] for point in points])


def excess(problem, points: np.ndarray) -> np.ndarray:
    """U_w above the mode, in nats: of a Gaussian target half a chi-square of P degrees of freedom."""
    mode = find_network_mode(problem, WEIGHT, True)
    return potential(problem, points) - potential(problem, mode[None])


def test_starts_of_a_network_lie_on_the_levels_of_the_target_and_the_gaussian_does_not(network):
    levels, typical = excess(network, starts(network, WEIGHT, CHAINS, 3)), network.num_parameters / 2
    # Five sd of half a chi-square; from below by a margin for the last bisection, and for lines that end inside.
    assert levels.max() < typical + 5 * np.sqrt(typical)
    assert np.median(levels) > typical / 2
    assert excess(network, start_points(network, WEIGHT, CHAINS, 3, 1.0)).min() > 5 * typical


def test_starts_of_a_network_depend_on_the_seed_alone_and_serve_every_method(network):
    first, again, other = (starts(network, WEIGHT, 4, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    for method in ("sgld", "pbnn", "pbnn_cv", "blackjax_nuts"):
        settings = resolve(method, {"weight": WEIGHT, "chains": 4}, network)
        np.testing.assert_array_equal(Inputs(network, METHODS[method], settings).starts(3), first)
