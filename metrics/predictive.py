"""The predictive distribution of a chain's draws, in one pass that never holds the predictions of all of them.

A mixture over the S draws of all chains (paper: *PBNN predictive posterior*):

    p(y | x) = 1/S sum_s p(y | x, theta_s)

Blocks of draws go through the network, leave their sums (float64) and are forgotten. The network's outputs, the
softmax and the deviations stay in the outputs' own precision: that is what makes the pass fast.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaincc, gammaln, log_softmax, ndtr

from metrics.prediction import check_classes, gaussian_mixture_crps, poisson_mixture_crps

#: Network outputs (b, n, K) at the n test points for a block of draws (b, P).
Outputs = Callable[[np.ndarray], np.ndarray]

#: Bytes of working arrays: blocks that stay in the processor's cache take half the time of blocks twice as large.
MEMORY = 4 * 2**20
#: Bytes of regression outputs kept for the CRPS, the one number that needs more than sums; 4,000 draws at 4,000 points.
CRPS_MEMORY = 64 * 2**20
#: Test points whose predictions are followed draw by draw, spread evenly over the test set.
NUM_PROBES = 20
#: Arrays of the size of the outputs that a block has alive at once: outputs, class-first copy, deviations, scratch.
COPIES = 4


@dataclass(frozen=True, eq=False)
class Predictive:
    """What the metrics need of a predictive distribution over n test points."""

    #: Mean and sd over draws: of the class probabilities (n, K), or of the function f without noise, of a rate or of a
    #: density (n,).
    mean: np.ndarray
    sd: np.ndarray
    #: log p(y | x) of each target under the mixture (n,).
    log_density: np.ndarray
    #: (chains, draws, probes): f at each probe, or the log probability of class j mod K at probe j.
    probe_trace: np.ndarray
    #: (chains, draws): mean over test points of log p(y | x, theta_s).
    log_likelihood_trace: np.ndarray
    #: ``mean`` of each chain alone, (chains, n, K) or (chains, n): what they differ by is Monte Carlo error.
    chain_means: np.ndarray
    #: Numbers only, (n,): the mixture's distribution function at the target. At a count that function has a step, in
    #: which the value is drawn at random: of a calibrated model all these are uniform.
    pit: np.ndarray | None = None
    score: Callable[[], np.ndarray] | None = None

    @cached_property
    def crps(self) -> np.ndarray | None:
        """Numbers only, (n,). It takes half as long as all the rest, so it is computed where it is asked for."""
        return self.score() if self.score else None

    @property
    def traces(self) -> np.ndarray:
        """(chains, draws, probes + 1): the function-space quantities on which convergence is judged."""
        return np.concatenate([self.probe_trace, self.log_likelihood_trace[..., None]], axis=-1)


def predictive(
    outputs: Outputs,
    draws: np.ndarray,
    targets: np.ndarray,
    likelihood: str,
    noise_sd: float | None = None,
    memory: int = MEMORY,
) -> Predictive:
    """The predictive distribution of ``draws`` (chains, draws, P) at the test points of ``targets`` (n,).

    ``likelihood`` is ``gaussian`` (known ``noise_sd``, one output), ``categorical`` (softmax, integer targets),
    ``bernoulli`` (one output, the log odds of target 1), ``poisson`` (one output, the log rate of a count), or
    ``density`` (one output, the log density of a point; targets only count). Outputs laid out classes first are not
    copied. Raises ValueError where a draw, or the likelihood it gives, is not finite.
    """
    if draws.ndim != 3 or draws.size == 0:
        raise ValueError(f"draws of shape {draws.shape}: expected (chains, draws, parameters), none of them 0")
    num_chains, num_draws, _ = draws.shape
    flat = draws.reshape(num_chains * num_draws, -1)
    _check_finite(np.isfinite(flat).all(axis=1), num_draws, "parameters")
    if likelihood not in LAWS:
        raise ValueError(f"no likelihood {likelihood!r}; valid: {', '.join(LAWS)}")
    with np.errstate(over="ignore", invalid="ignore"):  # A draw that overflows is named below.
        first = outputs(flat[:1])
        if targets.ndim != 1 or targets.size == 0 or first.ndim != 3 or first.shape[1] != len(targets):
            shapes = f"targets {targets.shape} and outputs {first.shape} of one draw"
            raise ValueError(f"{shapes}: expected (n,) and (1, n, K)")
        sums = LAWS[likelihood](first, targets, noise_sd, len(flat))
        # Of one output the sums' own arrays are in double precision.
        size_of_number = first.itemsize if first.shape[2] > 1 else 8
        block_size = max(1, int(memory // (COPIES * first.size * size_of_number)))
        traces, totals = [], []
        for chain in draws:
            traces += [
                sums.add(outputs(chain[start : start + block_size])) for start in range(0, num_draws, block_size)
            ]
            totals.append(sums.moments.sum.copy())
    log_likelihood, probes = (np.concatenate(parts) for parts in zip(*traces, strict=True))
    _check_finite(np.isfinite(log_likelihood), num_draws, "log likelihoods")
    shape = (num_chains, num_draws)
    chain_means = sums.moments.origin + np.diff(totals, axis=0, prepend=0) / num_draws
    return sums.result(probes.reshape(*shape, -1), log_likelihood.reshape(shape), chain_means)


def probe_points(num_points: int) -> np.ndarray:
    """Indices of the probes: the same for all runs of a task."""
    return np.unique(np.linspace(0, num_points - 1, NUM_PROBES).astype(int))


class _Sums:
    """Sums over the draws that have been seen, of what is predicted and of the targets' density."""

    def __init__(self, first: np.ndarray, num_points: int) -> None:
        """``first`` is what the first draw predicts, (n,) or (K, n)."""
        self.probes = probe_points(num_points)
        self.moments = _Moments(first)
        self.log_density = _LogMeanExp(num_points)

    def add(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A block of draws; their log likelihoods (b,) and probes (b, probes)."""
        raise NotImplementedError

    def result(self, probe_trace: np.ndarray, log_likelihood_trace: np.ndarray, chain_means: np.ndarray) -> Predictive:
        """The predictive distribution of all draws."""
        mean, sd = self.moments.result()
        return Predictive(mean, sd, self.log_density.result(), probe_trace, log_likelihood_trace, chain_means)


def _check_finite(is_finite: np.ndarray, num_draws: int, what: str) -> None:
    if not is_finite.all():
        chain, draw = divmod(int(np.argmin(is_finite)), num_draws)
        raise ValueError(
            f"{np.sum(~is_finite)} of {len(is_finite)} draws have {what} that are not finite, "
            f"the first in chain {chain}, draw {draw}: the run diverged and has no predictive distribution"
        )


class _Moments:
    """Mean and sd over draws, from sums of deviations from the first draw.

    The deviations are of the size of the sd, so that nothing cancels even where the sd is far below the mean.
    """

    def __init__(self, origin: np.ndarray) -> None:
        self.origin = origin
        self.sum = np.zeros(origin.shape)
        self.sum_of_squares = np.zeros(origin.shape)
        self.count = 0

    def add(self, values: np.ndarray) -> None:
        deviations = values - self.origin
        self.sum += deviations.sum(axis=0)
        self.sum_of_squares += np.einsum("b...,b...->...", deviations, deviations)
        self.count += len(values)

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """The sd is that of the S draws as they are (divisor S): 0 for a single draw."""
        shift = self.sum / self.count
        variance = self.sum_of_squares / self.count - shift**2
        return self.origin + shift, np.sqrt(np.maximum(variance, 0))


class _LogMeanExp:
    """log (1/S sum_s exp(v_s)), safe where every exp(v_s) underflows."""

    def __init__(self, num_points: int) -> None:
        self.log_sum = np.full(num_points, -np.inf)
        self.count = 0

    def add(self, values: np.ndarray) -> None:
        peak = values.max(axis=0)
        self.log_sum = np.logaddexp(self.log_sum, peak + np.log(np.exp(values - peak).sum(axis=0)))
        self.count += len(values)

    def result(self) -> np.ndarray:
        return self.log_sum - np.log(self.count)


class _Kept:
    """Values (draws, n) for the CRPS: of every draw where they fit, otherwise of an evenly spaced subset of them."""

    def __init__(self, num_draws: int, num_points: int) -> None:
        self.stride = -(-num_draws * num_points * 4 // CRPS_MEMORY)
        self.num_seen = 0
        self.blocks: list[np.ndarray] = []

    def add(self, values: np.ndarray) -> None:
        self.blocks.append(values[-self.num_seen % self.stride :: self.stride].astype(np.float32))
        self.num_seen += len(values)

    def result(self) -> np.ndarray:
        return np.concatenate(self.blocks)


class _Classes(_Sums):
    """Sums for a softmax likelihood."""

    def __init__(self, first: np.ndarray, targets: np.ndarray, noise_sd: float | None, num_draws: int) -> None:
        check_classes(targets, first.shape[2])
        self.targets = targets
        super().__init__(self._softmax(first)[0][0], len(targets))
        self.probe_classes = np.arange(len(self.probes)) % first.shape[2]

    def add(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probabilities, log_likelihood = self._softmax(logits)
        self.moments.add(probabilities)
        self.log_density.add(log_likelihood)
        probe_logits = logits[:, self.probes].astype(np.float64)
        # Log probabilities, in double precision: a probability that rounds to 1 would make a constant trace.
        probes = log_softmax(probe_logits, axis=-1)[:, np.arange(len(self.probes)), self.probe_classes]
        return log_likelihood.mean(axis=1), probes

    def _softmax(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class probabilities (b, K, n) and the target's log probability (b, n)."""
        # Classes first: NumPy reduces a long inner axis some ten times faster than one of ten entries.
        work = np.ascontiguousarray(np.moveaxis(logits, 2, 0))
        work = work - work.max(axis=0)
        target_logits = np.take_along_axis(work, self.targets[None, None], axis=0)[0].astype(np.float64)
        np.exp(work, out=work)
        total = work.sum(axis=0)
        work /= total
        return np.moveaxis(work, 0, 1), target_logits - np.log(total)

    def result(self, probe_trace: np.ndarray, log_likelihood_trace: np.ndarray, chain_means: np.ndarray) -> Predictive:
        found = super().result(probe_trace, log_likelihood_trace, chain_means.swapaxes(1, 2))
        return replace(found, mean=found.mean.T, sd=found.sd.T)


class _Binary(_Sums):
    """Sums for two classes, of which one output is the log odds of the second."""

    def __init__(self, first: np.ndarray, targets: np.ndarray, noise_sd: float | None, num_draws: int) -> None:
        if first.shape[2] != 1:
            raise ValueError(f"outputs {first.shape}: a bernoulli likelihood has one output, so expected (b, n, 1)")
        check_classes(targets, 2)
        self.sign = (2 * targets - 1).astype(first.dtype)
        super().__init__(self._probability(first[:, :, 0])[0][0], len(targets))
        # The class whose log probability is followed at a probe: the first, the second, the first, …
        self.probe_sign = np.where(np.arange(len(self.probes)) % 2, 1.0, -1.0)

    def add(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        odds = outputs[:, :, 0]
        probability, log_total = self._probability(odds)
        self.moments.add(probability)
        log_likelihood = np.minimum(self.sign * odds, 0).astype(np.float64) - log_total
        self.log_density.add(log_likelihood)
        # In double precision, as those of many classes.
        probes = -np.logaddexp(0, -self.probe_sign * odds[:, self.probes].astype(np.float64))
        return log_likelihood.mean(axis=1), probes

    def _probability(self, odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p of the second class (b, n), and log (1 + exp(-|f|))."""
        smaller = np.exp(-np.abs(odds))
        total = 1 + smaller
        return np.where(odds < 0, smaller, 1) / total, np.log(total)

    def result(self, probe_trace: np.ndarray, log_likelihood_trace: np.ndarray, chain_means: np.ndarray) -> Predictive:
        found = super().result(probe_trace, log_likelihood_trace, chain_means)
        of_both, of_chains = (np.stack([1 - second, second], axis=-1) for second in (found.mean, chain_means))
        return replace(found, mean=of_both, sd=np.stack([found.sd, found.sd], axis=-1), chain_means=of_chains)


class _Regression(_Sums):
    """Sums for a Gaussian likelihood of known noise, in double precision."""

    def __init__(self, first: np.ndarray, targets: np.ndarray, noise_sd: float | None, num_draws: int) -> None:
        if noise_sd is None or not noise_sd > 0 or first.shape[2] != 1:
            raise ValueError(
                f"a gaussian likelihood needs noise_sd > 0 and one output; got {noise_sd} and {first.shape[2]}"
            )
        if not np.isfinite(targets).all():
            raise ValueError(f"targets: {np.sum(~np.isfinite(targets))} of {len(targets)} values are not finite")
        super().__init__(first[0, :, 0].astype(np.float64), len(targets))
        self.targets = targets.astype(np.float64)
        self.noise_sd = noise_sd
        self.distribution_sum = np.zeros(len(targets))
        self.distance_sum = np.zeros(len(targets))
        self.centres = _Kept(num_draws, len(targets))

    def add(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        function = outputs[:, :, 0].astype(np.float64)
        residuals = (self.targets - function) / self.noise_sd
        log_likelihood = -0.5 * residuals**2 - np.log(self.noise_sd * np.sqrt(2 * np.pi))
        self.moments.add(function)
        self.log_density.add(log_likelihood)
        below = ndtr(residuals)
        self.distribution_sum += below.sum(axis=0)
        # metrics.prediction.mean_absolute, from what is here already: noise_sd * exp(log_likelihood) is phi(residuals).
        density = self.noise_sd * np.exp(log_likelihood)
        self.distance_sum += self.noise_sd * (2 * density + residuals * (2 * below - 1)).sum(axis=0)
        self.centres.add(function)
        return log_likelihood.mean(axis=1), function[:, self.probes]

    def result(self, probe_trace: np.ndarray, log_likelihood_trace: np.ndarray, chain_means: np.ndarray) -> Predictive:
        pit = self.distribution_sum / self.centres.num_seen
        found = super().result(probe_trace, log_likelihood_trace, chain_means)
        return replace(found, pit=pit, score=self.score)

    def score(self) -> np.ndarray:
        distance = self.distance_sum / self.centres.num_seen
        return gaussian_mixture_crps(distance, self.centres.result(), self.noise_sd)


class _Counts(_Sums):
    """Sums for a Poisson likelihood, in double precision."""

    def __init__(self, first: np.ndarray, targets: np.ndarray, noise_sd: float | None, num_draws: int) -> None:
        if first.shape[2] != 1 or not np.issubdtype(targets.dtype, np.integer) or targets.min() < 0:
            raise ValueError(
                f"a poisson likelihood needs one output and whole targets from 0; got {first.shape[2]} and targets of "
                f"type {targets.dtype} from {targets.min()}"
            )
        super().__init__(np.exp(first[0, :, 0].astype(np.float64)), len(targets))
        self.targets = targets.astype(np.float64)
        self.log_factorials = gammaln(self.targets + 1)
        # The same at every call, so that two runs on the same points differ by their draws alone.
        self.heights = np.random.default_rng(0).random(len(targets))
        self.distribution_sum = np.zeros(len(targets))
        self.rates = _Kept(num_draws, len(targets))

    def add(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_rates = outputs[:, :, 0].astype(np.float64)
        rates = np.exp(log_rates)
        log_likelihood = self.targets * log_rates - rates - self.log_factorials
        self.moments.add(rates)
        self.log_density.add(log_likelihood)
        # P(Y < y) of a Poisson law; of y = 0 it is 0, where the function has no value.
        below = np.where(self.targets > 0, gammaincc(np.maximum(self.targets, 1), rates), 0)
        self.distribution_sum += (below + self.heights * np.exp(log_likelihood)).sum(axis=0)
        self.rates.add(rates)
        return log_likelihood.mean(axis=1), log_rates[:, self.probes]

    def result(self, probe_trace: np.ndarray, log_likelihood_trace: np.ndarray, chain_means: np.ndarray) -> Predictive:
        # Sums of probabilities can exceed 1 by their rounding.
        pit = np.minimum(self.distribution_sum / self.rates.num_seen, 1)
        found = super().result(probe_trace, log_likelihood_trace, chain_means)
        return replace(found, pit=pit, score=self.score)

    def score(self) -> np.ndarray:
        return poisson_mixture_crps(self.rates.result(), self.targets)


class _Density(_Sums):
    """Sums for a density without targets, in double precision; outputs are its normalised logarithm."""

    def __init__(self, first: np.ndarray, targets: np.ndarray, noise_sd: float | None, num_draws: int) -> None:
        if first.shape[2] != 1:
            raise ValueError(f"a density has one output; got {first.shape[2]}")
        super().__init__(np.exp(first[0, :, 0].astype(np.float64)), len(targets))

    def add(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_likelihood = outputs[:, :, 0].astype(np.float64)
        self.moments.add(np.exp(log_likelihood))
        self.log_density.add(log_likelihood)
        return log_likelihood.mean(axis=1), log_likelihood[:, self.probes]


#: The sums of each likelihood.
LAWS: dict[str, Callable[[np.ndarray, np.ndarray, float | None, int], _Sums]] = {
    "gaussian": _Regression,
    "categorical": _Classes,
    "bernoulli": _Binary,
    "poisson": _Counts,
    "density": _Density,
}
