"""Sampling in memory: a method on a problem, from start points to draws, times and counts."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from implementations.backends import (
    Draws,
    Inputs,
    Sampler,
    Skipped,
    build_sampler,
    far_from_mode,
    use_one_thread,
)
from implementations.card import Card
from implementations.methods import find_method
from implementations.schedule import chunks, draw_steps
from implementations.settings import LADDER, Settings
from implementations.tasks.problem import Problem
from implementations.tuning.ladder import climb
from implementations.tuning.noise_budget import largest_variance, shared_skewness
from implementations.tuning.pilot import TunedApart, tune

#: Positions from which the decision audit makes one move each; enough for a rate to within two per cent.
NUM_AUDITED = 500
#: Those of them from which one more move is weighed again and again.
NUM_BALANCED = 100
#: Of tall data fewer moves are audited: as many as have so many points together.
MOST_AUDITED_POINTS = 500_000_000


#: A chain that accepts fewer of its moves stays where it began.
LEAST_ACCEPTANCE = 0.005
#: What a run's time goes into.
PHASES = ("tuning", "compile", "warmup", "sampling", "audit")


@dataclass
class Progress:
    """What a run has done so far; its chains' carry is apart, in the backend's own form."""

    num_chunks: int = 0
    num_steps: int = 0
    #: After the warm-up, whose evaluations do not count.
    num_likelihoods: int = 0
    num_gradients: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    cpu_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    #: What a pilot run chose for settings that were ``auto`` (implementations.tuning.pilot.Tuned).
    tuning: dict[str, Any] | None = None
    kept: list[Draws] = field(default_factory=list)

    def draws(self, chains: int, num_parameters: int) -> Draws:
        """The kept draws in order, up to the last that is finite in every chain."""
        nothing = np.zeros((chains, 0), np.float32)
        kept = self.kept or [Draws(np.zeros((chains, 0, num_parameters), np.float32), nothing, nothing)]
        draws = Draws(*(np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True)))
        is_finite = np.isfinite(draws.positions).all(axis=(0, 2))
        length = len(is_finite) if is_finite.all() else int(is_finite.argmin())
        return Draws(*(array[:, :length] for array in draws))

    def copy(self) -> Self:
        """What it is now; the draws themselves are shared."""
        return replace(self, seconds=dict(self.seconds), cpu_seconds=dict(self.cpu_seconds), kept=list(self.kept))

    @contextmanager
    def clock(self, phase: str) -> Iterator[None]:
        """Time a piece of a phase."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds[phase] += time.perf_counter() - wall
        self.cpu_seconds[phase] += time.process_time() - cpu


@dataclass(frozen=True)
class Sampled:
    """What came of it. ``status``: ``ok``; ``diverged`` where a chain became non-finite; ``skipped``, with a reason."""

    draws: Draws
    progress: Progress
    status: str
    reason: str | None = None
    diverged_at_step: int | None = None
    #: Did this run compile its loop? Another of its form, earlier in the same process, may have done it.
    has_compiled: bool = False
    #: Processor seconds that the anchor took, where there is one: found once for all runs of a problem and weight.
    anchor_cpu_seconds: float | None = None
    #: One move from each of some draws, weighed by the method and by all the data; empty where that makes no sense.
    audit: Mapping[str, np.ndarray] = field(default_factory=dict)
    #: What a reader must know before believing it.
    warnings: tuple[str, ...] = ()


#: Where a run can go on from: its progress, and the carry as plain arrays.
Resume = tuple[Progress, dict[str, np.ndarray]]
#: Called after each chunk with the progress, its draws, and a function that gives the carry as plain arrays.
OnChunk = Callable[[Progress, Draws, Callable[[], dict[str, np.ndarray]]], object]


