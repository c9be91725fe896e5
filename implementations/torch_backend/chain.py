"""Chains: a method's parts put together into a step, and steps into a loop over blocks of noise."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from implementations.backends import DeviceMissing, Draws
from implementations.memory import rows_of, use_large_pages
from implementations.methods import METHODS, Settings, degrees_of_freedom, evaluates_all, points_of_delta
from implementations.permutation import mix
from implementations.schedule import block_steps
from implementations.tasks.geometry import preconditioner_factor
from implementations.tasks.problem import Problem
from implementations.torch_backend.acceptance import ACCEPTANCES
from implementations.torch_backend.likelihood import Data, log_prior, losses_and_gradient, point_losses
from implementations.torch_backend.minibatch import (
    draw_indices,
    estimate_of_all,
    estimate_of_batches,
    known_variance,
    take_points,
)
from implementations.torch_backend.proposals import langevin, langevin_log_ratio, random_walk, scale_by


class Points(NamedTuple):
    """The data in the forms that steps read; the one that a method does not read is empty."""

    together: Data  # to evaluate all of them
    rows: Tensor  # (N, columns): to draw mini-batches from (implementations.memory)


class State(NamedTuple):
    """What the next step needs. Full-data methods keep losses and gradient of where they are, others nothing."""

    position: Tensor  # (chains, P)
    losses: Tensor  # (chains, N) or (chains, 0)
    gradient: Tensor  # (chains, P) or (chains, 0)


class Noise(NamedTuple):
    """All the randomness of a step."""

    normals: Tensor  # (chains, P): e
    moves: Tensor  # (chains, P): L e
    log_uniforms: Tensor  # (chains,)
    indices: Tensor  # (chains, M, n): of the loss difference; M = 0 where it has none
    gradient_indices: Tensor  # (chains, n): of the proposal; n = 0 where it has none


class StepInfo(NamedTuple):
    """What a reader of the run wants to know of a step; all (chains,)."""

    log_ratio: Tensor
    delta: Tensor
    variance: Tensor
    log_accept: Tensor


class Step(NamedTuple):
    """A method on a problem, as pure functions."""

    visit: Callable[[Tensor, Points], State]
    consider: Callable[..., tuple[State, StepInfo]]
    move: Callable[..., tuple[State, StepInfo, Tensor]]


def build_step(problem: Problem, method_name: str, settings: Settings) -> Step:
    """Put a method's parts together."""
    method = METHODS[method_name]
    weight = problem.target_weight(settings.weight, settings.batch_size)
    dof = degrees_of_freedom(settings)
    accept = ACCEPTANCES[method.acceptance]
    num_features = problem.layers[0][0]

    def visit(position: Tensor, points: Points) -> State:
        """The state at a position, with what the method keeps of it."""
        nothing = position[:, :0]
        losses = gradient = nothing
        if method.gradient == "all":
            losses, gradient = losses_and_gradient(position, points.together, weight, problem)
        elif method.estimate == "all":
            losses = point_losses(position, points.together, problem)
        return State(position, losses if method.estimate == "all" else nothing, gradient)

    def gradient_with(points: Points, noise: Noise) -> Callable[[State], Tensor]:
        """The gradient of the proposal: of all points, or of this step's own mini-batch.

        The same mini-batch serves the way there and the way back, and no loss difference sees it: it is auxiliary
        randomness, and detailed balance holds for each of its values.
        """
        if method.gradient == "all":
            return lambda state: state.gradient
        batch = take_points(points.rows, noise.gradient_indices, num_features)
        return lambda state: losses_and_gradient(state.position, batch, weight, problem)[1]

    def loss_difference(state: State, arrived: State, points: Points, noise: Noise) -> tuple[Tensor, Tensor]:
        """delta, the estimate of U(theta') - U(theta), and its variance."""
        log_prior_drop = log_prior(state.position, problem) - log_prior(arrived.position, problem)
        if method.estimate == "all":
            return estimate_of_all(arrived.losses - state.losses, log_prior_drop, weight)
        chains, num_batches, batch_size = noise.indices.shape
        pair = torch.stack([state.position, arrived.position], dim=1)
        batches = take_points(points.rows, noise.indices.reshape(chains, 1, -1), num_features)
        losses = point_losses(pair, batches, problem)
        differences = (losses[:, 1] - losses[:, 0]).reshape(noise.indices.shape)
        delta, variance = estimate_of_batches(
            differences, log_prior_drop, weight, problem.num_points, settings.variance or "points"
        )
        if settings.variance == "oracle":
            before, after = (point_losses(place.position, points.together, problem) for place in (state, arrived))
            variance = known_variance(after - before, weight, num_batches * batch_size)
        return delta, variance

    def consider(
        points: Points, factor: Tensor, state: State, noise: Noise, step_size: Tensor, is_audit: bool = False
    ) -> tuple[State, StepInfo]:
        """Propose a move and weigh it (paper: Algorithm 1, steps a to d)."""
        log_ratio = delta = variance = torch.zeros_like(noise.log_uniforms)
        if method.proposal == "random_walk":
            arrived = visit(random_walk(state.position, noise.moves, step_size), points)
        else:
            gradient = gradient_with(points, noise)
            there = gradient(state)
            arrived = visit(langevin(state.position, there, factor, noise.moves, step_size), points)
            if method.acceptance != "always" or is_audit:
                log_ratio = langevin_log_ratio(there, gradient(arrived), factor, noise.normals, step_size)
        if method.estimate != "none":
            delta, variance = loss_difference(state, arrived, points, noise)
        return arrived, StepInfo(log_ratio, delta, variance, log_ratio + accept(delta, variance, dof))

    def move(
        points: Points, factor: Tensor, state: State, noise: Noise, step_size: Tensor
    ) -> tuple[State, StepInfo, Tensor]:
        """Go or stay (paper: Algorithm 1, steps e and f); a ratio that is not a number stays."""
        arrived, info = consider(points, factor, state, noise, step_size)
        is_accepted = noise.log_uniforms < info.log_accept
        chosen = (torch.where(is_accepted[:, None], new, old) for new, old in zip(arrived, state, strict=True))
        return State(*chosen), info, is_accepted

    return Step(visit, consider, move)


