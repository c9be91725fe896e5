"""Every card keeps the contract of ``implementations.kernels.contract`` in every library it runs in."""

import copy
import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

from benchmarks.explicit_noise import CountingTarget
from implementations import schedule
from implementations.backends import BACKENDS, ModelTarget, build_sampler
from implementations.backends.jax import chain as jax_chain
from implementations.backends.torch import chain as torch_chain
from implementations.card import NEEDS, Exactness
from implementations.methods import METHODS, outside, resolve
from implementations.sampling import sample
from implementations.tasks.problem import Problem
from tests.implementations.chains import LENGTH, at_once, moments

#: A method that the suite does not have.
PLUGIN = Path(__file__).parents[1] / "plugins" / "barker.py"

CHAINS, NUM_STEPS = 3, 20
#: Two chunks of warm-up and two of draws, with few draws: each is audited.
SHORT = {"chains": CHAINS, "num_steps": 40, "num_warmup": 40, "thin": 4}


@pytest.fixture
def short_chunks(monkeypatch, compiled_soon):
    """Of several blocks each, as in a long run."""
    monkeypatch.setattr(schedule, "SHORTEST_CHUNK", 32)
    monkeypatch.setattr(schedule, "LONGEST_BLOCK", 8)


every_card = pytest.mark.parametrize(
    ("name", "backend"),
    [
        # In one process, whose compiled code its tests share.
        pytest.param(name, f"{library}-cpu", marks=pytest.mark.xdist_group(f"{name} {library}"))
        for name, card in METHODS.items()
        for library in card.libraries
    ],
)


def home(problem: Any, name: str, usual: str = "linear") -> Problem:
    """The problem that a card is tried on: the usual one, or logistic regression where that lacks bounds or classes."""
    if "validation" in METHODS[name].needs:
        return problem("logistic", num_points=200)
    has_bound = "bounds" not in METHODS[name].needs or "anchor" in METHODS[name].needs
    return problem(usual) if has_bound else problem("logistic", num_points=200)


def make_sampler(problem: Problem, name: str, backend: str, **given: Any) -> Any:
    settings = resolve(name, SHORT | given, problem)
    return build_sampler(backend, problem, METHODS[name], settings)


def random_of(sampler: Any, seed: int) -> Any:
    is_jax = isinstance(sampler, jax_chain.JaxSampler)
    source = jax.random.key(seed) if is_jax else torch.Generator().manual_seed(seed)
    return sampler.loop.random(source)


def host(tree: Any) -> list[np.ndarray]:
    return [leaf.numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf) for leaf in tree]


@cache
def noise_of(sampler: Any) -> Callable[[int], list[np.ndarray]]:
    """The noise of NUM_STEPS steps of a seed, its keys as the numbers they are."""

    def noise(seed: int) -> Any:
        return sampler.loop.kernel.noise(random_of(sampler, seed), (NUM_STEPS, CHAINS), sampler.values)

    def numbers(leaf: Any) -> Any:
        return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf

    if isinstance(sampler, jax_chain.JaxSampler):
        # One by one, its hundred operations would be compiled one by one.
        compiled = at_once(lambda seed: jax.tree.map(numbers, noise(seed)))
        return lambda seed: host(compiled(seed))
    return lambda seed: host(noise(seed))


def one_step(sampler: Any, problem: Problem, target: Any = None) -> tuple[Any, Any, Any]:
    """Noise, state and info of a step outside any loop, with what it asks of ``target`` counted from zero."""
    kernel = sampler.loop.kernel if target is None else sampler.loop.form.card.kernel(target, sampler.settings.shapes)
    start = np.tile(problem.map, (CHAINS, 1)) + 0.01 * np.arange(CHAINS)[:, None]
    noise = kernel.noise(random_of(sampler, 0), (CHAINS,), sampler.values)
    state = kernel.init(noise, sampler._put(start), sampler.points, sampler.values)
    if target is not None:
        target.losses_evaluated = target.gradients_evaluated = 0
    return noise, *kernel.step(noise, state, sampler.points, sampler.values)


