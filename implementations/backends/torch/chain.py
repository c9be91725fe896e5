"""Chains in torch: the steps of a kernel in a loop over blocks of noise, compiled where a run is long."""

import warnings
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from implementations.backends import Costs, Draws, Form, Inputs, ModelTarget, Skipped, use_large_pages
from implementations.backends.torch import likelihood, minibatch
from implementations.backends.torch.minibatch import Mix, TorchRandom
from implementations.card import Card
from implementations.kernels.contract import Points, Values
from implementations.kernels.permutation import mix
from implementations.schedule import block_steps, step_sizes
from implementations.settings import Settings
from implementations.tasks.problem import Problem

#: Streams of random numbers: the chains' own, the audit's, and that of the first state.
CHAIN_STREAM, AUDIT_STREAM, INIT_STREAM = 0, 1, 2

#: Steps that one call of compiled code makes: enough to hide the cost of the call, few enough to compile soon.
UNROLLED_STEPS = 4
#: Compiling takes some twenty seconds, or four with a warm cache, and makes a step ten to twenty times faster.
COMPILED_FROM_STEPS = 50_000


class Trace(NamedTuple):
    """Steps that were made one after the other."""

    state: Any  # after the last of them
    positions: Tensor  # (steps, chains, P)
    accepted: Tensor  # (steps, chains), as the others
    variances: Tensor
    num_likelihoods: Tensor
    num_gradients: Tensor
    finite: Tensor


class Carry(NamedTuple):
    """All that the next chunk needs."""

    state: Any
    generator: torch.Generator
    num_steps: int  # made so far, for the step-size schedule
    finite_steps: Tensor  # (chains,)