def draw_noise(
    generator: torch.Generator,
    shape: tuple[int, ...],
    factor: Tensor,
    problem: Problem,
    method_name: str,
    settings: Settings,
    mix: Callable[..., tuple[Tensor, Tensor]] = mix,
) -> Noise:
    """The noise of many steps and chains at once, every tensor with the leading dimensions ``shape``."""
    method = METHODS[method_name]
    where = {"device": generator.device, "dtype": getattr(torch, settings.dtype), "generator": generator}
    normals = torch.randn((*shape, problem.num_parameters), **where)
    # 1 - u is never 0, so its logarithm is finite.
    log_uniforms = torch.log1p(-torch.rand(shape, **where))
    num_batches, batch_size = settings.batch_shape
    count = num_batches * batch_size if method.estimate == "batches" else 0
    indices = draw_indices(generator, shape, count, problem.num_points, mix).reshape(
        *shape, -1 if count else 0, batch_size
    )
    count = batch_size if method.gradient == "batch" else 0
    gradient_indices = draw_indices(generator, shape, count, problem.num_points, mix)
    return Noise(normals, scale_by(factor, normals), log_uniforms, indices, gradient_indices)


class Trail(NamedTuple):
    """Steps that were made one after the other."""

    state: State  # after the last of them
    positions: Tensor  # (steps, chains, P)
    accepted: Tensor  # (steps, chains)
    variances: Tensor  # (steps, chains)
    finite: Tensor  # (steps, chains)


class Carry(NamedTuple):
    """All that the next chunk needs."""

    state: State
    generator: torch.Generator
    num_steps: int  # made so far, for the step-size schedule
    finite_steps: Tensor  # (chains,)


