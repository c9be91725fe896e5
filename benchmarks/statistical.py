"""The statistical tier: acceptance, bias and calibration of many independent chains on problems with a known answer."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.known_problems import known_problem, log_odds_posterior

if TYPE_CHECKING:
    from implementations.tasks.problem import Problem

#: What a tier of the gate measures: named rows of named values.
Rows = dict[str, dict[str, Any]]

#: Of changes that only draw other random numbers, the share that is stopped.
FALSE_ALARMS = 1e-3

#: Every method on one of them, every kind of part on ``two_classes``, where noise matters: a lost penalty doubles the
#: variance.
LIVELY: dict[str, dict[str, dict[str, Any]]] = {
    "linear": {
        "full_mh": {},
        "tempered": {"batch_size": 20},
        "naive": {"batch_size": 5, "step_size": 0.1},
        "pbnn": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 20},
        "pbnn_corrected": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 20},
        "sgld": {"batch_size": 5, "step_size": 0.3},
        "ula": {"step_size": 0.3},
        "mala": {"step_size": 0.5},
        "pbnn_mala": {"batch_size": 5, "num_batches": 5, "step_size": 0.3, "weight": 20},
        "sghmc": {"batch_size": 5, "step_size": 0.3, "friction": 0.5},
        "blackjax_hmc": {},
        "blackjax_nuts": {},
        "posteriors_sgld": {"batch_size": 5, "step_size": 0.3},
    },
    "two_classes": {
        "full_mh": {},
        "pbnn": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 40},
        "sgld": {"batch_size": 50, "step_size": 0.3},
        "mala": {"step_size": 0.5},
        "pbnn_mala": {"batch_size": 5, "num_batches": 5, "step_size": 0.3, "weight": 40},
        # Where the losses are not quadratic, so that control variates leave something to estimate.
        "pbnn_cv": {"batch_size": 20, "step_size": 0.5},
        "pbnn_cn": {"batch_size": 20, "step_size": 0.3},
        "pbnn_mala_cv": {"batch_size": 20, "step_size": 0.3},
        "sgld_cv": {"batch_size": 20, "step_size": 0.3},
        "laplace": {},
        # The rivals, at steps and batches where their own randomness decides.
        "sgnht": {"batch_size": 50, "step_size": 0.01},
        "csgld": {"batch_size": 50, "step_size": 0.3},
        "csgld_cv": {"batch_size": 20, "step_size": 0.3},
        "csghmc": {"batch_size": 50, "step_size": 0.1},
        "csgnht": {"batch_size": 50, "step_size": 0.01},
        "barker_test": {"batch_size": 20, "step_size": 0.5},
        "austerity": {"batch_size": 20, "step_size": 0.5, "epsilon": 0.05},
        "confidence": {"batch_size": 20, "step_size": 0.5, "proxy": "none"},
        "tunamh": {"step_size": 0.02},
        "mh_ss": {"step_size": 0.3, "proxy": "first"},
        "delayed_acceptance": {"step_size": 0.5, "proxy": "first"},
        "pseudo_marginal": {"batch_size": 20, "num_batches": 5, "step_size": 0.3, "weight": 40},
    },
}
#: Independent chains, so that their spread is the error.
CHAINS = {"chains": 128, "num_steps": 1000, "num_warmup": 300, "thin": 10}
#: Test points at which a draw is looked at.
NUM_PROBES = 200
#: What a method with an exact target has to find, in units of the exact answer.
TRUTHS = {"shift": 0.0, "variance": 1.0, "prior_variance": 1.0}


def measure(
    chosen: Sequence[tuple[str, str]] | None = None,
    backends: Sequence[str] = ("jax-cpu", "torch-cpu"),
    seed: int = 0,
) -> Rows:
    """Acceptance, bias and calibration for pairs of problem and method: value and Monte Carlo error of each."""
    from implementations.backends import BACKENDS
    from implementations.methods import METHODS
    from implementations.sampling import sample

    rows: Rows = {}
    for name, method in chosen or [(task, method) for task in LIVELY for method in LIVELY[task]]:
        problem = known_problem(name)
        settings = METHODS[method].resolve(CHAINS | LIVELY[name][method], problem)
        weight = settings.target_weight(problem.num_points)
        for backend in backends:
            library, card = BACKENDS[backend][0], METHODS[method]
            if library not in card.libraries:
                continue
            if library == "torch" and "jax" in card.libraries and not card.is_compiled:
                # A loop in Python: minutes for what jax does in seconds. Tests cover these methods in torch.
                continue
            sampled = sample(problem, method, settings, backend, seed, is_audited=False)
            rows[f"{name} {method} {backend}"] = (
                _statistics(problem, weight, sampled.draws.positions.astype(float), sampled.draws.acceptance)
                if sampled.status == "ok"
                else {f"{sampled.status}, {sampled.reason}": [math.nan, math.nan]}
            )
    return rows


def _statistics(problem: "Problem", weight: float, draws: np.ndarray, acceptance: np.ndarray) -> dict[str, list[float]]:
    by_chain = {"acceptance": acceptance.mean(axis=1)}
    by_chain |= (_line_statistics if problem.likelihood == "gaussian" else _class_statistics)(problem, weight, draws)
    return {
        name: [float(f"{number:.5g}") for number in (values.mean(), values.std(ddof=1) / math.sqrt(len(values)))]
        for name, values in by_chain.items()
    }


def _line_statistics(problem: "Problem", weight: float, draws: np.ndarray) -> dict[str, np.ndarray]:
    from scipy.special import ndtr

    from implementations.tasks.references.closed_form import gaussian_posterior
    from metrics.calibration import confidence_gap, coverage_reliability

    exact = gaussian_posterior(problem, weight)
    outputs, bias = _bias(problem, draws, exact.mean, exact.covariance)
    pits = ndtr((problem.test_targets[:NUM_PROBES] - outputs) / problem.noise_sd).mean(axis=1)
    return bias | {"confidence_gap": np.array([confidence_gap(coverage_reliability(pit)) for pit in pits])}


def _class_statistics(problem: "Problem", weight: float, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Those of the log odds; and the variance of the outputs' sum, which the data leave to the prior."""
    from scipy.special import expit

    from metrics.calibration import class_reliability, confidence_gap

    first, second = draws[..., 0::2], draws[..., 1::2]
    outputs, bias = _bias(problem, second - first, *log_odds_posterior(problem, weight))
    odds = expit(outputs).mean(axis=1)
    targets = problem.test_targets[:NUM_PROBES]
    return bias | {
        "prior_variance": np.square(first + second).mean(axis=(1, 2)) / (2 * problem.prior_scale**2),
        "confidence_gap": np.array(
            [confidence_gap(class_reliability(np.stack([1 - chain, chain], axis=1), targets)) for chain in odds]
        ),
    }


