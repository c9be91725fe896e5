"""What is timed: steps of the samplers, and the bare likelihoods and gradients in them.

The bare work of a step is the likelihood or gradient of the very points it evaluates, already gathered, compiled, and
nothing else: no random numbers, no acceptance, no draws kept.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.stopwatch import Work, sized
from implementations.backends import BACKENDS, build_sampler, rows_of, use_large_pages, use_one_thread
from implementations.kernels.contract import Data
from implementations.kernels.metropolis import Metropolis
from implementations.methods import METHODS
from implementations.settings import Settings
from implementations.tasks import prepare
from implementations.tasks.geometry import mean_curvature
from implementations.tasks.problem import Problem

#: Mini-batches: the paper's on mnist, and those of its regression.
BATCHES = {
    "mnist": {"batch_size": 100, "num_batches": 10},
    "regression": {"batch_size": 5, "num_batches": 5},
    "logistic": {"batch_size": 100, "num_batches": 10},
}
NUM_POINTS = {"mnist": 60_000, "regression": 2_000}

#: Gathered mini-batches that bare likelihoods go through in turn: different ones, and few enough for the cache.
NUM_GATHERED = 16


@cache
def synthetic(shape: str, num_points: int | None = None) -> Problem:
    """A problem of random features in the shape of ``mnist`` (21 × 10 softmax) or ``regression`` (21 × 1, Gaussian).

    The task ``logistic`` is random features as it is.
    """
    if shape == "logistic":
        return prepare(shape, 0, num_points=num_points, progress=False)
    count = num_points or NUM_POINTS[shape]
    random = np.random.default_rng(0)
    outputs = 10 if shape == "mnist" else 1
    features = random.standard_normal((count, 21), dtype=np.float32)
    features[:, 0] = 1
    weights = random.standard_normal((21, outputs), dtype=np.float32)
    activations = features @ weights
    if shape == "mnist":
        targets = np.argmax(activations + random.gumbel(size=activations.shape), axis=1).astype(np.int32)
    else:
        targets = activations[:, 0] + np.float32(0.05) * random.standard_normal(count, dtype=np.float32)
    form: dict[str, Any] = {
        "task": shape,
        "likelihood": "categorical" if shape == "mnist" else "gaussian",
        "noise_sd": 0.05,
        "layers": ((21, outputs),),
        "map": weights.ravel(),
    }
    # A thousand points tell the curvature well enough for a preconditioner.
    few = Problem.of(features[:1000], targets[:1000], **form)
    return Problem.of(features, targets, curvature=mean_curvature(few, few.map), **form)


def settings_of(problem: Problem, method: str, **given: Any) -> Settings:
    """Steps so small that all chains stay near the mode, and so many that a run would compile them."""
    wanted = {
        **BATCHES[problem.task],
        **({"num_batches": 1} if method == "naive" else {}),
        "step_size": 1e-7,
        "preconditioner": "none",
        "num_steps": 100_000,
        "num_warmup": 0,
        "chains": 1,
        **given,
    }
    card = METHODS[method]
    return card.resolve({name: value for name, value in wanted.items() if name in card.settings}, problem)


def _prepare(backend: str) -> None:
    library = BACKENDS[backend][0]
    use_one_thread(backend)
    if library == "torch":
        import torch

        # A run has one sampler, a benchmark many; torch counts their compilations as one function's.
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000


def compiled_sampler(backend: str, problem: Problem, method: str, settings: Settings) -> tuple[Any, Any]:
    """A sampler, ready to go, and the carry of its start."""
    _prepare(backend)
    sampler = build_sampler(backend, problem, METHODS[method], settings)
    carry = sampler.start(np.tile(problem.map, (settings.chains, 1)), 0)
    sampler.compile(carry)
    return sampler, carry


def steps(backend: str, problem: Problem, method: str, **given: Any) -> Work:
    """Steps of a method, all chains together; a unit is a step of one chain."""
    settings = settings_of(problem, method, **given)
    return steps_of(*compiled_sampler(backend, problem, method, settings), settings.chains)


def steps_of(sampler: Any, start: Any, chains: int) -> Work:
    """The same of a sampler that is ready to go."""
    carries = [start]

    def make(num_blocks: int) -> Callable[[], object]:
        def advance() -> None:
            carries[0], *_ = sampler.advance(carries[0], num_blocks * sampler.block_steps)

        return advance

    # Whole blocks of random numbers, as nearly all are in a long run.
    work = sized(make, first_units=1)
    return Work(work.call, work.units * sampler.block_steps * chains)


class Bare(NamedTuple):
    """What a step evaluates."""

    chains: int
    #: Points at which a chain evaluates its current and its proposed parameters.
    pairs: int
    #: Gradients of a mini-batch: one at the current parameters, and perhaps one for the way back.
    gradients: int
    batch_size: int
    #: What is evaluated at all the points: nothing, their likelihood or their gradient.
    full: str


def bare_work(backend: str, problem: Problem, method: str, **given: Any) -> Work:
    """The likelihoods and gradients of those steps, for as many chains; a unit is the work of a step of one chain."""
    _prepare(backend)
    settings = settings_of(problem, method, **given)
    parts = METHODS[method].kernel
    assert isinstance(parts, Metropolis)
    batch_size = settings.batch_size or 0
    bare = Bare(
        chains=settings.chains,
        pairs=(settings.num_batches or 0) * batch_size if parts.estimate == "batches" else 0,
        gradients=(1 if parts.acceptance == "always" else 2) if parts.gradient == "batch" else 0,
        batch_size=batch_size,
        full="gradient" if parts.gradient == "all" else "likelihood" if parts.estimate == "all" else "none",
    )
    return (_bare_jax if BACKENDS[backend][0] == "jax" else _bare_torch)(problem, bare)


def has_bare_work(method: str) -> bool:
    """Does a step of the method evaluate likelihoods or gradients? Draws from a Gaussian, as by ``laplace``, do not."""
    parts = METHODS[method].kernel
    return isinstance(parts, Metropolis) and (parts.estimate, parts.gradient) != ("none", "none")


def _bare_step(library: Any, stack: Callable[..., Any], problem: Problem, bare: Bare) -> Callable[..., Any]:
    """``step(position, everything, loss_batch, gradient_batch)``, by the functions of a library's ``likelihood``.

    Terms of 1e-30 move nothing, and make each evaluation wait for the one before.
    """
    model = problem.model

    def step(position: Any, everything: Data, loss_batch: Data, gradient_batch: Data) -> Any:
        if bare.pairs:
            pair = stack([position, position + 1e-6], 1)
            position = position + 1e-30 * library.point_losses(pair, loss_batch, model).sum((1, 2))[:, None]
        for _ in range(bare.gradients):
            position = position + 1e-30 * library.losses_and_gradient(position, gradient_batch, 1.0, model)[1]
        if bare.full == "gradient":
            position = position + 1e-30 * library.losses_and_gradient(position, everything, 1.0, model)[1]
        if bare.full == "likelihood":
            position = position + 1e-30 * library.point_losses(position, everything, model).sum(1)[:, None]
        return position

    return step


def _points(problem: Problem, bare: Bare) -> tuple[Data, Data, Data]:
    """All the points, and NUM_GATHERED mini-batches for losses and for gradients."""

    def gathered(*shape: int) -> Data:
        indices = np.random.default_rng(1).integers(0, problem.num_points, (NUM_GATHERED, bare.chains, *shape))
        return Data(problem.features[indices], problem.targets[indices])

    return Data(problem.features, problem.targets), gathered(1, bare.pairs), gathered(bare.batch_size)


@cache
def _bare_jax(problem: Problem, bare: Bare) -> Work:
    import jax
    import jax.numpy as jnp

    from implementations.backends.jax import likelihood

    step = _bare_step(likelihood, jnp.stack, problem, bare)
    data = jax.device_put(_points(problem, bare), jax.devices("cpu")[0])

    @jax.jit
    def many(units: Any, position: Any, data: tuple[Data, Data, Data]) -> Any:
        everything, *batches = data

        def once(number: Any, position: Any) -> Any:
            return step(position, everything, *jax.tree.map(lambda array: array[number % NUM_GATHERED], batches))

        return jax.lax.fori_loop(0, units, once, position)

    position = jnp.tile(jnp.asarray(problem.map), (bare.chains, 1))
    work = sized(lambda units: lambda: many(units, position, data).block_until_ready())
    return Work(work.call, work.units * bare.chains)


@cache
def _bare_torch(problem: Problem, bare: Bare) -> Work:
    import torch

    from implementations.backends.torch import likelihood
    from implementations.backends.torch.chain import UNROLLED_STEPS, compile_function

    step = _bare_step(likelihood, torch.stack, problem, bare)

    def tensors(data: Data) -> tuple[Any, Any]:
        features, targets = (torch.from_numpy(array) for array in data[:2])
        return features, targets.long() if problem.likelihood == "categorical" else targets

    everything, *batches = map(tensors, _points(problem, bare))

    def some(position: Any, *tensors: Any) -> list[Any]:
        """As many units as the sampler makes steps in one compiled call."""
        for number in range(UNROLLED_STEPS):
            of_number = [tensor[number] for tensor in tensors[2:]]
            position = step(position, Data(*tensors[:2]), Data(*of_number[:2]), Data(*of_number[2:]))
        return [position]

    def arguments(position: Any, start: int) -> list[Any]:
        chosen = slice(start % NUM_GATHERED, start % NUM_GATHERED + UNROLLED_STEPS)
        return [position, *everything, *(tensor[chosen] for batch in batches for tensor in batch)]

    begin = torch.from_numpy(np.tile(problem.map, (bare.chains, 1)))
    # As the sampler's own steps are.
    with torch.no_grad():
        compiled = compile_function(some, arguments(begin, 0))

    def make(units: int) -> Callable[[], object]:
        @torch.no_grad()
        def many() -> None:
            position = begin
            for start in range(0, units, UNROLLED_STEPS):
                (position,) = compiled(*arguments(position, start))

        return many

    work = sized(make)
    # A whole number of compiled calls.
    units = -(-work.units // UNROLLED_STEPS) * UNROLLED_STEPS
    return Work(work.call, units * bare.chains)


def draw_rows(problem: Problem, count: int, num_anchored: int = 0) -> Work:
    """Bare reading of ``count`` random rows of a problem, as samplers keep them, by numpy; a unit is one reading.

    Control variates keep ``num_anchored`` more numbers of every point.
    """
    num_points = problem.num_points
    at_anchor = np.zeros((num_points, num_anchored), np.float32) if num_anchored else None
    table = rows_of(problem.features, problem.targets, "float32", at_anchor)
    use_large_pages(table.ctypes.data, table.nbytes)
    # So many that no row is in the cache because an earlier reading had drawn it.
    indices = np.random.default_rng(2).integers(0, num_points, (4096, count))
    rows = np.empty((count, table.shape[1]), table.dtype)

    def make(units: int) -> Callable[[], object]:
        def many() -> None:
            for number in range(units):
                np.take(table, indices[number % len(indices)], axis=0, out=rows, mode="clip")

        return many

    return sized(make)
