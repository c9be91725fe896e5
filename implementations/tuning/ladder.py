"""Tuning on one budget for every method: ``step_size: ladder`` tries a ladder of steps by short pilots.

Rungs are factors of 2 around the method's own default, and beyond an end of the ladder as long as the best is there.
Each is allowed the same share of the evaluations that are left, of single points. Of the steps whose temperature is
within the bound and whose effective draws in the run itself would be ENOUGH, the best has

    most effective draws of the slowest output per evaluation;

where no step gives ENOUGH, the best has most effective draws per step.

Pilots are too short to follow a slow chain through its autocorrelation. What they do tell is how far it moves: with v
the variance of an output, successive draws f and f' have the correlation r = 1 - E[(f' - f)^2] / 2v, and an
autoregression of that correlation has (1 - r) / (1 + r) effective draws for each. A chain that stands still has none.

The temperature (E[(theta - c) · grad U] / P, Wenzel et al. 2020) is 1 for draws of the target, whatever it is and for
any c that does not depend on theta: an integral by parts. Of a Gaussian target it is the mean ratio of variances, and a
step too large for a method that is not exact raises it. It needs no reference, and a mini-batch that the chain has not
seen estimates it without bias. The mini-batch tells only how the gradient differs from that of all points at one place,
which takes most of its noise away. Each chain's c is where the others have been: its own mean would follow it, and a
slow chain would look colder than it is. Exact methods have no bound: of theirs, what is off 1 is Monte Carlo error.

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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from implementations.backends import build_sampler
from implementations.card import Card, Exactness
from implementations.schedule import chunks, draw_steps
from implementations.settings import Settings
from implementations.tasks.derivatives import loss_and_gradient
from implementations.tasks.geometry import START_SPREAD
from implementations.tasks.problem import Problem
from implementations.tasks.starts import starts
from implementations.tuning.pilot import Pilot, Tuned, ladder, pilot_seed

#: The budget: so many passes over the data by every chain, and on few data so many evaluations in all.
NUM_PASSES, LEAST_BUDGET = 100, 24_000_000
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
#: Draws whose gradient is estimated, and the points of each estimate, which are looked at in two places.
NUM_GRADIENTS, GRADIENT_POINTS = 128, 400
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


#: Of a rung, what its record does not have under this name: what bias has is there, the rest follows from the card.
NOT_RECORDED = frozenset({"bias", "num_steps", "judged", "is_exact"})


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
    #: Of an exact method: it has no bias, so what a pilot shows of one is Monte Carlo error.
    is_exact: bool = False

    @property
    def by_autocorrelation(self) -> float:
        """Effective draws per step that the judged part of the pilot shows."""
        return self.bias.ess / (self.judged * self.num_steps) if self.bias else 0.0

    @property
    def is_within_bound(self) -> bool:
        """Is the deviation, Monte Carlo error taken off? Of a large error no more counts than the bound itself."""
        if self.draws_per_step == 0 or self.is_exact:
            return self.draws_per_step > 0
        if self.bias is not None:
            return self.bias.is_within_bound
        return self.deviation**2 - min(self.temperature_error, TEMPERATURE_BOUND) ** 2 <= TEMPERATURE_BOUND**2

    @property
    def deviation(self) -> float:
        """From 1: of the width of predictions where the right ones are known, else of the temperature."""
        value = self.temperature if self.bias is None else self.bias.sd_ratio
        return math.inf if value is None or self.draws_per_step == 0 else abs(value - 1)

    def record(self) -> dict[str, Any]:
        """In plain values."""
        values = {name: value for name, value in vars(self).items() if name not in NOT_RECORDED}
        return values | ({} if self.bias is None else {**self.bias._asdict(), "num_steps": self.num_steps})


def budget_of(num_points: int, chains: int) -> int:
    """Evaluations that tuning is allowed, the same for every method on a problem."""
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
    given = replace(settings, step_size=default)
    pilot = LadderPilot(problem, card, backend, own_seed, budget, settings=given, known=known)
    rungs = pilot.rungs(default, card.settings["step_size"].maximum)
    if rungs and known is not None:
        best, warning, rungs = pilot.confirmed(rungs, SHARE_OF_LAST * budget)
    elif rungs:
        best, warning = pilot.usable(rungs)
    else:
        best, warning = Rung(default), f"{budget} evaluations are too few for a ladder of steps; the default stays"
    found = [rung.record() for rung in rungs]
    return pilot.tuned(
        {"step_size": best.step_size}, _why(best, len(rungs)), best.acceptance, warning=warning, rungs=found
    )


def choose(rungs: list[Rung], num_steps: int) -> tuple[Rung, str | None]:
    """The best rung for a run of so many steps; where none is within the bound, the one that is off by least."""
    within = [rung for rung in rungs if rung.is_within_bound]
    if not within:
        is_judged = any(rung.bias is not None for rung in rungs)
        what = f"predictions within {BIAS_BOUND:g}" if is_judged else f"a temperature within {TEMPERATURE_BOUND:g} of 1"
        return min(rungs, key=lambda rung: rung.deviation), f"no step of the ladder has {what}; the nearest is taken"
    is_told = any(rung.bias is not None and rung.bias.ess >= LEAST_ESS for rung in rungs)

    def draws_per_step(rung: Rung) -> float:
        return rung.by_autocorrelation if is_told else rung.draws_per_step

    # A step that hardly ever costs an evaluation, because it is hardly ever accepted, is of no use to a run.
    enough = [rung for rung in within if draws_per_step(rung) * num_steps >= ENOUGH]
    if enough:
        return max(enough, key=lambda rung: draws_per_step(rung) / rung.cost), None
    return max(within, key=draws_per_step), None


@dataclass
class LadderPilot(Pilot):
    """Short chains of one method at several steps."""

    settings: Settings = field(kw_only=True)
    known: Known | None = None
    #: Evaluations of the budget that pilots leave to others.
    reserved: float = 0.0

    @property
    def is_exact(self) -> bool:
        return self.card.exactness is Exactness.EXACT

    @property
    def affordable(self) -> float:
        """Evaluations that a pilot may take now."""
        return self.left - self.reserved

    @cached_property
    def variances(self) -> np.ndarray:
        """Of the outputs that are followed: the right ones, or those under the Gaussian at the mode."""
        if self.known is not None:
            return outputs(self.problem, self.known.draws.astype(np.float64)).var(axis=0)
        weight = self.settings.target_weight(self.problem.num_points)
        draws = starts(self.problem, weight, NUM_GAUSSIAN, self.seed, spread=1.0)
        return outputs(self.problem, draws).var(axis=0)

    def rungs(self, default: float, maximum: float) -> list[Rung]:
        """By step; as many as there is budget for, from the default outwards; none where that is one or none."""
        # By the code that the run itself will need.
        sampler = build_sampler(self.backend, self.problem, self.card, self.settings)
        self.advance(sampler, self.started(sampler, self._starts(1.0)), NUM_PROBED)
        cost = max(1.0, self.num_evaluations / NUM_PROBED)
        of_last = 0.0 if self.known is None else (1 - SHARE_OF_LADDER) * (self.budget or 0)
        # Whether the best one bears the starts of a run is asked more than once only where it does not.
        self.reserved = 2 * LEAST_STEPS * cost + of_last + self._temperature_cost
        steps = [default * 2.0**exponent for exponent in RUNGS if default * 2.0**exponent <= maximum]
        count = min(len(steps) + MORE_RUNGS, int(self.affordable / (LEAST_STEPS * cost + self._temperature_cost)))
        if count < 2:
            return []
        rungs: list[Rung] = []

        def is_tried(step_size: float) -> bool:
            """What one rung leaves of its share goes to the others."""
            share = (self.affordable + self._temperature_cost) / max(1, count - len(rungs)) - self._temperature_cost
            foretold = _foretold_cost(rungs, step_size) or cost
            if share < LEAST_STEPS * foretold:
                return False
            rungs.append(self._rung(step_size, share / foretold, foretold))
            rungs.sort(key=lambda rung: rung.step_size)
            return True

        # A dear rung ends its own side alone: steps become dearer upwards for some methods, downwards for others.
        is_open = {True: True, False: True}
        for step_size in steps[:count]:
            is_above = step_size >= default
            is_open[is_above] = is_open[is_above] and is_tried(step_size)
        while 1 < len(rungs) < count:
            best = choose(rungs, self.settings.num_steps)[0]
            step_size = best.step_size * (2 if best is rungs[-1] else 0.5)
            if best not in (rungs[0], rungs[-1]) or step_size > maximum or not is_tried(step_size):
                break
        self.reserved = of_last
        return rungs

    def usable(self, rungs: list[Rung]) -> tuple[Rung, str | None]:
        """The best rung whose step also works from the starts of a run, or the smallest."""
        best, warning = choose(rungs, self.settings.num_steps)
        while len(rungs) > 1 and best.draws_per_step > 0 and not self._works_from_starts(best):
            rungs = [rung for rung in rungs if rung.step_size < best.step_size] or rungs[:1]
            best, warning = choose(rungs, self.settings.num_steps)
        return best, warning

    def confirmed(self, rungs: list[Rung], share: float) -> tuple[Rung, str | None, list[Rung]]:
        """The best rung that a longer pilot confirms, from the most effective one down; a warning; all rungs."""
        left, last = rungs, []
        for _ in range(NUM_LAST):
            best, warning = self.usable(left)
            if best.draws_per_step == 0:
                break
            self.reserved = max(0.0, self.reserved - share)
            last.append(self._rung(best.step_size, min(share, self.affordable) / best.cost, best.cost))
            if last[-1].is_within_bound:
                return last[-1], warning, [*rungs, *last]
            left = [rung for rung in left if rung.step_size < best.step_size]
            if not left:
                return last[-1], f"no step of the ladder has predictions within {BIAS_BOUND:g}", [*rungs, *last]
        best = self.usable(left)[0]
        return best, f"none of the last {len(last)} steps was confirmed; the next smaller is taken", [*rungs, *last]

    def _works_from_starts(self, rung: Rung) -> bool:
        """Do all chains stay finite where every move is made, and does every chain move where some are rejected?

        They get as many steps as are left; of none, nothing can be said against the rung.
        """
        is_moved = self.card.acceptance != "always"
        num_steps = int(np.clip(10 / max(rung.acceptance or 0, 1e-9), LEAST_STEPS, MOST_STARTING_STEPS))
        spread = START_SPREAD if is_moved else SPREAD_MARGIN * START_SPREAD
        draws = self._run(rung.step_size, num_steps if is_moved else LEAST_STEPS, spread, rung.cost)[0]
        if not is_moved or draws.shape[1] < 2:
            return bool(np.isfinite(draws).all())
        return bool((np.ptp(draws, axis=1) > 0).any(axis=1).all())

    def _rung(self, step_size: float, affordable: float, cost: float) -> Rung:
        """A pilot of so many steps at the most, each of which takes about ``cost`` evaluations."""
        # Few lengths, so that seeds share compiled code.
        most = MOST_STEPS if self.known is None else MOST_JUDGED_STEPS
        num_steps = max(length for length in ladder(1, most) if length <= affordable)
        before, steps_before = self.num_evaluations, self.num_steps
        draws, is_kept, acceptance = self._run(step_size, num_steps, 1.0, cost)
        # Fewer, where they took more than was foretold.
        num_steps = self.num_steps - steps_before
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
                is_exact=self.is_exact,
            )
        if self.is_exact:
            return Rung(step_size, draws_per_step, acceptance=acceptance, cost=cost / num_steps, is_exact=True)
        temperature = self._temperature(late, other_means(early))
        return Rung(step_size, draws_per_step, *temperature, acceptance, cost / num_steps)

    def _run(
        self, step_size: float, num_steps: int, spread: float, cost: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Draws (chains, draws, P) of chains that begin so many times as wide as the target, those (draws,) that a run
        would keep, and the acceptance. Steps take about ``cost`` evaluations; they end where the budget does."""
        thin = max(1, num_steps // NUM_DRAWS)
        own = tuple((name, 1 if name == "num_cycles" else value) for name, value in self.settings.own)
        length = num_steps - num_steps % thin
        settings = replace(self.settings, num_steps=length, num_warmup=0, thin=thin, own=own)
        sampler = build_sampler(self.backend, self.problem, self.card, settings).at_step_size(step_size)
        carry = self.started(sampler, self._starts(spread))
        positions = [np.zeros((settings.chains, 0, self.problem.num_parameters))]
        acceptances = [np.zeros((settings.chains, 0))]
        lengths = [chunk.num_steps for chunk in chunks(settings)]
        # The first steps tell what the others will take.
        first = min(lengths[0], -(-LEAST_STEPS // thin) * thin)
        for piece in (first, lengths[0] - first, *lengths[1:]):
            affordable = int(min(piece, self.affordable / cost)) // thin * thin
            if affordable < 1:
                break
            before = self.num_evaluations
            carry, draws = self.advance(sampler, carry, affordable)
            cost = max(1.0, (self.num_evaluations - before) / affordable)
            positions.append(draws.positions)
            acceptances.append(draws.acceptance)
        kept, acceptance = np.concatenate(positions, axis=1), np.concatenate(acceptances, axis=1)
        return kept, draw_steps(settings)[1][: kept.shape[1]], float(acceptance.mean()) if acceptance.size else 0.0

    def _starts(self, spread: float) -> np.ndarray:
        """Pilots are too short to forget a start wider than the target, which is a spread of 1."""
        weight, chains = self.settings.target_weight(self.problem.num_points), self.settings.chains
        return starts(self.problem, weight, chains, self.seed, spread)

    @property
    def _temperature_cost(self) -> float:
        num_points = self.problem.num_points
        return 0.0 if self.known or self.is_exact else 2 * NUM_GRADIENTS * min(num_points, GRADIENT_POINTS) + num_points

    def _temperature(self, draws: np.ndarray, centres: np.ndarray) -> tuple[float, float]:
        """Mean over draws (chains, draws, P) of (theta - c) · g / P, g of fresh points, and its error by chains; each
        chain has its c (chains, P), or all have the same (P,)."""
        chains, num_draws, num_parameters = draws.shape
        random = np.random.default_rng(self.seed)
        chosen = np.linspace(0, num_draws - 1, min(num_draws, NUM_GRADIENTS // chains)).astype(int)
        centres = np.broadcast_to(centres, (chains, num_parameters))
        gradients = self._gradients(draws[:, chosen].reshape(-1, num_parameters), centres.mean(axis=0), random)
        values = (draws[:, chosen] - centres[:, None]) * gradients.reshape(chains, -1, num_parameters)
        means = values.sum(axis=-1).mean(axis=1) / num_parameters
        return float(means.mean()), float(means.std(ddof=1) / math.sqrt(chains)) if chains > 1 else 0.0

    def _gradients(self, draws: np.ndarray, place: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Unbiased estimates of the gradient of U_w at draws (k, P): that at one place, and how some points change."""
        problem, scale = self.problem, self.problem.prior_scale
        weight = self.settings.target_weight(problem.num_points)
        count = min(problem.num_points, GRADIENT_POINTS)
        there = loss_and_gradient(problem, place, weight)[1]
        found = []
        for draw in draws:
            points = random.integers(problem.num_points, size=count)
            some = replace(problem, features=problem.features[points], targets=problem.targets[points])
            change = loss_and_gradient(some, draw, weight)[1] - loss_and_gradient(some, place, weight)[1]
            of_prior = np.sign(draw) / scale if problem.prior == "laplace" else draw / scale**2
            found.append(there + change + of_prior)
        self.num_gradients += problem.num_points + 2 * count * len(draws)
        return np.array(found)


def _foretold_cost(rungs: list[Rung], step_size: float) -> float:
    """Of a step beyond an end of the ladder: what grows towards it grows on, as the rungs behind it show.

    Tests that ask for data ask for more at larger steps; a first stage lets more moves through at smaller ones.
    """
    behind = rungs[::-1] if rungs and step_size > rungs[-1].step_size else rungs
    if len(behind) < 2:
        return behind[0].cost if behind else 0.0
    return behind[0].cost * max(1.0, behind[0].cost / behind[1].cost)


def parted(draws: np.ndarray, is_kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Draws (chains, draws, P) of a pilot before and after its warm-up, and how many of them a run would keep.

    The warm-up is the first half; in a cycle of the step size it is what runs drop as well. All that they keep is
    judged then, at the larger steps too: the last of a cycle alone are far less biased.
    """
    is_late = np.arange(draws.shape[1]) >= draws.shape[1] // 2 if is_kept.all() else is_kept
    return draws[:, ~is_late], draws[:, is_late], int(is_kept.sum())


def other_means(draws: np.ndarray) -> np.ndarray:
    """For each chain of draws (chains, draws, P) the mean of all others; of a single one, its own."""
    means = draws.mean(axis=1)
    return np.asarray((means.sum(axis=0) - means) / (len(means) - 1)) if len(means) > 1 else means


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
    if best.draws_per_step == 0:
        return f"{count} steps tried"
    per_million = 1e6 * best.draws_per_step / best.cost
    found = [f"{per_million:.3g} effective draws of the slowest output per million evaluations"]
    if best.bias is not None:
        found.append(f"predictions {best.bias.sd_ratio:.2f} times as wide as they should be")
    elif best.temperature is not None:
        found.append(f"temperature {best.temperature:.2f}")
    return ", ".join([*found, f"{count} steps tried"])