class CompiledMix:
    """The permutation as compiled code, once for each shape: its hundred small operations would outlast the steps."""

    def __init__(self) -> None:
        self._by_form: dict[tuple[Any, ...], Callable[..., list[Tensor]]] = {}

    def __call__(self, row: Tensor, column: Tensor, keys: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        form = (row.shape, rows, columns)
        if form not in self._by_form:
            self._by_form[form] = compile_function(
                lambda row, column, keys: list(mix(row, column, keys, rows, columns)), [row, column, keys]
            )
        row, column = self._by_form[form](row, column, keys)
        return row, column


class Compiled(NamedTuple):
    """Compiled code of a form."""

    steps: Callable[..., Trace]  # UNROLLED_STEPS of them
    mix: Mix  # for a whole block


class Loop:
    """The steps of a form: eager, and compiled once a long run asks for it."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.kernel = form.card.kernel(ModelTarget(form.model, likelihood, minibatch), form.shapes)
        self.compiled: Compiled | None = None
        #: Why the steps could not be compiled, once that was tried.
        self._failure = ""

    def random(self, generator: torch.Generator, mix: Mix = mix) -> TorchRandom:
        return TorchRandom(generator, self.form.model.num_points, getattr(torch, self.form.dtype), mix)

    def block_steps(self, values: Values) -> int:
        """Steps whose random numbers are drawn together."""
        generator = torch.Generator(self.form.device).manual_seed(0)
        noise = self.kernel.noise(self.random(generator), (1, self.form.chains), values)
        # Twice those of a compiled loop, since a block costs some hundred small calls here; and a whole number of
        # compiled calls, so that only the end of a chunk runs eagerly.
        num_steps = 2 * block_steps([tuple(part.shape) for part in noise])
        return -(-num_steps // UNROLLED_STEPS) * UNROLLED_STEPS

    def steps(self, points: Points, values: Values, state: Any, noise: Any, sizes: Tensor) -> Trace:
        """As many steps as the noise has."""
        kept: list[tuple[Tensor, ...]] = []
        for step_noise, step_size in zip(unbind(noise), sizes.unbind(), strict=True):
            state, info = self.kernel.step(step_noise, state, points, values._replace(step_size=step_size))
            kept.append((state.position, *info, state.position.isfinite().all(dim=-1)))
        return Trace(state, *map(torch.stack, zip(*kept, strict=True)))

    def compile(self, points: Points, values: Values, state: Any) -> Compiled | None:
        """The steps and the permutation as compiled code, by the first call; None, and a warning, where that fails."""
        if self.compiled is None and not self._failure:
            compiled_mix, chains = CompiledMix(), self.form.chains
            generator = torch.Generator(self.form.device).manual_seed(0)
            noise = self.kernel.noise(self.random(generator), (UNROLLED_STEPS, chains), values)
            sizes = values.step_size.expand(UNROLLED_STEPS)
            try:
                unrolled = self._compiled_steps(points, values, state, noise, sizes)
                unrolled(points, values, state, noise, sizes)
                self.kernel.noise(self.random(generator, compiled_mix), (self.block_steps(values), chains), values)
            except Exception as error:
                # No C++ compiler, say, or any other of a compiler's many ways to fail: a slow run is better than none.
                reason = next(iter(str(error).splitlines()), "no reason given")
                self._failure = f"{type(error).__name__}: {reason}"
            else:
                self.compiled = Compiled(unrolled, compiled_mix)
        if self._failure:
            warnings.warn(f"the steps could not be compiled and run eagerly ({self._failure})", stacklevel=2)
        return self.compiled

    def _compiled_steps(self, *example: Any) -> Callable[..., Trace]:
        """``steps`` as compiled code, for arguments of the same shapes as these."""
        tensors, arguments_form = tree_flatten(example)
        # Found while the steps are traced.
        trace_forms: list[Any] = []

        def flat_steps(*tensors: Tensor) -> list[Tensor]:
            kept, trace_form = tree_flatten(self.steps(*tree_unflatten(tensors, arguments_form)))
            trace_forms.append(trace_form)
            return kept

        # Compiled code takes the layout of its arguments for granted.
        compiled = compile_function(flat_steps, [tensor.contiguous() for tensor in tensors])

        def steps(*arguments: Any) -> Trace:
            kept = compiled(*(tensor.contiguous() for tensor in tree_flatten(arguments)[0]))
            trace: Trace = tree_unflatten(kept, trace_forms[-1])
            return trace

        return steps

    def block(
        self, compiled: Compiled | None, points: Points, values: Values, state: Any, noise: Any, sizes: Tensor
    ) -> Trace:
        """The steps of a block: by compiled pieces as far as they go, eagerly where there are none."""
        traces = []
        piece = UNROLLED_STEPS if compiled else len(sizes)
        for part, part_sizes in zip(split(noise, piece), sizes.split(piece), strict=True):
            run = compiled.steps if compiled and len(part_sizes) == piece else self.steps
            traces.append(run(points, values, state, part, part_sizes))
            state = traces[-1].state
        return Trace(state, *map(torch.cat, list(zip(*traces, strict=True))[1:]))


#: Compiled steps are kept, so that runs of the same form compile once.
loop_of = lru_cache(maxsize=64)(Loop)


class TorchSampler:
    """Chains of one method on one problem, on ``cpu`` or ``gpu`` (implementations.backends.Sampler). Raises Skipped."""

    def __init__(self, problem: Problem, card: Card, settings: Settings, device: str) -> None:
        if device == "gpu" and not torch.cuda.is_available():
            raise Skipped("no CUDA device")
        self.inputs, self.settings = Inputs(problem, card, settings), settings
        self.device, self.dtype = torch.device("cuda" if device == "gpu" else "cpu"), getattr(torch, settings.dtype)
        self.loop = loop_of(self.inputs.form(self.device))
        self.points: Points = tree_map(self._put, self.inputs.points())
        self.values: Values = tree_map(self._put, self.inputs.values())
        if device == "cpu":
            use_large_pages(self.points.rows.data_ptr(), self.points.rows.nbytes)
        self.block_steps = self.loop.block_steps(self.values)
        #: A run's own: a short run steps eagerly whatever other runs of its form have compiled, or its draws would
        #: depend on them in the last digits.
        self.compiled: Compiled | None = None

    def _put(self, array: np.ndarray | np.generic) -> Tensor:
        kinds = {"i": torch.int64, "b": torch.bool}
        # Shared where nothing has to change: samplers write to none of it.
        return torch.as_tensor(array, dtype=kinds.get(np.asarray(array).dtype.kind, self.dtype), device=self.device)

    def all_points(self) -> Points:
        """The data with all points together, also for a method that does not read them."""
        return self.points._replace(together=tree_map(self._put, self.inputs.together()))

    def _generator(self, seed: int, stream: int) -> torch.Generator:
        """A generator apart from that of the network's training, which has the bare seed."""
        (state,) = np.random.SeedSequence([seed, stream]).generate_state(1)
        return torch.Generator(self.device).manual_seed(int(state))

    @torch.no_grad()
    def start(self, positions: np.ndarray, seed: int) -> Carry:
        random = self.loop.random(self._generator(seed, INIT_STREAM))
        noise = self.loop.kernel.noise(random, (len(positions),), self.values)
        state = self.loop.kernel.init(noise, self._put(positions), self.points, self.values)
        finite_steps = torch.zeros(len(positions), dtype=torch.int64, device=self.device)
        return Carry(state, self._generator(seed, CHAIN_STREAM), 0, finite_steps)

    @torch.no_grad()
    def compile(self, carry: Carry) -> bool:
        """Compile the steps where the run is long enough for it to pay."""
        if not self.inputs.card.is_compiled or self.settings.num_warmup + self.settings.num_steps < COMPILED_FROM_STEPS:
            return False
        is_first = self.loop.compiled is None
        self.compiled = self.loop.compile(self.points, self.values, carry.state)
        return is_first and self.compiled is not None

    def at_step_size(self, step_size: float) -> Self:
        other = copy(self)
        other.values = self.values._replace(step_size=self._put(np.float64(step_size)))
        return other

    @torch.no_grad()
    def advance(self, carry: Carry, num_steps: int, is_warmup: bool = False) -> tuple[Carry, Draws, Costs]:
        thin, loop = self.settings.thin, self.loop
        state, generator, first, finite_steps = carry
        values = self.values._replace(is_warmup=self._put(np.bool_(is_warmup)))
        chains, num_parameters = state.position.shape
        num_draws = num_steps // thin
        # One slot more than draws: for the steps after the last whole stride.
        positions = state.position.new_zeros((num_draws + 1, chains, num_parameters))
        acceptance, variance = state.position.new_zeros((2, num_draws + 1, chains))
        costs = torch.zeros((2, chains), dtype=torch.int64, device=self.device)
        for done in range(0, num_steps, self.block_steps):
            length = min(self.block_steps, num_steps - done)
            # Compiled for whole blocks only.
            is_whole = length == self.block_steps
            random = loop.random(generator, self.compiled.mix if self.compiled and is_whole else mix)
            noise = loop.kernel.noise(random, (length, chains), values)
            numbers = torch.arange(first + done, first + done + length, device=self.device)
            trace = loop.block(self.compiled, self.points, values, state, noise, step_sizes(values, numbers))
            state = trace.state
            # Bookkeeping for a block at once: step by step it would cost as much as the steps.
            slots = torch.arange(done, done + length, device=self.device) // thin
            # A block may hold no end of a stride, or several.
            ends = trace.positions[-(done + 1) % thin :: thin]
            positions[done // thin : done // thin + len(ends)] = ends
            acceptance.index_add_(0, slots, trace.accepted.to(self.dtype), alpha=1 / thin)
            variance.index_add_(0, slots, trace.variances, alpha=1 / thin)
            costs += torch.stack([trace.num_likelihoods.sum(dim=0), trace.num_gradients.sum(dim=0)])
            finite_steps = finite_steps + trace.finite.sum(dim=0)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        kept = (array[:num_draws].transpose(0, 1).cpu().numpy() for array in (positions, acceptance, variance))
        carry = Carry(state, generator, first + num_steps, finite_steps)
        return carry, Draws(*kept), Costs(*costs.cpu().numpy())

    def finite_steps(self, carry: Carry) -> np.ndarray:
        return carry.finite_steps.cpu().numpy()

    @torch.no_grad()
    def weigh(self, how: str, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """One fresh move from each position, weighed by the kernel's ``audit`` or ``balance``."""
        kernel = self.loop.kernel
        if getattr(kernel, how) is None:
            return {}
        random = self.loop.random(self._generator(seed, AUDIT_STREAM))
        points, rows = self.all_points(), []
        for position, step_size in zip(self._put(positions), step_sizes(self.values, self._put(steps)), strict=True):
            values = self.values._replace(step_size=step_size)
            noise = kernel.noise(random, (1,), values)
            state = kernel.init(noise, position[None], points, values)
            if how == "audit":
                move = kernel.audit(noise, state, points, values)  # type: ignore[misc]
            else:
                move = kernel.balance(noise, random, state, points, values)  # type: ignore[misc]
            # As numbers: small tensors that stay would pin the memory of the large ones between them.
            rows.append({name: array.item() for name, array in move.items()})
        return {name: np.array([row[name] for row in rows], self.settings.dtype) for name in rows[0]}

    def to_arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        tensors = carry.state._asdict() | {"generator": carry.generator.get_state(), "finite_steps": carry.finite_steps}
        return {name: tensor.cpu().numpy() for name, tensor in tensors.items()} | {
            "num_steps": np.array(carry.num_steps)
        }

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Carry:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        like = self.start(np.zeros((self.settings.chains, self.inputs.problem.num_parameters)), 0)
        state = type(like.state)(*(tensors[name].to(self.device) for name in like.state._fields))
        like.generator.set_state(tensors["generator"])
        return Carry(state, like.generator, int(arrays["num_steps"]), tensors["finite_steps"].to(self.device))


def compile_function(function: Callable[..., list[Tensor]], tensors: list[Any]) -> Callable[..., list[Tensor]]:
    """A function of tensors as compiled code, for arguments of the same shapes and layouts as these.

    Its graph goes straight to the compiler: torch.compile would look, before every call, whether anything that the
    function refers to has changed, and of a step that takes a tenth of the time.
    """
    # Slow to import, and for long runs only.
    from torch._inductor import compile as compile_graph
    from torch.fx.experimental.proxy_tensor import make_fx

    # No Python between the loops on a CPU.
    options = {"cpp_wrapper": tensors[0].device.type == "cpu"}
    compiled: Callable[..., list[Tensor]] = compile_graph(
        make_fx(function, tracing_mode="fake")(*tensors), tensors, options
    )
    return compiled


def split(noise: Any, length: int) -> list[Any]:
    """A block of noise in parts of so many steps, cut all at once because one by one would cost more."""
    return [type(noise)(*part) for part in zip(*(tensor.split(length) for tensor in noise), strict=True)]


def unbind(noise: Any) -> list[Any]:
    """The steps of a block of noise, cut apart all at once because one index per step would cost more."""
    return [type(noise)(*step) for step in zip(*(tensor.unbind() for tensor in noise), strict=True)]


build_sampler = TorchSampler