def sample(
    problem: Problem,
    method: str,
    settings: Settings | Mapping[str, Any],
    backend: str = "jax-cpu",
    seed: int = 0,
    *,
    start: np.ndarray | None = None,
    resume: Resume | None = None,
    on_chunk: OnChunk | None = None,
    is_audited: bool = True,
    tuned: TunedApart | None = None,
) -> Sampled:
    """Run the chains of a method on a problem.

    ``settings`` may be a mapping, put over the method's defaults; what is ``auto`` in them is found first. Chains begin
    at ``start`` (chains, P), or around the mode with twice the posterior's spread (with control variates: once). From
    what ``on_chunk`` saw after any chunk, ``resume`` goes on to the same draws. ``tuned`` is taken in place of a pilot
    run of its own.
    """
    card = find_method(method)
    if not isinstance(settings, Settings):
        settings = card.resolve(settings, problem)
    # A copy, so that it can be gone on from again.
    progress = Progress() if resume is None else resume[0].copy()
    try:
        use_one_thread(backend)
        settings = _with_numbers(problem, card, settings, backend, seed, progress, tuned)
        sampler = build_sampler(backend, problem, card, settings)
    except Skipped as reason:
        return Sampled(progress.draws(settings.chains, problem.num_parameters), progress, "skipped", str(reason))
    inputs = sampler.inputs
    if resume is None:
        if start is None:
            start = inputs.starts(seed)
        if start.shape != (settings.chains, problem.num_parameters):
            raise ValueError(f"start points {start.shape} for {settings.chains} chains of {problem.num_parameters}")
        carry = sampler.start(start, seed)
        # What a run prepares for itself counts as its warm-up; the mode and its curvature serve everybody.
        for prepared in (inputs.selection, inputs.averages):
            progress.cpu_seconds["warmup"] += 0.0 if prepared is None else prepared.cpu_seconds
    else:
        _check_resume(progress, resume[1], sampler, settings, problem)
        carry = sampler.from_arrays(resume[1])
    with progress.clock("compile"):
        has_compiled = sampler.compile(carry)
    for chunk in list(chunks(settings))[progress.num_chunks :]:
        with progress.clock("warmup" if chunk.is_warmup else "sampling"):
            carry, draws, costs = sampler.advance(carry, chunk.num_steps, chunk.is_warmup)
        progress.num_chunks += 1
        progress.num_steps += chunk.num_steps
        if not chunk.is_warmup:
            progress.num_likelihoods += int(costs.num_likelihoods.sum())
            progress.num_gradients += int(costs.num_gradients.sum())
            progress.kept.append(draws)
        if sampler.finite_steps(carry).min() < progress.num_steps:
            break
        if on_chunk is not None:
            on_chunk(progress.copy(), draws, partial(sampler.to_arrays, carry))
    draws = progress.draws(settings.chains, problem.num_parameters)
    # Under a schedule of the step size only some draws stay.
    steps, is_late = (array[: draws.positions.shape[1]] for array in draw_steps(settings))
    draws, steps = Draws(*(array[:, is_late] for array in draws)), steps[is_late]
    finite_steps = sampler.finite_steps(carry)
    if finite_steps.min() < progress.num_steps:
        chain, step = int(finite_steps.argmin()), int(finite_steps.min()) + 1
        why = f"chain {chain} became non-finite at step {step}; lower step_size"
        return Sampled(draws, progress, "diverged", why, step, has_compiled)
    audit: dict[str, np.ndarray] = {}
    if is_audited:
        with progress.clock("audit"):
            # What reads all data has no wrong decisions to count, but its rule can still break the balance.
            if card.is_minibatch:
                audit = sampler.weigh("audit", *_audited(draws, steps, NUM_AUDITED, problem.num_points), seed)
            balance = sampler.weigh("balance", *_audited(draws, steps, NUM_BALANCED, problem.num_points), seed)
        audit |= {f"balance_{name}": array for name, array in balance.items()}
    return Sampled(
        draws,
        progress,
        "ok",
        has_compiled=has_compiled,
        anchor_cpu_seconds=None if inputs.anchor is None else inputs.anchor.cpu_seconds,
        audit=audit,
        warnings=tuple(_warnings(inputs, draws, audit, progress.tuning)),
    )


