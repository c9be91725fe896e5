"""The right answer of a problem at a weight, kept with how it was found and how far it can be trusted."""

import json
import time
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from implementations.files import read_npz, write_npz
from implementations.names import SettingError
from implementations.tasks.exact import gaussian_posterior, has_closed_form
from implementations.tasks.problem import Problem, network_outputs

#: A gold standard with a larger R-hat, or with a divergence, is kept but not used for claims.
MAX_RHAT = 1.01
#: Draws kept on file, over all chains.
MAX_DRAWS = 2000
#: Test points whose predictions, with the log likelihood, are what R-hat and ESS are computed of.
NUM_PROBES = 20
#: Batches a chain for the Monte Carlo error of the predictive means: long against the autocorrelation, still many.
BATCHES_PER_CHAIN = 20


@dataclass(frozen=True, eq=False)
class Reference:
    """Posterior and predictions of one problem at one weight. Arrays are empty where ``kind`` is ``none``."""

    task: str
    task_seed: int
    weight: float
    #: ``closed_form``, ``gold_standard`` or ``none``.
    kind: str
    method: str
    seed: int
    #: Fit for claims; if not, ``reason`` says why.
    is_usable: bool
    reason: str
    #: (P,) and (P, P) float64: posterior mean and covariance of the parameters.
    mean: np.ndarray
    covariance: np.ndarray
    #: (draws, P) float32, at most MAX_DRAWS.
    draws: np.ndarray
    #: (test points, outputs) float64: mean and sd over the posterior of f, or for classes of their probabilities, and
    #: the Monte Carlo error of that mean.
    predictive_mean: np.ndarray
    predictive_sd: np.ndarray
    predictive_mcse: np.ndarray
    #: The worst over the probes: rank-normalised split R-hat, and effective sample sizes.
    rhat: float
    ess_bulk: float
    ess_tail: float
    num_divergences: int
    #: Of the packages that made it, as JSON.
    versions: str
    seconds: float

    def save(self, path: Path) -> None:
        write_npz(path, {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def load(cls, path: Path) -> Self:
        arrays = read_npz(path)
        values: dict[str, Any] = {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()}
        return cls(**values)


def reference(
    problem: Problem, weight: float, *, seed: int = 0, chains: int = 4, num_warmup: int = 100, num_draws: int = 750
) -> Reference:
    """The closed form where there is one, a gold standard for one stochastic layer, and for several an honest none.

    ``chains``, ``num_warmup`` and ``num_draws`` (of each chain) are those of the gold standard.
    """
    if not weight > 0:
        raise SettingError(f"weight = {weight} of a reference must be positive")
    start = time.perf_counter()
    if has_closed_form(problem):
        answer = _closed_form(problem, weight, seed)
    elif len(problem.layers) == 1:
        answer = _gold_standard(problem, weight, seed, chains, num_warmup, num_draws)
    else:
        answer = _none(problem, weight, seed)
    return replace(answer, seconds=time.perf_counter() - start)


def _closed_form(problem: Problem, weight: float, seed: int) -> Reference:
    posterior = gaussian_posterior(problem, weight)
    draws = np.random.default_rng(seed).multivariate_normal(
        posterior.mean, posterior.covariance, MAX_DRAWS, method="cholesky"
    )
    features = problem.test_features.astype(np.float64)
    variance = np.einsum("ni,ij,nj->n", features, posterior.covariance, features)
    return replace(
        _none(problem, weight, seed),
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
    # jax, blackjax and arviz take seconds to import, which the closed form does not need.
    from implementations.tasks.gold_standard import sample

    run = sample(problem, weight, seed=seed, chains=chains, num_warmup=num_warmup, num_draws=num_draws)
    probes = np.linspace(0, len(problem.test_targets) - 1, NUM_PROBES).astype(int)
    rhat, ess_bulk, ess_tail = _diagnostics(
        predictions(problem, run.draws, problem.test_features[probes]), run.log_likelihood
    )
    reason = _fault(rhat, run.num_divergences)
    every = -(-chains * num_draws // MAX_DRAWS)
    mean, sd, mcse = _predictive(problem, run.draws)
    flat = run.draws.reshape(-1, problem.num_parameters)
    return replace(
        _none(problem, weight, seed),
        kind="gold_standard",
        method=f"blackjax HMC with a split integrator, whitened: {chains} chains of {num_draws} draws "
        f"after {num_warmup}, {run.num_steps} steps a draw, acceptance {run.acceptance:.2f}",
        is_usable=not reason,
        reason=reason,
        mean=flat.mean(axis=0),
        covariance=np.cov(flat, rowvar=False),
        draws=run.draws[:, ::every].reshape(-1, problem.num_parameters).astype(np.float32),
        predictive_mean=mean,
        predictive_sd=sd,
        predictive_mcse=mcse,
        rhat=rhat,
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        num_divergences=run.num_divergences,
        versions=_versions("numpy", "jax", "blackjax", "arviz"),
    )


def _none(problem: Problem, weight: float, seed: int) -> Reference:
    nothing = np.zeros(0)
    return Reference(
        task=problem.task,
        task_seed=problem.seed,
        weight=float(weight),
        kind="none",
        method="",
        seed=seed,
        is_usable=False,
        reason="with several stochastic layers the posterior has many equivalent modes: no exact answer is known",
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
    """f at ``features``, or the class probabilities, for parameter vectors (…, P): (…, points, outputs)."""
    outputs = network_outputs(parameters, features, problem.layers)
    if problem.likelihood == "gaussian":
        return outputs
    outputs -= outputs.max(axis=-1, keepdims=True)
    np.exp(outputs, out=outputs)
    outputs /= outputs.sum(axis=-1, keepdims=True)
    return outputs


def _predictive(problem: Problem, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over draws (chains, draws, P): mean and sd of the predictions at the test points, and the mean's batch error."""
    parts = []
    batches = min(BATCHES_PER_CHAIN, draws.shape[1])
    # Some 50 MB of predictions at a time.
    chunk = max(1, 6_000_000 // (draws.shape[0] * draws.shape[1] * problem.num_outputs))
    for start in range(0, len(problem.test_features), chunk):
        values = predictions(problem, draws, problem.test_features[start : start + chunk])
        batch_means = np.concatenate([part.mean(axis=1) for part in np.array_split(values, batches, axis=1)])
        error = batch_means.std(axis=0, ddof=1) / np.sqrt(len(batch_means))
        parts.append((values.mean(axis=(0, 1)), values.std(axis=(0, 1)), error))
    mean, sd, mcse = (np.concatenate(part) for part in zip(*parts, strict=True))
    return mean, sd, mcse


def _diagnostics(probes: np.ndarray, log_likelihood: np.ndarray) -> tuple[float, float, float]:
    """The worst R-hat, bulk ESS and tail ESS of predictions (chains, draws, points, outputs) and the log likelihood."""
    from metrics.convergence import import_arviz

    arviz = import_arviz()
    quantities = np.concatenate([probes.reshape(*log_likelihood.shape, -1), log_likelihood[:, :, None]], axis=-1)
    chains = arviz.convert_to_dataset({"quantity": quantities})
    rhat, bulk, tail = arviz.rhat(chains), arviz.ess(chains, method="bulk"), arviz.ess(chains, method="tail")
    return float(rhat["quantity"].max()), float(bulk["quantity"].min()), float(tail["quantity"].min())


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