@every_card
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_states_and_info_have_the_chains_first_and_the_runs_own_precision(problem, name, backend, dtype):
    linear = home(problem, name)
    sampler = make_sampler(linear, name, backend, dtype=dtype)
    with jax.enable_x64(dtype == "float64"), torch.no_grad():
        # Of jax its shapes and types alone, which need no compilation.
        run = jax.eval_shape if backend == "jax-cpu" else lambda function: function()
        noise, state, info = run(lambda: one_step(sampler, linear))
    assert state._fields[0] == "position" and state.position.shape == (CHAINS, linear.num_parameters)
    assert all(len(array) == CHAINS for array in [*noise, *state, *info])
    kinds = {str(array.dtype).removeprefix("torch.") for array in [*noise, *state]}
    assert {kind for kind in kinds if kind.startswith("float")} == {dtype}
    assert all(array.shape == (CHAINS,) for array in info)
    assert all("int" in str(count.dtype) for count in info[2:])


@every_card
def test_every_step_and_chain_has_fresh_noise_whose_parts_have_nothing_in_common(problem, name, backend):
    """The mini-batch of a proposal's gradient above all: detailed balance needs it apart from those of the loss."""
    noise = noise_of(make_sampler(home(problem, name, "regression"), name, backend))
    first, second = noise(0), noise(1)
    for leaf, other in zip(first, second, strict=True):
        if leaf[0, 0].size:
            values = leaf.reshape(NUM_STEPS * CHAINS, -1)
            # Below a handful of numbers, two draws may well agree.
            assert len({row.tobytes() for row in values}) > 0.9 * len(values)
            assert not np.array_equal(leaf, other)
    parts = [leaf.reshape(NUM_STEPS * CHAINS, -1) for leaf in first if leaf[0, 0].size > 1 and leaf.dtype.kind == "i"]
    for one, other in itertools.combinations(parts, 2):
        # Ten and fifty of 2,000 points share one in four draws, two hundreds five, not all.
        shared = [len(np.intersect1d(*pair)) for pair in zip(one, other, strict=True)]
        by_chance = one.shape[1] * other.shape[1] / 2_000
        assert np.mean(shared) < 0.5 + 1.5 * by_chance < min(one.shape[1], other.shape[1]) / 2