def _with_numbers(
    problem: Problem,
    card: Card,
    settings: Settings,
    backend: str,
    seed: int,
    progress: Progress,
    made: TunedApart | None,
) -> Settings:
    """The settings with numbers for what is ``auto``: those that a pilot run finds now, or found before."""
    is_climbed = settings.step_size == LADDER
    if not (settings.automatic or is_climbed):
        return settings
    if progress.tuning is None and made is not None:
        if made.record is None:
            raise Skipped(made.skipped)
        progress.tuning = made.record
        progress.seconds["tuning"], progress.cpu_seconds["tuning"] = made.seconds, made.cpu_seconds
    if progress.tuning is None:
        with progress.clock("tuning"):
            tuned = (climb if is_climbed else tune)(problem, card, settings, backend, seed)
        progress.tuning = tuned.record()
        progress.seconds["tuning"] -= tuned.compile_seconds
        progress.seconds["compile"] += tuned.compile_seconds
        progress.cpu_seconds["tuning"] -= tuned.compile_cpu_seconds
        progress.cpu_seconds["compile"] += tuned.compile_cpu_seconds
    return replace(settings, **progress.tuning["chosen"])


def _check_resume(
    progress: Progress, arrays: Mapping[str, np.ndarray], sampler: Sampler, settings: Settings, problem: Problem
) -> None:
    """Refuse what another method or other settings left behind, as far as its form tells."""
    done = sum(chunk.num_steps for chunk in list(chunks(settings))[: progress.num_chunks])
    if done != progress.num_steps:
        raise ValueError(f"resume: {progress.num_steps} steps are done, and these settings would have made {done}")
    fresh = sampler.to_arrays(sampler.start(np.zeros((settings.chains, problem.num_parameters)), 0))
    for name in sorted(fresh.keys() | arrays.keys()):
        there, here = (f"{each[name].dtype} {each[name].shape}" if name in each else "none" for each in (arrays, fresh))
        if there != here:
            raise ValueError(f"resume: {name} is {there} and must be {here}; it belongs to another method or setting")


def _audited(draws: Draws, steps: np.ndarray, number: int, num_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Kept positions (k, P), evenly over all chains, and the number of steps (k,) that led to each.

    There are k <= ``number`` of them, fewer where ``num_points`` are many.
    """
    chains, num_draws, num_parameters = draws.positions.shape
    affordable = min(number, MOST_AUDITED_POINTS // num_points + 1)
    chosen = slice(None, None, math.ceil(chains * num_draws / affordable))
    return draws.positions.reshape(-1, num_parameters)[chosen], np.tile(steps, chains)[chosen]


def _warnings(
    inputs: Inputs, draws: Draws, audit: Mapping[str, np.ndarray], tuning: Mapping[str, Any] | None
) -> Iterator[str]:
    """Of kept draws and audited moves, if any: noise beyond its budget is bias, and stops no run.

    Control variates around a wrong anchor, and chains that begin far out, are right in the end but noisy.
    """
    card, shapes = inputs.card, inputs.settings.shapes
    if inputs.anchor is not None and (sentence := far_from_mode(inputs.problem, inputs.anchor)):
        yield sentence
    if card.acceptance != "always" and draws.acceptance.size:
        # The worst chain: one far out hides among others that are not.
        limit = largest_variance(card.acceptance, shapes, shared_skewness(audit, shapes))
        variance = np.median(draws.variance, axis=1).max()
        if variance > limit:
            yield (
                f"the variance of the loss difference is {variance:.2g} (median of the noisiest chain), and the bias "
                f"budget allows {limit:.2g}; lower step_size, raise num_batches, or let 'auto' choose"
            )
        stuck = np.flatnonzero(draws.acceptance.mean(axis=1) < LEAST_ACCEPTANCE)
        if len(stuck):
            yield (
                f"chains {', '.join(map(str, stuck))} accept less than {LEAST_ACCEPTANCE:.1%} of their moves and are "
                "where they began; lower step_size, or begin nearer to the mode"
            )
    if tuning is not None and tuning["warning"]:
        yield tuning["warning"]
