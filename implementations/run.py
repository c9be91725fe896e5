"""One run: a method on a problem, from its start points to ``run.json`` and ``draws.npz``."""

import math
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from implementations import checkpoint
from implementations.backends import DeviceMissing, Draws, Sampler, build_sampler, use_one_thread
from implementations.checkpoint import Progress
from implementations.files import write_json, write_npz
from implementations.methods import METHODS, Settings, evaluations_per_step, points_of_delta
from implementations.progress import Reporter, Stream
from implementations.provenance import git_state, machine, versions
from implementations.schedule import chunks
from implementations.tasks.geometry import start_points
from implementations.tasks.problem import Problem

#: Positions from which the decision audit makes one move each; enough for a rate to within two per cent.
NUM_AUDITED = 500


@dataclass(frozen=True)
class Job:
    """What is to be run: all that determines the draws."""

    problem: Problem
    method: str
    settings: Settings
    backend: str
    seed: int

    @property
    def target_weight(self) -> float:
        return self.problem.target_weight(self.settings.weight, self.settings.batch_size)

    def identity(self) -> dict[str, Any]:
        """The job in plain values, the problem by its checksum."""
        return {
            **self.problem.identity(),
            "method": self.method,
            "backend": self.backend,
            "seed": self.seed,
            "settings": self.settings.as_dict(),
        }


def run(
    job: Job,
    out: Path,
    *,
    is_audited: bool = True,
    checkpoint_seconds: float = 30.0,
    stream: Stream = sys.stderr,
) -> dict[str, Any]:
    """Sample, and write ``run.json`` and ``draws.npz`` into ``out``; returns the content of ``run.json``.

    Killed at any moment and called again, it goes on from its checkpoint and ends with the very same draws. A chain
    that leaves the finite numbers ends the run as ``diverged``, a missing device as ``skipped``: both are results.
    """
    started_at = datetime.now(UTC)
    path = out / "checkpoint.npz"
    audit: dict[str, np.ndarray] = {}
    peak_memory_mb = _peak_memory_mb()
    try:
        use_one_thread(job.backend)
        sampler = build_sampler(job.backend, job.problem, job.method, job.settings)
        progress, finite_steps = _sample(sampler, job, path, checkpoint_seconds, stream)
        outcome = _outcome(progress, finite_steps)
        draws = progress.draws(job.settings.chains, job.problem.num_parameters)
        # Before the audit, which looks at all points and is no part of the sampler.
        peak_memory_mb = _peak_memory_mb()
        if outcome["status"] == "ok" and is_audited and METHODS[job.method].is_minibatch:
            audit = sampler.audit(*_audited(draws, job.settings), job.seed)
    except DeviceMissing as missing:
        progress, outcome = Progress(), {"status": "skipped", "reason": str(missing)}
        draws = progress.draws(job.settings.chains, job.problem.num_parameters)
    record = {
        **job.identity(),
        **outcome,
        **_counters(job, progress, draws),
        "target_weight": job.target_weight,
        "num_points": job.problem.num_points,
        "num_parameters": job.problem.num_parameters,
        "started_at": started_at.isoformat(),
        "ended_at": datetime.now(UTC).isoformat(),
        "peak_memory_mb": peak_memory_mb,
        "versions": versions(),
        **git_state(),
        **machine(),
    }
    audit_arrays = {f"audit_{name}": array for name, array in audit.items()}
    kept = {"draws": draws.positions, "acceptance": draws.acceptance, "variance": draws.variance}
    write_npz(out / "draws.npz", kept | audit_arrays)
    # Last, so that a run.json means a finished run.
    write_json(out / "run.json", record)
    path.unlink(missing_ok=True)
    return record


