"""The right answer of a problem at a weight, kept with how it was found and how far it can be trusted."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from implementations.infrastructure.artefact import read_arrays, write_arrays
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import gaussian_posterior, has_closed_form

if TYPE_CHECKING:
    from implementations.tasks.references.importance import Weighted
    from implementations.tasks.references.one_layer import Chains

#: A gold standard with a larger R-hat, or with a divergence, is kept but not used for claims.
MAX_RHAT = 1.01
#: The same of one by importance sampling whose weights have a heavier tail: above 1/2 their variance is infinite.
MAX_PARETO_K = 0.5
#: Warm-up and draws of each chain: around the known mode of one layer; for a network, which has to find its own; and
#: over a ladder of weights, each rung of which takes as long.
LENGTH_OF_LAYER, LENGTH_OF_NETWORK, LENGTH_OF_LADDER = (100, 750), (300, 1000), (300, 500)
#: Draws kept on file, over all chains.
MAX_DRAWS = 2000
#: Test points whose predictions, with the log likelihood, are what R-hat and ESS are computed of.
NUM_PROBES = 20
#: Batches per chain, at the most, for the Monte Carlo error of the predictive means: long against the autocorrelation,
#: still many.
BATCHES_PER_CHAIN = 25


@dataclass(frozen=True, eq=False)
class Reference:
    """Posterior and predictions of one problem at one weight."""

    task: str
    task_seed: int
    weight: float
    #: ``closed_form`` or ``gold_standard``.
    kind: str
    method: str
    seed: int
    #: Fit for claims; if not, ``reason`` says why.
    is_usable: bool
    reason: str
    #: (P,) and (P, P) float64: posterior mean and covariance of the parameters; empty for several layers, whose
    #: parameters have many equivalent modes: only their predictions can be compared.
    mean: np.ndarray
    covariance: np.ndarray
    #: (draws, P) float32, at most MAX_DRAWS.
    draws: np.ndarray
    #: (test points, outputs or classes) float64: mean and sd over the posterior of f, or for classes of their
    #: probabilities, and the Monte Carlo error of that mean.
    predictive_mean: np.ndarray
    predictive_sd: np.ndarray
    predictive_mcse: np.ndarray
    #: The worst over the probes: rank-normalised split R-hat, and effective sample sizes. Importance sampling has no
    #: R-hat; its tail size is that of the weights.
    rhat: float
    ess_bulk: float
    ess_tail: float
    num_divergences: int
    #: Of the packages that made it, as JSON.
    versions: str
    seconds: float

    def save(
        self, path: Path, identity: Mapping[str, Any] | None = None, made_from: Mapping[str, str] | None = None
    ) -> None:
        own = {"task": self.task, "task_seed": self.task_seed, "weight": self.weight, "seed": self.seed}
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        write_arrays(path, "reference", arrays, {**own, **(identity or {})}, made_from=made_from)

    @classmethod
    def load(
        cls,
        path: Path,
        identity: Mapping[str, Any] | None = None,
        made_from: Mapping[str, str] | None = None,
        moves: bool = True,
    ) -> Self | str:
        """The reference in a file, or the reason why it could not be made."""
        record, arrays = read_arrays(path, "reference", identity, made_from=made_from, moves=moves)
        if record["failure"] is not None:
            return str(record["failure"])
        values: dict[str, Any] = {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()}
        try:
            return cls(**values)
        except TypeError as error:
            raise Damaged(f"{path} is damaged: not a reference ({error})") from None


def reference(
    problem: Problem,
    weight: float,
    *,
    seed: int = 0,
    chains: int = 4,
    num_warmup: int | None = None,
    num_draws: int | None = None,
) -> Reference:
    """The closed form where there is one, and else a gold standard.

    That of a target close to the Gaussian at its mode is by importance sampling; of another by chains, to which
    ``chains``, ``num_warmup`` and ``num_draws`` (of each chain) belong.
    """
    if not weight > 0:
        raise SettingError(f"weight = {weight} of a reference must be positive")
    start = time.perf_counter()
    if has_closed_form(problem):
        answer = _closed_form(problem, weight, seed)
    else:
        is_layer = problem.is_linear
        usual = LENGTH_OF_LAYER if is_layer else _length_of_network(problem, weight)
        length = usual[0] if num_warmup is None else num_warmup, usual[1] if num_draws is None else num_draws
        weighted = _weighted(problem, weight, seed) if is_layer else None
        answer = weighted or _gold_standard(problem, weight, seed, chains, *length)
    return replace(answer, seconds=time.perf_counter() - start)


def _length_of_network(problem: Problem, weight: float) -> tuple[int, int]:
    from implementations.tasks.references.all_layers import weights_of

    return LENGTH_OF_LADDER if len(weights_of(problem, weight)) > 1 else LENGTH_OF_NETWORK


def _closed_form(problem: Problem, weight: float, seed: int) -> Reference:
    posterior = gaussian_posterior(problem, weight)
    draws = np.random.default_rng(seed).multivariate_normal(
        posterior.mean, posterior.covariance, MAX_DRAWS, method="cholesky"
    )
    features = problem.test_features.astype(np.float64)
    variance = np.einsum("ni,ij,nj->n", features, posterior.covariance, features)
    return replace(
        _empty(problem, weight, seed),
        kind="closed_form",
        method="linear-Gaussian posterior in closed form, with independent exact draws",
        is_usable=True,
        reason="",
        mean=posterior.mean,
        covariance=posterior.covariance,
        draws=draws.astype(np.float32),
        predictive_mean=(features @ posterior.mean)[:, None],
        predictive_sd=np.sqrt(variance)[:, None],
        predictive_mcse=np.zeros((len(features), 1)),
        rhat=1.0,
        ess_bulk=float(MAX_DRAWS),
        ess_tail=float(MAX_DRAWS),
        versions=_versions("numpy"),
    )


def _gold_standard(
    problem: Problem, weight: float, seed: int, chains: int, num_warmup: int, num_draws: int
) -> Reference:
    # jax and blackjax take seconds to import, which the closed form does not need.
    from implementations.tasks.references import all_layers, one_layer

    is_layer = problem.is_linear
    sample = one_layer.sample if is_layer else all_layers.sample
    run = sample(problem, weight, seed=seed, chains=chains, num_warmup=num_warmup, num_draws=num_draws)
    probes = np.linspace(0, len(problem.test_targets) - 1, NUM_PROBES).astype(int)
    rhat, ess_bulk, ess_tail = _diagnostics(
        predictions(problem, run.draws, problem.test_features[probes]), run.log_likelihood
    )
    reason = _fault(rhat, run.num_divergences)
    if reason and not is_layer:
        reason += f"; {_levels(run)}"
    every = -(-chains * num_draws // MAX_DRAWS)
    mean, sd, mcse = _predictive(problem, run.draws)
    sampler = (
        "HMC with a split integrator, whitened" if is_layer else "HMC, tempered, half of the chains from the prior"
    )
    answer = replace(
        _empty(problem, weight, seed),
        kind="gold_standard",
        method=f"blackjax {sampler}: {chains} chains of {num_draws} draws "
        f"after {num_warmup}, {run.num_steps} steps per draw, acceptance {run.acceptance:.2f}",
        is_usable=not reason,
        reason=reason,
        draws=run.draws[:, ::every].reshape(-1, problem.num_parameters).astype(np.float32),
        predictive_mean=mean,
        predictive_sd=sd,
        predictive_mcse=mcse,
        rhat=rhat,
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        num_divergences=run.num_divergences,
        versions=_versions("numpy", "jax", "blackjax"),
    )
    if not is_layer:
        return answer
    flat = run.draws.reshape(-1, problem.num_parameters)
    return replace(answer, mean=flat.mean(axis=0), covariance=np.cov(flat, rowvar=False))


def _levels(run: "Chains") -> str:
    """Where each chain of a network stays: those in modes of their own differ by more than their spread."""
    levels = ", ".join(
        f"{level:.1f} ({spread:.1f})"
        for level, spread in zip(run.log_likelihood.mean(axis=1), run.log_likelihood.std(axis=1), strict=True)
    )
    return f"mean (sd) of the log likelihood of each chain, those from the trained weights first: {levels}"


def _weighted(problem: Problem, weight: float, seed: int) -> Reference | None:
    """By importance sampling from the Gaussian at the mode, or None where the target is too far from it."""
    from implementations.tasks.references.importance import sample
    from metrics.convergence import pareto_k

    run = sample(problem, weight, seed=seed)
    if run is None:
        return None
    logs = run.log_weights.ravel()
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    kish = float(1 / np.square(weights).sum())
    shape = pareto_k(logs)
    reason = "" if shape <= MAX_PARETO_K else f"Pareto k {shape:.2f} of the weights is above {MAX_PARETO_K}"
    flat = run.draws.reshape(-1, problem.num_parameters)
    centre = weights @ flat
    mean, sd, mcse, ess = _weighted_predictive(problem, run)
    # Systematic resampling: with nearly equal weights nearly all draws stand once.
    count = min(len(flat), MAX_DRAWS)
    chosen = np.searchsorted(np.cumsum(weights), (np.arange(count) + 0.5) / count)
    return replace(
        _empty(problem, weight, seed),
        kind="gold_standard",
        method=f"importance sampling from the Gaussian at the mode: {run.draws.shape[0]} batches of "
        f"{run.draws.shape[1]} draws with its mean and covariance, sd of the log weights {logs.std():.2g}, "
        f"Pareto k {shape:.2f}",
        is_usable=not reason,
        reason=reason,
        mean=centre,
        covariance=(flat - centre).T @ (weights[:, None] * (flat - centre)),
        draws=flat[chosen].astype(np.float32),
        predictive_mean=mean,
        predictive_sd=sd,
        predictive_mcse=mcse,
        ess_bulk=ess,
        ess_tail=kish,
        versions=_versions("numpy", "jax"),
    )


def _weighted_predictive(problem: Problem, run: "Weighted") -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Mean and sd of the predictions, the mean's error, and the worst effective sample size of mean and sd.

    All from the spread between the batches. As many independent draws as the effective sample size would tell the mean
    to sd / sqrt(size), and the sd to sd / sqrt(2 size).
    """
    weights = np.exp(run.log_weights - run.log_weights.max())
    weights /= weights.sum(axis=1, keepdims=True)
    num_batches = len(weights)
    parts = []
    # Some 50 MB of predictions at a time.
    chunk = max(1, 6_000_000 // (weights.size * problem.num_outputs))
    for start in range(0, len(problem.test_features), chunk):
        values = predictions(problem, run.draws, problem.test_features[start : start + chunk])
        means = np.einsum("bd,bdpk->bpk", weights, values)
        sds = np.sqrt(np.einsum("bd,bdpk->bpk", weights, np.square(values - means[:, None])))
        parts.append([statistic for of in (means, sds) for statistic in (of.mean(axis=0), of.std(axis=0, ddof=1))])
    mean, mean_spread, sd, sd_spread = (np.concatenate(part) for part in zip(*parts, strict=True))
    worst = max(float(np.max(mean_spread / sd)), float(np.max(np.sqrt(2) * sd_spread / sd)))
    return mean, sd, mean_spread / np.sqrt(num_batches), num_batches / worst**2


def _empty(problem: Problem, weight: float, seed: int) -> Reference:
    """A reference without its numbers, which its maker fills in."""
    nothing = np.zeros(0)
    return Reference(
        task=problem.task,
        task_seed=problem.seed,
        weight=float(weight),
        kind="",
        method="",
        seed=seed,
        is_usable=False,
        reason="",
        mean=nothing,
        covariance=nothing,
        draws=nothing,
        predictive_mean=nothing,
        predictive_sd=nothing,
        predictive_mcse=nothing,
        rhat=float("nan"),
        ess_bulk=0.0,
        ess_tail=0.0,
        num_divergences=0,
        versions=_versions(),
        seconds=0.0,
    )


def predictions(problem: Problem, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
    """f at ``features``, or the class probabilities, for parameter vectors (…, P): (…, points, outputs or classes)."""
    return find_likelihood(problem.likelihood).predictions(problem.outputs(parameters, features))


def _predictive(problem: Problem, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over draws (chains, draws, P): mean and sd of the predictions at the test points, and the mean's batch error."""
    from metrics.predictive import predictive

    num_draws = draws.shape[1]
    length = next(
        length for length in range(-(-num_draws // BATCHES_PER_CHAIN), num_draws + 1) if num_draws % length == 0
    )
    found = predictive(
        lambda parameters: problem.outputs(parameters, problem.test_features),
        # Batches in the place of chains, in the precision of the features.
        draws.reshape(-1, length, draws.shape[2]).astype(problem.test_features.dtype),
        problem.test_targets,
        problem.likelihood,
        problem.noise_sd,
    )
    error = found.chain_means.std(axis=0, ddof=1) / np.sqrt(len(found.chain_means))
    mean, sd, mcse = (of.reshape(len(problem.test_targets), -1) for of in (found.mean, found.sd, error))
    return mean, sd, mcse


def _diagnostics(probes: np.ndarray, log_likelihood: np.ndarray) -> tuple[float, float, float]:
    """The worst R-hat, bulk ESS and tail ESS of predictions (chains, draws, points, outputs) and the log likelihood."""
    from metrics.convergence import convergence

    quantities = np.concatenate([probes.reshape(*log_likelihood.shape, -1), log_likelihood[:, :, None]], axis=-1)
    found = convergence(quantities)
    # What is undefined passes no gate.
    r_hat, bulk, tail = (
        float("nan") if value is None else value for value in (found.r_hat, found.min_bulk_ess, found.min_tail_ess)
    )
    return r_hat, bulk, tail


def _fault(rhat: float, num_divergences: int) -> str:
    """Why a gold standard misses its gate; nothing where it passes."""
    faults = []
    if not rhat <= MAX_RHAT:
        faults.append(f"R-hat {rhat:.3f} is above {MAX_RHAT}")
    if num_divergences:
        faults.append(f"{num_divergences} divergent draws")
    return "; ".join(faults) + ("; raise num_draws" if faults else "")


def _versions(*packages: str) -> str:
    return json.dumps({package: version(package) for package in packages})
