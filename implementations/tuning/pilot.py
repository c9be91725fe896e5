"""Tuning by the noise: ``step_size: auto`` and ``num_batches: auto``, by a pilot run before the chains.

The log acceptance of a move in many dimensions is nearly N(-v / 2, v), of which v = l^2 + sigma^2 is made of the
target's own differences and of the noise of mini-batches, and then E[A] = 2 Phi(-sqrt(v) / 2). So the best acceptance
is a best v. The step is the largest at which

    v <= that of the best acceptance,     sigma^2 <= what the bias budget allows (implementations.tuning.noise_budget)

and the mini-batches are the fewest at which sigma^2 is within the budget and at most half of v: of steps that cost
what their points cost, more noise than that wastes acceptance, and less wastes points.

The pilot's chains have random numbers and start points of their own, so what they find depends on the run's seed and on
nothing else. They are thrown away: the run begins afresh with numbers that stay.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from implementations.backends import Draws, Sampler, build_sampler
from implementations.card import Card
from implementations.infrastructure.errors import SettingError
from implementations.kernels.estimates import finite_factor, points_of_delta, population
from implementations.settings import Settings, least_batches
from implementations.tasks.problem import Problem
from implementations.tuning.noise_budget import largest_variance, shared_skewness

#: Its random numbers are apart from those of the run, which has the bare seed.
STREAM = 17
#: Steps of a round, after which the step size is set again, and rounds of a stage, if its steps suffice.
SHORTEST_ROUND, LONGEST_ROUND, NUM_ROUNDS = 10, 250, 20
#: Steps that a sampler is built for at the least, so that a round fits into one chunk.
SHORTEST_PILOT = 300
#: Steps over which the pilot averages the variance; longer strides of a run would leave too few of them.
LONGEST_STRIDE = 25
#: By how much the logarithm of a step may change after a round.
LARGEST_CHANGE = 2.0
#: Rounds whose changes are made in full; later ones are damped, and the second half of all is averaged.
NUM_FULL = 3
#: The least share of v that is taken for the target's own: below, it cannot be distinguished from the noise.
LEAST_SHARE = 0.1
#: Moves whose noise is looked at by all points, to see how skewed it is; fewer where these are many.
NUM_LOOKED_AT, MOST_LOOKED_AT = 32, 4_000_000
#: By how much more mini-batches may enlarge the step of the stage before them.
LARGEST_GROWTH = 100.0


@dataclass(frozen=True)
class Tuned:
    """What a pilot run found, and what it took."""

    #: The settings that were ``auto``.
    chosen: dict[str, float | int]
    why: str
    acceptance: float | None
    num_steps: int
    num_likelihoods: int
    num_gradients: int
    #: Evaluations that were allowed; None: as many steps as the warm-up has.
    budget: int | None
    compile_seconds: float
    compile_cpu_seconds: float
    #: None where the step was found by a ladder.
    best_acceptance: float | None = None
    #: Median of the pilot's variances, and what the bias budget allows; None for a method without noise.
    variance: float | None = None
    largest_variance: float | None = None
    #: Of one point's share in the loss difference, as the pilot's moves have it in common; None: not measured.
    skewness: float | None = None
    #: What stands in the way of the aims, and what would help.
    warning: str | None = None
    #: What was found at each step of a ladder (implementations.tuning.ladder).
    rungs: list[dict[str, Any]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """In plain values."""
        dropped = {"compile_seconds", "compile_cpu_seconds", *(() if self.rungs else ("rungs",))}
        return {name: value for name, value in asdict(self).items() if name not in dropped}


@dataclass(frozen=True)
class TunedApart:
    """A tuning that was made before the run, once for all seeds of its setting (workflows.steps.tune)."""

    #: That of ``Tuned``, and what the pilots ran on; None where the method cannot be run.
    record: dict[str, Any] | None
    #: Why it cannot.
    skipped: str | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Seen(NamedTuple):
    """What a stage of the pilot saw at its step size."""

    step_size: float
    acceptance: float
    variance: float


def tune(problem: Problem, card: Card, settings: Settings, backend: str, seed: int, budget: int | None = None) -> Tuned:
    """Numbers for the settings that are ``auto``, found within ``budget`` evaluations of single points.

    Without a budget the pilot makes as many steps as the warm-up has. Raises Skipped, and SettingError for a budget
    that is too small.
    """
    pilot = NoisePilot(problem, card, backend, pilot_seed(seed), budget)
    defaults = {name: card.settings[name].default_for(problem.num_parameters) for name in settings.automatic}
    start, is_stepped, warning = replace(settings, **defaults), "step_size" in settings.automatic, None
    if "num_batches" in settings.automatic:
        least, most = least_batches(start), problem.num_points // (start.batch_size or 1)
        start = replace(start, num_batches=min(max(start.num_batches, least), most))
        # Half of what there is, by code that no long run will share.
        short = replace(start, num_steps=SHORTEST_PILOT, num_warmup=0)
        first = pilot.stage(short, is_stepped, settings.num_warmup // 2, share=0.5)
        start, warning = _fewest_batches(pilot, start, first, is_stepped)
    seen = pilot.stage(start, is_stepped, settings.num_warmup - pilot.num_steps)
    found = replace(start, step_size=_rounded(seen.step_size)) if is_stepped else start
    limit, noise, why = pilot.largest_variance(found), {}, f"acceptance {seen.acceptance:.2f}, best {pilot.best:g}"
    if math.isfinite(limit):
        noise = {"variance": seen.variance, "largest_variance": limit, "skewness": pilot.skewness}
        why += f"; variance {seen.variance:.2g}, at most {limit:.2g}"
    chosen = {name: getattr(found, name) for name in settings.automatic}
    return pilot.tuned(chosen, why, seen.acceptance, best_acceptance=pilot.best, warning=warning, **noise)


@dataclass
class Pilot:
    """Chains that a run is tuned by, and what they have cost so far."""

    problem: Problem
    card: Card
    backend: str
    seed: int
    budget: int | None = None
    num_steps: int = 0
    num_likelihoods: int = 0
    num_gradients: int = 0
    compile_seconds: float = 0.0
    compile_cpu_seconds: float = 0.0

    @property
    def num_evaluations(self) -> int:
        return self.num_likelihoods + self.num_gradients

    @property
    def left(self) -> float:
        """Evaluations of the budget."""
        return math.inf if self.budget is None else self.budget - self.num_evaluations

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Time what is compilation, or nearly all of it."""
        started, cpu_started = time.perf_counter(), time.process_time()
        yield
        self.compile_seconds += time.perf_counter() - started
        self.compile_cpu_seconds += time.process_time() - cpu_started

    def started(self, sampler: Sampler, positions: np.ndarray) -> Any:
        """A carry of chains that begin at these positions."""
        carry = sampler.start(positions, self.seed)
        with self.compiling():
            sampler.compile(carry)
        return carry

    def advance(self, sampler: Sampler, carry: Any, num_steps: int, is_warmup: bool = False) -> tuple[Any, Draws]:
        carry, draws, costs = sampler.advance(carry, num_steps, is_warmup)
        self.num_steps += num_steps
        self.num_likelihoods += int(costs.num_likelihoods.sum())
        self.num_gradients += int(costs.num_gradients.sum())
        return carry, draws

    def tuned(self, chosen: dict[str, float | int], why: str, acceptance: float | None, **found: Any) -> Tuned:
        return Tuned(
            chosen=chosen,
            why=why,
            acceptance=acceptance,
            num_steps=self.num_steps,
            num_likelihoods=self.num_likelihoods,
            num_gradients=self.num_gradients,
            budget=self.budget,
            compile_seconds=self.compile_seconds,
            compile_cpu_seconds=self.compile_cpu_seconds,
            **found,
        )


