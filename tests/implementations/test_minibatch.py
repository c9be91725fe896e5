"""Mini-batches are disjoint, uniform, fresh, and cost the same however many points there are."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import jax
import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from implementations.jax_backend import chain as jax_chain
from implementations.jax_backend import minibatch as jax_minibatch
from implementations.methods import METHODS, resolve
from implementations.torch_backend import chain as torch_chain
from implementations.torch_backend import minibatch as torch_minibatch

#: A correct sampler fails a test at this level once in ten thousand seeds; the seeds are fixed.
LEVEL = 1e-4


def draw_jax(seed, shape, count, num_points):
    draw = jax.jit(jax_minibatch.draw_indices, static_argnums=(1, 2, 3))
    return np.asarray(draw(jax.random.key(seed), shape, count, num_points))


def draw_torch(seed, shape, count, num_points):
    return torch_minibatch.draw_indices(torch.Generator().manual_seed(seed), shape, count, num_points).numpy()


both = pytest.mark.parametrize("draw", [draw_jax, draw_torch])


@both
@pytest.mark.parametrize(
    ("num_points", "count"), [(7, 7), (95, 40), (96, 96), (1009, 1009), (2000, 25), (60_000, 1000)]
)
def test_no_point_is_drawn_twice(draw, num_points, count):
    indices = draw(0, (20, 3), count, num_points)
    assert indices.shape == (20, 3, count)
    assert indices.min() >= 0
    assert indices.max() < num_points
    assert all(len(set(row)) == count for row in indices.reshape(-1, count))


@both
def test_all_ordered_subsets_of_a_small_set_are_equally_likely(draw):
    """Ordered, so that the split into mini-batches is uniform as well."""
    indices = draw(1, (60_000,), 3, 6)
    _, counts = np.unique(indices @ [36, 6, 1], return_counts=True)
    assert len(counts) == math.perm(6, 3)
    assert chisquare(counts).pvalue > LEVEL


@both
@pytest.mark.parametrize("num_points", [97, 100, 101])
def test_all_pairs_are_equally_likely_where_the_permutation_is_smallest(draw, num_points):
    indices = np.sort(draw(2, (1_000_000,), 2, num_points).astype(np.int64), axis=1)
    pairs = list(combinations(range(num_points), 2))
    counts = np.bincount(indices @ [num_points, 1], minlength=num_points**2)[[a * num_points + b for a, b in pairs]]
    assert chisquare(counts).pvalue > LEVEL


@both
@pytest.mark.parametrize("num_points", [2000, 54_999, 10_000_000])
def test_pairs_are_uniform_over_many_points(draw, num_points):
    """Places of the first, the middle and the last point of a draw, in a grid of 20 × 20, and their distance."""
    indices = draw(3, (40_000,), 50, num_points)
    for first, second in pairwise((0, 25, 49)):
        cells = (indices[:, [first, second]].astype(np.int64) * 20) // num_points
        assert chisquare(np.bincount(cells @ [20, 1], minlength=400)).pvalue > LEVEL
        distance = (indices[:, first].astype(np.int64) - indices[:, second]) % num_points * 50 // num_points
        assert chisquare(np.bincount(distance, minlength=50)).pvalue > LEVEL


def draw_block(backend, problem, method, **given):
    settings = resolve(
        method, given, task=problem.task, num_points=problem.num_points, num_parameters=problem.num_parameters
    )
    if backend == "jax":
        factor = jax.numpy.ones(())
        return jax_chain.draw_noise(jax.random.key(0), (50, settings.chains), factor, problem, method, settings)
    generator = torch.Generator().manual_seed(0)
    return torch_chain.draw_noise(generator, (50, settings.chains), torch.ones(()), problem, method, settings)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_every_step_and_every_chain_has_its_own_batches(problem, backend):
    noise = draw_block(backend, problem("regression"), "pbnn_mala", batch_size=10, num_batches=5)
    loss = np.asarray(noise.indices).reshape(200, 50)
    gradient = np.asarray(noise.gradient_indices).reshape(200, 10)
    # Two draws of 50 from 2000 share 50 × 50 / 2000 = 1.25 points on average; a repeated draw would share 50.
    shared = [len(set(one) & set(other)) for one, other in combinations(loss[:60], 2)]
    assert np.mean(shared) == pytest.approx(1.25, abs=0.15)
    # The gradient's batch is drawn apart from the loss batches of its own step: 10 × 50 / 2000 shared.
    shared = [len(set(one) & set(other)) for one, other in zip(loss, gradient, strict=True)]
    assert np.mean(shared) == pytest.approx(0.25, abs=0.15)


def largest_array(base, num_points, method):
    """The most elements that any value inside a compiled chunk has, apart from the data themselves."""
    repeats = num_points // base.num_points
    problem = replace(base, features=np.tile(base.features, (repeats, 1)), targets=np.tile(base.targets, repeats))
    settings = resolve(method, {}, task="regression", num_points=num_points, num_parameters=21)
    sampler = jax_chain.build_sampler(problem, method, settings, "cpu")
    carry = sampler.start(np.zeros((4, 21)), 0)
    sizes = []

    def look(jaxpr):
        for equation in jaxpr.eqns:
            sizes.extend(math.prod(variable.aval.shape) for variable in equation.outvars)
            for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    look(inner)

    look(jax.make_jaxpr(sampler._chunk)(sampler.data, sampler.factor, carry, np.int32(1)).jaxpr)
    return max(sizes)


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.is_minibatch])
def test_a_mini_batch_step_makes_nothing_that_grows_with_the_data(problem, method):
    base = problem("regression")
    assert largest_array(base, 200_000, method) == largest_array(base, 2_000, method)


def test_a_full_data_step_does_grow(problem):
    """So the check above can see it."""
    base = problem("regression")
    assert largest_array(base, 200_000, "full_mh") > 50 * largest_array(base, 2_000, "full_mh")