def _bias(
    problem: "Problem", weights: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Outputs (chains, draws, probes) of linear functions; their shift and variance in units of the exact answer's."""
    features = problem.test_features[:NUM_PROBES].astype(float)
    scale = math.sqrt(np.einsum("nf,fg,ng->n", features, covariance, features).mean())
    outputs = weights @ features.T
    deviations = (outputs - features @ mean) / scale
    return outputs, {"shift": deviations.mean(axis=(1, 2)), "variance": np.square(deviations).mean(axis=(1, 2))}


def incomplete(rows: Rows, baseline: Rows) -> list[str]:
    """Rows with other values than their baselines have, such as the reason why there are none."""
    return [
        f"{name}: has {', '.join(row)}; baseline has {', '.join(baseline[name])}"
        for name, row in rows.items()
        if row.keys() != baseline[name].keys()
    ]


def judge(rows: Rows, baseline: Rows) -> list[str]:
    complaints, num_errors = incomplete(rows, baseline), allowed_errors(baseline)
    for name, row in rows.items():
        for key in (key for key in row if key in baseline[name]):
            value, error = row[key]
            for source, expected, expected_error in _expectations(name, key, baseline):
                # A rate of exactly 1 has no spread, and none is allowed.
                allowed = num_errors * math.hypot(error, expected_error) + 1e-6
                # An infinite error allows nothing.
                if not abs(value - expected) <= allowed < math.inf:
                    complaints.append(f"{name}: {key} {value:.4g}, {source} {expected:.4g} ± {allowed:.2g}")
    return complaints


def _expectations(name: str, key: str, baseline: Rows) -> list[tuple[str, float, float]]:
    """What a value is compared with: source, value and error."""
    from implementations.card import Exactness
    from implementations.methods import METHODS

    is_exact = METHODS[name.split()[1]].exactness == Exactness.EXACT and key in TRUTHS
    expected, error = baseline[name][key]
    return [("baseline", expected, error), *([("exactly", TRUTHS[key], 0.0)] if is_exact else [])]


def allowed_errors(baseline: Rows) -> float:
    """Monte Carlo errors that a value may be off by, so that all comparisons together keep the rate of false alarms."""
    from scipy.stats import t

    num_comparisons = sum(len(_expectations(name, key, baseline)) for name, row in baseline.items() for key in row)
    return float(t.isf(FALSE_ALARMS / (2 * num_comparisons), CHAINS["chains"] - 1))
