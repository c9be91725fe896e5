"""The peers go on from where they were, one that is missing is skipped, and one with another law is noticed."""

import sys

import numpy as np
import pytest
from scipy.signal import lfilter

from benchmarks.bench_peers import NUM_STEPS, NUM_STEPS_IN_LOOP, assert_same_moments, bench_peer
from benchmarks.peers import PEERS, library_of
from benchmarks.work import synthetic

#: So small that nearly all moves are accepted, and that their noise is all there is to them.
STEP_SIZE = 1e-10


# tensordict, which posteriors imports, uses what torch has deprecated, and announces a change to its own users.
@pytest.mark.filterwarnings("ignore:The Tensor default of the field:FutureWarning")
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_returns_every_position_and_goes_on_from_the_last(name):
    problem = synthetic("mnist", 500)
    run = PEERS[name].build(problem, STEP_SIZE, 50)
    first, second = run(5), run(5)
    assert first.shape == second.shape == (5, problem.num_parameters)
    assert first.dtype == second.dtype == np.float32
    # In units of the noise's sd, sqrt(2 eta). A chain that began again would make a move of sqrt(6) between the runs.
    moves = np.diff(np.concatenate([problem.map[None], first, second]), axis=0) / np.sqrt(2 * STEP_SIZE)
    lengths = np.sqrt((moves**2).mean(axis=1))
    assert (lengths > 0).sum() >= 8, lengths
    assert np.all(abs(lengths[lengths > 0] - 1) < 0.2), lengths
    # The second run has random numbers of its own.
    assert abs((moves[:5] * moves[5:]).mean()) < 0.2


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_whose_library_is_missing_is_skipped_and_says_which(name, monkeypatch):
    monkeypatch.setitem(sys.modules, library_of(name), None)
    with pytest.raises(pytest.skip.Exception, match=f"'{library_of(name)}'"):
        bench_peer(pytest.fail, name)


#: How long the chains remember a step, as the ratio of successive covariances, and how many steps they have: the random
#: walk on the regression, and the Langevin methods, whose peer may be a Python loop. The rest are easier to tell apart.
CHAINS = {"random walk": (0.984, NUM_STEPS), "Python loop": (0.87, NUM_STEPS_IN_LOOP)}


def autoregression(seed, memory, num_steps, sd=1.0, mean=0.0):
    """A chain of 21 independent parameters with this law."""
    noise = np.random.default_rng(seed).standard_normal((num_steps, 21)) * np.sqrt(1 - memory**2)
    noise[0] /= np.sqrt(1 - memory**2)
    return mean + sd * lfilter([1], [1, -memory], noise, axis=0)


@pytest.mark.parametrize("chains", CHAINS)
def test_two_chains_of_one_law_have_the_same_moments(chains):
    memory, num_steps = CHAINS[chains]
    for seed in range(0, 20, 2):
        one, other = autoregression(seed, memory, NUM_STEPS), autoregression(seed + 1, memory, num_steps)
        assert 0 < assert_same_moments(one, other) < 5


@pytest.mark.parametrize(
    "change", [{"sd": np.sqrt(1.3)}, {"sd": np.sqrt(1 / 1.3)}, {"mean": 0.3}], ids=["wider", "narrower", "shifted"]
)
@pytest.mark.parametrize("chains", CHAINS)
def test_a_chain_of_another_law_is_noticed(chains, change):
    memory, num_steps = CHAINS[chains]
    for seed in range(0, 20, 2):
        one, other = autoregression(seed, memory, NUM_STEPS), autoregression(seed + 1, memory, num_steps, **change)
        with pytest.raises(AssertionError, match="Monte Carlo errors"):
            assert_same_moments(one, other)


def test_one_parameter_of_another_law_is_noticed():
    memory, num_steps = CHAINS["Python loop"]
    one, other = autoregression(0, memory, NUM_STEPS), autoregression(1, memory, num_steps)
    other[:, 3] += 0.8
    with pytest.raises(AssertionError, match="a moment differs"):
        assert_same_moments(one, other)
