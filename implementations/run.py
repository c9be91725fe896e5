"""One run: sampling, with progress and checkpoints on the way, and ``run.json`` and ``draws.npz`` at its end."""

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from implementations import checkpoint
from implementations.backends import Draws
from implementations.infrastructure.files import Damaged
from implementations.infrastructure.peak_memory import PeakMemory
from implementations.infrastructure.progress import Reporter, Stream
from implementations.infrastructure.provenance import git_state, machine, versions
from implementations.methods import find_method, source_of
from implementations.plugins import checksum
from implementations.run_files import write_run
from implementations.sampling import Progress, Resume, Sampled, sample
from implementations.settings import Settings
from implementations.tasks.problem import Problem
from implementations.tuning.pilot import TunedApart


@dataclass(frozen=True)
class Job:
    """What is to be run: all that determines the draws."""

    problem: Problem
    #: The name of a card, or a reference to one (implementations.methods.find_method).
    method: str
    settings: Settings
    backend: str
    seed: int
    #: What stands in the place of a pilot run, where one was made for all seeds.
    tuned: TunedApart | None = None

    @property
    def target_weight(self) -> float:
        return self.settings.target_weight(self.problem.num_points)

    def identity(self) -> dict[str, Any]:
        """The job in plain values, the problem by its checksum."""
        card = find_method(self.method)
        source = source_of(card)
        return {
            **self.problem.identity(),
            "method": card.name,
            # A file that has changed is another method, one that was moved is not.
            **({"method_sha256": checksum(source)} if source else {}),
            "backend": self.backend,
            "seed": self.seed,
            "settings": self.settings.as_dict(),
            **({"tuned": self.tuned.record["chosen"]} if self.tuned and self.tuned.record else {}),
        }


def run(
    job: Job,
    out: Path,
    *,
    is_audited: bool = True,
    checkpoint_seconds: float = 30.0,
    stream: Stream | None = None,
    place: str | None = None,
) -> dict[str, Any]:
    """Sample, and write ``run.json`` and ``draws.npz`` into ``out``; returns the content of ``run.json``.

    Killed at any moment and called again, it goes on from its checkpoint and ends with the very same draws. A chain
    that becomes non-finite ends the run as ``diverged``, a missing device as ``skipped``: both are results.
    Progress goes to ``stream``, or to the standard error of the moment. ``place`` is the run's own in a study: its
    files say it, so that files of another run in their place are noticed.
    """
    stream = stream or sys.stderr
    started_at = datetime.now(UTC)
    # Now, and not at the end: a method's file may change while the run is under way.
    identity = job.identity() | ({"run": place} if place else {})
    path = out / "checkpoint.npz"
    memory = PeakMemory()
    name = f"{job.problem.task} {job.method} {job.backend} seed {job.seed}"
    with Reporter(name, job.settings.num_warmup + job.settings.num_steps, stream) as report:
        save = Saver(path, _checkpoint_identity(identity), checkpoint_seconds)

        def on_chunk(progress: Progress, draws: Draws, carry: Callable[[], dict[str, np.ndarray]]) -> None:
            report(progress.num_steps, draws.acceptance)
            memory.note()
            save(progress, carry)

        sampled = sample(
            job.problem,
            job.method,
            job.settings,
            job.backend,
            job.seed,
            resume=_resume(identity, path, stream),
            on_chunk=on_chunk,
            is_audited=is_audited,
            tuned=job.tuned,
        )
    content = {
        "status": sampled.status,
        "reason": sampled.reason,
        "warning": "; ".join(sampled.warnings) or None,
        **({} if sampled.diverged_at_step is None else {"diverged_at_step": sampled.diverged_at_step}),
        **_counters(job, sampled),
        **_tuning(sampled.progress),
        "method_source": source_of(find_method(job.method)),
        "method_acceptance": find_method(job.method).acceptance,
        "target_weight": job.target_weight,
        "num_points": job.problem.num_points,
        "num_parameters": job.problem.num_parameters,
        "started_at": started_at.isoformat(),
        "ended_at": datetime.now(UTC).isoformat(),
        "peak_memory_mb": memory.mb,
        "memory_before_mb": memory.before_mb,
        "is_peak_memory_of_run": memory.is_of_run,
        "versions": versions(),
        **git_state(),
        **machine(),
    }
    for sentence in sampled.warnings:
        print(f"warning: {sentence}", file=stream)
    audit_arrays = {f"audit_{name}": array for name, array in sampled.audit.items()}
    draws = sampled.draws
    kept = {"draws": draws.positions, "acceptance": draws.acceptance, "variance": draws.variance}
    record = write_run(out, identity, content, kept | audit_arrays)
    path.unlink(missing_ok=True)
    return record