#: Steps that one call of compiled code makes: enough to hide the cost of the call, few enough to compile soon.
UNROLLED_STEPS = 4
#: Compiling takes some twenty seconds, or four with a warm cache, and makes a step ten to twenty times faster.
COMPILED_FROM_STEPS = 50_000


class TorchSampler:
    """Chains of one method on one problem, on one device (implementations.backends.Sampler)."""

    def __init__(self, problem: Problem, method: str, settings: Settings, device: torch.device) -> None:
        self.problem, self.method, self.settings, self.device = problem, method, settings, device
        self.step = build_step(problem, method, settings)
        self.dtype = getattr(torch, settings.dtype)
        weight = problem.target_weight(settings.weight, settings.batch_size)
        self.points = Points(
            self._together(problem.num_points if evaluates_all(METHODS[method], settings) else 0),
            self._rows(problem.num_points if METHODS[method].draws_points else 0),
        )
        self.factor = self._put(preconditioner_factor(problem, weight, settings.preconditioner))
        # Twice those of a compiled loop, since a block costs some hundred small calls here; and a whole number of
        # compiled calls, so that only the end of a chunk runs eagerly.
        num_steps = 2 * block_steps(METHODS[method], settings, problem.num_parameters)
        self.block_steps = -(-num_steps // UNROLLED_STEPS) * UNROLLED_STEPS
        self.unrolled: Callable[..., Trail] | None = None
        self.mix: Callable[..., tuple[Tensor, Tensor]] = mix

    def _put(self, array: np.ndarray) -> Tensor:
        is_integer = np.issubdtype(array.dtype, np.integer)
        return torch.tensor(array, dtype=torch.int64 if is_integer else self.dtype, device=self.device)

    def _together(self, num_points: int) -> Data:
        return Data(self._put(self.problem.features[:num_points]), self._put(self.problem.targets[:num_points]))

    def _rows(self, num_points: int) -> Tensor:
        features, targets = self.problem.features[:num_points], self.problem.targets[:num_points]
        rows = torch.from_numpy(rows_of(features, targets, self.settings.dtype)).to(self.device)
        if self.device.type == "cpu":
            use_large_pages(rows.data_ptr(), rows.nbytes)
        return rows

    def _steps(self, points: Points, factor: Tensor, state: State, noise: Noise, step_sizes: Tensor) -> Trail:
        """As many steps as the noise has."""
        positions, accepted, variances, finite = [], [], [], []
        for step_noise, step_size in zip(unbind(noise), step_sizes.unbind(), strict=True):
            state, info, is_accepted = self.step.move(points, factor, state, step_noise, step_size)
            positions.append(state.position)
            accepted.append(is_accepted)
            variances.append(info.variance)
            finite.append(state.position.isfinite().all(dim=-1))
        return Trail(state, *(torch.stack(parts) for parts in (positions, accepted, variances, finite)))

    def _compiled_steps(self, state: State, noise: Noise, step_sizes: Tensor) -> Callable[..., Trail]:
        """``_steps`` as compiled code, for arguments of the same shapes as these."""
        num_parts = len(state)

        def flat(*arguments: Any) -> list[Any]:
            points, factor, state, noise, step_sizes = arguments
            # Compiled code takes the layout of its arguments for granted.
            return [
                tensor.contiguous() for tensor in (*points.together, points.rows, factor, *state, *noise, step_sizes)
            ]

        def flat_steps(
            features: Tensor, targets: Tensor, rows: Tensor, factor: Tensor, *others: Tensor
        ) -> list[Tensor]:
            state, noise = State(*others[:num_parts]), Noise(*others[num_parts:-1])
            trail = self._steps(Points(Data(features, targets), rows), factor, state, noise, others[-1])
            return [*trail.state, *trail[1:]]

        def steps(*arguments: Any) -> Trail:
            tensors = compiled(*flat(*arguments))
            return Trail(State(*tensors[:num_parts]), *tensors[num_parts:])

        compiled = compile_function(flat_steps, flat(self.points, self.factor, state, noise, step_sizes))
        return steps

    def _generator(self, seed: int, stream: int) -> torch.Generator:
        """A generator of the chains or of the audit, apart from that of the network's training, which has the seed."""
        (state,) = np.random.SeedSequence([seed, stream]).generate_state(1)
        return torch.Generator(self.device).manual_seed(int(state))

    @torch.no_grad()
    def start(self, positions: np.ndarray, seed: int) -> Carry:
        if len(positions) != self.settings.chains:
            # Compiled code would not look.
            raise ValueError(f"{len(positions)} start points for {self.settings.chains} chains")
        state = self.step.visit(self._put(positions), self.points)
        generator = self._generator(seed, stream=0)
        return Carry(state, generator, 0, torch.zeros(len(positions), dtype=torch.int64, device=self.device))

    @torch.no_grad()
    def compile(self, carry: Carry) -> None:
        """Compile the steps where the run is long enough for it to pay."""
        if self.settings.num_warmup + self.settings.num_steps < COMPILED_FROM_STEPS:
            return
        # Eagerly, the hundred small operations of the permutation would take longer than the steps.
        compiled_mix = torch.compile(mix, dynamic=False)
        generator = torch.Generator(self.device).manual_seed(0)
        shape = (UNROLLED_STEPS, len(carry.state.position))
        noise = draw_noise(generator, shape, self.factor, self.problem, self.method, self.settings)
        step_sizes = torch.full((UNROLLED_STEPS,), self.settings.step_size, dtype=self.dtype, device=self.device)
        try:
            unrolled = self._compiled_steps(carry.state, noise, step_sizes)
            unrolled(self.points, self.factor, carry.state, noise, step_sizes)
            shape = (self.block_steps, len(carry.state.position))
            draw_noise(generator, shape, self.factor, self.problem, self.method, self.settings, mix=compiled_mix)
        except Exception as error:
            # No C++ compiler, say, or any other of a compiler's many ways to fail: a slow run is better than none.
            reason = next(iter(str(error).splitlines()), "no reason given")
            warnings.warn(
                f"the steps could not be compiled and run eagerly ({type(error).__name__}: {reason})", stacklevel=2
            )
        else:
            self.unrolled, self.mix = unrolled, compiled_mix

    @torch.no_grad()
    def advance(self, carry: Carry, num_steps: int) -> tuple[Carry, Draws]:
        thin = self.settings.thin
        state, generator, first, finite_steps = carry
        chains, num_parameters = state.position.shape
        num_draws = num_steps // thin
        # One slot more than draws: for the steps after the last whole stride.
        positions = state.position.new_zeros((num_draws + 1, chains, num_parameters))
        acceptance, variance = state.position.new_zeros((2, num_draws + 1, chains))
        for done in range(0, num_steps, self.block_steps):
            length = min(self.block_steps, num_steps - done)
            noise = draw_noise(
                generator,
                (length, chains),
                self.factor,
                self.problem,
                self.method,
                self.settings,
                # Compiled for whole blocks only.
                mix=self.mix if length == self.block_steps else mix,
            )
            trail = self._block(state, noise, decayed_steps(self.settings, first + done, length).to(self.device))
            state = trail.state
            # Bookkeeping for a block at once: step by step it would cost as much as the steps.
            slots = torch.arange(done, done + length, device=self.device) // thin
            # A block may hold no end of a stride, or several.
            ends = trail.positions[-(done + 1) % thin :: thin]
            positions[done // thin : done // thin + len(ends)] = ends
            acceptance.index_add_(0, slots, trail.accepted.to(self.dtype), alpha=1 / thin)
            variance.index_add_(0, slots, trail.variances, alpha=1 / thin)
            finite_steps = finite_steps + trail.finite.sum(dim=0)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        kept = (array[:num_draws].transpose(0, 1).cpu().numpy() for array in (positions, acceptance, variance))
        return Carry(state, generator, first + num_steps, finite_steps), Draws(*kept)

    def _block(self, state: State, noise: Noise, step_sizes: Tensor) -> Trail:
        """The steps of a block: by compiled pieces as far as they go, eagerly where there are none."""
        trails = []
        piece = UNROLLED_STEPS if self.unrolled else len(step_sizes)
        for part, sizes in zip(split(noise, piece), step_sizes.split(piece), strict=True):
            run = self.unrolled if self.unrolled and len(sizes) == piece else self._steps
            trails.append(run(self.points, self.factor, state, part, sizes))
            state = trails[-1].state
        return Trail(state, *(torch.cat(parts) for parts in list(zip(*trails, strict=True))[1:]))

    def finite_steps(self, carry: Carry) -> np.ndarray:
        return carry.finite_steps.cpu().numpy()

    @torch.no_grad()
    def audit(self, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        weight = self.problem.target_weight(self.settings.weight, self.settings.batch_size)
        count = points_of_delta(self.settings)
        generator = self._generator(seed, stream=1)
        points = self.points._replace(together=self._together(self.problem.num_points))

        def one(position: Tensor, step: int) -> dict[str, Tensor]:
            noise = draw_noise(generator, (1,), self.factor, self.problem, self.method, self.settings)
            (step_size,) = decayed_steps(self.settings, step, 1).to(self.device)
            state = self.step.visit(position[None], points)
            arrived, info = self.step.consider(points, self.factor, state, noise, step_size, is_audit=True)
            before, after = (point_losses(place.position, points.together, self.problem) for place in (state, arrived))
            drop = log_prior(state.position, self.problem) - log_prior(arrived.position, self.problem)
            true_delta, _ = estimate_of_all(after - before, drop, weight)
            true_variance = known_variance(after - before, weight, count) if count else torch.zeros_like(true_delta)
            return {
                "log_ratio_proposal": info.log_ratio,
                "delta": info.delta,
                "variance": info.variance,
                "log_accept": info.log_accept,
                "log_uniform": noise.log_uniforms,
                "true_delta": true_delta,
                "true_variance": true_variance,
            }

        rows = [one(position, step) for position, step in zip(self._put(positions), steps.tolist(), strict=True)]
        return {name: torch.cat([row[name] for row in rows]).cpu().numpy() for name in rows[0]}

    def to_arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        tensors = carry.state._asdict() | {"generator": carry.generator.get_state(), "finite_steps": carry.finite_steps}
        return {name: tensor.cpu().numpy() for name, tensor in tensors.items()} | {
            "num_steps": np.array(carry.num_steps)
        }

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Carry:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        state = State(*(tensors[name].to(self.device) for name in State._fields))
        generator = torch.Generator(self.device)
        generator.set_state(tensors["generator"])
        return Carry(state, generator, int(arrays["num_steps"]), tensors["finite_steps"].to(self.device))


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


def split(noise: Noise, length: int) -> list[Noise]:
    """A block of noise in parts of so many steps, cut all at once because one by one would cost more."""
    return [Noise(*part) for part in zip(*(tensor.split(length) for tensor in noise), strict=True)]


def unbind(noise: Noise) -> list[Noise]:
    """The steps of a block of noise, cut apart all at once because an index a step would cost more."""
    return [Noise(*step) for step in zip(*(tensor.unbind() for tensor in noise), strict=True)]


def decayed_steps(settings: Settings, first: int, count: int) -> Tensor:
    """eta_t = eta (1 + t / decay_start)^-decay: constant for decay 0, else Welling and Teh's schedule."""
    steps = torch.arange(first, first + count, dtype=torch.float64)
    sizes = settings.step_size * (1 + steps / (settings.decay_start or 1)) ** -(settings.decay or 0)
    return sizes.to(getattr(torch, settings.dtype))


def build_sampler(problem: Problem, method: str, settings: Settings, device: str) -> TorchSampler:
    """The sampler on ``cpu`` or ``gpu``. Raises DeviceMissing."""
    if device == "gpu" and not torch.cuda.is_available():
        raise DeviceMissing("no CUDA device")
    return TorchSampler(problem, method, settings, torch.device("cuda" if device == "gpu" else "cpu"))