def _sample(
    sampler: Sampler, job: Job, path: Path, checkpoint_seconds: float, stream: Stream
) -> tuple[Progress, np.ndarray]:
    """Run the chunks that are left; the progress, and the steps after which each chain was finite."""
    progress, carry = _resume(sampler, job, path, stream)
    with _clock(progress, "compile"):
        sampler.compile(carry)
    saved_at = time.monotonic()
    name = f"{job.problem.task} {job.method} {job.backend} seed {job.seed}"
    with Reporter(name, job.settings.num_warmup + job.settings.num_steps, stream) as report:
        for chunk in list(chunks(job.settings))[progress.num_chunks :]:
            with _clock(progress, "warmup" if chunk.is_warmup else "sampling"):
                carry, draws = sampler.advance(carry, chunk.num_steps)
            progress.add(chunk, draws)
            report(progress.num_steps, draws.acceptance)
            if sampler.finite_steps(carry).min() < progress.num_steps:
                break
            if time.monotonic() - saved_at >= checkpoint_seconds:
                checkpoint.save(path, progress, sampler.to_arrays(carry), _checkpoint_identity(job))
                saved_at = time.monotonic()
    return progress, sampler.finite_steps(carry)


def _checkpoint_identity(job: Job) -> dict[str, Any]:
    """Other versions of the libraries might round differently, and the draws would be of two kinds."""
    return job.identity() | {"versions": versions()}


def _resume(sampler: Sampler, job: Job, path: Path, stream: Stream) -> tuple[Progress, Any]:
    """Where an interrupted run left off, or the start."""
    if path.exists():
        try:
            progress, carry = checkpoint.load(path, _checkpoint_identity(job))
        except checkpoint.Refused as reason:
            print(f"{path} is not used and the run starts afresh: {reason}", file=stream)
        else:
            print(f"going on from {path}, step {progress.num_steps}", file=stream)
            return progress, sampler.from_arrays(carry)
    positions = start_points(job.problem, job.target_weight, job.settings.chains, job.seed)
    return Progress(), sampler.start(positions, job.seed)


@contextmanager
def _clock(progress: Progress, phase: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    progress.seconds[phase] += time.perf_counter() - wall
    progress.cpu_seconds[phase] += time.process_time() - cpu


def _audited(draws: Draws, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Kept positions (k, P), evenly over all chains, and the number of steps (k,) that led to each."""
    chains, num_draws, num_parameters = draws.positions.shape
    steps = settings.num_warmup + settings.thin * np.arange(1, num_draws + 1)
    chosen = slice(None, None, math.ceil(chains * num_draws / NUM_AUDITED))
    return draws.positions.reshape(-1, num_parameters)[chosen], np.tile(steps, chains)[chosen]


def _outcome(progress: Progress, finite_steps: np.ndarray) -> dict[str, Any]:
    if finite_steps.min() == progress.num_steps:
        return {"status": "ok", "reason": None}
    chain, step = int(finite_steps.argmin()), int(finite_steps.min()) + 1
    reason = f"chain {chain} left the finite numbers at step {step}; lower step_size"
    return {"status": "diverged", "reason": reason, "diverged_at_step": step}


def _peak_memory_mb() -> float:
    """The most memory that this process has had, in MiB; the system counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _counters(job: Job, progress: Progress, draws: Draws) -> dict[str, Any]:
    """Times and counts of the sampling phase; compilation and warm-up stand apart."""
    likelihoods, gradients = evaluations_per_step(METHODS[job.method], job.settings, job.problem.num_points)
    chain_steps = progress.num_sampling_steps * job.settings.chains
    return {
        "acceptance_rate": _mean(draws.acceptance),
        # One point, as ``naive`` may take, tells nothing of its spread.
        "mean_variance": _mean(draws.variance) if points_of_delta(job.settings) > 1 else None,
        "num_draws": draws.positions.shape[1],
        "num_steps_done": progress.num_steps,
        "likelihood_evaluations": likelihoods * chain_steps,
        "gradient_evaluations": gradients * chain_steps,
        "wall_clock_s": progress.seconds["sampling"],
        "cpu_s": progress.cpu_seconds["sampling"],
        "warmup_s": progress.seconds["warmup"],
        "compile_s": progress.seconds["compile"],
        # With a cache, the time of compilation is that of a look-up after the first run of its kind.
        "has_compilation_cache": bool(os.environ.get("JAX_COMPILATION_CACHE_DIR")),
    }


def _mean(array: np.ndarray) -> float | None:
    """The mean, or None where there is none to tell."""
    mean = float(np.mean(array, dtype=float)) if array.size else math.nan
    return mean if math.isfinite(mean) else None
