"""Which n calibrates best on a problem, and does something cheaper do as well?

Candidates are the posteriors tempered to weight w = n, for a ladder of n up to all the data (the paper's regulariser),
each sampled by chains and, without a chain, by the Gaussian at its mode (Laplace); and the last layer at its mode, as
it is and with temperature scaling. The validation points choose; the test points, which nothing else has seen, judge.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from implementations.backends import find_backend
from implementations.infrastructure.errors import SettingError, unknown
from implementations.methods import find_method
from implementations.sampling import sample
from implementations.tasks.temperature import at_temperature, fit_temperature, has_temperature
from metrics.convergence import convergence
from pbnn_bench.problem import Prediction, Problem
from pbnn_bench.scoring import Score, score
from records.display import format_number
from records.setting_runs import MAX_R_HAT

#: What the validation points choose by. The log likelihood is a proper score; the ECE is what the paper looks at, and
#: can be small for a network that knows nothing.
CRITERIA = {"nll": "negative log likelihood", "ece": "expected calibration error"}
#: The last layer at its mode, as the network has it.
NETWORK = "last layer"
#: Columns of the table that are not numbers.
TEXTS = ("", "candidate", "why not")
#: Crank–Nicolson moves with control variates converge fastest on one layer, and one compilation serves every n.
METHOD = "pbnn_cn"
#: Points that a step reads of a target that is not tempered to them: enough for a noise of order 1 on mnist and digits.
NUM_READ = 300
NUM_BATCHES = 5
NUM_LAPLACE = 2_000
LENGTH = {"num_steps": 10_000, "num_warmup": 2_000, "thin": 10}
#: Chains that have not converged are run again, so many times as long.
PATIENCE = 4


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to predict, with its scores."""

    #: What it is, and what tells it from others like it.
    name: str
    detail: str
    #: w of its target; None where there is none.
    weight: int | None
    problem: Problem
    #: (chains, draws, P)
    draws: np.ndarray
    #: Without compilation, which chains of the first n would pay for all others.
    seconds: float
    validation: Score
    test: Score | None
    is_chain: bool = False
    #: Of the predictions at the validation points; None without a chain.
    r_hat: float | None = None
    #: Why it cannot be chosen.
    fault: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.detail}" if self.detail else self.name

    @property
    def in_words(self) -> str:
        """Its name inside a sentence."""
        if self.weight is not None:
            return f"{self.name} at n = {self.weight:,}"
        return "the last layer alone" if self.name == NETWORK else self.label


class Difference(NamedTuple):
    """Of the mean log likelihoods of two candidates, with its standard error over the points."""

    mean: float
    error: float

    @property
    def is_clear(self) -> bool:
        return self.mean > 2 * self.error

    @property
    def is_loss(self) -> bool:
        return self.mean < -2 * self.error

    def __str__(self) -> str:
        """With twice the error, to two digits of it: ``0.0120 ± 0.0033``."""
        error = 2 * self.error
        digits = min(max(0, 1 - math.floor(math.log10(error))), 8) if error > 0 else 4
        return f"{_fixed(self.mean, digits)} ± {_fixed(error, digits)}"