@every_card
def test_a_step_counts_what_it_asks_of_the_model(problem, name, backend):
    linear = home(problem, name)
    sampler = make_sampler(linear, name, backend)
    counting = CountingTarget(_target_of(sampler))
    run = at_once if backend == "jax-cpu" else lambda function: function
    with torch.no_grad():
        likelihoods, gradient_counts = (
            array.tolist() for array in host(run(lambda: one_step(sampler, linear, counting)[2][2:])())
        )
    losses, gradients = counting.losses_evaluated, counting.gradients_evaluated
    assert min(*likelihoods, *gradient_counts) >= 0
    if METHODS[name] in outside.ROWS:
        # Their libraries differentiate the losses themselves, inside loops that are traced once.
        assert losses and not gradients
        per_step = {"blackjax_hmc": 8 * linear.num_points, "posteriors_sgld": 10}
        assert gradient_counts == [per_step.get(name, gradient_counts[0])] * CHAINS or name == "blackjax_nuts"
        if name == "blackjax_nuts":
            # Whole trees of leapfrog steps, or parts of them, each of all the points.
            assert all(count % linear.num_points == 0 and count > 0 for count in gradient_counts)
        return
    assert gradient_counts == [gradients // CHAINS] * CHAINS
    if not METHODS[name].is_compiled:
        # Chains share a loop that runs as long as one of them asks for data; jax traces it once.
        assert max(likelihoods) <= losses // CHAINS or backend == "jax-cpu"
        return
    # A full gradient brings the losses with it, which count as well.
    brought = gradients if name == "mala" else 0
    assert likelihoods == [(losses + brought) // CHAINS] * CHAINS


def _target_of(sampler: Any) -> Any:
    form = sampler.loop.form
    chain = jax_chain if isinstance(sampler, jax_chain.JaxSampler) else torch_chain
    return ModelTarget(form.model, chain.likelihood, chain.minibatch)


@every_card
@pytest.mark.usefixtures("short_chunks")
def test_a_run_goes_on_from_any_chunk_bit_for_bit(problem, name, backend):
    linear = home(problem, name)
    saved = []

    def save(progress, draws, carry):
        saved.append((progress, carry()))

    # A schedule, where it has one, has to go on too.
    given = SHORT | ({"decay": 0.5, "decay_start": 10.0} if "decay" in METHODS[name].settings else {})
    whole = sample(linear, name, given, backend, on_chunk=save)
    assert whole.status == "ok", whole.reason
    assert [progress.num_steps for progress, _ in saved] == [32, 40, 72, 80]
    untouched = copy.deepcopy(saved[0])
    for number in (0, 1, 2):
        # The audit is made of the draws; once is enough.
        again = sample(linear, name, given, backend, resume=saved[number], is_audited=number == 2)
        assert again.status == "ok"
        for ours, theirs in zip(again.draws, whole.draws, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert again.progress.num_likelihoods == whole.progress.num_likelihoods
        assert again.progress.num_gradients == whole.progress.num_gradients
    assert again.audit.keys() == whole.audit.keys()
    assert all(np.array_equal(again.audit[key], whole.audit[key]) for key in whole.audit)
    # What a run goes on from stays as it is, also where the compiled loop reuses memory.
    (progress, carry), (progress_before, carry_before) = saved[0], untouched
    assert (progress.num_steps, progress.cpu_seconds) == (progress_before.num_steps, progress_before.cpu_seconds)
    assert len(progress.kept) == len(progress_before.kept)
    for key, array in carry_before.items():
        np.testing.assert_array_equal(carry[key], array)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("full_mh", {"chains": 2}, r"is int\d+ \(3,\) and must be int\d+ \(2,\)"),
        ("full_mh", {"dtype": "float64"}, "is float32 .* and must be float64"),
        ("full_mh", {"num_warmup": 16}, "40 steps are done, and these settings would have made 48"),
        ("mala", {}, r"gradient is float32 \(3, 0\) and must be float32 \(3, 2\)"),
        ("sghmc", {}, "gradient is float32 .* and must be none"),
    ],
)
def test_what_another_method_or_setting_left_behind_is_refused(problem, backend, method, given, message):
    saved = []

    def save(progress, draws, carry):
        saved.append((progress, carry()))

    sample(problem("linear"), "full_mh", SHORT, backend, on_chunk=save)
    with pytest.raises(ValueError, match=message):
        sample(problem("linear"), method, SHORT | given, backend, resume=saved[1])


@pytest.mark.parametrize("name", ["blackjax_hmc", "blackjax_nuts"])
def test_a_step_is_adapted_during_the_warmup_and_stays_after_it(problem, name):
    sampler = make_sampler(home(problem, name), name, "jax-cpu")
    carry = sampler.start(np.tile(home(problem, name).map, (CHAINS, 1)), 0)
    steps = [np.asarray(carry.state.log_step_average)]
    for is_warmup in (True, False):
        carry, *_ = sampler.advance(carry, 100, is_warmup)
        steps.append(np.asarray(carry.state.log_step_average))
    assert (abs(steps[1] - steps[0]) > 0.01).all()
    np.testing.assert_array_equal(steps[2], steps[1])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xdist_group(f"{name} jax"))
        for name, card in METHODS.items()
        if "jax" in card.libraries
    ],
)
@pytest.mark.usefixtures("short_chunks")
def test_a_sweep_over_values_shares_its_compiled_code(problem, name):
    """Step size, weight and the method's own real numbers are arguments; a whole number is another form."""
    linear, card = home(problem, name), METHODS[name]
    own = [setting for setting in card.own_settings if setting.kind is float and setting.minimum >= 0]
    others = ({setting.name: min(0.5, setting.maximum)} for setting in own)
    sweep = [{"step_size": 1e-3}, {"step_size": 2e-3}, {"weight": 7.0}, *others]
    loops, trails = [], []
    for given in sweep:
        loops.append(make_sampler(linear, name, "jax-cpu", **given).loop)
        found = sample(linear, name, SHORT | given, seed=1, is_audited=False)
        assert found.status == "ok"
        # Code that took another value for its own would run all the same.
        trails.append(found.draws.positions.tobytes())
        assert loops[-1] is loops[0] and loops[-1].compiled is loops[0].compiled is not None
    # Of one draw that is no chain the weight alone moves it.
    assert len(set(trails[:3])) == (2 if name == "temperature" else 3)
    assert make_sampler(linear, name, "jax-cpu", chains=2).loop is not loops[0]