class Saver:
    """Writes a checkpoint after a chunk, when the last one is old enough."""

    def __init__(self, path: Path, identity: dict[str, Any], seconds: float) -> None:
        self.path, self.identity, self.seconds = path, identity, seconds
        self.saved_at = time.monotonic()

    def __call__(self, progress: Progress, carry: Callable[[], dict[str, np.ndarray]]) -> None:
        if time.monotonic() - self.saved_at >= self.seconds:
            checkpoint.save(self.path, progress, carry(), self.identity)
            self.saved_at = time.monotonic()


def _checkpoint_identity(identity: dict[str, Any]) -> dict[str, Any]:
    """Other versions of the libraries might round differently, and the draws would be of two kinds."""
    return identity | {"versions": versions()}


def _resume(identity: dict[str, Any], path: Path, stream: Stream) -> Resume | None:
    """Where an interrupted run left off, if it did."""
    try:
        resume = checkpoint.load(path, _checkpoint_identity(identity))
    except FileNotFoundError:
        return None
    except Damaged as reason:
        print(f"{reason}; the run starts afresh", file=stream)
        return None
    print(f"going on from {path}, step {resume[0].num_steps}", file=stream)
    return resume


def _counters(job: Job, sampled: Sampled) -> dict[str, Any]:
    """Times and counts of the sampling phase; compilation and warm-up stand apart."""
    progress, draws = sampled.progress, sampled.draws
    return {
        "acceptance_rate": _mean(draws.acceptance),
        # 0 where the method estimates none, or cannot: one point tells nothing of its spread.
        "mean_variance": _mean(draws.variance) or None,
        "num_draws": draws.positions.shape[1],
        "num_steps_done": progress.num_steps,
        "likelihood_evaluations": progress.num_likelihoods,
        "gradient_evaluations": progress.num_gradients,
        "wall_clock_s": progress.seconds["sampling"],
        "cpu_s": progress.cpu_seconds["sampling"],
        "warmup_s": progress.seconds["warmup"],
        "warmup_cpu_s": progress.cpu_seconds["warmup"],
        "anchor_cpu_s": sampled.anchor_cpu_seconds,
        "compile_s": progress.seconds["compile"],
        "compile_cpu_s": progress.cpu_seconds["compile"],
        # With the compilation of its own code, which in jax takes longer than the audit itself.
        "audit_cpu_s": progress.cpu_seconds["audit"],
        # Another run of its form, earlier in the same process, may have compiled its loop, and bears the time of it.
        "has_compiled": sampled.has_compiled,
        # With a cache, the time of compilation is that of a look-up after the first run of its kind.
        "has_compilation_cache": bool(os.environ.get("JAX_COMPILATION_CACHE_DIR")),
    }


def _tuning(progress: Progress) -> dict[str, Any]:
    """What a pilot run chose and took; nothing where nothing was ``auto``."""
    found = progress.tuning
    if found is None:
        return {}
    return {
        "tuning": found,
        "tuned_settings": ", ".join(found["chosen"]),
        "tuning_evaluations": found["num_likelihoods"] + found["num_gradients"],
        "tuning_s": progress.seconds["tuning"],
        "tuning_cpu_s": progress.cpu_seconds["tuning"],
    }


def _mean(array: np.ndarray) -> float | None:
    """The mean, or None where there is none."""
    mean = float(np.mean(array, dtype=float)) if array.size else math.nan
    return mean if math.isfinite(mean) else None
