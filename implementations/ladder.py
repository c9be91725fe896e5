"""Tuning on one budget for every method: ``step_size: ladder`` tries a ladder of steps by pilots of equal evaluations.

Rungs are factors of 2 around the method's own default, and beyond an end of the ladder as long as the best is there.
Each gets the same number of evaluations of single points. Of the steps whose temperature is within the bound and whose
effective draws in the run itself would be ENOUGH, the best has

    most effective draws of the slowest output per evaluation;

where no step gives ENOUGH, the best has most effective draws per step.

Pilots are too short to follow a slow chain through its autocorrelation. What they do tell is how far it moves: with v
the variance of an output, successive draws f and f' have the correlation r = 1 - E[(f' - f)^2] / 2v, and an
autoregression of that correlation has (1 - r) / (1 + r) effective draws for each. A chain that stands still has none.

The temperature (E[(theta - c) · grad U] / P, Wenzel et al. 2020) is 1 for draws of the target, whatever it is and for
any fixed c: an integral by parts. Of a Gaussian target it is the mean ratio of variances, and a step too large for a
method that is not exact raises it. It needs no reference, and a mini-batch that the chain has not seen estimates it
without bias.

On a whole network it stays near 1 long after predictions are too wide. There a study tunes by the right predictions
themselves (workflows.steps.tune): ``Known`` has them for a problem of another seed, and the budget is JUDGED_BUDGET.
A step is within the bound if the width of its predictions is, Monte Carlo error taken off, and the best one has to be
so in a longer pilot too, or the next smaller is tried. The mean is kept and not judged: chains begin at one mode, and
at small steps a pilot still shows that. Where some pilot has enough effective draws to show it by its autocorrelation,
that counts in place of how far chains move.

A step has to work from the starts of a run too, which are wider than the target: momentum has carried chains away from
there that the pilots kept, and Langevin moves have all been rejected there. Pilots have random numbers and start points
of their own, fixed by the run's seed, and are thrown away.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from implementations.backends import Draws, Sampler, build_sampler
from implementations.card import Card
from implementations.schedule import chunks, draw_steps
from implementations.settings import Settings
from implementations.tasks.derivatives import loss_and_gradient
from implementations.tasks.geometry import START_SPREAD
from implementations.tasks.problem import Problem
from implementations.tasks.starts import starts
from implementations.tuning import Tuned, ladder, pilot_seed

#: The budget: so many passes over the data by every chain, and on few data so many evaluations in all.
NUM_PASSES, LEAST_BUDGET = 100, 8_000_000
#: Exponents of 2, the default first; where the budget does not reach for all, the first of them.
RUNGS = (0, 1, -1, 2, -2, 3, -3)
#: So many more where the best is at an end: defaults are further from the best of some methods than of others.
MORE_RUNGS = 3
#: Effective draws that a run should give: its gate asks for 400, and the estimate is a rough one.
ENOUGH = 1000
#: Every move of these methods is made, and a few steps may not show one that goes wrong: starts are this much wider.
SPREAD_MARGIN = 1.5
#: Steps in which a chain that accepts at the rung's rate has moved for sure (1 - exp(-10)), at most.
MOST_STARTING_STEPS = 400
#: A rung of fewer steps tells nothing.
LEAST_STEPS = 40
#: More than these tell no more.
MOST_STEPS = 20_000
#: Steps that tell what a step costs.
NUM_PROBED = 5
#: Draws of a chain that a rung leaves, about; the first half of them is its warm-up.
NUM_DRAWS = 400
#: What the temperature of a tuned chain may be off by: the sd by half of it, 5 per cent.
TEMPERATURE_BOUND = 0.1
#: The budget where the right predictions are known: chains of a whole network take some 100,000 steps to forget where
#: they began. A point of `regression` takes 10 to 60 ns, so that is some seconds.
JUDGED_BUDGET = 100_000_000
#: Of it, what the ladder gets, and each of so many pilots that confirm a step.
SHARE_OF_LADDER, SHARE_OF_LAST, NUM_LAST = 0.25, 0.25, 3
#: More steps of a pilot than these are not worth their overhead.
MOST_JUDGED_STEPS = 300_000
#: What the width of predictions may be off by, as with the temperature: half of the leaderboards' margin, because what
#: is too wide takes time to become so.
BIAS_BOUND = 0.05
#: Effective draws that tell an efficiency by themselves.
LEAST_ESS = 100
#: Draws whose gradient is estimated, and the points of each estimate.
NUM_GRADIENTS, GRADIENT_POINTS = 64, 2000
#: Training points whose outputs are followed, and draws of the Gaussian at the mode that tell their variance.
NUM_PROBES, NUM_GAUSSIAN = 20, 400


class Bias(NamedTuple):
    """How far predictions are from the right ones, and how many effective draws tell so."""

    mean_error: float
    sd_ratio: float
    #: Its Monte Carlo error.
    sd_ratio_mc: float
    ess: float

    @property
    def is_within_bound(self) -> bool:
        """Is the width, Monte Carlo error taken off? Of a pilot too short to tell, only what is resolved counts."""
        deviation, error = abs(self.sd_ratio - 1), self.sd_ratio_mc
        if error > BIAS_BOUND:
            return deviation - 2 * error <= BIAS_BOUND
        return deviation**2 - error**2 <= BIAS_BOUND**2


class Known(NamedTuple):
    """The right answer of a target: draws (draws, P), and what predictions of other draws (chains, draws, P) lack."""

    draws: np.ndarray
    bias: Callable[[np.ndarray], Bias | None]


@dataclass(frozen=True)
class Rung:
    """What the pilot of one step size found."""

    step_size: float
    #: Effective draws of the slowest output per step of all chains; 0 where a chain became non-finite or stood still.
    draws_per_step: float = 0.0
    #: None where there is none.
    temperature: float | None = None
    temperature_error: float = 0.0
    acceptance: float | None = None
    #: Evaluations of a step of all chains.
    cost: float = 1.0
    #: In place of the temperature, where the right predictions are known.
    bias: Bias | None = None
    num_steps: int = 0
    #: Of the draws of the pilot that a run would keep, the share that was judged.
    judged: float = 0.5

    @property
    def by_autocorrelation(self) -> float:
        """Effective draws per step that the judged part of the pilot shows."""
        return self.bias.ess / (self.judged * self.num_steps) if self.bias else 0.0

    @property
    def is_within_bound(self) -> bool:
        """Is no deviation beyond the bound resolved?"""
        if self.draws_per_step == 0:
            return False
        if self.bias is not None:
            return self.bias.is_within_bound
        if self.temperature is None:
            return False
        return abs(self.temperature - 1) - 2 * self.temperature_error <= TEMPERATURE_BOUND

    def record(self) -> dict[str, Any]:
        """In plain values."""
        values = {name: value for name, value in vars(self).items() if name not in ("bias", "num_steps", "judged")}
        return values | ({} if self.bias is None else {**self.bias._asdict(), "num_steps": self.num_steps})


def budget_of(num_points: int, chains: int) -> int:
    """Evaluations that tuning may take, the same for every method on a problem."""
    return max(LEAST_BUDGET, NUM_PASSES * num_points * chains)


def climb(
    problem: Problem,
    card: Card,
    settings: Settings,
    backend: str,
    seed: int,
    known: Known | None = None,
    budget: int | None = None,
) -> Tuned:
    """The best step of the ladder: by the temperature, or by what is known of the target. Raises Skipped."""
    own_seed, budget = pilot_seed(seed), budget or budget_of(problem.num_points, settings.chains)
    default = card.settings["step_size"].default_for(problem.num_parameters)
    pilot = Pilot(problem, card, replace(settings, step_size=default), backend, own_seed, known)
    of_ladder = budget if known is None else int(SHARE_OF_LADDER * budget)
    rungs = pilot.rungs(default, card.settings["step_size"].maximum, of_ladder)
    if rungs and known is not None:
        best, warning, rungs = pilot.confirmed(rungs, SHARE_OF_LAST * budget)
    elif rungs:
        best, warning = pilot.usable(rungs)
    else:
        best, warning = Rung(default), f"{budget} evaluations are too few for a ladder of steps; the default stays"
    return Tuned(
        settings=replace(settings, step_size=best.step_size),
        chosen={"step_size": best.step_size},
        why=_why(best, len(rungs)),
        acceptance=best.acceptance,
        best_acceptance=None,
        variance=None,
        largest_variance=None,
        num_steps=pilot.num_steps,
        num_likelihoods=pilot.num_likelihoods,
        num_gradients=pilot.num_gradients,
        budget=budget,
        compile_seconds=pilot.compile_seconds,
        compile_cpu_seconds=pilot.compile_cpu_seconds,
        warning=warning,
        rungs=[rung.record() for rung in rungs],
    )


def choose(rungs: list[Rung], num_steps: int) -> tuple[Rung, str | None]:
    """The best rung for a run of so many steps; where none is within the bound, the smallest step."""
    within = [rung for rung in rungs if rung.is_within_bound]
    if not within:
        is_judged = any(rung.bias is not None for rung in rungs)
        what = f"predictions within {BIAS_BOUND:g}" if is_judged else f"a temperature within {TEMPERATURE_BOUND:g} of 1"
        return rungs[0], f"no step of the ladder has {what}; the smallest is taken"
    is_told = any(rung.bias is not None and rung.bias.ess >= LEAST_ESS for rung in rungs)

    def draws_per_step(rung: Rung) -> float:
        return rung.by_autocorrelation if is_told else rung.draws_per_step

    # A step that hardly ever costs an evaluation, because it is hardly ever accepted, is of no use to a run.
    enough = [rung for rung in within if draws_per_step(rung) * num_steps >= ENOUGH]
    if enough:
        return max(enough, key=lambda rung: draws_per_step(rung) / rung.cost), None
    return max(within, key=draws_per_step), None


@dataclass
class Pilot:
    """Short chains of one method at several steps; what they have cost so far."""

    problem: Problem
    card: Card
    settings: Settings
    backend: str
    seed: int
    known: Known | None = None
    num_steps: int = 0
    num_likelihoods: int = 0
    num_gradients: int = 0
    compile_seconds: float = 0.0
    compile_cpu_seconds: float = 0.0

    @property
    def num_evaluations(self) -> int:
        return self.num_likelihoods + self.num_gradients

    @cached_property
    def variances(self) -> np.ndarray:
        """Of the outputs that are followed: the right ones, or those under the Gaussian at the mode."""
        if self.known is not None:
            return outputs(self.problem, self.known.draws.astype(np.float64)).var(axis=0)
        weight = self.settings.target_weight(self.problem.num_points)
        draws = starts(self.problem, weight, NUM_GAUSSIAN, self.seed, spread=1.0)
        return outputs(self.problem, draws).var(axis=0)

    def rungs(self, default: float, maximum: float, budget: int) -> list[Rung]:
        """By step; as many as there is budget for, each with the same share of it; none where that is one or none."""
        cost = self._probed_cost()
        of_temperature = NUM_GRADIENTS * min(self.problem.num_points, GRADIENT_POINTS) if self.known is None else 0
        # Whether the best one bears the starts of a run is asked more than once only where it does not.
        left = budget - self.num_evaluations - 2 * LEAST_STEPS * cost
        steps = [default * 2.0**exponent for exponent in RUNGS if default * 2.0**exponent <= maximum]
        count = min(len(steps) + MORE_RUNGS, int(left / (LEAST_STEPS * cost + of_temperature)))
        if count < 2:
            return []
        share = left / count - of_temperature
        rungs: list[Rung] = []
        for step_size in sorted(steps[:count]):
            affordable = share / (_foretold_cost(rungs) or cost)
            if affordable < LEAST_STEPS:
                break
            rungs.append(self._rung(step_size, affordable))
        while 1 < len(rungs) < count:
            best, affordable = self._choose(rungs)[0], share / _foretold_cost(rungs)
            if best is rungs[-1] and 2 * best.step_size <= maximum and affordable >= LEAST_STEPS:
                rungs.append(self._rung(2 * best.step_size, affordable))
            elif best is rungs[0]:
                rungs.insert(0, self._rung(best.step_size / 2, share / best.cost))
            else:
                break
        return rungs

    def usable(self, rungs: list[Rung]) -> tuple[Rung, str | None]:
        """The best rung whose step also works from the starts of a run, or the smallest."""
        best, warning = self._choose(rungs)
        while len(rungs) > 1 and best.draws_per_step > 0 and not self._works_from_starts(best):
            rungs = [rung for rung in rungs if rung.step_size < best.step_size] or rungs[:1]
            best, warning = self._choose(rungs)
        return best, warning

    def confirmed(self, rungs: list[Rung], share: float) -> tuple[Rung, str | None, list[Rung]]:
        """The best rung that a longer pilot confirms, from the most effective one down; a warning; all rungs."""
        left, last = rungs, []
        for _ in range(NUM_LAST):
            best, warning = self.usable(left)
            if best.draws_per_step == 0:
                break
            last.append(self._rung(best.step_size, share / best.cost))
            if last[-1].is_within_bound:
                return last[-1], warning, [*rungs, *last]
            left = [rung for rung in left if rung.step_size < best.step_size]
            if not left:
                return last[-1], f"no step of the ladder has predictions within {BIAS_BOUND:g}", [*rungs, *last]
        best = self.usable(left)[0]
        return best, f"none of the last {len(last)} steps was confirmed; the next smaller is taken", [*rungs, *last]

    def _choose(self, rungs: list[Rung]) -> tuple[Rung, str | None]:
        return choose(rungs, self.settings.num_steps)

    def _works_from_starts(self, rung: Rung) -> bool:
        """Do all chains stay finite where every move is made, and does every chain move where some are rejected?"""
        if self.card.acceptance == "always":
            return bool(np.isfinite(self._run(rung.step_size, LEAST_STEPS, SPREAD_MARGIN * START_SPREAD)[0]).all())
        num_steps = int(np.clip(10 / max(rung.acceptance or 0, 1e-9), LEAST_STEPS, MOST_STARTING_STEPS))
        draws = self._run(rung.step_size, num_steps, START_SPREAD)[0]
        return bool((np.ptp(draws, axis=1) > 0).any(axis=1).all())

    def _rung(self, step_size: float, affordable: float) -> Rung:
        # Few lengths, so that seeds share compiled code.
        most = MOST_STEPS if self.known is None else MOST_JUDGED_STEPS
        num_steps = max(length for length in ladder(1, most) if length <= affordable)
        before = self.num_evaluations
        draws, is_kept, acceptance = self._run(step_size, num_steps)
        cost = max(1, self.num_evaluations - before)
        if not np.isfinite(draws).all():
            return Rung(step_size, cost=cost / num_steps)
        early, late, num_kept = parted(draws.astype(np.float64), is_kept)
        per_draw = slowest(outputs(self.problem, late), self.variances)
        draws_per_step = self.settings.chains * per_draw * num_kept / num_steps
        if self.known is not None:
            bias = self.known.bias(late)
            # Where not even the Monte Carlo error is known, some chain has stood still.
            return Rung(
                step_size,
                draws_per_step if bias else 0.0,
                acceptance=acceptance,
                cost=cost / num_steps,
                bias=bias,
                num_steps=num_steps,
                judged=late.shape[1] / num_kept,
            )
        temperature = self._temperature(late, early.mean(axis=(0, 1)))
        return Rung(step_size, draws_per_step, *temperature, acceptance, cost / num_steps)

    def _probed_cost(self) -> float:
        """Evaluations of a step of all chains at the default step size, by the code that the run itself will need."""
        sampler = build_sampler(self.backend, self.problem, self.card, self.settings)
        self._advance(sampler, self._started(sampler), NUM_PROBED)
        return max(1.0, self.num_evaluations / NUM_PROBED)

    def _run(self, step_size: float, num_steps: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
        """Draws (chains, draws, P) of chains that begin so many times as wide as the target, those (draws,) that a run
        would keep, and the acceptance."""
        thin = max(1, num_steps // NUM_DRAWS)
        own = tuple((name, 1 if name == "num_cycles" else value) for name, value in self.settings.own)
        length = num_steps - num_steps % thin
        settings = replace(self.settings, num_steps=length, num_warmup=0, thin=thin, own=own)
        sampler = build_sampler(self.backend, self.problem, self.card, settings).at_step_size(step_size)
        carry, parts = self._started(sampler, spread), []
        for chunk in chunks(settings):
            carry, draws = self._advance(sampler, carry, chunk.num_steps)
            parts.append(draws)
        positions = np.concatenate([part.positions for part in parts], axis=1)
        acceptance = float(np.mean(np.concatenate([part.acceptance for part in parts], axis=1)))
        return positions, draw_steps(settings)[1], acceptance

    def _started(self, sampler: Sampler, spread: float = 1.0) -> Any:
        """A carry of chains that begin as wide as the target: pilots are too short to forget a wider start."""
        weight, chains = self.settings.target_weight(self.problem.num_points), self.settings.chains
        carry = sampler.start(starts(self.problem, weight, chains, self.seed, spread), self.seed)
        started, cpu_started = time.perf_counter(), time.process_time()
        sampler.compile(carry)
        self.compile_seconds += time.perf_counter() - started
        self.compile_cpu_seconds += time.process_time() - cpu_started
        return carry

    def _advance(self, sampler: Sampler, carry: Any, num_steps: int) -> tuple[Any, Draws]:
        carry, draws, costs = sampler.advance(carry, num_steps)
        self.num_steps += num_steps
        self.num_likelihoods += int(costs.num_likelihoods.sum())
        self.num_gradients += int(costs.num_gradients.sum())
        return carry, draws

    def _temperature(self, draws: np.ndarray, centre: np.ndarray) -> tuple[float, float]:
        """Mean over draws (chains, draws, P) of (theta - c) · g / P, g of fresh points; and its error by chains."""
        chains, num_draws, num_parameters = draws.shape
        random = np.random.default_rng(self.seed)
        chosen = np.linspace(0, num_draws - 1, min(num_draws, NUM_GRADIENTS // chains)).astype(int)
        values = np.array(
            [[(draw - centre) @ gradient for draw, gradient in self._gradients(one[chosen], random)] for one in draws]
        )
        self.num_gradients += values.size * min(self.problem.num_points, GRADIENT_POINTS)
        means = values.mean(axis=1) / num_parameters
        return float(means.mean()), float(means.std(ddof=1) / math.sqrt(chains)) if chains > 1 else 0.0

    def _gradients(self, draws: np.ndarray, random: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each draw with an unbiased estimate of the gradient of U_w there."""
        problem, scale = self.problem, self.problem.prior_scale
        weight = self.settings.target_weight(problem.num_points)
        for draw in draws:
            points = random.integers(problem.num_points, size=min(problem.num_points, GRADIENT_POINTS))
            some = replace(problem, features=problem.features[points], targets=problem.targets[points])
            of_prior = np.sign(draw) / scale if problem.prior == "laplace" else draw / scale**2
            yield draw, loss_and_gradient(some, draw, weight)[1] + of_prior