@dataclass(frozen=True, eq=False)
class Choice:
    """All candidates, and the best of those with a chain."""

    candidates: tuple[Candidate, ...]
    criterion: str
    best: Candidate

    @property
    def batch_size(self) -> int:
        """The chosen n."""
        assert self.best.weight is not None
        return self.best.weight

    @property
    def without_chain(self) -> Candidate:
        """The best of the candidates that need no chain."""
        return min((one for one in self.candidates if not one.is_chain), key=self._loss)

    def predict(self, features: Any) -> Prediction:
        """The predictive distribution of the best at new features (n, d)."""
        return self.best.problem.predict(self.best.draws, features)

    def _loss(self, candidate: Candidate) -> float:
        loss: float = getattr(candidate.validation, self.criterion)
        return loss

    def gain(self) -> Difference:
        """What the best gains over the best without a chain, per test point, or else per validation point."""
        return _gain(*(one.test or one.validation for one in (self.best, self.without_chain)))

    def rows(self) -> list[dict[str, str]]:
        """The table in words, one row per candidate."""
        return [self._row(one) for one in self.candidates]

    def _row(self, one: Candidate) -> dict[str, str]:
        size = "" if one.weight is None else "all" if one.weight == one.problem.num_points else f"{one.weight:,}"
        cells = {"": "chosen" if one is self.best else "", "candidate": one.label, "n = w": size}
        # The scores that choose are shown for the validation points, and all scores for the points that judge.
        choosing = _scores("validation", one.problem, one.validation)
        cells |= dict([*choosing.items()][:2])
        cells |= choosing if one.test is None else _scores("test", one.problem, one.test)
        r_hat = "" if one.r_hat is None else f"{one.r_hat:.2f}"
        return cells | {"R-hat": r_hat, "seconds": f"{one.seconds:.1f}", "why not": one.fault}

    def alike(self) -> list[int]:
        """The n around the chosen one that validation points cannot tell from it: within two standard errors."""
        able = sorted(
            (one for one in self.candidates if one.is_chain and not one.fault), key=lambda one: one.weight or 0
        )
        found = {self.batch_size}
        if self.criterion == "nll":
            smaller = [one for one in able if (one.weight or 0) < self.batch_size]
            larger = [one for one in able if (one.weight or 0) > self.batch_size]
            for others in (smaller[::-1], larger):
                near = takewhile(lambda one: not _gain(self.best.validation, one.validation).is_clear, others)
                found |= {one.weight or 0 for one in near}
        return sorted(found)

    def headline(self) -> str:
        """What a reader in a hurry takes from the table."""
        gain, other = self.gain(), self.without_chain
        if gain.is_clear:
            return f"Worth a chain: n = {self.batch_size:,} predicts best"
        name = other.in_words if other.name == NETWORK else other.name
        return f"No chain needed: {name} does {'better' if gain.is_loss else 'as well'}"

    def verdict(self) -> list[str]:
        """What to take from the table."""
        sizes = sorted({one.weight for one in self.candidates if one.is_chain and one.weight is not None})
        edge = ""
        if len(sizes) > 1 and self.batch_size == sizes[0]:
            edge = "; it is the smallest that was tried, and a smaller one may be better"
        is_all = self.batch_size == self.best.problem.num_points
        chosen = f"all the data (n = {self.batch_size:,}) are" if is_all else f"n = {self.batch_size:,} is"
        alike = self.alike()
        range_of = f"; any n from {alike[0]:,} to {alike[-1]:,} does as well there" if len(alike) > 1 else ""
        gain, cheaper = self.gain(), self.without_chain.in_words
        where = "test" if self.best.test else "validation"
        amount = f"{gain} nats per {where} point (± 2 standard errors)"
        return [
            f"{chosen} chosen by the {CRITERIA[self.criterion]} of the validation points{range_of}{edge}",
            f"its chains gain {amount} over {cheaper}"
            if gain.is_clear
            else f"{cheaper} does {'better' if gain.is_loss else 'as well'} without a chain: chains gain {amount}",
        ]

    def table(self) -> str:
        """The candidates as text, and the verdict."""
        rows = self.rows()
        shown = [name for name in rows[0] if any(row[name] for row in rows)]
        lines = [shown, *([row[name] for name in shown] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(
                cell.ljust(width) if name in TEXTS else cell.rjust(width)
                for name, cell, width in zip(shown, line, widths, strict=True)
            ).rstrip()
            for line in lines
        ]
        note = "gap: confidence minus accuracy, or nominal minus observed coverage; + is overconfident"
        return "\n".join([*text, "", note, *self.verdict()])


def _gain(one: Score, other: Score) -> Difference:
    """What one gains over the other, per point."""
    differences = one.log_density - other.log_density
    return Difference(float(differences.mean()), float(differences.std() / np.sqrt(len(differences))))


def _scores(part: str, problem: Problem, found: Score) -> dict[str, str]:
    """In the unit of the targets' owner, and to a fixed number of digits, so that a column can be read downwards."""
    nll = found.nll + float(np.log(problem.target_scale))
    scores = {"NLL": _fixed(nll, 4), "ECE": _fixed(found.ece, 4), "gap": _fixed(found.gap, 4, "+")}
    if found.accuracy is not None:
        scores["accuracy"] = f"{100 * found.accuracy:.1f} %"
    if found.rmse is not None:
        scores["RMSE"] = format_number(problem.target_scale * found.rmse, 4)
    return {f"{part} {name}": text for name, text in scores.items()}


def _fixed(value: float, digits: int, sign: str = "-") -> str:
    # A zero has no sign.
    return f"{round(value, digits) or 0.0:{sign if round(value, digits) else '-'}.{digits}f}".replace("-", "−")


def default_sizes(num_points: int) -> list[int]:
    """10, 30, 100, 300, … and all the data."""
    ladder = [step * 10**power for power in range(1, 9) for step in (1, 3)]
    return [*(size for size in ladder if size < num_points), num_points]


def choose_batch_size(
    problem: Problem,
    sizes: Sequence[int] | None = None,
    *,
    method: str = METHOD,
    criterion: str = "nll",
    settings: dict[str, Any] | None = None,
    backend: str = "jax-cpu",
    seed: int = 0,
    tell: Callable[[str], object] = lambda line: None,
) -> Choice:
    """The n whose tempered posterior predicts the validation points best, and all that it was compared with.

    ``settings`` go to the chains of ``method``, over 10,000 steps after 2,000 of warm-up; chains that have not
    converged are run again, four times as long. A method whose own target is tempered to its mini-batch, such as
    ``pbnn``, gets n as its ``batch_size``; any other as its ``weight``. ``tell`` is given a line per candidate.
    """
    if criterion not in CRITERIA:
        raise SettingError(unknown("criterion", criterion, CRITERIA))
    find_backend(backend)
    if not len(problem.validation_targets):
        raise SettingError("there are no validation points to choose n by; give validation=(features, targets)")
    wanted = sorted(set(default_sizes(problem.num_points) if sizes is None else sizes))
    for size in wanted:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size <= problem.num_points:
            raise SettingError(
                f"n = {size!r} must be a whole number from 1 to the {problem.num_points} training points"
            )
    if given := _given(problem, method, wanted[0]):
        # A mistyped setting is found now, and not after the candidates that have no chain.
        find_method(method).resolve(LENGTH | given | (settings or {}), problem)
    found = []
    for candidate in (
        *_networks(problem),
        *_chains(problem, wanted, method, settings or {}, backend, seed),
    ):
        tell(f"{candidate.in_words}: {candidate.seconds:.1f} s {candidate.fault}".rstrip())
        found.append(candidate)
    chains = [one for one in found if one.is_chain]
    able = [one for one in chains if not one.fault]
    if not able:
        raise SettingError(
            f"no chains of {method} have converged ({chains[0].fault}); raise num_steps, or choose another method"
        )
    best = min(able, key=lambda one: getattr(one.validation, criterion))
    return Choice(tuple(found), criterion, best)


def _networks(problem: Problem) -> Iterator[Candidate]:
    """The last layer at its mode, as it is and, where there is one, with temperature scaling."""
    yield _candidate(NETWORK, "no uncertainty", None, problem, problem.map[None, None], 0.0)
    if not has_temperature(problem):
        return
    start = time.perf_counter()
    temperature = fit_temperature(problem)
    changed, draw = at_temperature(problem, temperature)
    detail = f"T = {format_number(temperature)}"
    yield _candidate("temperature scaling", detail, None, changed, draw, time.perf_counter() - start)


def _chains(
    problem: Problem, sizes: Sequence[int], method: str, settings: dict[str, Any], backend: str, seed: int
) -> Iterator[Candidate]:
    """For every n the chains of the method, and the Gaussian at the mode."""
    laplace = {"num_steps": NUM_LAPLACE, "num_warmup": 0, "thin": 1, "chains": 1}
    for size in map(int, sizes):
        yield _sampled(problem, size, "laplace", {"weight": size} | laplace, backend, seed)
        given = _given(problem, method, size)
        if given is not None:
            settings_of_run = LENGTH | given | settings
            candidate = _sampled(problem, size, method, settings_of_run, backend, seed)
            if candidate.fault:
                longer = settings_of_run | {name: PATIENCE * int(settings_of_run[name]) for name in LENGTH}
                candidate = _sampled(problem, size, method, longer, backend, seed)
            yield candidate


def _given(problem: Problem, method: str, size: int) -> dict[str, Any] | None:
    """The settings with which a method samples the posterior tempered to ``size``; None where it cannot."""
    has = find_method(method).settings
    if has["weight"].default == "batch":
        # Its batches are disjoint; with fewer than two of them it could not tell its own noise.
        room = problem.num_points // size
        if "num_batches" in has:
            return {"batch_size": size, "num_batches": min(NUM_BATCHES, room)} if room > 1 else None
        return {"batch_size": size}
    return {"weight": size} | ({"batch_size": min(NUM_READ, problem.num_points)} if "batch_size" in has else {})


def _sampled(problem: Problem, size: int, method: str, settings: dict[str, Any], backend: str, seed: int) -> Candidate:
    card = find_method(method)
    start = time.perf_counter()
    found = sample(problem, method, settings, backend, seed, is_audited=False)
    seconds = time.perf_counter() - start - found.progress.seconds["compile"]
    if found.status != "ok":
        raise SettingError(f"{card.name} at n = {size} {found.status}: {found.reason}")
    candidate = _candidate(card.label, "", size, problem, found.draws.positions, seconds)
    if method == "laplace":
        return candidate
    r_hat = convergence(candidate.validation.traces).r_hat
    fault = "" if r_hat is not None and r_hat <= MAX_R_HAT else f"not converged: R-hat above {MAX_R_HAT}"
    return replace(candidate, is_chain=True, r_hat=r_hat, fault=fault)


def _candidate(
    name: str, detail: str, weight: int | None, problem: Problem, draws: np.ndarray, seconds: float
) -> Candidate:
    test = score(problem, draws, "test") if len(problem.test_targets) else None
    return Candidate(name, detail, weight, problem, draws, seconds, score(problem, draws, "validation"), test)