@dataclass
class NoisePilot(Pilot):
    """Chains whose step and mini-batches follow from their acceptance and their noise."""

    positions: np.ndarray | None = field(default=None, repr=False)
    #: Of one point, as moves of the latest stage have it in common.
    skewness: float | None = None

    @property
    def best(self) -> float:
        """The share of accepted moves to aim at."""
        best = self.card.best_acceptance
        assert best is not None, "refused by Card.resolve"
        return best

    def stage(self, settings: Settings, is_stepped: bool, num_steps: int, share: float = 1.0) -> Seen:
        """So many steps at the most, and a share of the evaluations that are left, in rounds after each of which the
        step size is set again; the chains go on where the stage before left them."""
        stride = settings.thin if settings.thin <= LONGEST_STRIDE else SHORTEST_ROUND
        settings = replace(settings, thin=stride, num_steps=max(settings.num_steps, SHORTEST_PILOT))
        sampler = build_sampler(self.backend, self.problem, self.card, settings)
        if self.positions is None:
            self.positions = sampler.inputs.starts(self.seed)
        carry = self.started(sampler, self.positions)
        rounds: list[Seen] = []
        step_size, length = settings.step_size, _whole(SHORTEST_ROUND, stride)
        last_step, last_evaluation = self.num_steps + num_steps, self.num_evaluations + share * self.left
        while True:
            before = self.num_evaluations
            carry, draws = self.advance(sampler.at_step_size(step_size), carry, length, is_warmup=True)
            if self.left < 0:
                raise SettingError(
                    f"a tuning of {self.budget} evaluations is too short for {self.card.name} on "
                    f"{self.problem.task!r}: {self.num_steps} steps take {self.num_evaluations}; raise it"
                )
            rounds.append(Seen(step_size, float(draws.acceptance.mean()), float(np.median(draws.variance))))
            cost = (self.num_evaluations - before) / length
            if len(rounds) == 1:
                # Now that the cost of a step is known.
                left = min(last_step - self.num_steps, (last_evaluation - self.num_evaluations) / max(cost, 1))
                length = _whole(min(max(left / NUM_ROUNDS, SHORTEST_ROUND), LONGEST_ROUND), stride)
            if len(rounds) == NUM_FULL:
                # The step is about right now, and most of the stage is still to come.
                self._look(sampler.at_step_size(step_size), settings, draws.positions)
            if is_stepped:
                change = self._change(rounds[-1], settings, length * settings.chains)
                step_size = min(
                    step_size * math.exp(change * min(1.0, NUM_FULL / len(rounds))),
                    self.card.settings["step_size"].maximum,
                )
            if self.num_steps + length > last_step or self.num_evaluations + cost * length > last_evaluation:
                break
        self.positions = draws.positions[:, -1]
        steps, acceptances, variances = map(np.array, zip(*rounds[len(rounds) // 2 :], strict=True))
        return Seen(float(np.exp(np.log(steps).mean())), float(acceptances.mean()), float(np.median(variances)))

    def _change(self, seen: Seen, settings: Settings, count: int) -> float:
        """How far the logarithm of the step is from where both aims are met, as v and sigma^2 grow like the step."""
        of_acceptance = log_acceptance_variance(self.best) / log_acceptance_variance(seen.acceptance, count)
        limit = self.largest_variance(settings)
        of_noise = limit / seen.variance if seen.variance > 0 else math.inf
        change = math.log(min(of_acceptance, of_noise))
        return max(-LARGEST_CHANGE, min(LARGEST_CHANGE, change))

    def largest_variance(self, settings: Settings) -> float:
        """What the bias budget allows, given the skewness that was seen."""
        return largest_variance(self.card.acceptance, settings.shapes, self.skewness)

    def _look(self, sampler: Sampler, settings: Settings, positions: np.ndarray) -> None:
        """Measure the skewness of the noise at moves from these positions (chains, draws, P), if that is affordable."""
        of_move = 2 * self.problem.num_points
        number = int(min(NUM_LOOKED_AT, max(MOST_LOOKED_AT // of_move, 2), self.left // (2 * of_move)))
        if math.isinf(largest_variance(self.card.acceptance, settings.shapes)) or number < 2:
            return
        places = positions.reshape(-1, positions.shape[-1])
        places = places[np.linspace(0, len(places) - 1, number).astype(int)]
        # Nearly all of it is compilation.
        with self.compiling():
            found = sampler.weigh("audit", places, np.full(number, self.num_steps), self.seed)
        self.num_likelihoods += number * of_move
        self.skewness = shared_skewness(found, settings.shapes)


def pilot_seed(seed: int) -> int:
    """That of a pilot: its own, and fixed by the run's."""
    return int(np.random.SeedSequence([seed, STREAM]).generate_state(1)[0] // 2)


def log_acceptance_variance(acceptance: float, count: float = 1e6) -> float:
    """v of E[A] = 2 Phi(-sqrt(v) / 2); an acceptance that was seen in ``count`` moves is neither 0 nor 1."""
    # Every run imports this module, and few are tuned.
    from scipy.special import ndtri

    margin = 0.5 / count
    return float((2 * ndtri(min(max(acceptance, margin), 1 - margin) / 2)) ** 2)


def _fewest_batches(pilot: NoisePilot, settings: Settings, seen: Seen, is_stepped: bool) -> tuple[Settings, str | None]:
    """The settings with the fewest mini-batches that meet the aims, and the step that goes with them; where none do,
    with the most there are, and what would."""
    card, num_points = pilot.card, pilot.problem.num_points
    step_size, best = seen.step_size, log_acceptance_variance(pilot.best)
    if is_stepped:
        # What the noise leaves of v is the target's own, and grows like the step.
        own = max(log_acceptance_variance(seen.acceptance) - seen.variance, LEAST_SHARE * seen.variance)
        longest = math.inf if own == 0 else step_size * (best - _most_noise(pilot, settings)) / own
        step_size = min(longest, LARGEST_GROWTH * step_size, card.settings["step_size"].maximum)
    # The variance of one point's share in the loss difference, at this step.
    spread = seen.variance * (step_size / seen.step_size) / max(_per_variance(settings, num_points), 1e-12)
    most = num_points // (settings.batch_size or 1)
    for number in ladder(least_batches(settings), most):
        found = replace(settings, num_batches=number, step_size=step_size)
        variance, aim = spread * _per_variance(found, num_points), _most_noise(pilot, found)
        if variance <= aim:
            return found, None
    share = aim / variance
    ways = [f"step_size = {_rounded(share * step_size):g}", f"a weight {1 / share:.2g} times smaller"]
    ways += [] if "anchor" in card.needs else ["control variates"]
    warning = (
        f"no num_batches with num_batches × batch_size <= {num_points} keeps the variance of the loss difference "
        f"within {aim:.2g} at step_size = {_rounded(step_size):g}, it is {variance:.2g} at {number}; "
        f"what would: {', or '.join(ways)}"
    )
    return replace(found, step_size=share * step_size) if is_stepped else found, warning


def _most_noise(pilot: NoisePilot, settings: Settings) -> float:
    """The variance that mini-batches are chosen for."""
    return min(pilot.largest_variance(settings), log_acceptance_variance(pilot.best) / 2)


def _per_variance(settings: Settings, num_points: int) -> float:
    """The estimated variance of the loss difference over that of one point's share in it."""
    count = points_of_delta(settings.shapes)
    drawn_from = population(num_points, settings.shapes)
    return finite_factor(settings.variance or "points", count, drawn_from) / count


def ladder(least: int, most: int) -> Iterator[int]:
    """1, 2, 3, 5, 7, 10, 15, 20, 30, … and ``most``: few numbers, so that seeds share tables and compiled code."""
    rungs = (int(rung * 10**power) for power in range(13) for rung in (1, 1.5, 2, 3, 5, 7) if rung * 10**power >= 2)
    yield from (rung for rung in (1, *rungs) if least <= rung < most)
    yield most


def _whole(steps: float, stride: int) -> int:
    """About so many steps, in whole strides."""
    return max(1, round(steps / stride)) * stride


def _rounded(number: float) -> float:
    """Two digits: the pilot knows no more, and seeds share tables."""
    return float(f"{number:.1e}")