def _foretold_cost(rungs: list[Rung]) -> float:
    """Of a step twice as large as the last: tests that ask for data ask for more then, as the rungs below show."""
    if len(rungs) < 2:
        return rungs[-1].cost if rungs else 0.0
    return rungs[-1].cost * max(1.0, rungs[-1].cost / rungs[-2].cost)


def parted(draws: np.ndarray, is_kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Draws (chains, draws, P) of a pilot before and after its warm-up, and how many of them a run would keep.

    The warm-up is the first half; in a cycle of the step size it is what runs drop as well. All that they keep is
    judged then, at the larger steps too: the last of a cycle alone are far less biased.
    """
    is_late = np.arange(draws.shape[1]) >= draws.shape[1] // 2 if is_kept.all() else is_kept
    return draws[:, ~is_late], draws[:, is_late], int(is_kept.sum())


def outputs(problem: Problem, draws: np.ndarray) -> np.ndarray:
    """The network's outputs at some training points: (…, P) to (…, quantities)."""
    probes = np.linspace(0, problem.num_points - 1, min(problem.num_points, NUM_PROBES)).astype(int)
    found = problem.outputs(draws, problem.features[probes].astype(np.float64))
    return found.reshape(*draws.shape[:-1], -1)


def slowest(traces: np.ndarray, variances: np.ndarray) -> float:
    """Effective draws for each draw of the slowest quantity, of traces (chains, draws, quantities).

    ``variances`` are those of the target, about; where the traces have more, it is theirs. Draws that alternate
    count as independent ones.
    """
    spread = np.maximum(variances, traces.var(axis=(0, 1)))
    jumps = np.square(np.diff(traces, axis=1)).mean(axis=(0, 1))
    share = min(1.0, np.min(jumps / (2 * spread + np.finfo(float).tiny)))
    return float(share / (2 - share))


def _why(best: Rung, count: int) -> str:
    if best.bias is not None:
        found = f"predictions {best.bias.sd_ratio:.2f} times as wide as they should be"
    elif best.temperature is not None:
        found = f"temperature {best.temperature:.2f}"
    else:
        return f"{count} steps tried"
    return (
        f"{1e6 * best.draws_per_step / best.cost:.3g} effective draws of the slowest output per million evaluations, "
        f"{found}, {count} steps tried"
    )
