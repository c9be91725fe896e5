"""Mini-batches are disjoint, uniform, fresh, and cost the same however many points there are."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import jax
import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from implementations.backends import rows_of
from implementations.backends.jax import chain as jax_chain
from implementations.backends.jax import minibatch as jax_minibatch
from implementations.backends.torch import chain as torch_chain
from implementations.backends.torch import minibatch as torch_minibatch
from implementations.methods import METHODS, resolve
from tests.implementations.chains import at_once

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
    chain, source = (jax_chain, jax.random.key(0)) if backend == "jax" else (torch_chain, torch.Generator())
    sampler = chain.build_sampler(problem, METHODS[method], resolve(method, given, problem), "cpu")
    shape = (50, sampler.settings.chains)

    def noise(source, values):
        return sampler.loop.kernel.noise(sampler.loop.random(source), shape, values)

    return (at_once(noise) if backend == "jax" else noise)(source, sampler.values)


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


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("num_points", [2_000, 40_000])
def test_the_points_of_a_mini_batch_are_those_of_its_indices(backend, num_points):
    """Of data that fit into a processor's cache, and of such as have to be fetched first."""
    random = np.random.default_rng(0)
    features = random.standard_normal((num_points, 21), np.float32)
    targets = random.integers(0, 10, num_points)
    rows = rows_of(features, targets, "float32")
    indices = random.integers(0, num_points, (4, 1, 300), np.int32)
    indices[0, 0, :2] = 0, num_points - 1
    if backend == "jax":
        taken = jax.jit(jax_minibatch.take_points, static_argnums=2)(rows, indices, 21)
        assert (rows.nbytes > jax_minibatch.CACHE_BYTES) == (num_points > 2_000)
    else:
        taken = torch_minibatch.take_points(torch.from_numpy(rows), torch.from_numpy(indices), 21)
    assert np.array_equal(taken.features, features[indices])
    assert np.array_equal(taken.targets, targets[indices])


@pytest.mark.parametrize("chain", [jax_chain, torch_chain])
@pytest.mark.parametrize(
    ("method", "given", "is_whole", "is_drawn"),
    [
        ("pbnn", {}, False, True),
        ("sgld", {}, False, True),
        ("full_mh", {}, True, False),
        ("pbnn", {"variance": "oracle"}, True, True),
    ],
)
def test_a_sampler_keeps_only_what_its_steps_read_and_rows_in_large_pages(
    problem, monkeypatch, chain, method, given, is_whole, is_drawn
):
    asked = []
    monkeypatch.setattr(chain, "use_large_pages", lambda address, num_bytes: asked.append((address, num_bytes)))
    regression = problem("regression")
    points = chain.build_sampler(regression, METHODS[method], resolve(method, given, regression), "cpu").points
    assert [len(array) for array in points.together[:2]] == [2_000 * is_whole] * 2
    assert len(points.rows) == 2_000 * is_drawn
    rows = points.rows
    address = rows.unsafe_buffer_pointer() if chain is jax_chain else rows.data_ptr()
    assert asked == [(address, rows.nbytes)]
    if is_drawn:
        assert address % 64 == 0


def largest_array(base, num_points, method):
    """The most elements that any value inside a compiled chunk has, apart from the data themselves."""
    repeats = num_points // base.num_points
    problem = replace(base, features=np.tile(base.features, (repeats, 1)), targets=np.tile(base.targets, repeats))
    sampler = jax_chain.build_sampler(problem, METHODS[method], resolve(method, {}, problem), "cpu")
    carry = sampler.start(np.zeros((4, base.num_parameters)), 0)
    sizes = []

    def look(jaxpr):
        for equation in jaxpr.eqns:
            sizes.extend(math.prod(variable.aval.shape) for variable in equation.outvars)
            for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    look(inner)

    look(jax.make_jaxpr(sampler.loop.chunk)(sampler.points, sampler.values, carry, np.int32(1), np.int32(1)).jaxpr)
    return max(sizes)


@pytest.mark.parametrize(
    "method", [name for name, card in METHODS.items() if card.is_minibatch and "jax" in card.libraries]
)
def test_a_mini_batch_step_makes_nothing_that_grows_with_the_data(problem, method):
    # A method by bounds needs losses that have them, and a temperature classes.
    is_of_classes = bool(METHODS[method].needs & {"bounds", "validation"})
    base = problem("logistic", num_points=2_000) if is_of_classes else problem("regression")
    assert largest_array(base, 200_000, method) == largest_array(base, 2_000, method)


def test_a_full_data_step_does_grow(problem):
    """So the check above can see it."""
    base = problem("regression")
    assert largest_array(base, 200_000, "full_mh") > 50 * largest_array(base, 2_000, "full_mh")