def test_long_torch_runs_of_one_form_compile_once_and_short_ones_stay_eager(problem, monkeypatch):
    compiled = []

    def compile_nothing(function, tensors):
        compiled.append(function)
        return function

    monkeypatch.setattr(torch_chain, "compile_function", compile_nothing)
    torch_chain.loop_of.cache_clear()
    linear = problem("linear")
    for step_size in (1e-3, 2e-3):
        for num_steps, is_long in ((100_000, True), (100, False)):
            settings = resolve("sgld", {"num_steps": num_steps, "step_size": step_size}, linear)
            sampler = build_sampler("torch-cpu", linear, METHODS["sgld"], settings)
            carry = sampler.start(np.zeros((4, 2)), 0)
            sampler.compile(carry)
            assert (sampler.compiled is not None) == is_long
    # The steps, and the permutation that draws their mini-batches.
    assert len(compiled) == 2
    torch_chain.loop_of.cache_clear()


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param(name, f"{library}-cpu", marks=pytest.mark.slow if library == "torch" else ())
        for name, card in METHODS.items()
        for library in card.libraries
        # Those without bounds on a parabola have a test of their own, in test_rivals.py.
        if card.exactness == Exactness.EXACT and name != "tunamh"
    ],
)
def test_exact_cards_have_the_moments_of_their_target(problem, name, backend):
    found = moments(home(problem, name), name, backend, **LENGTH[backend])
    assert abs(found.sd_ratio - 1) < 4 * found.sd_ratio_error < 0.1
    assert found.mean_error < 4 * found.mean_error_error


@every_card
def test_a_card_says_all_there_is_to_know(name, backend):
    card = METHODS[name]
    assert card.name == name and card.label and card.summary and card.citation
    assert card.needs <= NEEDS.keys() and card.needs
    assert card.condition or card.exactness == Exactness.EXACT
    assert {"step_size", "weight", "chains"} <= card.settings.keys()
    assert all(setting.help for setting in card.settings.values())
    assert card.libraries and {f"{library}-cpu" for library in card.libraries} <= BACKENDS.keys()


def test_a_method_that_is_not_in_a_library_is_a_row_that_says_so(problem):
    found = sample(problem("linear"), "blackjax_nuts", SHORT, "torch-cpu")
    assert (found.status, found.reason) == ("skipped", "blackjax_nuts runs in jax only")
    assert found.draws.positions.shape == (CHAINS, 0, 2)


@pytest.mark.parametrize("backend", ["jax-cpu", "torch-cpu"])
def test_a_card_from_anywhere_finds_the_closed_form_in_every_library(problem, backend):
    given = {"chains": 128, "num_steps": 1000, "num_warmup": 300, "thin": 10}
    found = moments(problem("linear"), f"{PLUGIN}:CARD", backend, **given)
    assert abs(found.sd_ratio - 1) < 4 * found.sd_ratio_error < 0.1
    wrong = moments(problem("linear"), f"{PLUGIN}:CARD", backend, **given, sharpness=2.0)
    assert wrong.sd_ratio < 0.9
